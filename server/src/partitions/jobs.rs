//! The purposes of the operations on files that are under way.

use super::partition_id::PartitionId;
use super::reader::{Reader, RecordRead};
use muster_codec::messages::AbortedTransaction;
use muster_storage::{BatchSearch, LogEnd, PartitionFile, TimestampSearch};

/// The purpose of an operation on a file. The variant says which part began the operation. A job is
/// found by the token of its operation. Writes of a log are not jobs: the log knows their purpose.
#[derive(Debug)]
pub(super) enum Job {
    Read(ReadJob),
    Upkeep(UpkeepJob),
    /// A sync of a partition up to this end (`flush.messages`, or a clean stop).
    Flush(PartitionId, LogEnd),
}

/// A read for a request.
#[derive(Debug)]
pub(super) enum ReadJob {
    Find(Part, BatchSearch),
    Lookup(Part, TimestampSearch),
    /// Reads of records into memory: first of headers, then of batches.
    FindRecords(RecordRead, BatchSearch),
    ReadRecords {
        reader: Reader,
        id: PartitionId,
        aborted: Vec<AbortedTransaction>,
    },
    /// A read of an internal topic, in the shard's own log.
    Log(Part),
}

/// An operation of the upkeep.
#[derive(Debug)]
pub(super) enum UpkeepJob {
    /// A write of the recovery points.
    Checkpoint,
    /// An operation of the compaction of a partition.
    Compact,
    /// A read of a scrub.
    Scrub,
    /// A look at a file of a partition.
    Look(PartitionId, PartitionFile),
    /// A look at the file that a scrub is about to open.
    LookForScrub(PartitionId, PartitionFile),
}

/// The part of a request that waits for a read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The number of the fetch or look-up.
    pub request: u64,
    /// The index of the part's partition in `wants`.
    pub want: usize,
}
