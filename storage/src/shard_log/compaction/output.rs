//! The segment that compaction writes: the kept records, batch by batch, in densely filled blocks.

use crate::layout::{
    BLOCK_HEADER_BYTES, BlockHeader, Compacted, ENTRY_HEADER_BYTES, Format, PARTITION_BYTES,
    SegmentHeader,
};
use crate::limits::{COMPACTED_BLOCK_BYTES, COMPACTION_IO_BYTES};
use crate::log_partition::LogPartition;
use crate::outbox::Outbox;
use crate::raw_record::{RawRecord, move_times};
use crate::shard_log::partitions::IndexEntry;
use crate::shard_log::segment::Segment;
use crate::slot_entry::{EntryHead, EntryKind, SLOT_ENTRY_BYTES};
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::BatchHeader;
use muster_codec::wire::Result;
use std::collections::BTreeMap;

/// The identity of the new segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Purpose {
    pub(super) format: Format,
    pub(super) log_id: u64,
    /// Blocks are aligned to this size: the smallest block size of the old segments and of the
    /// device. A larger one could make a block take more space than in its old segment.
    pub(super) block_bytes: u32,
    /// The block size of the device, to which writes are aligned.
    pub(super) align: u32,
    /// The sequence number of the first segment that the new one replaces.
    pub(super) sequence: u64,
    pub(super) first_position: u64,
    /// The number of the pass that writes the segment.
    pub(super) pass: u64,
}

/// Whether a record is kept or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    /// Keep a tombstone. No older record of its key is left in the log, so `delete.retention.ms`
    /// begins for it.
    KeepClean,
    Drop,
    /// Drop a tombstone past its delete horizon, or the marker of a transaction. A replay that
    /// begins with the state of an earlier position will miss this record.
    DropMissed,
}

/// A segment that is being written.
#[derive(Debug)]
pub(super) struct Output {
    purpose: Purpose,
    /// The new segment's entry in the list of segments. It grows with each block.
    segment: Segment,
    /// The byte position of the first block whose keys were not compared, if there is one.
    dirty_from: Option<u32>,
    /// The bytes between the header and the first multiple of `align`; they are written together
    /// with the header.
    head: Vec<u8>,
    /// Complete blocks that are not yet part of a write.
    pending: Outbox,
    block: OpenBlock,
    batch: Option<OpenBatch>,
    /// The index entries of each partition.
    index: BTreeMap<LogPartition, Vec<IndexEntry>>,
    /// A buffer for rewritten records.
    spare: Vec<u8>,
}

/// The block that is being filled.
#[derive(Debug, Default)]
struct OpenBlock {
    /// Space for the header, followed by the batches, each preceded by its partition. In a
    /// replicated log the batches are in `entries`.
    buffer: Vec<u8>,
    /// In a replicated log: the entries of each group, merged into one; and the group of the last
    /// entry.
    entries: BTreeMap<u16, MergedEntry>,
    group: u16,
    first_position: u64,
    last_position: u64,
    /// The partition of each batch, and the offset after the batch.
    parts: Vec<(LogPartition, i64)>,
    timestamp: i64,
    /// Whether this block takes the batches of only one old block, because that block has batches
    /// of transactions.
    stands_alone: bool,
}

/// The entries of a group in a block, merged into one. It has the index of the last of the entries.
#[derive(Debug)]
struct MergedEntry {
    head: EntryHead,
    bytes: Vec<u8>,
}

impl OpenBlock {
    /// The place of the next batch.
    fn batches(&mut self) -> &mut Vec<u8> {
        match self.entries.get_mut(&self.group) {
            Some(entry) => &mut entry.bytes,
            None => &mut self.buffer,
        }
    }

    fn len(&self) -> usize {
        let entries = self.entries.values().map(|it| SLOT_ENTRY_BYTES + it.bytes.len());
        self.buffer.len() + entries.sum::<usize>()
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.entries.is_empty()
    }

    /// Writes the merged entries after the header.
    fn merge(&mut self) {
        for MergedEntry { mut head, bytes } in std::mem::take(&mut self.entries).into_values() {
            head.length = bytes.len() as u32;
            head.write(&mut self.buffer);
            self.buffer.extend(bytes);
        }
    }
}

/// The batch that is being filled.
#[derive(Debug)]
struct OpenBatch {
    partition: LogPartition,
    header: BatchHeader,
    /// The position of the batch's entry within the block.
    start: usize,
    kept: i32,
    max_timestamp: i64,
    tombstones: u32,
    clean_tombstones: u32,
}

impl Output {
    pub(super) fn new(purpose: Purpose) -> Self {
        let Purpose { format, block_bytes, sequence, first_position, pass, .. } = purpose;
        let mut segment =
            Segment::new(format, sequence, block_bytes, block_bytes, first_position - 1);
        segment.pass = pass;
        Self {
            purpose,
            segment,
            dirty_from: None,
            head: Vec::new(),
            pending: Outbox::default(),
            block: OpenBlock::default(),
            batch: None,
            index: BTreeMap::new(),
            spare: Vec::new(),
        }
    }

