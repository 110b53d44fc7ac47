//! A segment of a partition, and its sparse index by offset and timestamp.

use super::damaged_part::DamagedPart;
use crate::limits::PARTITION_INDEX_SPAN_BYTES;
use muster_codec::record_batch::{BatchHeader, NO_TIMESTAMP};
use std::ops::Range;

/// An entry of the index. It covers some 4 KiB of the segment, and describes the first batch that
/// begins in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexEntry {
    /// The base offset of the batch, relative to that of the segment.
    relative_offset: u32,
    position: u32,
    /// The largest timestamp from the start of the segment to the end of the entry's bytes. It
    /// never decreases from entry to entry.
    max_timestamp: i64,
}

/// A position at which a batch or a damaged part begins, or at which the written bytes end.
/// `offset` is the first offset at or after this position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Boundary {
    pub(super) position: u64,
    pub(super) offset: i64,
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) base_offset: i64,
    /// Identifies the file among all files that the log has ever had. It is the base offset, unless
    /// compaction wrote the file.
    pub(super) file: u64,
    /// The offset after the last record.
    pub(super) next_offset: i64,
    /// The number of appended bytes, and how many of them are written and thus readable.
    pub(super) size: u64,
    pub(super) written: u64,
    /// The largest timestamp of the written bytes; -1 if there is none.
    pub(super) max_timestamp: i64,
    /// The largest timestamp of the first batch. `segment.ms` counts from this time.
    first_timestamp: i64,
    /// The time at which the segment was created. If the first batch has no timestamp, this time is
    /// used instead.
    created_at: i64,
    index: Vec<IndexEntry>,
    /// The damaged parts, in order. No part begins where another one ends: after a part come
    /// readable bytes, and an index entry begins with them.
    damaged: Vec<DamagedPart>,
}

impl Segment {
    pub(super) fn new(base_offset: i64, now: i64) -> Self {
        assert!(base_offset >= 0);
        Self {
            base_offset,
            file: base_offset as u64,
            next_offset: base_offset,
            size: 0,
            written: 0,
            max_timestamp: NO_TIMESTAMP,
            first_timestamp: NO_TIMESTAMP,
            created_at: now,
            index: Vec::new(),
            damaged: Vec::new(),
        }
    }

    /// Appends a batch that already has its offsets.
    pub(super) fn push(&mut self, batch: &BatchHeader) {
        assert!(batch.base_offset >= self.next_offset, "offsets go back");
        if self.size == 0 {
            self.first_timestamp = batch.max_timestamp;
        }
        let position = self.size as u32;
        let is_behind_damage = self.damaged.last().is_some_and(|it| it.bytes.end == self.size);
        match self.index.last_mut() {
            Some(last)
                if position - last.position < PARTITION_INDEX_SPAN_BYTES && !is_behind_damage =>
            {
                last.max_timestamp = last.max_timestamp.max(batch.max_timestamp);
            }
            last => {
                let before = last.map_or(NO_TIMESTAMP, |last| last.max_timestamp);
                let max_timestamp = before.max(batch.max_timestamp);
                let relative_offset = (batch.base_offset - self.base_offset) as u32;
                self.index.push(IndexEntry { relative_offset, position, max_timestamp });
            }
        }
        self.size += batch.total_len() as u64;
        self.next_offset = batch.next_offset();
        assert!(self.next_offset > batch.base_offset);
    }

    /// Appends a damaged part.
    pub(super) fn push_damaged(&mut self, part: DamagedPart) {
        assert!(part.bytes.start == self.size && part.offsets.start == self.next_offset);
        assert!(!part.bytes.is_empty() && !part.offsets.is_empty());
        let start = self.size;
        (self.size, self.next_offset) = (part.bytes.end, part.offsets.end);
        match self.damaged.last_mut() {
            Some(last) if last.bytes.end == start => last.join(part),
            Some(_) | None => self.damaged.push(part),
        }
    }

    /// Adds a part that was found damaged while the segment is served. Returns false, and adds
    /// nothing, if some of it was known already. Adjacent parts are merged.
    pub(super) fn add_damaged(&mut self, mut part: DamagedPart) -> bool {
        let (start, end) = (part.bytes.start, part.bytes.end);
        assert!(start < end && end <= self.size && !part.offsets.is_empty());
        let at = self.damaged.partition_point(|it| it.bytes.end <= start);
        if self.damaged.get(at).is_some_and(|next| next.bytes.start < end) {
            return false;
        }
        let entry = self.index.partition_point(|entry| u64::from(entry.position) < end);
        let has_entry = |it: &IndexEntry| u64::from(it.position) == end;
        if end < self.size && !self.index.get(entry).is_some_and(has_entry) {
            let relative_offset = (part.offsets.end - self.base_offset) as u32;
            let before = entry.checked_sub(1).and_then(|before| self.index.get(before));
            let max_timestamp = before.map_or(NO_TIMESTAMP, |before| before.max_timestamp);
            let position = end as u32;
            self.index.insert(entry, IndexEntry { relative_offset, position, max_timestamp });
        }
        let touches_next = self.damaged.get(at).is_some_and(|next| next.bytes.start == end);
        let touches_last = at > 0 && self.damaged[at - 1].bytes.end == start;
        let joined = at - usize::from(touches_last)..at + usize::from(touches_next);
        for other in self.damaged.drain(joined.clone()) {
            part.join(other);
        }
        self.damaged.insert(joined.start, part);
        true
    }

    /// The damaged parts, in order.
    pub(super) fn damaged(&self) -> &[DamagedPart] {
        &self.damaged
    }

