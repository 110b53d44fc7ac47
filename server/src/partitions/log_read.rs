//! Reads of internal topics, whose records are in the shard's log.

use muster_codec::messages::AbortedTransaction;
use muster_storage::{FileToken, LogPartition};

/// A read of the shard's log, which `ShardLog::read_plan` plans under this token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRead {
    pub token: FileToken,
    pub partition: LogPartition,
    pub offset: i64,
    pub max_bytes: usize,
    /// The last stable offset, at which a read of committed records ends.
    pub stable: Option<i64>,
}

/// The batches of a [`LogRead`].
#[derive(Debug, Default)]
pub struct LogBatches {
    pub bytes: Vec<u8>,
    /// The aborted transactions of these batches, for a read of committed records.
    pub aborted: Vec<AbortedTransaction>,
}
