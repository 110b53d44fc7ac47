//! Why a log does not accept an operation.

use std::fmt;

/// The reason why an operation was not accepted. None of its records were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendError {
    /// The operation alone is longer than the limit: RECORD_TOO_LARGE.
    TooLarge,
    /// Too many bytes wait for the disk: [`crate::ShardLog::is_full`].
    Full,
    /// A batch whose offsets are before the end of its partition.
    NotNext,
    /// Bytes that are not a batch.
    NotABatch,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the records of one operation are larger than the limit",
            Self::Full => "too many records wait for the disk",
            Self::NotNext => "a batch that does not follow the last of its partition",
            Self::NotABatch => "not a record batch",
        })
    }
}

impl std::error::Error for AppendError {}
