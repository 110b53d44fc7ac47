//! The reason why a client is not let in: for the server's log, and for the client.

/// A failed authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// For the log, without secrets.
    pub(crate) why: &'static str,
    /// The words for the client; None for Kafka's general ones, which do not say whether there is
    /// such a user.
    pub(crate) words: Option<String>,
    /// The name of the user, if it was read.
    pub(crate) user: Option<String>,
}

impl Failure {
    pub(super) const MALFORMED: Self = Self::hidden("a malformed message");

    /// One whose reason the client does not get.
    pub(crate) const fn hidden(why: &'static str) -> Self {
        Self { why, words: None, user: None }
    }

    /// One with words for the client, which are Kafka's.
    pub(super) fn with_words(why: &'static str, words: impl Into<String>) -> Self {
        Self { why, words: Some(words.into()), user: None }
    }

    pub(super) fn other_authorization_id() -> Self {
        let words = "Authentication failed: Client requested an authorization id that is different \
                     from username";
        Self::with_words("an authorization id that is not its name", words)
    }

    pub(super) fn of(self, user: &str) -> Self {
        Self { user: Some(user.to_owned()), ..self }
    }
}
