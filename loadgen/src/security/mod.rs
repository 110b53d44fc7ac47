//! How to connect to a cluster: TLS and login. The settings come from the command line, or from a
//! file in the format of Kafka's `client.properties`.

mod endpoint;
mod pem;
pub mod properties;
pub mod scram;
#[cfg(test)]
mod tests;
mod tokens;

use std::fmt;
use std::sync::Arc;

pub use self::endpoint::Endpoint;
pub use self::pem::Pem;
use self::scram::Hash;
pub use self::tokens::{Source, Tokens};

#[derive(Clone, Debug, Default)]
pub struct Security {
    pub tls: Option<Tls>,
    pub sasl: Option<Sasl>,
}

#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The trusted authorities. `None` means those of the system.
    pub ca: Option<Pem>,
    /// The client certificate with its chain, and its key.
    pub identity: Option<(Pem, Pem)>,
    /// The name that the certificate must have, if it is not the host name.
    pub server_name: Option<String>,
    pub verify: Verify,
}

/// How far a server's certificate is verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verify {
    /// Checks the authority and the name of the certificate.
    #[default]
    Name,
    /// Checks only the authority, as with an empty `ssl.endpoint.identification.algorithm`.
    Authority,
    /// Checks nothing. For test clusters.
    Nothing,
}

#[derive(Clone)]
pub enum Sasl {
    Password(Password),
    Bearer(Bearer),
}

#[derive(Clone)]
pub struct Password {
    pub mechanism: Mechanism,
    pub username: String,
    pub password: String,
}

/// The mechanisms with a user name and a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

/// A login with OAUTHBEARER.
#[derive(Clone)]
pub struct Bearer {
    pub tokens: Arc<Tokens>,
    /// Names and values that are sent with each token (RFC 7628, KIP-342).
    pub extensions: Vec<(String, String)>,
}

impl Mechanism {
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }

    /// None for PLAIN.
    pub fn hash(self) -> Option<Hash> {
        match self {
            Self::Plain => None,
            Self::ScramSha256 => Some(Hash::Sha256),
            Self::ScramSha512 => Some(Hash::Sha512),
        }
    }
}

pub const OAUTHBEARER: &str = "OAUTHBEARER";

impl Sasl {
    pub fn mechanism(&self) -> &'static str {
        match self {
            Self::Password(password) => password.mechanism.name(),
            Self::Bearer(_) => OAUTHBEARER,
        }
    }
}

impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password(Password { mechanism, username, .. }) => {
                write!(f, "{mechanism:?} as {username} with a password")
            }
            Self::Bearer(_) => write!(f, "{OAUTHBEARER} with a token"),
        }
    }
}
