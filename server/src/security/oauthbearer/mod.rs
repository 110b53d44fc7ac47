//! The server side of OAUTHBEARER (RFC 7628, KIP-255, KIP-768). The client sends a JWT, and the
//! server verifies its signature with one of the listener's keys, like Kafka's
//! `OAuthBearerSaslServer` with `OAuthBearerValidatorCallbackHandler`.
//!
//! If a token is refused, the client gets the status `invalid_token` as JSON. It answers with one
//! byte. That ends the exchange.

mod algorithm;
mod claims;
mod jwks;
mod jwt;
mod message;

pub use claims::TokenRules;
pub use jwks::{Jwks, JwksError};

use super::failure::Failure;
use message::FirstMessage;
use muster_codec::Wall;
use std::sync::Arc;

/// The keys of the listeners, in order; None for a listener without OAUTHBEARER.
pub type TokenKeys = Arc<[Option<Arc<Jwks>>]>;

/// The rules and keys with which a listener verifies tokens.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) rules: TokenRules,
    pub(crate) keys: Arc<Jwks>,
}

/// The contents of an accepted token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) name: String,
    pub(super) expires_at: Wall,
}

/// The answer to a refused token.
pub(super) const REFUSAL: &str = r#"{"status":"invalid_token"}"#;

/// The client's answer to a refusal.
pub(super) const ACKNOWLEDGED: &[u8] = b"\x01";

/// Handles the first message. The inner error means that the token was refused: the client gets
/// this refusal, and has to acknowledge it. After the outer error the exchange ends at once.
pub(super) fn authenticate(
    message: &[u8],
    bearer: &Bearer,
    now: Wall,
) -> Result<Result<Accepted, Failure>, Failure> {
    let FirstMessage { authorization_id, token } =
        message::read(message).ok_or(Failure::MALFORMED)?;
    let accepted =
        match jwt::verify(token, &bearer.keys).and_then(|it| bearer.rules.check(&it, now)) {
            Ok(accepted) => accepted,
            Err(why) => return Ok(Err(Failure::with_words(why, REFUSAL))),
        };
    if authorization_id.is_empty() || authorization_id == accepted.name {
        return Ok(Ok(accepted));
    }
    let name = &accepted.name;
    let words = format!(
        "Authentication failed: Client requested an authorization id ({authorization_id}) that is \
         different from the token's principal name ({name})"
    );
    Err(Failure::with_words("an authorization id other than the user", words).of(name))
}

#[cfg(test)]
mod tests;
