//! The segment that compaction writes, chunk by chunk.

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
    /// The header of the last batch that was read, if none of its records were kept. Unless another
    /// batch follows in this segment, the segment must end with this batch, without records.
    /// Otherwise there would be a gap in the offsets between this segment and the next.
    tail: Option<BatchHeader>,
    /// Bytes that are not yet part of a write.
    pending: Outbox,
    written: u64,
    /// Whether the new segment differs from its sources.
    pub(super) is_changed: bool,
    /// The offsets of markers that were removed.
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

    /// The size of the file.
    pub(super) fn len(&self) -> u64 {
        self.segment.size
    }

    pub(super) fn next_offset(&self) -> i64 {
        self.segment.next_offset
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// The bytes are not a batch.
    pub(super) fn push(&mut self, batch: &[u8]) -> Result<()> {
        let header = BatchHeader::read(batch)?;
        self.tail = None;
        self.segment.push(&header);
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        self.pending.end().extend_from_slice(batch);
        Ok(())
    }

    /// Leaves out a batch without kept records.
    pub(super) fn skip(&mut self, header: &BatchHeader) {
        self.tail = Some(*header);
        self.is_changed = true;
    }

    /// Completes the segment. If the last batch that was read is missing, appends it without
    /// records.
    ///
    /// # Errors
    /// The batch without records cannot be read, which is not expected.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(mut header) = self.tail else { return Ok(()) };
        header.clear_transaction();
        header.base_sequence = NO_SEQUENCE;
        let mut batch = Vec::new();
        empty_batch(header, &mut batch);
        self.push(&batch)
    }

    /// Returns the next write: its position and its bytes, which are whole blocks. None if too few
    /// bytes are pending for a write of full length. With `all`, also returns a shorter write.
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

    /// Converts into an entry of the log's segments. `created_at` is the creation time of the first
    /// source.
    pub(super) fn into_segment(mut self, created_at: i64) -> Segment {
        self.segment.set_created_at(created_at);
        self.segment.set_written(self.segment.size, self.max_timestamp);
        self.segment
    }
}
