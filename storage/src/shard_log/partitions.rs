//! The partitions of a shard's log: their open batches, offsets, open transactions and sparse
//! indexes.

use super::entries::Entries;
use crate::limits::SHARD_INDEX_SPAN_BYTES;
use crate::log_partition::{LogPartition, UNPARTITIONED};
use muster_codec::record_batch::{
    BatchBuilder, MARKER_BATCH_BYTES, Producer, set_base_offset, set_partition_leader_epoch,
};
use std::collections::BTreeMap;

/// The leader epoch of every partition: its leader never changes.
pub(crate) const LEADER_EPOCH: i32 = 0;

/// One partition.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    /// The completed batches of the open block. The records in `builder` follow them.
    pub(crate) closed: ClosedBatches,
    /// The open batch, whose records are not in a transaction. They are the last ones before
    /// `next_offset`.
    pub(crate) builder: BatchBuilder,
    /// The position of the slot's newest entry with records of this partition. Positions count from
    /// the opening of the log or, in a replicated log, from its beginning.
    pub(crate) position: u64,
    /// The log end offset.
    pub(crate) next_offset: i64,
    /// In a replicated log: the log end offset without the records of the open entry.
    pub(crate) written_offset: i64,
    /// The high watermark: the end of the flushed records.
    pub(crate) flushed_offset: i64,
    /// The offset after the last recovered record.
    pub(crate) recovered_offset: i64,
    /// Offsets below this one are never assigned again, even if no record has them.
    pub(crate) skipped_to: i64,
    /// Open transactions that began since the log was opened: first offset by producer id.
    transactions: BTreeMap<i64, i64>,
    /// The index entries, grouped by segment: if a segment is replaced, only its own entries
    /// change.
    index: Vec<SegmentIndex>,
    /// The total length of the ranges in `index`.
    indexed_bytes: u64,
}

/// Batches in the form of a block: each preceded by its partition.
#[derive(Debug, Default)]
pub(crate) struct ClosedBatches {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u32,
}

impl ClosedBatches {
    fn push(&mut self, partition: LogPartition, batch: &[u8]) {
        self.bytes.extend_from_slice(&partition.to_bytes());
        self.bytes.extend_from_slice(batch);
        self.count += 1;
    }
}

/// The index entries of a partition in one segment.
#[derive(Debug)]
pub(crate) struct SegmentIndex {
    segment: u64,
    /// Never empty.
    entries: Vec<IndexEntry>,
}

/// A range of a segment that contains batches of the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The offset after the last record in the range.
    pub(crate) next_offset: i64,
    /// The range begins at the start of a block and ends at the end of the same or a later block.
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl IndexEntry {
    /// Adds this entry, which describes the segment's next block: appends it to `entries`, or
    /// extends the last entry to this block's end. Returns by how many bytes the ranges grew.
    pub(crate) fn push_to(self, entries: &mut Vec<Self>) -> u32 {
        assert!(self.start < self.end, "an empty block");
        match entries.last_mut() {
            Some(last) if self.start - last.start < SHARD_INDEX_SPAN_BYTES => {
                assert!(last.end <= self.start || last.end == self.end, "blocks overlap");
                assert!(last.next_offset <= self.next_offset);
                let before = std::mem::replace(&mut last.end, self.end);
                last.next_offset = self.next_offset;
                self.end - before
            }
            _ => {
                entries.push(self);
                self.end - self.start
            }
        }
    }
}

/// A partition's share of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) partition: LogPartition,
    /// The offset after the last record in the block.
    pub(crate) next_offset: i64,
}

impl SegmentIndex {
    fn next_offset(&self) -> i64 {
        self.entries.last().map_or(0, |entry| entry.next_offset)
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.end - entry.start)).sum()
    }
}

impl Partition {
    /// Skips the next `count` offsets: they are never assigned.
    pub(crate) fn skip_offsets(&mut self, count: i64) {
        self.next_offset += count;
        self.skipped_to = self.next_offset;
    }

