//! The results of changes of partitions, for the requests that wait for them.

use super::partition_id::PartitionId;

/// The number of a request that waits until something is written or synced in partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A request of a producer, or a request with markers.
    Produce(u64),
    /// A round: work for a coordinator, or a batch of dead letters (see `rounds.rs`).
    Round(u64),
}

/// The number of bytes that became readable in a partition: in total, and before the last stable
/// offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Grown {
    pub bytes: u64,
    pub stable_bytes: u64,
}

/// The result of a change of the table. `done` has the waiters that need not wait any longer: their
/// batches are written, or also synced if they wait for a sync.
#[derive(Debug)]
#[must_use]
pub(super) enum Happened {
    /// No change that a request waits for.
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
    /// More records of an internal topic's partition can be read.
    Grown {
        id: PartitionId,
        grown: Grown,
    },
    /// Records at the start of a partition were deleted.
    Trimmed,
    Lost(Lost),
    /// A partition of a deleted topic was removed. `done` has everything that waited for the
    /// partition.
    Removed {
        id: PartitionId,
        done: Vec<Waiter>,
    },
}

/// The loss of a file: a write or a sync of a partition has not found it.
#[derive(Debug)]
pub(super) struct Lost {
    pub id: PartitionId,
    /// The base offset of the segment whose file is lost.
    pub segment: i64,
    pub reason: String,
    /// Whether no earlier write of the partition was lost.
    pub is_first: bool,
    /// The waiters that wait in vain.
    pub waiting: Vec<Waiter>,
}
