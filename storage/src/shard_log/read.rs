//! Reads from a partition of a shard's log, for fetches of internal topics and for the running
//! check, which compares the log with the shard's state.

use super::replicated::Void;
use super::replicated::group::is_void;
use super::{EntryPlace, LogConfig, ShardLog};
use crate::file_op::{FileOp, FileToken};
use crate::layout::{Block, Entries};
use crate::limits::SHARD_READ_BYTES_MAX;
use crate::log_partition::LogPartition;
use crate::slot_entry::group_of;
use crate::topic_rules::TopicRules;
use muster_codec::wire::{DecodeError, Result};

/// A planned read. Afterwards it extracts the partition's batches from the bytes that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlan {
    topics: TopicRules,
    partition: LogPartition,
    offset: i64,
    /// The high watermark, at which the read ends. A block of a replicated log may have later
    /// records.
    end: i64,
    max_bytes: usize,
    log_id: u64,
    segment: u64,
    /// The block size of the segment, and the number of bytes to skip before the first block.
    block_bytes: u32,
    skip: usize,
    /// The byte position of the read.
    from: u32,
    /// The number of undone swaps when the read was planned.
    undone_swaps: u64,
    /// In a replicated log: the entries of the partition's group that are void.
    voids: Vec<Void>,
}

/// A read of a whole partition, from its first record on. Compaction may run in the meantime.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The earliest delete horizon that a tombstone may get after the reading began.
    tombstones_until: i64,
    /// The compaction pass that was in progress when the reading began, or else the next one.
    pass: u64,
    swaps: u64,
    invalidations: u64,
}

impl ShardLog {
    /// Begins a reading of a partition.
    pub fn begin_reading(&self, now: i64) -> Reading {
        let retention_ms = self.config.compaction.map_or(i64::MAX, |it| it.delete_retention_ms);
        let wall = self.wall(now);
        let tombstones_until = wall.saturating_add(retention_ms).min(self.compaction.horizon());
        let invalidations = self.compaction.invalidations();
        let next_pass = self.segments.last_pass() + 1;
        let pass = self.compaction.pass_number().unwrap_or(next_pass);
        Reading { tombstones_until, pass, swaps: self.swaps(), invalidations }
    }

    /// Whether the reading has to start over. It must if it may have read a record, and the
    /// tombstone of this record's key or the marker of its transaction was dropped before the
    /// reading reached it.
    ///
    /// A tombstone gets its delete horizon, which is `delete.retention.ms` later, in the pass that
    /// drops the last older record of its key. So the tombstone for a record that was read is kept
    /// at least until `tombstones_until`. A marker is kept until a later pass than the one that
    /// dropped the last record of its transaction, or made it non-transactional.
    pub fn may_have_missed(&self, reading: &Reading, now: i64) -> bool {
        let judged_by = self.compaction.judged_by(self.wall(now));
        let is_over = self.swaps() != reading.swaps && judged_by >= reading.tombstones_until;
        is_over
            || self.compaction.markers_dropped_by() > reading.pass
            || self.compaction.invalidations() != reading.invalidations
    }

    /// How often a compacted segment has replaced others since the log was opened.
    pub fn swaps(&self) -> u64 {
        self.compaction.swaps()
    }

