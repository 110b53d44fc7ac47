//! The findings of recovery.

use super::waiting::{Waiting, WaitingEntry};
use super::{Case, Corruption};
use crate::log_partition::LogPartition;
use crate::shard_log::partitions::Partitions;
use crate::shard_log::replicated::{EntryId, Groups};
use crate::shard_log::segment::Segment;
use crate::slot_entry::Marker;
use muster_codec::record_batch::Batch;
use std::collections::BTreeMap;

/// A batch of the log, to be replayed.
#[derive(Debug, Clone, Copy)]
pub struct RecoveredBatch<'a> {
    pub partition: LogPartition,
    /// The batch. Its header has the base offset in the partition.
    pub batch: Batch<'a>,
    /// The position of the last operation in the batch's block.
    pub position: u64,
}

/// The next part of a log, to be replayed.
#[derive(Debug, Clone)]
pub enum RecoveredItem<'a> {
    /// A batch. In a replicated log it is committed; `group` and `index` identify the entry that
    /// contains it. In any other log both numbers are 0.
    Batch { group: u16, index: u64, found: RecoveredBatch<'a> },
    /// The log of this group begins again, after the entry `base`. All of the group that was
    /// replayed before is void.
    Marker { group: u16, base: EntryId, marker: Marker },
}

/// The end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) segment: u64,
    /// The byte position after the last block.
    pub(crate) end: u32,
    /// The end of the bytes that are cut off; equals `end` if no bytes are cut off.
    pub(crate) torn_end: u32,
}

/// Bytes that are cut off at the end of a log because they are not a whole block. Either a crash
/// interrupted the write, or the last block was damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    pub segment: u64,
    /// The byte position in the segment.
    pub at: u32,
    pub bytes: Vec<u8>,
}

/// The damage that recovery skipped.
#[derive(Debug, Default)]
pub(super) struct Spared {
    /// The first damage.
    pub(super) first: Option<Corruption>,
    /// The number of skipped bytes that may contain records of unknown partitions.
    pub(super) bytes: usize,
    /// The positions of the first and the last missing operation.
    pub(super) operations: Option<(u64, u64)>,
}

/// The result of recovery, from which a log continues. The default is for a new log.
#[derive(Debug, Default)]
pub struct Recovered {
    pub(crate) log_id: Option<u64>,
    pub(crate) position: u64,
    pub(crate) partitions: Partitions,
    pub(crate) groups: Groups,
    pub(crate) segments: BTreeMap<u64, Segment>,
    pub(crate) tail: Option<Tail>,
    pub(super) cut: Option<Cut>,
    /// Files that no longer belong to the log, by sequence number. The value is None if the file
    /// cannot be reused: it is a compacted segment, has no valid header, or has another length than
    /// its header says.
    pub(crate) leftovers: BTreeMap<u64, Option<Segment>>,
    pub(super) ends: Vec<Case>,
    pub(super) spared: Spared,
    pub(super) waiting: Waiting,
}

impl Recovered {
    /// The position of the last operation.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The random id of the log; None if the log is new.
    pub fn log_id(&self) -> Option<u64> {
        self.log_id
    }

    /// The segment of the last block, and the byte position after the block. None if there are no
    /// blocks.
    pub fn end(&self) -> Option<(u64, u32)> {
        self.tail.map(|tail| (tail.segment, tail.end))
    }

    /// The bytes that are cut off at the end of the log.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Takes out the entries of a group with records that are not known to be committed: their
    /// indexes, and the bytes after their headers. A new leader may commit them.
    pub fn take_uncommitted(&mut self, group: u16) -> impl Iterator<Item = (u64, Vec<u8>)> + use<> {
        let entries = self.waiting.take(group, u64::MAX).into_iter();
        entries.map(|WaitingEntry { head, body, .. }| (head.index, body))
    }

    /// See [`ShardLog::dropped_position`](crate::ShardLog::dropped_position).
    pub fn dropped_position(&self) -> u64 {
        self.segments.values().map(|segment| segment.dropped_position).max().unwrap_or(0)
    }

    /// For each segment that was read, the case that ended it: A, C, D, E, H or N. Successive
    /// segments without a header share one H. Empty for a new log (case K).
    pub fn ends(&self) -> &[Case] {
        &self.ends
    }

    /// The partitions that have records, with the offset after their last record.
    pub fn partitions(&self) -> impl Iterator<Item = (LogPartition, i64)> {
        let written = self.partitions.iter().filter(|(_, state)| state.next_offset > 0);
        written.map(|(partition, state)| (partition, state.next_offset))
    }

    /// The sequence number of the next segment to create.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.segments.last_key_value().map_or(1, |(_, last)| last.last_sequence + 1)
    }
}