    /// Moves the end of the partition back to `end`, because the entries after it are void. There
    /// must be no open records.
    pub(crate) fn set_back(&mut self, end: i64) {
        assert!(!self.is_open(), "open records follow the void ones");
        self.next_offset = end;
        self.written_offset = end;
        self.flushed_offset = self.flushed_offset.min(end);
        self.recovered_offset = self.recovered_offset.min(end);
        self.transactions.retain(|_, first| *first < end);
        for of_segment in self.index.iter_mut().rev() {
            let after = of_segment.entries.iter_mut().rev();
            let mut count = 0;
            for entry in after.take_while(|entry| entry.next_offset > end) {
                entry.next_offset = end;
                count += 1;
            }
            if count < of_segment.entries.len() {
                break;
            }
        }
    }

    /// Drops the open records.
    pub(crate) fn drop_open(&mut self) {
        self.builder.clear();
        self.closed = ClosedBatches::default();
        self.next_offset = self.written_offset;
        let end = self.next_offset;
        self.transactions.retain(|_, first| *first < end);
    }

    /// Whether the open block contains records of the partition.
    pub(crate) fn is_open(&self) -> bool {
        !self.builder.is_empty() || self.closed.count > 0
    }

    /// The offset of the first record in the open batch.
    pub(crate) fn batch_offset(&self) -> i64 {
        let base_offset = self.next_offset - i64::from(self.builder.records());
        assert!(base_offset >= 0);
        base_offset
    }

    /// Completes the open batch, unless it is empty. `producer` is set if the batch belongs to a
    /// transaction.
    pub(crate) fn close(&mut self, partition: LogPartition, producer: Option<Producer>) {
        if self.builder.is_empty() {
            return;
        }
        let base_offset = self.batch_offset();
        let batch = match producer {
            None => self.builder.seal(base_offset, LEADER_EPOCH),
            Some(producer) => {
                self.transactions.entry(producer.id).or_insert(base_offset);
                self.builder.seal_in_transaction(base_offset, LEADER_EPOCH, producer)
            }
        };
        self.closed.push(partition, batch);
        self.builder.clear();
    }

    /// Adds a transaction marker to the open block.
    pub(crate) fn mark(
        &mut self,
        partition: LogPartition,
        producer_id: i64,
        mut batch: [u8; MARKER_BATCH_BYTES],
    ) {
        self.close(partition, None);
        set_base_offset(&mut batch, self.next_offset);
        set_partition_leader_epoch(&mut batch, LEADER_EPOCH);
        self.closed.push(partition, &batch);
        self.next_offset += 1;
        self.transactions.remove(&producer_id);
    }

    /// The first offset of the producer's open transaction, if it began since the log was opened.
    pub(crate) fn open_since(&self, producer_id: i64) -> Option<i64> {
        self.transactions.get(&producer_id).copied()
    }

    /// Notes that the last block, which is in this segment, contains a batch of this partition.
    pub(crate) fn index_block(&mut self, segment: u64, entry: IndexEntry) {
        if self.index.last().is_none_or(|last| last.segment != segment) {
            self.index.push(SegmentIndex { segment, entries: Vec::new() });
        }
        let Some(last) = self.index.last_mut() else { return };
        self.indexed_bytes += u64::from(entry.push_to(&mut last.entries));
    }

    /// The total length of the indexed ranges: of the blocks that contain batches of the partition,
    /// and of some blocks between these.
    pub(crate) fn indexed_bytes(&self) -> u64 {
        self.indexed_bytes
    }

    /// The index entries of a segment.
    pub(crate) fn entries_in(&self, segment: u64) -> &[IndexEntry] {
        let found = self.index.binary_search_by_key(&segment, |index| index.segment);
        found.map_or(&[], |at| &self.index[at].entries)
    }

    /// Adds the index entries of the next segment, taken from a snapshot.
    pub(crate) fn recover_index(&mut self, segment: u64, entries: Vec<IndexEntry>) {
        let index = SegmentIndex { segment, entries };
        self.indexed_bytes += index.bytes();
        self.next_offset = index.next_offset();
        self.recovered_offset = self.next_offset;
        self.written_offset = self.next_offset;
        self.index.push(index);
    }

