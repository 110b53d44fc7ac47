//! The server side of PLAIN (RFC 4616), by the rules of Kafka's `PlainSaslServer`.

use super::failure::Failure;
use super::secret::Secret;
use std::collections::BTreeMap;

/// The users of a listener with their passwords.
pub(crate) type PlainUsers = BTreeMap<String, Secret>;

/// Handles the only message. Returns the user's name.
pub(super) fn authenticate(message: &[u8], users: &PlainUsers) -> Result<String, Failure> {
    let message = String::from_utf8_lossy(message);
    let tokens: Vec<&str> = message.splitn(5, '\0').take(TOKENS_READ).collect();
    let [authorization_id, name, password] = tokens[..] else {
        let words = format!("Invalid SASL/PLAIN response: expected 3 tokens, got {}", tokens.len());
        return Err(Failure::with_words("a malformed message", words));
    };
    let failed =
        |why, words: &str| Failure::with_words(why, format!("Authentication failed: {words}"));
    if name.is_empty() {
        return Err(failed("no name", "username not specified"));
    }
    if password.is_empty() {
        return Err(failed("no password", "password not specified").of(name));
    }
    if !is_password(users, name, password) {
        let why = "wrong name or password";
        return Err(failed(why, "Invalid username or password").of(name));
    }
    if !authorization_id.is_empty() && authorization_id != name {
        return Err(Failure::other_authorization_id().of(name));
    }
    Ok(name.to_owned())
}

/// How many tokens Kafka reads; a valid message has three.
const TOKENS_READ: usize = 4;

/// Checks a password. The check takes the same time for an unknown user, so that the time does not
/// reveal users.
fn is_password(users: &PlainUsers, name: &str, password: &str) -> bool {
    match users.get(name) {
        Some(expected) => expected.is(password),
        None => {
            let _ = Secret::new(password).is(password);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_checked_as_in_kafka() {
        let users = [("a", "right"), ("b", "other")];
        let users = users.map(|(name, word)| (name.to_owned(), Secret::new(word))).into();
        let said = |message: &str| match authenticate(message.as_bytes(), &users) {
            Ok(name) => name,
            Err(failure) => failure.words.unwrap(),
        };
        for (message, words) in [
            ("\0a\0right", "a"),
            ("a\0a\0right", "a"),
            ("\0a\0other", "Authentication failed: Invalid username or password"),
            ("\0c\0right", "Authentication failed: Invalid username or password"),
            ("\0\0right", "Authentication failed: username not specified"),
            ("\0a\0", "Authentication failed: password not specified"),
            (
                "b\0a\0right",
                "Authentication failed: Client requested an authorization id that is different \
                 from username",
            ),
            ("", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
            ("\0a", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
            ("\0a\0right\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
            ("\0\0\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ] {
            assert_eq!(said(message), words, "{message:?}");
        }
    }
}
