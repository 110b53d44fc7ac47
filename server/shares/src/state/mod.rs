//! The durable state of share partitions, like that of Kafka's share coordinator: start offset,
//! delivered records, epochs. `requests.rs` has the five APIs of share state. `stored.rs` has the
//! form of states in a snapshot of the server's log.

mod checks;
mod combine;
mod decide;
mod jobs;
mod lost;
mod replay;
mod requests;
mod stored;

pub use jobs::JobSlice;
pub use requests::{Initialize, Reading, Refusal, Summary, Topics, Write, is_answered_empty};
pub use stored::{StatesWalk, StoredEnds};

use crate::SharePartitionKey;
use crate::limits::UPDATES_PER_SNAPSHOT_MAX;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::records::ShareStateBatch;

/// The start offset of a state for which none was set yet. When the group first reads, it is set
/// according to `share.auto.offset.reset`.
pub const NO_OFFSET: i64 = -1;
/// The delivery complete count of a state in which it is not known.
pub const NO_COUNT: i32 = -1;
/// An epoch that is not sent. It fences nothing.
pub const NO_EPOCH: i32 = -1;

/// The states of the share partitions of a slot.
#[derive(Debug)]
pub struct States {
    states: BTreeMap<SharePartitionKey, State>,
    updates_per_snapshot: u32,
}

/// The state of one share partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub snapshot_epoch: i32,
    pub state_epoch: i32,
    pub leader_epoch: i32,
    /// The start offset: all records before it are done, or were removed from the log.
    /// [`NO_OFFSET`] if it is not decided yet.
    pub start_offset: i64,
    /// The number of records from the start offset on that are done.
    pub delivery_complete_count: i32,
    pub created: i64,
    /// The time at which the last snapshot was written.
    pub written: i64,
    /// The batches, in order and without overlap.
    pub batches: Vec<StateBatch>,
    /// The greatest epochs seen. Smaller epochs are fenced.
    pub fence: Fence,
    /// The number of updates since the snapshot; None before the first update.
    pub updates: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub leader_epoch: i32,
    pub state_epoch: i32,
}

/// Records with the same state, from `first` to `last`. `Ord` sorts them like Kafka's combiner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateBatch {
    pub first: i64,
    pub last: i64,
    pub delivery_count: i16,
    /// The id of the delivery state, as in records.
    pub delivery_state: i8,
}

impl States {
    /// Makes an empty set of states. `updates_per_snapshot` is
    /// `share.coordinator.snapshot.update.records.per.snapshot`.
    pub fn new(updates_per_snapshot: u32) -> Self {
        let updates_per_snapshot = updates_per_snapshot.min(UPDATES_PER_SNAPSHOT_MAX);
        Self { states: BTreeMap::new(), updates_per_snapshot }
    }

    pub fn get(&self, key: &SharePartitionKey) -> Option<&State> {
        self.states.get(key)
    }

    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&SharePartitionKey, &State)> {
        self.states.iter()
    }
}

impl StateBatch {
    pub(super) fn to_record(self) -> ShareStateBatch {
        ShareStateBatch {
            first_offset: self.first,
            last_offset: self.last,
            delivery_state: self.delivery_state,
            delivery_count: self.delivery_count,
        }
    }

    pub(super) fn of_record(batch: &ShareStateBatch) -> Self {
        Self {
            first: batch.first_offset,
            last: batch.last_offset,
            delivery_count: batch.delivery_count,
            delivery_state: batch.delivery_state,
        }
    }
}
