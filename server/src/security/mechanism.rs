//! The SASL mechanisms that muster serves.

use super::scram::ScramMechanism;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Plain,
    Scram(ScramMechanism),
    OAuthBearer,
}

impl Mechanism {
    pub const ALL: [Self; 4] = [
        Self::Plain,
        Self::Scram(ScramMechanism::Sha256),
        Self::Scram(ScramMechanism::Sha512),
        Self::OAuthBearer,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(mechanism) => mechanism.name(),
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
