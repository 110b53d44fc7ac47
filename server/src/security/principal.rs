//! The identity of a client.

use std::fmt;
use std::sync::Arc;

/// An authenticated client, as Kafka's `KafkaPrincipal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub kind: &'static str,
    pub name: Arc<str>,
}

impl Principal {
    const USER: &'static str = "User";

    pub fn user(name: &str) -> Self {
        Self { kind: Self::USER, name: name.into() }
    }

    /// A client that has not authenticated, who has no permissions but those of everyone.
    pub fn unknown() -> Self {
        Self::user("")
    }

    /// A client of a listener that asks for no password.
    pub fn anonymous() -> Self {
        Self::user("ANONYMOUS")
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}
