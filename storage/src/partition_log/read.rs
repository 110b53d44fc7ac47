//! Reads of a partition, by offset and by timestamp.

use super::PartitionLog;
use super::segment::Segment;
use crate::file_op::{FileOp, FileToken};
use crate::limits::{PARTITION_INDEX_SPAN_BYTES, PARTITION_READ_BYTES_MAX};
use crate::open_files::OpenFiles;
use muster_codec::record_batch::{Batch, Batches, TimestampType};
use muster_codec::wire::{DecodeError, Result};
use std::ops::Range;

/// What a read by offset was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionRead {
    offset: i64,
    max_bytes: usize,
}

/// What a read by timestamp was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampRead {
    target: i64,
    from_offset: i64,
}

/// What a read by timestamp found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampFound {
    /// The first record of that time or later.
    Record { offset: i64, timestamp: i64 },
    /// None so far: to be planned again from this offset on.
    ReadOn { from_offset: i64 },
}

impl PartitionLog {
    /// Plans the read of the log from `offset` on and pushes it onto `ops`; its completion has
    /// `token`, which is the caller's. [`PartitionRead::extract`] then gives the batches, from the
    /// next one on if the offset is missing. None if `offset` is before the log start offset, or no
    /// record there or behind it can be read.
    pub fn read_plan(
        &mut self,
        offset: i64,
        max_bytes: usize,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Option<PartitionRead> {
        if offset < self.log_start_offset || offset >= self.high_watermark() {
            return None;
        }
        let max_bytes = max_bytes.min(PARTITION_READ_BYTES_MAX);
        let segment = self.segments.get(self.segment_from(offset))?;
        let chunk = segment.chunk_of_offset(offset);
        // The batch may begin behind the chunk's small batches.
        let wanted = chunk.start + max_bytes as u64 + u64::from(PARTITION_INDEX_SPAN_BYTES);
        let range = chunk.start..chunk.end.max(wanted.min(segment.written));
        let base_offset = segment.base_offset;
        self.push_read(base_offset, range, token, files, ops)?;
        Some(PartitionRead { offset, max_bytes })
    }

    /// How many bytes can be read from `offset` on, but for what an index entry stands for; 0 if no
    /// record of that offset or a later one can be read.
    pub fn readable_bytes(&self, offset: i64) -> u64 {
        if offset >= self.high_watermark() {
            return 0;
        }
        let Some(from @ [first, ..]) = self.segments.get(self.segment_from(offset)..) else {
            return 0;
        };
        let written: u64 = from.iter().map(|segment| segment.written).sum();
        written.saturating_sub(first.chunk_of_offset(offset).start)
    }

    /// Plans the search for the first record of time `target` or later, in ms, at or after
    /// `from_offset` (the log start offset to begin with). None if there is none. For the record
    /// with the largest timestamp, `target` is [`PartitionLog::max_timestamp`].
    pub fn timestamp_plan(
        &mut self,
        target: i64,
        from_offset: i64,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Option<TimestampRead> {
        let from_offset = from_offset.max(self.log_start_offset);
        if from_offset >= self.high_watermark() {
            return None;
        }
        let may_have = |segment: &&Segment| {
            segment.max_timestamp >= target && segment.next_offset > from_offset
        };
        let segment = self.segments.iter().skip(self.segment_from(from_offset)).find(may_have)?;
        let offset = from_offset.max(segment.base_offset);
        let range = segment.chunk_of_timestamp(target, offset);
        let base_offset = segment.base_offset;
        self.push_read(base_offset, range, token, files, ops)?;
        Some(TimestampRead { target, from_offset: offset })
    }

    /// The largest timestamp of the log, in ms; None if no record has one.
    pub fn max_timestamp(&self) -> Option<i64> {
        let times = self.segments.iter().map(|segment| segment.max_timestamp);
        times.max().filter(|timestamp| *timestamp >= 0)
    }

    /// The place of the segment that has the first record at `offset` or behind it: offsets that are
    /// missing between two segments are skipped.
    fn segment_from(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.next_offset <= offset)
    }

    /// None if there is nothing to read.
    fn push_read(
        &mut self,
        base_offset: i64,
        range: Range<u64>,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Option<()> {
        let len = range.end.checked_sub(range.start).filter(|len| *len > 0)?;
        let len = u32::try_from(len).ok()?;
        let file = self.file(base_offset, files, ops);
        ops.push(FileOp::Read { token, file, offset: range.start, len });
        Some(())
    }
}

impl PartitionRead {
    /// The whole batches among the bytes that were read, from the one that holds the offset on, as
    /// far as they are in the limit; the first even if it is longer. Empty if it is not there.
    ///
    /// # Errors
    /// The bytes are not what was written: KAFKA_STORAGE_ERROR.
    pub fn extract<'d>(&self, data: &'d [u8]) -> Result<&'d [u8]> {
        let mut start = 0;
        let mut batches = Batches::new(data);
        let first = loop {
            let batch = batches.next().ok_or(DecodeError::UnexpectedEnd)??;
            if batch.header.next_offset() > self.offset {
                break batch;
            }
            start = batches.consumed();
        };
        let mut end = start + first.bytes.len();
        // The last batch may be there in part.
        for batch in batches.map_while(Result::ok) {
            if end - start + batch.bytes.len() > self.max_bytes {
                break;
            }
            end += batch.bytes.len();
        }
        Ok(&data[start..end])
    }
}

impl TimestampRead {
    /// Looks for the record in the bytes that were read. In a compressed batch, which is not opened
    /// here, it is taken to be the first: a consumer may then see some records more, none less.
    ///
    /// # Errors
    /// The bytes are not what was written: KAFKA_STORAGE_ERROR.
    pub fn find(&self, data: &[u8]) -> Result<TimestampFound> {
        let mut from_offset = self.from_offset;
        for batch in Batches::new(data) {
            let batch = batch?;
            if batch.header.next_offset() <= from_offset {
                continue;
            }
            if batch.header.max_timestamp >= self.target
                && let Some((offset, timestamp)) = self.find_record(&batch)?
            {
                return Ok(TimestampFound::Record { offset, timestamp });
            }
            from_offset = batch.header.next_offset();
        }
        if from_offset == self.from_offset {
            return Err(DecodeError::UnexpectedEnd);
        }
        Ok(TimestampFound::ReadOn { from_offset })
    }

    fn find_record(&self, batch: &Batch<'_>) -> Result<Option<(i64, i64)>> {
        let first = batch.header.base_offset.max(self.from_offset);
        let has_one_time = batch.header.timestamp_type() == TimestampType::LogAppendTime;
        if has_one_time || batch.records().is_err() {
            return Ok(Some((first, batch.header.max_timestamp)));
        }
        for record in batch.records()? {
            let record = record?;
            let (offset, timestamp) = (batch.offset(&record), batch.timestamp(&record));
            if offset >= first && timestamp >= self.target {
                return Ok(Some((offset, timestamp)));
            }
        }
        Ok(None)
    }
}
