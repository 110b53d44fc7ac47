//! The kinds of hosts, which differ in what can be changed on them, and is worth it.

use crate::Facts;
use std::fmt;

/// A kind of host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// For trying muster out: what makes it fast is not asked for.
    Laptop,
    /// A virtual machine: the host below it has the cores, the idle states and the NIC.
    Vm,
    /// A container: the host's settings cannot be changed in it.
    Container,
    /// A machine of its own.
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

    /// The kind that the facts speak for.
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