    /// The minimal length of the file once the open block is complete.
    pub(super) fn len(&self) -> usize {
        self.segment.end as usize + self.block.len()
    }

    /// Begins to take the batches of an old block. If it `stands_alone`, it becomes a block of its
    /// own and keeps its positions. Suppose it were merged into a longer block, and a replay began
    /// in the middle of that block's positions: the replay could then apply the marker of an
    /// earlier transaction to a later transaction of the same producer.
    pub(super) fn begin_block(&mut self, header: &BlockHeader, stands_alone: bool) {
        let length = self.block.len() + header.length as usize;
        let operations = header.last_position() - self.block.first_position + 1;
        let is_full = length > COMPACTED_BLOCK_BYTES || operations > u64::from(u32::MAX);
        if is_full || stands_alone || self.block.stands_alone {
            self.seal();
        }
        self.block.stands_alone = stands_alone;
        if self.block.is_empty() {
            self.block.first_position = header.first_position;
            self.block.buffer.clear();
            self.block.buffer.resize(BLOCK_HEADER_BYTES, 0);
            self.block.timestamp = i64::MIN;
        }
        self.segment.last_position = header.last_position();
    }

    /// Begins the batches of an entry. The entry is kept even if it has no batch left, so that the
    /// index of the group's last entry stays known.
    pub(super) fn begin_entry(&mut self, head: &EntryHead) {
        let head = EntryHead { kind: EntryKind::Records, commit: head.index, ..*head };
        let block = &mut self.block;
        let merged = MergedEntry { head, bytes: Vec::new() };
        block.entries.entry(head.group).or_insert(merged).head = head;
        block.group = head.group;
        block.last_position = self.segment.last_position;
    }

    pub(super) fn begin_batch(&mut self, partition: LogPartition, header: BatchHeader) {
        let buffer = self.block.batches();
        let start = buffer.len();
        buffer.extend_from_slice(&partition.to_bytes());
        buffer.resize(start + PARTITION_BYTES + RECORD_BATCH_HEADER_BYTES, 0);
        self.batch = Some(OpenBatch {
            partition,
            header,
            start,
            kept: 0,
            max_timestamp: i64::MIN,
            tombstones: 0,
            clean_tombstones: 0,
        });
    }

    /// Keeps or drops the next record of the batch.
    pub(super) fn record(&mut self, record: &RawRecord<'_>, fate: Fate) {
        let Some(batch) = &mut self.batch else { unreachable!("a record outside of a batch") };
        match fate {
            Fate::Keep | Fate::KeepClean => {
                let timestamp = batch.header.base_timestamp.wrapping_add(record.timestamp_delta);
                self.block.batches().extend_from_slice(record.bytes);
                batch.kept += 1;
                batch.max_timestamp = batch.max_timestamp.max(timestamp);
                batch.tombstones += u32::from(record.is_tombstone);
                batch.clean_tombstones += u32::from(fate == Fate::KeepClean);
            }
            Fate::Drop => {}
            Fate::DropMissed => self.dropped_before(self.segment.last_position),
        }
    }

    /// Completes the batch. An empty batch is dropped unless it `is_last`, the last of its
    /// partition: it then preserves the end offset. The batch gets the delete horizon `horizon` if
    /// it has tombstones and no older records of their keys are left.
    ///
    /// # Errors
    /// A kept record cannot be read, although it was read before.
    pub(super) fn end_batch(&mut self, is_last: bool, horizon: i64) -> Result<()> {
        let Some(batch) = self.batch.take() else { unreachable!("no batch is open") };
        let mut header = batch.header;
        let at = batch.start + PARTITION_BYTES;
        if batch.kept == 0 {
            self.block.batches().truncate(at + RECORD_BATCH_HEADER_BYTES);
            if !is_last {
                self.block.batches().truncate(batch.start);
                return Ok(());
            }
            header.clear_records();
            header.clear_transaction();
        } else if batch.kept < header.records_count {
            header.records_count = batch.kept;
            header.max_timestamp = batch.max_timestamp;
        }
        let are_clean = batch.tombstones == batch.clean_tombstones;
        if batch.tombstones > 0 && are_clean && header.delete_horizon().is_none() {
            self.move_times(at + RECORD_BATCH_HEADER_BYTES, header.base_timestamp, horizon)?;
            header.set_delete_horizon(horizon);
        }
        header.write(&mut self.block.batches()[at..]);
        let block = &mut self.block;
        block.parts.push((batch.partition, header.next_offset()));
        block.last_position = self.segment.last_position;
        block.timestamp = block.timestamp.max(header.max_timestamp);
        Ok(())
    }

