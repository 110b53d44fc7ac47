//! The client's side of SCRAM (RFC 5802, RFC 7677), without channel binding. As in Kafka's
//! `ScramSaslClient`, names and passwords are UTF-8 and are not normalized.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// The minimum number of iterations that the server may ask for (RFC 7677). With fewer iterations,
/// an attacker that poses as the server could guess the password from the client's proof.
const ITERATIONS_MIN: u32 = 4_096;
/// The maximum number of iterations, because the client has to compute them. Kafka's servers allow
/// at most 16384.
const ITERATIONS_MAX: u32 = 1_000_000;
/// The header of a client that does not support channel binding, and its Base64.
const GS2_HEADER: &str = "n,,";
const GS2_HEADER_BASE64: &str = "biws";

/// A hash function of SCRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hash {
    Sha256,
    Sha512,
}

/// A login that has begun: the server has to answer [`First::message`].
pub struct First {
    hash: Hash,
    nonce: String,
    /// The first message, but without its header. Signatures of client and server cover this text.
    bare: String,
}

/// A login with the client's proof computed. The server has to answer [`Last::message`].
pub struct Last {
    message: String,
    /// The signature by which the server shows that it knows the credential.
    signature: hmac::Tag,
}

impl First {
    /// # Errors
    /// There are no random bytes.
    pub fn new(hash: Hash, username: &str) -> Result<Self, String> {
        let mut nonce = [0; 24];
        SystemRandom::new().fill(&mut nonce).map_err(|_| "there are no random bytes")?;
        Ok(Self::with_nonce(hash, username, STANDARD.encode(nonce)))
    }

    fn with_nonce(hash: Hash, username: &str, nonce: String) -> Self {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        Self { hash, bare: format!("n={name},r={nonce}"), nonce }
    }

    pub fn message(&self) -> String {
        format!("{GS2_HEADER}{}", self.bare)
    }

    /// Takes the server's first message, and proves that the client knows the password.
    ///
    /// # Errors
    /// The message is malformed, or is no answer to this login, or asks for too few or too many
    /// iterations.
    pub fn answered(self, said: &[u8], password: &str) -> Result<Last, String> {
        let server = ServerFirst::parse(said)?;
        if server.nonce.len() <= self.nonce.len() || !server.nonce.starts_with(&self.nonce) {
            return Err("its nonce does not continue the client's".into());
        }
        let without_proof = format!("c={GS2_HEADER_BASE64},r={}", server.nonce);
        let signed = format!("{},{},{without_proof}", self.bare, server.text);
        let salted = self.hash.salted(password, &server.salt, server.iterations);
        let client_key = self.hash.sign(&salted, b"Client Key");
        let stored_key = self.hash.digest(client_key.as_ref());
        let client_signature = self.hash.sign(stored_key.as_ref(), signed.as_bytes());
        let pairs = client_key.as_ref().iter().zip(client_signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, signature)| key ^ signature).collect();
        let server_key = self.hash.sign(&salted, b"Server Key");
        Ok(Last {
            message: format!("{without_proof},p={}", STANDARD.encode(proof)),
            signature: self.hash.sign(server_key.as_ref(), signed.as_bytes()),
        })
    }
}

impl Last {
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Takes the server's last message.
    ///
    /// # Errors
    /// The server reports an error, or does not know the credential.
    pub fn verify(&self, said: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(said).map_err(|_| "its last message is not UTF-8")?;
        let first = text.split(',').next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            return Err(format!("it reports {error}"));
        }
        let signature = first.strip_prefix("v=").and_then(|it| STANDARD.decode(it).ok());
        if signature.is_none_or(|it| it != self.signature.as_ref()) {
            return Err("it does not prove that it knows the password".into());
        }
        Ok(())
    }
}

/// The server's first message: `r=nonce,s=salt,i=iterations[,extensions]`.
struct ServerFirst<'m> {
    text: &'m str,
    nonce: &'m str,
    salt: Vec<u8>,
    iterations: NonZeroU32,
}

