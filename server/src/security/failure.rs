//! The reason why authentication failed, for the server's log and for the client.

/// A failed authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The reason for the log, without secrets.
    pub(crate) why: &'static str,
    /// The message for the client. None for Kafka's general message, which does not reveal whether
    /// the user exists.
    pub(crate) words: Option<String>,
    /// The user's name, if it could be read.
    pub(crate) user: Option<String>,
}

impl Failure {
    pub(super) const MALFORMED: Self = Self::hidden("a malformed message");

    /// A failure whose reason is hidden from the client.
    pub(crate) const fn hidden(why: &'static str) -> Self {
        Self { why, words: None, user: None }
    }

    /// A failure with a message for the client, as in Kafka.
    pub(super) fn with_words(why: &'static str, words: impl Into<String>) -> Self {
        Self { why, words: Some(words.into()), user: None }
    }

    pub(super) fn other_authorization_id() -> Self {
        let words = "Authentication failed: Client requested an authorization id that is different \
                     from username";
        Self::with_words("an authorization id other than the user", words)
    }

    pub(super) fn of(self, user: &str) -> Self {
        Self { user: Some(user.to_owned()), ..self }
    }
}
