//! The server's side of OAUTHBEARER (RFC 7628, KIP-255, KIP-768): a JWT that was signed with one of
//! the listener's keys. It is as in Kafka's `OAuthBearerSaslServer` with
//! `OAuthBearerValidatorCallbackHandler`.
//!
//! A client whose token is refused gets the reason as JSON, and answers with one byte; that ends
//! the exchange.

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

/// The keys of the listeners, in order; None for one without OAUTHBEARER.
pub type TokenKeys = Arc<[Option<Arc<Jwks>>]>;

/// The rules and keys by which a listener checks tokens.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) rules: TokenRules,
    pub(crate) keys: Arc<Jwks>,
}

/// A token that was accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) name: String,
    pub(super) expires_at: Wall,
}

/// The answer to a token that is refused.
pub(super) const REFUSAL: &str = r#"{"status":"invalid_token"}"#;

/// The answer of a client to a refusal.
pub(super) const ACKNOWLEDGED: &[u8] = b"\x01";

/// Takes a first message. The inner error is of a token: the client is to acknowledge it.
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
    Err(Failure::with_words("an authorization id that is not its name", words).of(name))
}

#[cfg(test)]
mod tests;
