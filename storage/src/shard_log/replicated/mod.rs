//! A replicated log. Its blocks consist of entries. An entry has either the records of one slot, or
//! what a Raft group writes for itself ([`EntryKind`](crate::slot_entry::EntryKind)).
//!
//! - [`group`]: the entries of one group, and which of them are void. `groups` has all groups.
//! - `write`: makes entries from appended records, and blocks from entries. `block` is the block to
//!   which entries are added.
//! - `offered`: checks entries that another node offers.
//! - `fetch`: reads entries back.
//! - `compact`: the entries that compaction must leave.

mod block;
mod compact;
mod fetch;
pub(super) mod group;
mod groups;
mod offered;
#[cfg(test)]
mod tests;
mod write;

pub use block::EndedEntry;
pub(crate) use block::{InBlock, ReplicatedBlock};
pub use fetch::{FetchPlan, FetchedEntry};
pub(crate) use group::Void;
pub use group::{EntryId, EntryPlace, GroupLog, Kept};
pub(crate) use groups::{Groups, Voids};
pub use offered::OfferedEntry;
pub use write::NewEntry;
pub(super) use write::{move_ends, next_offsets};

use super::partitions::Partitions;
use crate::injected::Injected;
use crate::log_partition::LogPartition;
use group::Pending;

/// The part that only a replicated log has.
#[derive(Debug)]
pub(super) struct Replicated {
    groups: Groups,
    /// Completed entries, to which no operations are added. They wait until they get their indexes.
    ended: Vec<EndedEntry>,
    ended_bytes: usize,
    /// The entries of the next block.
    block: ReplicatedBlock,
    /// The number of the next block, and of the last one on stable storage.
    next_block: u64,
    flushed_block: u64,
}

impl Replicated {
    pub(super) fn new(groups: Groups) -> Self {
        Self {
            groups,
            ended: Vec::new(),
            ended_bytes: 0,
            block: ReplicatedBlock::default(),
            next_block: 1,
            flushed_block: 0,
        }
    }

    /// The number of bytes that wait for a block.
    pub(super) fn bytes(&self) -> usize {
        self.ended_bytes + self.block.buffer.len()
    }
}

/// Sets partitions back to their ends before these void entries, of which the last one comes first.
pub(super) fn set_back(partitions: &mut Partitions, void: impl Iterator<Item = Pending>) {
    if Injected::OffsetsNotSetBack.is_injected() {
        return;
    }
    for Pending { offsets, .. } in void {
        for it in offsets.iter().rev() {
            partitions.get_mut(it.partition).set_back(it.before);
        }
    }
}

/// The partitions of a group that have had records.
pub(super) fn partitions_of(partitions: &Partitions, group: u16, slots: u32) -> Vec<LogPartition> {
    let all = partitions.iter().map(|(at, _)| at);
    all.filter(|at| crate::slot_entry::group_of(*at, slots) == group).collect()
}
