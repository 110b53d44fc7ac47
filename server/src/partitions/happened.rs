//! The results of changes of partitions, for the requests that wait for them.

use super::partition_id::PartitionId;

/// A request that waits for writes or syncs of partitions, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A request of a producer, or a request with markers.
    Produce(u64),
    /// The work for a coordinator, or dead letters: see `rounds.rs`.
    Round(u64),
}

/// The number of bytes by which the readable part of a partition grew: of all records, and of
/// records below the last stable offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Grown {
    pub bytes: u64,
    pub stable_bytes: u64,
}

/// The result of a change of the table. `done` has the waiters whose batches are written, or synced
/// if they wait for that.
#[derive(Debug)]
#[must_use]
pub(super) enum Happened {
    /// Nothing that anything waits for.
    Nothing,
    /// A write of a partition is done.
    Written {
        id: PartitionId,
        done: Vec<Waiter>,
        grown: Grown,
    },
    /// A sync of a partition is done.
    Synced {
        done: Vec<Waiter>,
    },
    /// The readable part of a partition of an internal topic grew.
    Grown {
        id: PartitionId,
        grown: Grown,
    },
    /// Records at the start of a partition were deleted.
    Trimmed,
    Lost(Lost),
    /// A partition of a deleted topic was removed. `done` has all of its waiters.
    Removed {
        id: PartitionId,
        done: Vec<Waiter>,
    },
}

/// A write or a sync of a partition found no file.
#[derive(Debug)]
pub(super) struct Lost {
    pub id: PartitionId,
    /// The base offset of the segment whose file is lost.
    pub segment: i64,
    pub reason: String,
    /// Whether this is the first lost write of the partition.
    pub is_first: bool,
    /// The waiters that wait in vain.
    pub waiting: Vec<Waiter>,
}
