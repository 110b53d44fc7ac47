//! The partitions of a shard's log: their open batches, offsets and sparse indexes.

use crate::layout::CLUSTER_PARTITION;
use crate::limits::{PARTITIONS_MAX, SHARD_INDEX_SPAN_BYTES};
use muster_codec::record_batch::BatchBuilder;

/// One partition.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    /// The records that wait for a flush; they are the last before `next_offset`.
    pub(crate) builder: BatchBuilder,
    /// The log end offset.
    pub(crate) next_offset: i64,
    /// The high watermark: the end of what is flushed.
    pub(crate) flushed_offset: i64,
    /// The end of what recovery found.
    pub(crate) recovered_offset: i64,
    index: Vec<IndexEntry>,
}

/// Bytes of a segment in which the partition has batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The offset after the last record in it.
    pub(crate) next_offset: i64,
    pub(crate) segment: u64,
    /// From the start of a block to the end of a block.
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Partition {
    /// Notes that the block from `start` to `end` has a batch that ends before `next_offset`.
    pub(crate) fn index_block(&mut self, entry: IndexEntry) {
        assert!(entry.start < entry.end, "an empty block");
        match self.index.last_mut() {
            Some(last)
                if last.segment == entry.segment
                    && entry.start - last.start < SHARD_INDEX_SPAN_BYTES =>
            {
                assert!(last.end <= entry.start || last.end == entry.end, "blocks overlap");
                assert!(last.next_offset <= entry.next_offset);
                last.end = entry.end;
                last.next_offset = entry.next_offset;
            }
            _ => self.index.push(entry),
        }
    }

    /// The entries from the one that holds `offset` on.
    pub(crate) fn entries_from(&self, offset: i64) -> &[IndexEntry] {
        let first = self.index.partition_point(|entry| entry.next_offset <= offset);
        &self.index[first..]
    }
}

/// All partitions, by number; the cluster's own (-1) comes first.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    slots: Vec<Partition>,
}

impl Partitions {
    /// Whether a log may have this partition.
    pub(crate) fn is_valid(partition: i32) -> bool {
        partition >= CLUSTER_PARTITION && (partition as i64) < PARTITIONS_MAX as i64 - 1
    }

    /// The place of a partition, which is made if it is new.
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

    /// All partitions that were ever written to, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, &Partition)> {
        let numbered = self.slots.iter().enumerate();
        numbered.map(|(slot, partition)| (Self::number(slot), partition))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.slots.iter_mut()
    }

    fn slot_of(partition: i32) -> usize {
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