    /// The damaged part that contains an offset.
    pub(super) fn damage_at(&self, offset: i64) -> Option<&DamagedPart> {
        let behind = self.damaged.partition_point(|it| it.offsets.end <= offset);
        self.damaged.get(behind).filter(|it| it.offsets.contains(&offset))
    }

    /// The damaged part that contains a position.
    pub(super) fn damage_of(&self, position: u64) -> Option<&DamagedPart> {
        self.next_damage(position).filter(|it| it.bytes.contains(&position))
    }

    /// The end of the damaged part that contains the position; the position itself if there is
    /// none.
    pub(super) fn behind_damage(&self, position: u64) -> u64 {
        self.damage_of(position).map_or(position, |it| it.bytes.end)
    }

    /// The end of the bytes that can be read from `position` on: they are written, and not damaged.
    pub(super) fn readable_end(&self, position: u64) -> u64 {
        let part = self.next_damage(position);
        part.map_or(self.written, |it| it.bytes.start.max(position).min(self.written))
    }

    /// The damaged part at a position, or else the first one after it.
    fn next_damage(&self, position: u64) -> Option<&DamagedPart> {
        self.damaged.get(self.damaged.partition_point(|it| it.bytes.end <= position))
    }

    /// Notes that all bytes up to `end` are written. `max_timestamp` is the largest timestamp in
    /// them.
    pub(super) fn set_written(&mut self, end: u64, max_timestamp: i64) {
        assert!(self.written <= end && end <= self.size);
        self.written = end;
        self.max_timestamp = self.max_timestamp.max(max_timestamp);
    }

    /// The age of the segment in ms (`LogSegment.timeWaitedForRoll`). If its first batch has a
    /// timestamp, the age at `timestamp`; if not, the age at `now`.
    pub(super) fn age(&self, timestamp: i64, now: i64) -> i64 {
        if self.first_timestamp >= 0 {
            timestamp.saturating_sub(self.first_timestamp)
        } else {
            now.saturating_sub(self.created_at)
        }
    }

    /// The timestamp of the first batch in ms or, without timestamps, the creation time of the
    /// segment.
    pub(super) fn first_time(&self) -> i64 {
        if self.first_timestamp >= 0 { self.first_timestamp } else { self.created_at }
    }

    pub(super) fn created_at(&self) -> i64 {
        self.created_at
    }

    pub(super) fn set_created_at(&mut self, created_at: i64) {
        self.created_at = created_at;
    }

    /// The largest timestamp in ms or, without timestamps, the creation time of the segment.
    pub(super) fn last_time(&self) -> i64 {
        if self.max_timestamp >= 0 { self.max_timestamp } else { self.created_at }
    }

    /// The written bytes of the index entry that covers `offset`.
    pub(super) fn chunk_of_offset(&self, offset: i64) -> Range<u64> {
        let relative = offset - self.base_offset;
        let after =
            self.index.partition_point(|entry| i64::from(entry.relative_offset) <= relative);
        self.chunk(after.saturating_sub(1))
    }

    /// The written bytes of an index entry: that of the first batch with a timestamp of `target` or
    /// later, or that which covers `offset`, whichever comes later in the segment.
    pub(super) fn chunk_of_timestamp(&self, target: i64, offset: i64) -> Range<u64> {
        let chunk = self.chunk(self.index.partition_point(|entry| entry.max_timestamp < target));
        let at_offset = self.chunk_of_offset(offset);
        if at_offset.start > chunk.start { at_offset } else { chunk }
    }

    /// The next position after `position` at which a batch or a damaged part is known to begin.
    pub(super) fn boundary_after(&self, position: u64) -> Option<Boundary> {
        let after = self.index.partition_point(|entry| u64::from(entry.position) <= position);
        let entry = self.index.get(after).map(|entry| self.boundary(entry));
        let part = self.damaged.partition_point(|it| it.bytes.start <= position);
        let part = self.damaged.get(part);
        let part = part.map(|it| Boundary { position: it.bytes.start, offset: it.offsets.start });
        entry.into_iter().chain(part).min_by_key(|it| it.position)
    }

    /// The last position up to `position` at which a batch is known to begin.
    pub(super) fn chunk_start(&self, position: u64) -> u64 {
        let after = self.index.partition_point(|entry| u64::from(entry.position) <= position);
        let entry = after.checked_sub(1).and_then(|at| self.index.get(at));
        entry.map_or(0, |entry| u64::from(entry.position))
    }

    /// The base offset of the batch at a position, if an index entry begins there.
    pub(super) fn offset_at(&self, position: u64) -> Option<i64> {
        let entry = |entry: &IndexEntry| u64::from(entry.position).cmp(&position);
        let at = self.index.binary_search_by(entry).ok()?;
        Some(self.boundary(&self.index[at]).offset)
    }

    fn boundary(&self, entry: &IndexEntry) -> Boundary {
        let offset = self.base_offset + i64::from(entry.relative_offset);
        Boundary { position: u64::from(entry.position), offset }
    }

    /// The offset of the first index entry at or after a position; the end offset of the segment if
    /// there is none.
    pub(super) fn offset_from(&self, position: u64) -> i64 {
        let after = self.index.partition_point(|entry| u64::from(entry.position) < position);
        let offset = |entry: &IndexEntry| self.base_offset + i64::from(entry.relative_offset);
        self.index.get(after).map_or(self.next_offset, offset)
    }

    fn chunk(&self, entry: usize) -> Range<u64> {
        let start_of = |entry: usize| self.index.get(entry).map(|entry| u64::from(entry.position));
        let start = start_of(entry).unwrap_or(self.size).min(self.written);
        let end = start_of(entry + 1).unwrap_or(self.size).min(self.written);
        start..end
    }
}