impl<'m> ServerFirst<'m> {
    /// Parses a message. Extensions at its end are ignored. A mandatory extension at its beginning
    /// (`m=`) makes it malformed.
    fn parse(message: &'m [u8]) -> Result<Self, String> {
        const MALFORMED: &str = "its first message is malformed";
        let text = std::str::from_utf8(message).map_err(|_| MALFORMED)?;
        let mut parts = text.split(',');
        let mut part = |name| parts.next()?.strip_prefix(name).filter(|value| !value.is_empty());
        let nonce = part("r=").ok_or(MALFORMED)?;
        let salt = part("s=").and_then(|it| STANDARD.decode(it).ok()).ok_or(MALFORMED)?;
        let iterations = part("i=").ok_or(MALFORMED)?;
        if !iterations.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(MALFORMED.into());
        }
        let number = iterations.parse().unwrap_or(u32::MAX);
        let is_allowed = (ITERATIONS_MIN..=ITERATIONS_MAX).contains(&number);
        let allowed = NonZeroU32::new(number).filter(|_| is_allowed);
        let iterations = allowed.ok_or_else(|| {
            format!("it asks for {iterations} iterations, not {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        })?;
        Ok(Self { text, nonce, salt, iterations })
    }
}

impl Hash {
    fn salted(self, password: &str, salt: &[u8], iterations: NonZeroU32) -> Vec<u8> {
        let (algorithm, length) = match self {
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, digest::SHA256_OUTPUT_LEN),
            Self::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, digest::SHA512_OUTPUT_LEN),
        };
        let mut salted = vec![0; length];
        pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut salted);
        salted
    }

    fn sign(self, key: &[u8], data: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), data)
    }

    fn digest(self, data: &[u8]) -> digest::Digest {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCES: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

    /// The client of the example in RFC 7677.
    fn first() -> First {
        First::with_nonce(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO".into())
    }

    fn server_first(iterations: &str) -> String {
        format!("r={NONCES},s=W22ZaJ0SNY7soEsUEjb6gQ==,i={iterations}")
    }

    #[test]
    fn the_example_of_rfc_7677() {
        let first = first();
        assert_eq!(first.message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let last = first.answered(server_first("4096").as_bytes(), "pencil").unwrap();
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(last.message(), format!("c=biws,r={NONCES},p={proof}"));
        assert_eq!(last.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
        assert_eq!(last.verify(b"e=other-error"), Err("it reports other-error".into()));
        for wrong in [&b""[..], b"v=", b"v=AAAA", b"v=*", b"w=x", b"\xff"] {
            assert!(last.verify(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_are_escaped() {
        let first = First::with_nonce(Hash::Sha512, "a,b=c", "x".into());
        assert_eq!(first.message(), "n,,n=a=2Cb=3Dc,r=x");
    }

    #[test]
    fn nonces_differ() {
        let nonce = || First::new(Hash::Sha256, "user").unwrap().nonce;
        assert_ne!(nonce(), nonce());
    }

    #[test]
    fn first_messages_of_the_server_that_are_no_answer_are_refused() {
        let own_nonce = "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        for (said, why) in [
            ("", "malformed"),
            ("m=x,r=a,s=YQ==,i=4096", "malformed"),
            ("r=a,s=*,i=4096", "malformed"),
            ("r=a,s=,i=4096", "malformed"),
            ("r=a,s=YQ==", "malformed"),
            ("r=a,s=YQ==,i=+4096", "malformed"),
            ("r=other,s=YQ==,i=4096", "nonce"),
            (own_nonce, "nonce"),
            (&server_first("4095"), "asks for 4095 iterations"),
            (&server_first("1000001"), "asks for 1000001 iterations"),
            (&server_first("99999999999999999999"), "iterations, not 4096 to 1000000"),
        ] {
            let error = first().answered(said.as_bytes(), "pencil").err().unwrap();
            assert!(error.contains(why), "{said}: {error}");
        }
    }
}
