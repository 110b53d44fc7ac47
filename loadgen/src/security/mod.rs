//! How to connect to a cluster: TLS, and who logs in with what. From options of the command line,
//! or from a file in the form of Kafka's `client.properties`.

mod endpoint;
mod pem;
pub mod properties;
#[cfg(test)]
mod tests;
mod tokens;

use std::fmt;
use std::sync::Arc;

pub use self::endpoint::Endpoint;
pub use self::pem::Pem;
pub use self::tokens::{Source, Tokens};

#[derive(Clone, Debug, Default)]
pub struct Security {
    pub tls: Option<Tls>,
    pub sasl: Option<Sasl>,
}

#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The authorities to trust; `None` for the system's authorities.
    pub ca: Option<Pem>,
    /// A client certificate with its chain, and its key.
    pub identity: Option<(Pem, Pem)>,
    /// The name to expect in the certificate, instead of the host connected to.
    pub server_name: Option<String>,
    pub verify: Verify,
}

/// The part of a server's certificate that is verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verify {
    /// Checks the authority and the name of the certificate.
    #[default]
    Name,
    /// Checks the authority only, as `ssl.endpoint.identification.algorithm` without a value asks.
    Authority,
    /// Nothing: for test clusters.
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

/// The mechanisms that take a user name and a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

/// OAUTHBEARER.
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
