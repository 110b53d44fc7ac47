//! Look-ups by offset: finds the batch that contains an offset, and ranges of the log that begin
//! with a batch.

use super::batch_place::BatchPlace;
use super::damaged_part::{DamagedPart, Suspect};
use super::segment::Segment;
use super::{PartitionLog, segment_file_name};
use crate::file_op::{FileKey, FileOp, FileRange, FileToken};
use crate::limits::{PARTITION_HEADERS_READ_BYTES, RECENT_BATCHES_MAX};
use crate::open_files::OpenFiles;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::BatchHeader;
use muster_codec::wire::{DecodeError, Result};

/// One of the last appended batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecentBatch {
    base_offset: i64,
    next_offset: i64,
    place: BatchPlace,
}

/// The result of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Find {
    At(BatchPlace),
    /// The batch has to be searched in the bytes that a read returns. The read was requested.
    Read(BatchSearch),
    /// The batch is damaged. The damaged part of the log ends at this offset.
    Damaged {
        end: i64,
    },
}

/// A search for the batch that contains an offset, through the headers of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSearch {
    offset: i64,
    segment: i64,
    file: u64,
    position: u64,
}

/// The outcome of one read of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Batch(BatchPlace),
    /// The search continues with the next read: [`PartitionLog::find_on`].
    ReadOn(BatchSearch),
}

