//! Look-ups by offset: the batch that holds an offset, and the bytes of the log from a batch on.

use super::PartitionLog;
use super::segment::Segment;
use crate::file_op::{FileOp, FileRange, FileToken};
use crate::limits::{PARTITION_HEADERS_READ_BYTES, RECENT_BATCHES_MAX};
use crate::open_files::OpenFiles;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::BatchHeader;
use muster_codec::wire::{DecodeError, Result};

/// The place of a batch in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPlace {
    /// The base offset of its segment.
    segment: i64,
    position: u64,
    len: u64,
}

/// One of the batches that were appended last.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecentBatch {
    base_offset: i64,
    next_offset: i64,
    place: BatchPlace,
}

/// The batch that holds an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Find {
    At(BatchPlace),
    /// It has to be searched in the bytes of a read.
    Read(BatchSearch),
}

/// A search for the batch that holds an offset, through the headers of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSearch {
    offset: i64,
    segment: i64,
    position: u64,
}

/// The result of a read for a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Batch(BatchPlace),
    /// It is further on: [`PartitionLog::find_on`].
    ReadOn(BatchSearch),
}

impl PartitionLog {
    /// The place of the batch that holds `offset`, or of the next one if the log has a gap there.
    /// It is known, or searched by a small read that is pushed onto `ops`; its completion has
    /// `token`, which is the caller's. None if `offset` is before the log start offset or not below
    /// the high watermark.
    pub fn find(
        &self,
        offset: i64,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Option<Find> {
        if offset < self.log_start_offset || offset >= self.high_watermark() {
            return None;
        }
        let holds = |batch: &&RecentBatch| (batch.base_offset..batch.next_offset).contains(&offset);
        if let Some(recent) = self.recent.iter().rfind(holds) {
            return Some(Find::At(recent.place));
        }
        let segment = self.segments.get(self.segment_from(offset))?;
        let position = segment.chunk_of_offset(offset).start;
        let search = BatchSearch { offset, segment: segment.base_offset, position };
        self.find_on(search, token, files, ops).map(Find::Read)
    }

    /// Continues a search, in the next segment if this one is at its end or was dropped. None if
    /// there is nothing more to read.
    pub fn find_on(
        &self,
        mut search: BatchSearch,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Option<BatchSearch> {
        let here = self.segment_with_base(search.segment);
        if here.is_none_or(|segment| search.position >= segment.written) {
            let is_next = |it: &&Segment| it.base_offset > search.segment && it.written > 0;
            (search.segment, search.position) =
                (self.segments.iter().find(is_next)?.base_offset, 0);
        }
        let segment = self.segment_with_base(search.segment)?;
        let left = segment.written - search.position;
        let len = left.min(u64::from(PARTITION_HEADERS_READ_BYTES)) as u32;
        let file = self.file(search.segment, files, ops);
        ops.push(FileOp::Read { token, file, offset: search.position, len });
        Some(search)
    }

    /// The bytes of the log from a batch on, up to `max_bytes`, the end of its segment or the batch
    /// at `end`; the last batch may be incomplete, as in Kafka. If the first is longer than
    /// `max_bytes`, it is returned in whole if `first_whole`, and None otherwise. None if the
    /// segment was dropped, or `end` is not after the batch.
    ///
    /// # Errors
    /// The batch ends beyond the written bytes: KAFKA_STORAGE_ERROR.
    pub fn range(
        &self,
        place: BatchPlace,
        end: Option<BatchPlace>,
        max_bytes: u32,
        first_whole: bool,
    ) -> Result<Option<FileRange>> {
        let Some(segment) = self.segment_with_base(place.segment) else { return Ok(None) };
        if end.is_some_and(|end| !place.is_before(end)) {
            return Ok(None);
        }
        let end = end.filter(|end| end.segment == place.segment);
        let end = end.map_or(segment.written, |end| end.position.min(segment.written));
        let left = end.saturating_sub(place.position);
        if place.len > left {
            return Err(DecodeError::UnexpectedEnd);
        }
        let is_cut = place.len > u64::from(max_bytes);
        let len = if is_cut { place.len } else { left.min(u64::from(max_bytes)) } as u32;
        let (file, offset) = (self.key(segment.base_offset as u64), place.position);
        Ok((!is_cut || first_whole).then_some(FileRange { file, offset, len }))
    }

    /// Pushes a read of a range onto `ops`; its completion has `token`, which is the caller's.
    pub fn read(
        &self,
        range: &FileRange,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) {
        let file = self.file(range.file.segment as i64, files, ops);
        ops.push(FileOp::Read { token, file, offset: range.offset, len: range.len });
    }

    /// Keeps the file of a range from being removed, until [`OpenFiles::release`].
    pub fn hold(&self, range: &FileRange, files: &mut OpenFiles) {
        files.hold(range.file, &self.place.dir);
    }

    /// The number of bytes that can be read from `offset` on, accurate to the bytes of an index
    /// entry; 0 if no record of that offset or a later one can be read.
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

    /// The number of bytes that can be read from a batch on.
    pub fn readable_bytes_from(&self, place: BatchPlace) -> u64 {
        let from = self.segments.partition_point(|segment| segment.base_offset < place.segment);
        let written: u64 = self.segments[from..].iter().map(|segment| segment.written).sum();
        let before = self.segments.get(from).filter(|it| it.base_offset == place.segment);
        written.saturating_sub(before.map_or(0, |_| place.position))
    }

    /// An offset after the last record of a range that begins with a batch: at most those of an
    /// index entry too many.
    pub fn end_offset_of(&self, place: BatchPlace, len: u32) -> i64 {
        let Some(segment) = self.segment_with_base(place.segment) else { return place.segment };
        segment.offset_from(place.position + u64::from(len))
    }

    /// The index of the segment with the first record at `offset` or after it: offsets that are
    /// missing between two segments are skipped.
    pub(super) fn segment_from(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.next_offset <= offset)
    }

    /// The place that a batch gets when it is appended to the active segment.
    pub(super) fn next_place(&self, header: &BatchHeader) -> BatchPlace {
        BatchPlace::at_end(self.active(), header)
    }

    /// Remembers a batch that is about to be appended to the active segment.
    pub(super) fn remember(&mut self, header: &BatchHeader) {
        if self.recent.len() == RECENT_BATCHES_MAX {
            self.recent.pop_front();
        }
        let place = self.next_place(header);
        let (base_offset, next_offset) = (header.base_offset, header.next_offset());
        self.recent.push_back(RecentBatch { base_offset, next_offset, place });
    }
}

impl BatchPlace {
    /// The place of a batch at the end of a segment.
    pub(super) fn at_end(segment: &Segment, batch: &BatchHeader) -> Self {
        let (position, len) = (segment.size, batch.total_len() as u64);
        Self { segment: segment.base_offset, position, len }
    }

    fn is_before(self, other: Self) -> bool {
        (self.segment, self.position) < (other.segment, other.position)
    }
}

impl BatchSearch {
    /// Searches the batch in the bytes that were read.
    ///
    /// # Errors
    /// The bytes are not those that were written: KAFKA_STORAGE_ERROR.
    pub fn look(self, data: &[u8]) -> Result<Found> {
        let mut at = 0;
        while let Some(bytes) = data.get(at..).filter(|it| it.len() >= RECORD_BATCH_HEADER_BYTES) {
            let header = BatchHeader::read(bytes)?;
            let (position, len) = (self.position + at as u64, header.total_len());
            if header.next_offset() > self.offset {
                let place = BatchPlace { segment: self.segment, position, len: len as u64 };
                return Ok(Found::Batch(place));
            }
            at += len;
        }
        if at == 0 {
            return Err(DecodeError::UnexpectedEnd);
        }
        Ok(Found::ReadOn(Self { position: self.position + at as u64, ..self }))
    }
}
