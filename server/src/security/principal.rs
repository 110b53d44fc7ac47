//! The identity of a client.

use std::fmt;
use std::sync::Arc;

/// An authenticated client, like Kafka's `KafkaPrincipal`.
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

    /// A client that has not authenticated. ACLs give it only what they give to every client.
    pub fn unknown() -> Self {
        Self::user("")
    }

    /// A client of a listener that does not authenticate clients.
    pub fn anonymous() -> Self {
        Self::user("ANONYMOUS")
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}
