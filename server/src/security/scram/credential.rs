//! A SCRAM credential, with which a server can verify a password.

use super::ScramMechanism;
use std::fmt;

/// A SCRAM credential. It suffices to verify a password, but not to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    pub salt: Vec<u8>,
    pub stored_key: Vec<u8>,
    pub server_key: Vec<u8>,
    pub iterations: i32,
}

impl ScramCredential {
    /// Kafka's bounds for iterations, the same for both mechanisms.
    pub const ITERATIONS_MIN: i32 = 4_096;
    pub const ITERATIONS_MAX: i32 = 16_384;

    pub fn new(
        mechanism: ScramMechanism,
        salt: &[u8],
        salted_password: &[u8],
        iterations: i32,
    ) -> Self {
        let client_key = mechanism.hmac(salted_password, b"Client Key");
        Self {
            salt: salt.to_vec(),
            stored_key: mechanism.hash(&client_key),
            server_key: mechanism.hmac(salted_password, b"Server Key"),
            iterations,
        }
    }
}

impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramCredential({} iterations)", self.iterations)
    }
}
