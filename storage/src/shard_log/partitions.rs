//! The partitions of a shard's log: their open batches, offsets and sparse indexes.

use crate::layout::CLUSTER_PARTITION;
use crate::limits::{PARTITIONS_MAX, SHARD_INDEX_SPAN_BYTES};
use muster_codec::record_batch::BatchBuilder;

/// One partition.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    /// The records of the open batch; they are the last before `next_offset`.
    pub(crate) builder: BatchBuilder,
    /// The log end offset.
    pub(crate) next_offset: i64,
    /// The high watermark: the end of the flushed records.
    pub(crate) flushed_offset: i64,
    /// The end of the recovered records.
    pub(crate) recovered_offset: i64,
    /// By segment, so that replacing a segment does not touch the entries of others.
    index: Vec<SegmentIndex>,
}

/// The index entries of a partition in one segment.
#[derive(Debug)]
struct SegmentIndex {
    segment: u64,
    /// Never empty.
    entries: Vec<IndexEntry>,
}

/// A range of a segment in which the partition has batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The offset after the last record in it.
    pub(crate) next_offset: i64,
    /// From the start of a block to the end of the same or a later one.
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl IndexEntry {
    /// Adds the next block of the segment to the entries, or to the last of them.
    pub(crate) fn push_to(self, entries: &mut Vec<Self>) {
        assert!(self.start < self.end, "an empty block");
        match entries.last_mut() {
            Some(last) if self.start - last.start < SHARD_INDEX_SPAN_BYTES => {
                assert!(last.end <= self.start || last.end == self.end, "blocks overlap");
                assert!(last.next_offset <= self.next_offset);
                last.end = self.end;
                last.next_offset = self.next_offset;
            }
            _ => entries.push(self),
        }
    }
}

impl SegmentIndex {
    fn next_offset(&self) -> i64 {
        self.entries.last().map_or(0, |entry| entry.next_offset)
    }
}

impl Partition {
    /// Notes that the last block of a segment has a batch of this partition.
    pub(crate) fn index_block(&mut self, segment: u64, entry: IndexEntry) {
        match self.index.last_mut() {
            Some(last) if last.segment == segment => entry.push_to(&mut last.entries),
            _ => self.index.push(SegmentIndex { segment, entries: vec![entry] }),
        }
    }

    /// The entries of a segment.
    pub(crate) fn entries_in(&self, segment: u64) -> &[IndexEntry] {
        let found = self.index.binary_search_by_key(&segment, |index| index.segment);
        found.map_or(&[], |at| &self.index[at].entries)
    }

    /// Adds the entries of the next segment, which come from a snapshot.
    pub(crate) fn recover_index(&mut self, segment: u64, entries: Vec<IndexEntry>) {
        let index = SegmentIndex { segment, entries };
        self.next_offset = index.next_offset();
        self.recovered_offset = self.next_offset;
        self.index.push(index);
    }

    /// The segment that holds `offset`, or the next existing offset, and its entries from that
    /// offset on.
    pub(crate) fn entries_from(&self, offset: i64) -> Option<(u64, &[IndexEntry])> {
        let at = self.index.partition_point(|segment| segment.next_offset() <= offset);
        let SegmentIndex { segment, entries } = self.index.get(at)?;
        let first = entries.partition_point(|entry| entry.next_offset <= offset);
        Some((*segment, &entries[first..]))
    }

    /// The offset after the last record in the segments up to `segment`; 0 if there is none.
    pub(crate) fn next_offset_in(&self, segment: u64) -> i64 {
        let end = self.index.partition_point(|index| index.segment <= segment);
        self.index[..end].last().map_or(0, SegmentIndex::next_offset)
    }

    /// Replaces the entries of the segments from `segment` up to `last` by those of one segment.
    pub(crate) fn replace_index(&mut self, segment: u64, last: u64, entries: Vec<IndexEntry>) {
        let from = self.index.partition_point(|index| index.segment < segment);
        let to = self.index.partition_point(|index| index.segment <= last);
        let new = (!entries.is_empty()).then_some(SegmentIndex { segment, entries });
        self.index.splice(from..to, new);
    }
}

/// All partitions, by number; that of the cluster's records (-1) comes first.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    slots: Vec<Partition>,
}

impl Partitions {
    /// Whether the partition number is in range.
    pub(crate) fn is_valid(partition: i32) -> bool {
        partition >= CLUSTER_PARTITION && (partition as i64) < PARTITIONS_MAX as i64 - 1
    }

    /// The slot of a partition, which is created if it is new.
    pub(crate) fn slot(&mut self, partition: i32) -> usize {
        assert!(Self::is_valid(partition), "partition {partition} is out of range");
        let slot = Self::slot_of(partition);
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, Partition::default);
        }
        slot
    }

    pub(crate) fn number(slot: usize) -> i32 {
        slot as i32 + CLUSTER_PARTITION
    }

    pub(crate) fn get(&self, partition: i32) -> Option<&Partition> {
        if !Self::is_valid(partition) {
            return None;
        }
        self.slots.get(Self::slot_of(partition))
    }

    /// All partitions that have a slot, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, &Partition)> {
        let numbered = self.slots.iter().enumerate();
        numbered.map(|(slot, partition)| (Self::number(slot), partition))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.slots.iter_mut()
    }

    /// The slot of a valid partition number.
    pub(crate) fn slot_of(partition: i32) -> usize {
        (partition - CLUSTER_PARTITION) as usize
    }
}

impl std::ops::Index<usize> for Partitions {
    type Output = Partition;

    fn index(&self, slot: usize) -> &Partition {
        &self.slots[slot]
    }
}

impl std::ops::IndexMut<usize> for Partitions {
    fn index_mut(&mut self, slot: usize) -> &mut Partition {
        &mut self.slots[slot]
    }
}