    /// Adds a block of empty batches with this position. They preserve the end offsets of
    /// partitions.
    pub(super) fn end_partitions(
        &mut self,
        ends: &[(LogPartition, i64)],
        position: u64,
    ) -> Result<()> {
        let Purpose { log_id, sequence, .. } = self.purpose;
        let length = BLOCK_HEADER_BYTES + ends.len() * ENTRY_HEADER_BYTES;
        let block = BlockHeader {
            format: self.purpose.format,
            length: length as u32,
            log_id,
            segment: sequence,
            first_position: position,
            operations: 1,
            batches: ends.len() as u32,
        };
        self.begin_block(&block, true);
        for (partition, end) in ends {
            self.begin_batch(*partition, BatchHeader::empty(end - 1));
            self.end_batch(true, i64::MAX)?;
        }
        Ok(())
    }

    /// Notes that the keys of all further blocks were not compared.
    pub(super) fn dirty_from_here(&mut self) {
        self.seal();
        self.dirty_from = Some(self.segment.end);
    }

    /// Completes the segment after all records of the old segments. The new segment covers sequence
    /// numbers up to `last_sequence` and positions up to `last_position`.
    pub(super) fn finish(&mut self, last_sequence: u64, last_position: u64) {
        self.seal();
        let segment = &mut self.segment;
        (segment.last_sequence, segment.last_position) = (last_sequence, last_position);
        segment.segment_bytes = segment.end;
        segment.dirty_from = self.dirty_from.unwrap_or(segment.end);
    }

    /// Notes that tombstones or markers up to `position` were dropped, now or by an earlier pass.
    pub(super) fn dropped_before(&mut self, position: u64) {
        self.segment.dropped_position = self.segment.dropped_position.max(position);
    }

    /// Returns the next write: its position in the file, and its bytes. None if there are too few
    /// bytes for a whole write. If `all` is set, a shorter write is returned, too.
    pub(super) fn take_write(&mut self, all: bool) -> Option<(u32, Vec<u8>)> {
        let Purpose { block_bytes, align, .. } = self.purpose;
        let whole = COMPACTION_IO_BYTES as usize;
        if self.pending.len() < whole && !all {
            return None;
        }
        self.pending.take((align - block_bytes) as usize - self.head.len(), &mut self.head);
        let waiting = self.pending.len();
        if waiting == 0 || (waiting < whole && !all) {
            return None;
        }
        let mut data = Vec::with_capacity(waiting.min(whole));
        self.pending.take(whole, &mut data);
        data.resize(data.len().next_multiple_of(align as usize), 0);
        Some((self.segment.end - waiting as u32, data))
    }

    /// The header, and the bytes up to the first multiple of `align`; they are written last.
    pub(super) fn header(&self) -> Vec<u8> {
        let Purpose { format, log_id, block_bytes, align, sequence, first_position, pass } =
            self.purpose;
        let segment = &self.segment;
        assert_eq!(segment.segment_bytes, segment.end, "not finished");
        let compacted = Compacted {
            last_sequence: segment.last_sequence,
            first_position,
            last_position: segment.last_position,
            dropped_position: segment.dropped_position,
            dirty_from: segment.dirty_from,
            pass,
        };
        let header = SegmentHeader {
            format,
            block_bytes,
            segment_bytes: segment.segment_bytes,
            sequence,
            log_id,
            is_recycled: false,
            compacted: Some(compacted),
        };
        let mut data = vec![0; block_bytes as usize];
        header.write(&mut data);
        data.extend_from_slice(&self.head);
        data.resize(align as usize, 0);
        data
    }

    /// The sequence number of the segment, its entry in the list of segments, and the index of its
    /// partitions.
    pub(super) fn into_parts(self) -> (u64, Segment, BTreeMap<LogPartition, Vec<IndexEntry>>) {
        (self.purpose.sequence, self.segment, self.index)
    }

    /// Completes the open block, unless it is empty.
    fn seal(&mut self) {
        let Purpose { format, log_id, block_bytes, sequence, .. } = self.purpose;
        let block = &mut self.block;
        if block.is_empty() {
            return;
        }
        block.merge();
        let header = BlockHeader {
            format,
            length: block.buffer.len() as u32,
            log_id,
            segment: sequence,
            first_position: block.first_position,
            operations: (block.last_position - block.first_position + 1) as u32,
            batches: block.parts.len() as u32,
        };
        header.write(&mut block.buffer);
        let padded = block.buffer.len().next_multiple_of(block_bytes as usize);
        block.buffer.resize(padded, 0);
        let (start, end) = (self.segment.end, self.segment.end + padded as u32);
        for (partition, next_offset) in block.parts.drain(..) {
            let entries = self.index.entry(partition).or_default();
            IndexEntry { next_offset, start, end }.push_to(entries);
        }
        self.segment.time(block.timestamp);
        self.segment.end = end;
        self.pending.end().extend_from_slice(&block.buffer);
        block.buffer.clear();
    }

    /// Rewrites the records from buffer position `from` on for another base timestamp.
    fn move_times(&mut self, from: usize, old: i64, new: i64) -> Result<()> {
        self.spare.clear();
        let batches = self.block.batches();
        move_times(&batches[from..], old, new, &mut self.spare)?;
        batches.truncate(from);
        batches.extend_from_slice(&self.spare);
        Ok(())
    }
}
