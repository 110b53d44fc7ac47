//! Reads of records into memory, for two readers. A share partition needs the bounds of all batches
//! before it knows which of them it sends. The admin side shows the content of records.

use super::partition_id::PartitionId;
use muster_codec::messages::AbortedTransaction;

/// The recipient of a read's result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reader {
    /// The share partitions, which gave the read this number.
    Share(u64),
    /// The admin side. The shard has given this number to the admin side's question.
    Operator(u64),
}

/// A read of whole batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordRead {
    pub(crate) reader: Reader,
    pub(crate) id: PartitionId,
    pub(crate) offset: i64,
    pub(crate) reads_committed: bool,
    pub(crate) max_bytes: u32,
    /// Whether the first batch is read as a whole, even if it is larger than `max_bytes`.
    pub(crate) first_whole: bool,
}

/// The result of a read.
#[derive(Debug)]
pub(crate) enum RecordReadEnd {
    Records {
        /// Batches; all are whole except perhaps the last one.
        data: Vec<u8>,
        /// The aborted transactions that overlap the batches, for readers of committed records.
        aborted: Vec<AbortedTransaction>,
    },
    /// There is nothing to read, or the partition is gone.
    Nothing,
    /// The read failed; the reason is logged.
    Failed,
    /// The offset of the first record at or after a time; None if there is no such record.
    Offset(Option<i64>),
}
