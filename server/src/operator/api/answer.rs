//! The answers of the read API.

use serde_json::{Value, json};

/// An answer: HTTP status and JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn found(body: Value) -> Self {
        Self { status: 200, body }
    }

    pub(crate) fn malformed(words: impl Into<String>) -> Self {
        Self::error(400, words)
    }

    pub(super) fn unknown(words: impl Into<String>) -> Self {
        Self::error(404, words)
    }

    pub(crate) fn unavailable(words: impl Into<String>) -> Self {
        Self::error(503, words)
    }

    pub(crate) fn error(status: u16, words: impl Into<String>) -> Self {
        Self { status, body: json!({ "error": words.into() }) }
    }
}

/// An error as an answer.
pub(super) type Refused = Answer;

pub(super) fn late(shard: u32) -> Refused {
    Answer::unavailable(format!("shard {shard} does not answer in time"))
}

pub(super) fn no_survey() -> Refused {
    Answer::unavailable("a shard does not answer in time: see /readyz")
}
