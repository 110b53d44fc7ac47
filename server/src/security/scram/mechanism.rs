//! The SCRAM mechanisms and their hash functions (RFC 5802, RFC 7677).

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha512};

/// A mechanism; the number is Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum ScramMechanism {
    Sha256 = 1,
    Sha512 = 2,
}

impl ScramMechanism {
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    pub fn by_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.number() == number)
    }

    pub fn number(self) -> i8 {
        self as i8
    }

    /// Computes the salted password. The cost grows with the iterations; 0 counts as 1. Clients and
    /// tools compute it. The server does so only once: for the first user, at its first start.
    pub fn salted_password(self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let password = password.as_bytes();
        match self {
            Self::Sha256 => {
                pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec()
            }
            Self::Sha512 => {
                pbkdf2::pbkdf2_hmac_array::<Sha512, 64>(password, salt, iterations).to_vec()
            }
        }
    }

    pub(super) fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => hmac::<Hmac<Sha256>>(key, data),
            Self::Sha512 => hmac::<Hmac<Sha512>>(key, data),
        }
    }

    pub(super) fn hash(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(data).to_vec(),
            Self::Sha512 => Sha512::digest(data).to_vec(),
        }
    }
}

fn hmac<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    let Ok(mac) = <M as Mac>::new_from_slice(key) else {
        unreachable!("HMAC takes keys of all lengths")
    };
    mac.chain_update(data).finalize().into_bytes().to_vec()
}
