//! Damage of a snapshot.

use std::fmt;

/// A description of the damage of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage(pub String);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The damage with this description.
pub fn damaged(what: impl fmt::Display) -> Damage {
    Damage(what.to_string())
}
