//! The segments of one partition: which bytes stand where, and where to read what.
//!
//! A segment file holds record batches byte for byte as they are sent, and is named by its first
//! offset, as in Kafka. Its index is in memory: an entry per `index.interval.bytes`.

use super::batch::Good;
use super::io::{Io, ReadPlan};
use super::partition_set::PartitionId;
use super::{Effects, layout};
use crate::config::TopicConfig;
use muster_codec::record_batch::NO_TIMESTAMP;
use muster_storage::{FileId, FileOp, OpenMode};
use std::collections::VecDeque;

/// A first read of a batch that must be given whole asks for at least this.
const FIRST_READ_BYTES: u64 = 4 << 10;

/// A batch as the log sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub base_offset: i64,
    pub last_offset: i64,
    pub len: u64,
    /// In milliseconds since the epoch.
    pub max_timestamp: i64,
}

/// The segments, oldest first; the last one is written to. There is always one.
#[derive(Debug)]
pub(super) struct Log {
    id: PartitionId,
    segments: VecDeque<Segment>,
    start_offset: i64,
    end_offset: i64,
    high_watermark: i64,
}

#[derive(Debug)]
pub(super) struct Segment {
    pub base_offset: i64,
    file: FileId,
    /// Accepted bytes, and how many of them were written.
    len: u64,
    written: u64,
    /// When its first batch came, in milliseconds since the epoch; None while it is empty.
    first_append: Option<i64>,
    /// The largest timestamp, and the first batch that has it.
    max_timestamp: i64,
    newest_batch: i64,
    index: Vec<IndexEntry>,
}

#[derive(Debug, Clone, Copy)]
struct IndexEntry {
    offset: i64,
    position: u64,
    /// The largest timestamp of the segment before this position.
    max_timestamp_before: i64,
}

impl Segment {
    pub(super) fn new(base_offset: i64, file: FileId) -> Self {
        Self {
            base_offset,
            file,
            len: 0,
            written: 0,
            first_append: None,
            max_timestamp: NO_TIMESTAMP,
            newest_batch: base_offset,
            index: Vec::new(),
        }
    }

    /// The segment was found on disk, maybe with bytes behind its batches.
    pub(super) fn recovered(&mut self, id: PartitionId, torn: bool, out: &mut Effects) {
        self.written = self.len;
        out.ops.push(open(id, self));
        if torn {
            out.ops.push(FileOp::Truncate { file: self.file, len: self.len });
        }
    }

    /// Takes a batch at the end. `now` is when it came.
    pub(super) fn append(&mut self, now: i64, entry: &Entry, index_interval: u64) {
        let indexed = self.index.last().map(|last| last.position + index_interval);
        if indexed.is_none_or(|next| next <= self.len) {
            self.index.push(IndexEntry {
                offset: entry.base_offset,
                position: self.len,
                max_timestamp_before: self.max_timestamp,
            });
        }
        if entry.max_timestamp > self.max_timestamp {
            self.max_timestamp = entry.max_timestamp;
            self.newest_batch = entry.base_offset;
        }
        self.first_append.get_or_insert(now);
        self.len += entry.len;
    }

    /// The position to read from for `offset`, and the next one in the index.
    fn around(&self, offset: i64) -> (u64, u64) {
        let after = self.index.partition_point(|entry| entry.offset <= offset);
        let position = after.checked_sub(1).map_or(0, |at| self.index[at].position);
        (position, self.index.get(after).map_or(self.len, |entry| entry.position))
    }
}

impl Log {
    pub(super) fn new(
        id: PartitionId,
        segments: VecDeque<Segment>,
        start_offset: i64,
        end_offset: i64,
        io: &mut Io,
        out: &mut Effects,
    ) -> Self {
        let base_offset = segments.front().map_or(end_offset, |first| first.base_offset);
        let start_offset = start_offset.max(base_offset);
        let high_watermark = end_offset;
        let mut log = Self { id, segments, start_offset, end_offset, high_watermark };
        if log.segments.is_empty() {
            log.roll(io, out);
        }
        log
    }

    pub(super) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// The offset that the next record gets.
    pub(super) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// The end of what is written.
    pub(super) fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// The file and position for a batch at the end of the log.
    pub(super) fn append(
        &mut self,
        now: i64,
        entry: &Entry,
        config: &TopicConfig,
    ) -> (FileId, u64) {
        let active = self.active();
        let place = (active.file, active.len);
        active.append(now, entry, u64::try_from(config.index_interval_bytes).unwrap_or(0));
        self.end_offset = entry.last_offset + 1;
        place
    }

    /// Whether a batch of that length begins a new segment: `segment.bytes` and `segment.ms`.
    pub(super) fn must_roll(&self, now: i64, len: u64, config: &TopicConfig) -> bool {
        self.segments.back().is_some_and(|active| {
            let full = active.len + len > config.segment_bytes.unsigned_abs().into();
            let old =
                active.first_append.is_some_and(|at| now.saturating_sub(at) > config.segment_ms);
            active.len > 0 && (full || old)
        })
    }

    /// Begins a new segment. The old one is synced, so that recovery need not doubt it.
    pub(super) fn roll(&mut self, io: &mut Io, out: &mut Effects) {
        let segment = Segment::new(self.end_offset, io.file());
        out.ops.push(open(self.id, &segment));
        self.segments.push_back(segment);
    }