    /// Plans a read of a partition from `offset` on and pushes it onto `ops`, with the caller's
    /// `token`. [`ReadPlan::extract`] then returns the batch that contains `offset`. If compaction
    /// removed that batch, it returns the next one instead. It adds nearby batches that fit into
    /// `max_bytes`. Returns None if `offset` is not below the high watermark.
    ///
    /// The file is neither removed nor reused before [`ShardLog::end_read`].
    pub fn read_plan(
        &mut self,
        partition: LogPartition,
        offset: i64,
        max_bytes: usize,
        token: FileToken,
        ops: &mut Vec<FileOp>,
    ) -> Option<ReadPlan> {
        assert!(!self.owns(token), "the token is one of the log's own");
        let partition_log = self.partitions.get(partition)?;
        let end = partition_log.flushed_offset;
        if offset >= end {
            return None;
        }
        let (segment, entries) = partition_log.entries_from(offset)?;
        let (first, rest) = entries.split_first()?;
        let start = first.start;
        let wanted = SHARD_READ_BYTES_MAX.min(max_bytes.try_into().unwrap_or(u32::MAX));
        let near = rest.iter().take_while(|entry| entry.end - start <= wanted);
        let read_to = near.last().unwrap_or(first).end;
        // The read is aligned to the block size of the device, which may differ from the segment's.
        let align = self.config.block_bytes;
        let from = start - start % align;
        let len = (read_to - from).next_multiple_of(align);
        let file = self.file(segment, ops);
        ops.push(FileOp::Read { token, file, offset: u64::from(from), len });
        let block_bytes = self.segments.block_bytes(segment);
        let skip = (start - from) as usize;
        *self.readers.entry(segment).or_default() += 1;
        let LogConfig { topics, log_id, slots, .. } = self.config;
        let of_group = self.group(group_of(partition, slots));
        let voids = of_group.map_or_else(Vec::new, |it| it.voids().to_vec());
        Some(ReadPlan {
            topics,
            partition,
            offset,
            end,
            max_bytes,
            log_id,
            segment,
            block_bytes,
            skip,
            from,
            undone_swaps: self.compaction.undone_swaps(),
            voids,
        })
    }

    /// Ends a planned read, whether or not it succeeded. Returns false if the read may have found
    /// other blocks than planned. This happens if the read expected a compacted segment whose file
    /// disappeared before it was renamed.
    ///
    /// # Panics
    /// The read has already ended.
    pub fn end_read(&mut self, plan: &ReadPlan) -> bool {
        self.reader_ended(plan.segment);
        plan.undone_swaps == self.compaction.undone_swaps()
    }

    pub(super) fn reader_ended(&mut self, segment: u64) {
        let readers = self.readers.get_mut(&segment);
        let Some(readers) = readers else { unreachable!("a read that was not planned") };
        *readers -= 1;
        if *readers == 0 {
            self.readers.remove(&segment);
        }
    }
}

impl ReadPlan {
    /// Appends the partition's batches to `out`, beginning with the batch that contains the offset.
    /// The first batch is appended even if it is longer than `max_bytes`.
    ///
    /// # Errors
    /// The bytes are not the blocks that were written: KAFKA_STORAGE_ERROR.
    pub fn extract(&self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let mut rest = data.get(self.skip..).unwrap_or_default();
        while !rest.is_empty() {
            let block = match Block::read(rest).and_then(|block| self.check(block)) {
                Ok(block) => block,
                // The aligned read may extend beyond the wanted blocks, past the end of the log or
                // into an old block of a reused file.
                Err(_) if out.len() > start => break,
                Err(error) => return Err(error),
            };
            let at = (data.len() - rest.len()) as u32;
            let mut entries = block.entries(self.topics);
            while let Some(entry) = entries.next() {
                let (partition, batch) = entry?;
                let next_offset = batch.header.next_offset();
                let is_wanted = partition == self.partition && next_offset > self.offset;
                if !is_wanted || next_offset > self.end || self.is_void(&entries, at) {
                    continue;
                }
                if out.len() > start && out.len() - start + batch.bytes.len() > self.max_bytes {
                    return Ok(());
                }
                out.extend_from_slice(batch.bytes);
            }
            rest = rest.get(block.padded_len(self.block_bytes)..).unwrap_or_default();
        }
        Ok(())
    }

    /// Whether the entry with the last batch is void, in a block that was read from byte `at` on.
    fn is_void(&self, entries: &Entries<'_>, at: u32) -> bool {
        let start = self.from + at;
        let place = EntryPlace { segment: self.segment, start, ordinal: entries.ordinal() };
        entries.head().is_some_and(|head| is_void(&self.voids, head.index, place))
    }

    fn check<'a>(&self, block: Block<'a>) -> Result<Block<'a>> {
        let Block { header, .. } = block;
        if (header.log_id, header.segment) == (self.log_id, self.segment) {
            return Ok(block);
        }
        Err(DecodeError::InvalidBatch("a block of another segment"))
    }
}