impl PartitionLog {
    /// Finds the batch that contains `offset`, or the next one if the log has a gap there. If it is
    /// not yet known where this batch is, or that it is damaged, pushes a small read with the
    /// caller's `token` onto `ops`. None if `offset` is below the log start offset, or not below
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
        if let Some(end) = self.damage_at(offset) {
            return Some(Find::Damaged { end });
        }
        let segment = self.segments.get(self.segment_from(offset))?;
        let search = BatchSearch::begin(segment, offset);
        self.find_on(search, token, files, ops).map(Find::Read)
    }

    /// If the first record at or after `offset` is in a damaged part, returns the end offset of
    /// this part. None if the record can be read.
    pub fn damage_at(&self, offset: i64) -> Option<i64> {
        let segment = self.segments.get(self.segment_from(offset))?;
        let part = segment.damage_at(offset.max(segment.base_offset))?;
        Some(part.offsets.end)
    }

    /// The damaged parts of the log, in order.
    pub fn damaged(&self) -> impl Iterator<Item = &DamagedPart> {
        self.segments.iter().flat_map(Segment::damaged)
    }

    /// Continues a search with its next read. After the end of the segment this is a read of the
    /// next segment. If the segment was dropped or compacted, the search starts again. None if
    /// nothing is left to read.
    pub fn find_on(
        &self,
        mut search: BatchSearch,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Option<BatchSearch> {
        if let Some(here) = self.segment_at(search.segment, search.file) {
            search.position = here.behind_damage(search.position);
        }
        match self.segment_at(search.segment, search.file) {
            Some(here) if search.position < here.written => {}
            Some(_) => {
                let is_next = |it: &&Segment| it.base_offset > search.segment && it.written > 0;
                let next = self.segments.iter().find(is_next)?;
                let position = next.behind_damage(0);
                search = BatchSearch { position, ..BatchSearch::begin(next, search.offset) };
            }
            None => {
                let offset = search.offset.max(self.log_start_offset);
                let segment = self.segments.get(self.segment_from(offset))?;
                search = BatchSearch::begin(segment, offset);
            }
        }
        let segment = self.segment_at(search.segment, search.file)?;
        let left = segment.readable_end(search.position).saturating_sub(search.position);
        let len = left.min(u64::from(PARTITION_HEADERS_READ_BYTES)) as u32;
        let file = self.file(segment, files, ops);
        ops.push(FileOp::Read { token, file, offset: search.position, len });
        Some(search)
    }

    /// A range of the log that begins with the batch at `place`. It ends at the first of these
    /// places: after `max_bytes`, at the end of the segment, before a damaged part, or before the
    /// batch at `end`. The last batch may be incomplete, as in Kafka.
    ///
    /// If the first batch is longer than `max_bytes`, the range has all of it if `first_whole`, and
    /// else the result is None. It is also None if the segment was dropped or compacted, or if
    /// `end` is not after `place`.
    ///
    /// # Errors
    /// The batch ends beyond the readable bytes: CORRUPT_MESSAGE.
    pub fn range(
        &self,
        place: BatchPlace,
        end: Option<BatchPlace>,
        max_bytes: u32,
        first_whole: bool,
    ) -> Result<Option<FileRange>> {
        let Some(segment) = self.segment_at(place.segment, place.file) else { return Ok(None) };
        if end.is_some_and(|end| !place.is_before(end)) {
            return Ok(None);
        }
        let end = end.filter(|end| end.segment == place.segment);
        let readable = segment.readable_end(u64::from(place.position));
        let end = end.map_or(readable, |end| u64::from(end.position).min(readable));
        let left = end.saturating_sub(u64::from(place.position));
        if u64::from(place.len) > left {
            return Err(DecodeError::UnexpectedEnd);
        }
        let is_cut = place.len > max_bytes;
        let len = if is_cut { place.len } else { left.min(u64::from(max_bytes)) as u32 };
        let (file, offset) = (self.key(segment.file), u64::from(place.position));
        Ok((!is_cut || first_whole).then_some(FileRange { file, offset, len }))
    }

    /// Whether a batch is still at this position: its segment was neither dropped nor compacted.
    pub fn is_current(&self, place: BatchPlace) -> bool {
        self.segment_at(place.segment, place.file).is_some()
    }

    /// Pushes a read of a range, which must be current, onto `ops`. The completion has the caller's
    /// `token`.
    pub fn read(
        &self,
        range: &FileRange,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) {
        let is_it = |segment: &&Segment| segment.file == range.file.segment;
        let Some(segment) = self.segments.iter().find(is_it) else {
            unreachable!("a range of an earlier time");
        };
        let file = self.file(segment, files, ops);
        ops.push(FileOp::Read { token, file, offset: range.offset, len: range.len });
    }

    /// Holds the file of a range, so that it is not removed before [`OpenFiles::release`].
    pub fn hold(&self, range: &FileRange, files: &mut OpenFiles) {
        let is_it = |segment: &&Segment| segment.file == range.file.segment;
        let segment = self.segments.iter().find(is_it);
        let name = segment.map_or_else(String::new, |it| segment_file_name(it.base_offset));
        files.hold(range.file, &self.place.dir, &name);
    }

    /// Approximately how many bytes are readable from `offset` on. (Bytes before `offset` count,
    /// too, from the last index entry on.) 0 if there is no readable record at or after `offset`.
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

    /// The number of readable bytes from a batch on.
    pub fn readable_bytes_from(&self, place: BatchPlace) -> u64 {
        let from = self.segments.partition_point(|segment| segment.base_offset < place.segment);
        let written: u64 = self.segments[from..].iter().map(|segment| segment.written).sum();
        let before = self.segments.get(from).filter(|it| it.base_offset == place.segment);
        written.saturating_sub(before.map_or(0, |_| u64::from(place.position)))
    }

    /// Returns the offset after a range that begins with the batch at `place` and has `len` bytes,
    /// or a higher one: it exceeds that offset by at most the offsets of one index entry. If the
    /// segment was dropped or compacted, returns the segment's base offset.
    pub fn end_offset_of(&self, place: BatchPlace, len: u32) -> i64 {
        let segment = self.segment_at(place.segment, place.file);
        let Some(segment) = segment else { return place.segment };
        segment.offset_from(u64::from(place.position) + u64::from(len))
    }

    /// The segment with this base offset, if it still has this file.
    pub(super) fn segment_at(&self, base_offset: i64, file: u64) -> Option<&Segment> {
        self.segment_with_base(base_offset).filter(|segment| segment.file == file)
    }

    /// Forgets the recent batches in the segments with these base offsets.
    pub(super) fn forget_recent(&mut self, segments: std::ops::Range<i64>) {
        self.recent.retain(|recent| !segments.contains(&recent.place.segment));
    }

    /// Forgets the recent batches in a file that could not be sent. The next fetch of them must
    /// then read the file, and detects what is wrong with it.
    pub fn forget_places_in(&mut self, file: FileKey) {
        self.recent.retain(|recent| recent.place.file != file.segment);
    }

    /// Forgets the recent batches in a damaged part.
    pub(super) fn forget_recent_in(&mut self, part: &DamagedPart) {
        let is_in = |place: BatchPlace| {
            place.segment == part.segment && part.bytes.contains(&u64::from(place.position))
        };
        self.recent.retain(|recent| !is_in(recent.place));
    }

    /// The index of the segment that contains the first record at or after `offset`. Offsets may be
    /// missing between two segments.
    pub(super) fn segment_from(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.next_offset <= offset)
    }

    /// The position of the next batch that is appended to the active segment.
    pub(super) fn next_place(&self, header: &BatchHeader) -> BatchPlace {
        BatchPlace::at_end(self.active(), header)
    }

    /// Remembers a batch as recent, just before it is appended to the active segment.
    pub(super) fn remember(&mut self, header: &BatchHeader) {
        if self.recent.len() == RECENT_BATCHES_MAX {
            self.recent.pop_front();
        }
        let place = self.next_place(header);
        let (base_offset, next_offset) = (header.base_offset, header.next_offset());
        self.recent.push_back(RecentBatch { base_offset, next_offset, place });
    }
}

impl BatchSearch {
    /// The position of the last read.
    pub fn suspect(&self) -> Suspect {
        Suspect { segment: self.segment, position: self.position }
    }

    fn begin(segment: &Segment, offset: i64) -> Self {
        let position = segment.chunk_of_offset(offset).start;
        Self { offset, segment: segment.base_offset, file: segment.file, position }
    }

    /// Searches for the batch in the bytes that were read.
    ///
    /// # Errors
    /// The bytes have changed since they were written: CORRUPT_MESSAGE.
    pub fn look(self, data: &[u8]) -> Result<Found> {
        let mut at = 0;
        while let Some(bytes) = data.get(at..).filter(|it| it.len() >= RECORD_BATCH_HEADER_BYTES) {
            let header = BatchHeader::read(bytes)?;
            let (position, len) = (self.position + at as u64, header.total_len());
            if header.next_offset() > self.offset {
                let Self { segment, file, .. } = self;
                let (position, len) = (position as u32, len as u32);
                let place = BatchPlace { segment, file, position, len };
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
