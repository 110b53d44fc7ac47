//! The segment that compaction writes: the batches that are left, in chunks.

use super::clean::empty_batch;
use crate::limits::{BLOCK_BYTES_MAX, COMPACTION_IO_BYTES};
use crate::outbox::Outbox;
use crate::partition_log::segment::Segment;
use muster_codec::record_batch::{BatchHeader, NO_SEQUENCE};
use muster_codec::wire::Result;

/// A segment that is being written.
#[derive(Debug)]
pub(super) struct Output {
    segment: Segment,
    max_timestamp: i64,
    /// The last batch that was read, if none of its records are kept. Without it the segment would
    /// end too early: offsets between segments would be missing.
    tail: Option<BatchHeader>,
    /// Bytes that were not passed to a write yet.
    pending: Outbox,
    written: u64,
    /// Whether it differs from its sources.
    pub(super) is_changed: bool,
    /// The offsets of markers that are not in it any more.
    pub(super) dropped_markers: Vec<i64>,
}

impl Output {
    pub(super) fn new(base_offset: i64) -> Self {
        Self {
            segment: Segment::new(base_offset, 0),
            max_timestamp: i64::MIN,
            tail: None,
            pending: Outbox::default(),
            written: 0,
            is_changed: false,
            dropped_markers: Vec::new(),
        }
    }

    pub(super) fn base_offset(&self) -> i64 {
        self.segment.base_offset
    }

    /// The length of the file.
    pub(super) fn len(&self) -> u64 {
        self.segment.size
    }

    pub(super) fn next_offset(&self) -> i64 {
        self.segment.next_offset
    }

    /// Adds a batch.
    ///
    /// # Errors
    /// Bytes that are not a batch.
    pub(super) fn push(&mut self, batch: &[u8]) -> Result<()> {
        let header = BatchHeader::read(batch)?;
        self.tail = None;
        self.segment.push(&header);
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        self.pending.end().extend_from_slice(batch);
        Ok(())
    }

    /// Skips a batch without kept records.
    pub(super) fn skip(&mut self, header: &BatchHeader) {
        self.tail = Some(*header);
        self.is_changed = true;
    }

    /// Ends the segment: its last batch is the last one that was read, perhaps empty.
    ///
    /// # Errors
    /// None are known.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(mut header) = self.tail else { return Ok(()) };
        header.clear_transaction();
        header.base_sequence = NO_SEQUENCE;
        let mut batch = Vec::new();
        empty_batch(header, &mut batch);
        self.push(&batch)
    }

    /// The next write: the place in the file, and the bytes, which are whole blocks. None if less
    /// than a whole write is pending; with `all`, if nothing is pending.
    pub(super) fn take_write(&mut self, all: bool) -> Option<(u64, Vec<u8>)> {
        let whole = COMPACTION_IO_BYTES as usize;
        let pending = self.pending.len();
        if pending == 0 || (pending < whole && !all) {
            return None;
        }
        let mut data = Vec::with_capacity(whole.min(pending));
        self.pending.take(whole, &mut data);
        data.resize(data.len().next_multiple_of(BLOCK_BYTES_MAX as usize), 0);
        let offset = self.written;
        self.written += data.len() as u64;
        Some((offset, data))
    }

    /// The entry in the list of segments; `created_at` is the time of the first source.
    pub(super) fn into_segment(mut self, created_at: i64) -> Segment {
        self.segment.set_created_at(created_at);
        self.segment.set_written(self.segment.size, self.max_timestamp);
        self.segment
    }
}
