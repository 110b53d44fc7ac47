//! The kinds of hosts. They differ in which settings can be changed, and in which changes are
//! worthwhile.

use crate::Facts;
use std::fmt;

/// A kind of host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A machine for trying out muster. Rules about speed do not apply.
    Laptop,
    /// A virtual machine. Its hypervisor controls the cores, the idle states and the NIC.
    Vm,
    /// A container, from which the host's settings cannot be changed.
    Container,
    /// A dedicated physical machine.
    Metal,
}

impl Profile {
    pub const ALL: [Self; 4] = [Self::Laptop, Self::Vm, Self::Container, Self::Metal];

    pub fn name(self) -> &'static str {
        match self {
            Self::Laptop => "laptop",
            Self::Vm => "vm",
            Self::Container => "container",
            Self::Metal => "metal",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Guesses the kind of host from the facts.
    pub fn guess(facts: &Facts) -> Self {
        let is = |name| facts.is(name, "yes");
        match (is("host.container"), is("host.hypervisor"), is("host.battery")) {
            (true, ..) => Self::Container,
            (_, true, _) => Self::Vm,
            (.., true) => Self::Laptop,
            (false, false, false) => Self::Metal,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