    /// The segment that contains `offset` (or else the next existing offset), and the segment's
    /// index entries from that offset on.
    pub(crate) fn entries_from(&self, offset: i64) -> Option<(u64, &[IndexEntry])> {
        let at = self.index.partition_point(|segment| segment.next_offset() <= offset);
        let SegmentIndex { segment, entries } = self.index.get(at)?;
        let first = entries.partition_point(|entry| entry.next_offset <= offset);
        Some((*segment, &entries[first..]))
    }

    /// The offset after the last record in the segments up to `segment`; 0 if they have none.
    pub(crate) fn next_offset_in(&self, segment: u64) -> i64 {
        let end = self.index.partition_point(|index| index.segment <= segment);
        self.index[..end].last().map_or(0, SegmentIndex::next_offset)
    }

    /// Replaces the index entries of the segments from `segment` to `last` by those of one new
    /// segment. Returns the old ones.
    pub(crate) fn replace_index(
        &mut self,
        segment: u64,
        last: u64,
        entries: Vec<IndexEntry>,
    ) -> Vec<SegmentIndex> {
        let new = (!entries.is_empty()).then_some(SegmentIndex { segment, entries });
        self.restore_index(segment, last, new.into_iter().collect())
    }

    /// Replaces the index entries of the segments from `segment` to `last` by those that
    /// [`Self::replace_index`] returned. Returns the old ones.
    pub(crate) fn restore_index(
        &mut self,
        segment: u64,
        last: u64,
        index: Vec<SegmentIndex>,
    ) -> Vec<SegmentIndex> {
        let bytes = |index: &[SegmentIndex]| index.iter().map(SegmentIndex::bytes).sum::<u64>();
        let from = self.index.partition_point(|index| index.segment < segment);
        let to = self.index.partition_point(|index| index.segment <= last);
        self.indexed_bytes += bytes(&index);
        let old: Vec<_> = self.index.splice(from..to, index).collect();
        self.indexed_bytes -= bytes(&old);
        old
    }
}

/// All partitions.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// The partitions of each topic, at the index that [`place`] returns for the topic.
    topics: Vec<Vec<Partition>>,
    /// The positions of their slots.
    pub(crate) entries: Entries,
}

impl Partitions {
    /// The partition; None if it was never used.
    pub(crate) fn get(&self, partition: LogPartition) -> Option<&Partition> {
        self.topics.get(place(partition.topic))?.get(partition.index as usize)
    }

    /// The partition. It is created on its first use.
    ///
    /// # Panics
    /// The partition is out of range.
    pub(crate) fn get_mut(&mut self, partition: LogPartition) -> &mut Partition {
        assert!(partition.is_valid(), "{partition:?} is out of range");
        let of_topic = at(&mut self.topics, place(partition.topic));
        at(of_topic, partition.index as usize)
    }

    /// All partitions that may have records. The partition of [`UNPARTITIONED`] comes first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LogPartition, &Partition)> {
        let topics = (0..=u8::MAX).map(topic_at).zip(&self.topics);
        topics.flat_map(|(topic, partitions)| {
            (0..).map(move |index| LogPartition { topic, index }).zip(partitions)
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (LogPartition, &mut Partition)> {
        let topics = (0..=u8::MAX).map(topic_at).zip(&mut self.topics);
        topics.flat_map(|(topic, partitions)| {
            (0..).map(move |index| LogPartition { topic, index }).zip(partitions)
        })
    }
}

/// The index of a topic: 0 for [`UNPARTITIONED`]; the others follow in order of their numbers.
fn place(topic: u8) -> usize {
    usize::from(topic.wrapping_sub(UNPARTITIONED))
}

/// The number of the topic with this index: the inverse of [`place`].
fn topic_at(place: u8) -> u8 {
    place.wrapping_add(UNPARTITIONED)
}

fn at<T: Default>(all: &mut Vec<T>, index: usize) -> &mut T {
    if index >= all.len() {
        all.resize_with(index + 1, T::default);
    }
    &mut all[index]
}
