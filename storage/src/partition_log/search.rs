//! Searches for a record by its timestamp. The search reads only small pieces: batch headers, and
//! the first bytes of records.

use super::PartitionLog;
use super::damaged_part::Suspect;
use super::segment::Segment;
use crate::file_op::{FileOp, FileToken};
use crate::limits::{PARTITION_HEADERS_READ_BYTES, PARTITION_RECORDS_READ_BYTES};
use crate::open_files::OpenFiles;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{BatchHeader, Compression, TimestampType};
use muster_codec::wire::{DecodeError, Reader, Result};

/// The state of a search. [`PartitionLog::search_read`] plans the next read, and
/// [`TimestampSearch::look`] takes the bytes that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampSearch {
    target: i64,
    /// Records before this offset are skipped.
    from_offset: i64,
    /// The base offset and the file number of the segment that is being read; None before the first
    /// read.
    segment: Option<(i64, u64)>,
    /// The position of the next batch. If `inside` is set, that of the next record within this
    /// batch.
    position: u64,
    inside: Option<Inside>,
}

/// A batch whose records are read one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Inside {
    header: BatchHeader,
    /// The position of the end of the batch.
    end: u64,
    records_left: i32,
}

/// The outcome of one read of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searched {
    /// The first record with the target timestamp or a later one.
    Record { offset: i64, timestamp: i64 },
    /// Not found yet: plan the next read.
    ReadOn,
}

/// The outcome for one batch or one record.
enum Step {
    Found(Searched),
    /// Not found; the next batch or record begins after this many bytes.
    Skip(u64),
    /// The bytes that were read end within the batch or record.
    More,
}

/// The most bytes in a record up to its offset: length, attributes, timestamp, offset.
const RECORD_START_BYTES: usize = 5 + 1 + 10 + 5;

impl PartitionLog {
    /// Begins a search for the first record with timestamp `target` (in ms) or later. To find the
    /// record with the largest timestamp, use [`PartitionLog::max_timestamp`].
    pub fn search(&self, target: i64) -> TimestampSearch {
        let from_offset = self.log_start_offset;
        TimestampSearch { target, from_offset, segment: None, position: 0, inside: None }
    }

    /// Plans the next read of a search and pushes it onto `ops`, with the caller's `token`. If no
    /// record can be the wanted one, returns false and requests no read.
    pub fn search_read(
        &self,
        search: &mut TimestampSearch,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> bool {
        let Some(segment) = self.searched_segment(search) else { return false };
        let readable = segment.readable_end(search.position);
        let (end, len) = match &search.inside {
            Some(inside) => (inside.end.min(readable), PARTITION_RECORDS_READ_BYTES),
            None => (readable, PARTITION_HEADERS_READ_BYTES),
        };
        let len = end.saturating_sub(search.position).min(u64::from(len)) as u32;
        let file = self.file(segment, files, ops);
        ops.push(FileOp::Read { token, file, offset: search.position, len });
        true
    }

    /// The segment in which the search continues: the current one or, after its end, the next one
    /// that may contain the record.
    fn searched_segment(&self, search: &mut TimestampSearch) -> Option<&Segment> {
        loop {
            let reading = search.segment.and_then(|(base_offset, file)| {
                // None if the segment was compacted in the meantime. The search then enters a
                // segment again, at the offset after the last batch that it has seen.
                self.segment_at(base_offset, file)
            });
            if let Some(segment) = reading {
                search.pass_damage(segment);
                if search.position < segment.written {
                    return reading;
                }
                search.from_offset = search.from_offset.max(segment.next_offset);
            }
            search.from_offset = search.from_offset.max(self.log_start_offset);
            if search.from_offset >= self.high_watermark() {
                return None;
            }
            let may_have = |segment: &&Segment| {
                segment.max_timestamp >= search.target && segment.next_offset > search.from_offset
            };
            search.enter(self.segments.iter().find(may_have)?);
        }
    }

    /// The largest timestamp in the log, in ms; None if no record has a timestamp.
    pub fn max_timestamp(&self) -> Option<i64> {
        let times = self.segments.iter().map(|segment| segment.max_timestamp);
        times.max().filter(|timestamp| *timestamp >= 0)
    }
}

impl TimestampSearch {
    /// The position of the last read.
    pub fn suspect(&self) -> Option<Suspect> {
        let (segment, _) = self.segment?;
        Some(Suspect { segment, position: self.position })
    }

