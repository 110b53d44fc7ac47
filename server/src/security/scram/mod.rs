//! The server side of SCRAM (RFC 5802), by the rules of Kafka's `ScramSaslServer`. It is pure: the
//! server's nonce and the credential are arguments.

mod credential;
mod mechanism;
mod message;

pub use credential::ScramCredential;
pub use mechanism::ScramMechanism;

use super::failure::Failure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use message::{ClientFinal, ClientFirst};
use subtle::ConstantTimeEq;

/// An exchange whose first message was answered.
#[derive(Debug)]
pub(super) struct ScramExchange {
    mechanism: ScramMechanism,
    name: String,
    credential: ScramCredential,
    gs2_header: String,
    /// The client's and the server's nonce, joined.
    nonce: String,
    /// The first message of each side, in the form that enters the signatures.
    firsts: String,
}

impl ScramExchange {
    /// Handles the first message. Returns the answer. `credential` looks a user up.
    pub(super) fn begin(
        mechanism: ScramMechanism,
        message: &[u8],
        server_nonce: &str,
        credential: impl FnOnce(&str) -> Option<ScramCredential>,
    ) -> Result<(Self, Vec<u8>), Failure> {
        let first = ClientFirst::parse(message).ok_or(Failure::MALFORMED)?;
        let failed = |failure: Failure| failure.of(&first.name);
        if first.is_by_token {
            return Err(failed(Failure::hidden("there are no delegation tokens")));
        }
        let credential =
            credential(&first.name).ok_or_else(|| failed(Failure::hidden("no such user")))?;
        if !first.authorization_id.is_empty() && first.authorization_id != first.name {
            return Err(failed(Failure::other_authorization_id()));
        }
        let nonce = format!("{}{server_nonce}", first.nonce);
        let salt = BASE64.encode(&credential.salt);
        let answer = format!("r={nonce},s={salt},i={}", credential.iterations);
        let exchange = Self {
            mechanism,
            gs2_header: first.gs2_header.to_owned(),
            firsts: format!("{},{answer}", first.bare),
            name: first.name,
            credential,
            nonce,
        };
        Ok((exchange, answer.into_bytes()))
    }

    /// Handles the final message. Returns the user's name and the answer.
    pub(super) fn end(self, message: &[u8]) -> Result<(String, Vec<u8>), Failure> {
        let failed = |why| Failure::hidden(why).of(&self.name);
        let last = ClientFinal::parse(message).ok_or_else(|| Failure::MALFORMED.of(&self.name))?;
        if last.nonce != self.nonce {
            return Err(failed("another nonce in its last message"));
        }
        if last.channel_binding != self.gs2_header.as_bytes() {
            return Err(failed("another channel binding in its last message"));
        }
        let signed = format!("{},{}", self.firsts, last.without_proof);
        let signed = signed.as_bytes();
        if !self.is_proof(signed, &last.proof) {
            return Err(failed("wrong password"));
        }
        let signature = self.mechanism.hmac(&self.credential.server_key, signed);
        let answer = format!("v={}", BASE64.encode(signature));
        Ok((self.name, answer.into_bytes()))
    }

    fn is_proof(&self, signed: &[u8], proof: &[u8]) -> bool {
        let ScramCredential { stored_key, .. } = &self.credential;
        let signature = self.mechanism.hmac(stored_key, signed);
        let client_key: Vec<u8> = signature.iter().zip(proof).map(|(a, b)| a ^ b).collect();
        let is_whole = proof.len() == signature.len();
        is_whole && self.mechanism.hash(&client_key).ct_eq(stored_key).into()
    }
}

#[cfg(test)]
mod tests;
