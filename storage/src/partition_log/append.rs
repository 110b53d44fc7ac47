//! Appends: assigns offsets to batches and places them at the end of the active segment.

use super::batch_place::BatchPlace;
use super::segment::Segment;
use super::{LEADER_EPOCH, PartitionLog, Pending, SEQUENCE_MASK};
use crate::append_error::AppendError;
use crate::file_op::FileOp;
use crate::limits::PARTITION_SEGMENT_BYTES_MAX;
use crate::open_files::OpenFiles;
use muster_codec::record_batch::{
    BatchHeader, Batches, NO_TIMESTAMP, set_base_offset, set_partition_leader_epoch,
};

/// The result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: i64,
    /// The place of the first batch.
    pub place: BatchPlace,
    /// The offset after the last record. The append is acknowledged when the high watermark has
    /// reached it.
    pub next_offset: i64,
}

impl PartitionLog {
    /// Assigns offsets to validated batches ([`validate`](muster_codec::record_batch::validate))
    /// and writes them. When the high watermark reaches [`Appended::next_offset`], consumers can
    /// read them and the producer gets its answer.
    ///
    /// # Errors
    /// [`AppendError::TooLarge`]: the batches do not fit into a segment (RECORD_LIST_TOO_LARGE).
    /// [`AppendError::NotABatch`]. In both cases nothing is written.
    pub fn append(
        &mut self,
        mut batches: Vec<u8>,
        now: i64,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Result<Appended, AppendError> {
        let len = batches.len() as u64;
        if len > self.config.segment_bytes.min(PARTITION_SEGMENT_BYTES_MAX) {
            return Err(AppendError::TooLarge);
        }
        let (records, max_timestamp) = measure(&batches)?;
        let base_offset = self.log_end_offset();
        let next_offset = base_offset.checked_add(records).ok_or(AppendError::TooLarge)?;
        if self.is_roll_due(len, next_offset, max_timestamp, now) {
            self.roll(now, files, ops);
        }
        self.request_deferred(files, ops);
        let (position, first) = (self.active().size, BatchHeader::read(&batches));
        let place = self.next_place(&first.map_err(|_| AppendError::NotABatch)?);
        // The file must be requested before `place` makes the segment longer: a missing file is
        // created only for an empty segment. (Likewise, the directory is created only for a log
        // that never had one.)
        let file = self.file(self.active(), files, ops);
        self.has_directory = true;
        self.place(&mut batches)?;
        assert_eq!(self.log_end_offset(), next_offset);
        let segment = self.active().base_offset;
        let sequence = self.next_sequence;
        self.next_sequence = (sequence + 1) & SEQUENCE_MASK;
        let token = self.token(sequence);
        ops.push(FileOp::Write { token, file, offset: position, data: batches });
        let end = position + len;
        let is_written = false;
        self.pending.push_back(Pending {
            sequence,
            next_offset,
            segment,
            end,
            max_timestamp,
            is_written,
        });
        Ok(Appended { base_offset, place, next_offset })
    }

    /// Assigns offsets to each batch and adds it to the active segment.
    fn place(&mut self, batches: &mut [u8]) -> Result<(), AppendError> {
        let mut at = 0;
        while at < batches.len() {
            let batch = &mut batches[at..];
            set_base_offset(batch, self.log_end_offset());
            set_partition_leader_epoch(batch, LEADER_EPOCH);
            let header = BatchHeader::read(batch).map_err(|_| AppendError::NotABatch)?;
            self.remember(&header);
            self.active_mut().push(&header);
            at += header.total_len();
        }
        assert_eq!(at, batches.len());
        Ok(())
    }

    /// Whether the append needs a new segment (`LogSegment.shouldRoll`).
    fn is_roll_due(&self, len: u64, next_offset: i64, max_timestamp: i64, now: i64) -> bool {
        let active = self.active();
        let is_full = active.size + len > self.config.segment_bytes;
        let is_far = next_offset - active.base_offset > i64::from(i32::MAX);
        let is_old = active.age(max_timestamp, now) > self.config.segment_ms;
        active.size > 0 && (is_full || is_far || is_old)
    }

    /// Begins a new segment. The previous one is synced once all its writes are completed.
    pub(super) fn roll(&mut self, now: i64, files: &mut OpenFiles, ops: &mut Vec<FileOp>) {
        let Segment { base_offset, next_offset, size, .. } = *self.active();
        assert!(size > 0, "an empty segment is not rolled");
        self.synced.close(base_offset);
        let next = Segment::new(next_offset, now);
        // Creates the file now, so that recovery knows the end of the log even if the segment stays
        // empty.
        self.file(&next, files, ops);
        self.segments.push(next);
    }
}

/// The number of offsets that the batches take, and their largest timestamp.
fn measure(batches: &[u8]) -> Result<(i64, i64), AppendError> {
    let (mut records, mut max_timestamp) = (0i64, NO_TIMESTAMP);
    for batch in Batches::new(batches) {
        let header = batch.map_err(|_| AppendError::NotABatch)?.header;
        if header.last_offset_delta < 0 {
            return Err(AppendError::NotABatch);
        }
        records += i64::from(header.last_offset_delta) + 1;
        max_timestamp = max_timestamp.max(header.max_timestamp);
    }
    if records == 0 { Err(AppendError::NotABatch) } else { Ok((records, max_timestamp)) }
}