    /// Searches for the record in the bytes that were read. A compressed batch is not decompressed:
    /// if the record may be in it, the result is the batch's first record. So a consumer that
    /// starts there may get records that are too early, but it misses none.
    ///
    /// # Errors
    /// The bytes are not those that were written: CORRUPT_MESSAGE.
    pub fn look(&mut self, data: &[u8]) -> Result<Searched> {
        let start = self.position;
        loop {
            let rest = data.get((self.position - start) as usize..).unwrap_or_default();
            let step = match self.inside {
                Some(inside) => self.look_at_record(inside, rest)?,
                None => self.look_at_batch(rest)?,
            };
            match step {
                Step::Found(record) => return Ok(record),
                Step::Skip(bytes) => self.position += bytes,
                Step::More if self.position == start => return Err(DecodeError::UnexpectedEnd),
                Step::More => return Ok(Searched::ReadOn),
            }
        }
    }

    /// Moves to the first batch of a segment that may contain the record.
    fn enter(&mut self, segment: &Segment) {
        let offset = self.from_offset.max(segment.base_offset);
        self.segment = Some((segment.base_offset, segment.file));
        self.position = segment.chunk_of_timestamp(self.target, offset).start;
        self.inside = None;
    }

    /// Skips a damaged part. It may have been found after the search has read the header of its
    /// first batch.
    fn pass_damage(&mut self, segment: &Segment) {
        let behind = segment.behind_damage(self.position);
        if behind > self.position {
            (self.position, self.inside) = (behind, None);
        }
    }

    fn look_at_batch(&mut self, rest: &[u8]) -> Result<Step> {
        if rest.len() < RECORD_BATCH_HEADER_BYTES {
            return Ok(Step::More);
        }
        let header = BatchHeader::read(rest)?;
        let len = header.total_len() as u64;
        if header.next_offset() <= self.from_offset || header.max_timestamp < self.target {
            self.from_offset = self.from_offset.max(header.next_offset());
            return Ok(Step::Skip(len));
        }
        let has_one_time = header.timestamp_type() == TimestampType::LogAppendTime;
        if has_one_time || header.compression() != Some(Compression::None) {
            let offset = header.base_offset.max(self.from_offset);
            let timestamp = header.max_timestamp;
            return Ok(Step::Found(Searched::Record { offset, timestamp }));
        }
        let (end, records_left) = (self.position + len, header.records_count);
        self.inside = Some(Inside { header, end, records_left });
        Ok(Step::Skip(RECORD_BATCH_HEADER_BYTES as u64))
    }

    fn look_at_record(&mut self, inside: Inside, rest: &[u8]) -> Result<Step> {
        let Inside { header, end, records_left } = inside;
        let left = end - self.position;
        if records_left <= 0 || left == 0 {
            self.inside = None;
            self.from_offset = self.from_offset.max(header.next_offset());
            return Ok(Step::Skip(left));
        }
        if rest.len() < RECORD_START_BYTES && (rest.len() as u64) < left {
            return Ok(Step::More);
        }
        let start = RecordStart::read(rest)?;
        let timestamp = header.base_timestamp.wrapping_add(start.timestamp_delta);
        let offset = header.base_offset.wrapping_add(i64::from(start.offset_delta));
        if offset >= self.from_offset && timestamp >= self.target {
            return Ok(Step::Found(Searched::Record { offset, timestamp }));
        }
        if start.len > left {
            return Err(DecodeError::InvalidBatch("a record longer than its batch"));
        }
        self.inside = Some(Inside { records_left: records_left - 1, ..inside });
        Ok(Step::Skip(start.len))
    }
}

/// The first fields of a record.
struct RecordStart {
    /// The length of the whole record, length field included.
    len: u64,
    timestamp_delta: i64,
    offset_delta: i32,
}

impl RecordStart {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let body = u64::try_from(reader.varint()?)
            .map_err(|_| DecodeError::InvalidBatch("a record of negative length"))?;
        let len = body + (bytes.len() - reader.remaining()) as u64;
        let _attributes = reader.i8()?;
        let (timestamp_delta, offset_delta) = (reader.varlong()?, reader.varint()?);
        Ok(Self { len, timestamp_delta, offset_delta })
    }
}
