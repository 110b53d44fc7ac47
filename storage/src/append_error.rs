//! The reasons why a log rejects an append.

use std::fmt;

/// The reason why an operation was rejected. A rejection leaves the log unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendError {
    /// The operation is longer than the limit for one operation, or its batches do not fit into one
    /// segment of their partition (RECORD_LIST_TOO_LARGE).
    TooLarge,
    /// Too many bytes wait for the disk; see [`crate::ShardLog::is_full`].
    Full,
    /// The offsets of a batch are before the end of its partition: they are taken already.
    NotNext,
    /// Another node leads the slot. (A log does not know that: its caller does.)
    NotLeader,
    /// The bytes are not a batch, or the partition of the batch is out of range.
    NotABatch,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the records of one operation are larger than the limit",
            Self::Full => "too many records wait for the disk",
            Self::NotNext => "a batch that does not follow the last of its partition",
            Self::NotLeader => "another node leads the slot",
            Self::NotABatch => "not a record batch",
        })
    }
}

impl std::error::Error for AppendError {}