    /// The file of the segment that is written to.
    pub(super) fn active_file(&mut self) -> FileId {
        self.active().file
    }

    fn active(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("a log has a segment")
    }

    /// A write is done. The segment may be gone by now.
    pub(super) fn written(&mut self, file: FileId, len: u64, end_offset: i64) {
        let segment = self.segments.iter_mut().rev().find(|segment| segment.file == file);
        if let Some(segment) = segment {
            segment.written += len;
        }
        assert!(end_offset >= self.high_watermark, "writes end in their order");
        self.high_watermark = end_offset;
    }

    /// How many bytes there are to read from an offset on; a large number if they span segments.
    pub(super) fn available(&self, offset: i64) -> u64 {
        if offset >= self.high_watermark {
            return 0;
        }
        let at = self.segment_at(offset);
        let segment = &self.segments[at];
        if at + 1 < self.segments.len() && self.segments[at + 1].written > 0 {
            return u32::MAX.into();
        }
        segment.written.saturating_sub(segment.around(offset).0).max(1)
    }

    /// Where to read the batches from `offset` on, as many as `limit` bytes hold and at least a good
    /// part of the first if it is to be given whole. What comes may begin with earlier ones.
    pub(super) fn plan(&self, offset: i64, limit: usize, first_whole: bool) -> Option<ReadPlan> {
        if offset >= self.high_watermark || (limit == 0 && !first_whole) {
            return None;
        }
        let segment = &self.segments[self.segment_at(offset)];
        let (position, next) = segment.around(offset);
        let limit = if first_whole { FIRST_READ_BYTES.max(limit as u64) } else { limit as u64 };
        let end = segment.written.min(next.saturating_add(limit));
        let len = u32::try_from(end.saturating_sub(position)).unwrap_or(u32::MAX);
        (len > 0).then_some(ReadPlan { file: segment.file, position, len })
    }

    /// The largest timestamp, and the base offset of the first batch that has it.
    pub(super) fn newest(&self) -> Option<(i64, i64)> {
        let timed = self.segments.iter().filter(|segment| segment.len > 0);
        let newest = timed.rev().max_by_key(|segment| segment.max_timestamp)?;
        Some((newest.max_timestamp, newest.newest_batch.max(self.start_offset)))
    }

    /// An offset before which all records are older than `time`; None if all there are.
    pub(super) fn first_candidate(&self, time: i64) -> Option<i64> {
        let segment = self.segments.iter().find(|segment| segment.max_timestamp >= time)?;
        let after = segment.index.partition_point(|entry| entry.max_timestamp_before < time);
        let entry = after.checked_sub(1).map_or(segment.base_offset, |at| segment.index[at].offset);
        Some(entry.max(self.start_offset))
    }

    fn segment_at(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1)
    }

    /// Records before `offset` are not there any more.
    pub(super) fn raise_start(&mut self, offset: i64) {
        self.start_offset = self.start_offset.max(offset);
    }

    /// Removes the segments that the topic's retention gives up, oldest first
    /// (`UnifiedLog.deleteOldSegments`).
    pub(super) fn sweep(&mut self, now: i64, config: &TopicConfig, io: &mut Io, out: &mut Effects) {
        while let Some(last) = self.expired(now, config) {
            if last {
                self.roll(io, out);
            }
            let Some(segment) = self.segments.pop_front() else { return };
            out.ops.push(FileOp::Close { file: segment.file });
            let path = layout::segment(self.id, segment.base_offset);
            out.ops.push(FileOp::RemoveFile { path });
            self.start_offset = self.start_offset.max(self.segments[0].base_offset);
        }
    }

    /// Whether the oldest segment goes; `Some(true)` if it is the one that is written to.
    fn expired(&self, now: i64, config: &TopicConfig) -> Option<bool> {
        let first = self.segments.front().filter(|first| first.len > 0)?;
        let next = self.segments.get(1).map_or(self.end_offset, |next| next.base_offset);
        if next > self.high_watermark {
            return None;
        }
        let size: u64 = self.segments.iter().map(|segment| segment.len).sum();
        let too_old = config.retention_ms >= 0
            && now.saturating_sub(first.max_timestamp) > config.retention_ms;
        let too_large = u64::try_from(config.retention_bytes)
            .is_ok_and(|bound| size.saturating_sub(first.len) >= bound);
        let given_up = config.cleanup_policy.delete && (too_old || too_large);
        let deleted = next <= self.start_offset;
        (given_up || deleted).then_some(self.segments.len() == 1)
    }

    /// The topic is gone, and its files with it.
    pub(super) fn remove(&mut self, out: &mut Effects) {
        for segment in self.segments.drain(..) {
            out.ops.push(FileOp::Close { file: segment.file });
        }
        out.ops.push(FileOp::RemoveDir { path: layout::directory(self.id) });
    }
}

fn open(id: PartitionId, segment: &Segment) -> FileOp {
    let path = layout::segment(id, segment.base_offset);
    FileOp::Open { file: segment.file, path, mode: OpenMode::Cached }
}

impl From<(&Good<'_>, i64)> for Entry {
    /// A batch that is to begin at an offset.
    fn from((batch, base_offset): (&Good<'_>, i64)) -> Self {
        Self {
            base_offset,
            last_offset: base_offset + i64::from(batch.header.last_offset_delta),
            len: batch.bytes.len() as u64,
            max_timestamp: batch.max_timestamp,
        }
    }
}
