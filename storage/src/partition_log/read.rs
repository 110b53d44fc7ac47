//! Look-ups by offset: the batch that holds an offset, and the bytes of the log from a batch on.

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
    /// The place must be searched in the bytes of a read.
    Read(BatchSearch),
    /// The batch cannot be read. The unreadable part of the log ends at this offset.
    Damaged {
        end: i64,
    },
}

/// A search for the batch that holds an offset, through the headers of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSearch {
    offset: i64,
    segment: i64,
    file: u64,
    position: u64,
}

/// The result of a read for a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Batch(BatchPlace),
    /// The place is further on: [`PartitionLog::find_on`].
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
        if let Some(end) = self.damage_at(offset) {
            return Some(Find::Damaged { end });
        }
        let segment = self.segments.get(self.segment_from(offset))?;
        let search = BatchSearch::begin(segment, offset);
        self.find_on(search, token, files, ops).map(Find::Read)
    }

    /// Where the damaged part ends that holds the first record at `offset` or after it; None if
    /// that record can be read.
    pub fn damage_at(&self, offset: i64) -> Option<i64> {
        let segment = self.segments.get(self.segment_from(offset))?;
        let part = segment.damage_at(offset.max(segment.base_offset))?;
        Some(part.offsets.end)
    }

    /// The parts of the log that cannot be read, in order.
    pub fn damaged(&self) -> impl Iterator<Item = &DamagedPart> {
        self.segments.iter().flat_map(Segment::damaged)
    }

    /// Continues a search, in the next segment if this one is at its end; from the beginning if it
    /// was dropped or compacted. None if there is nothing more to read.
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

    /// The bytes of the log from a batch on, up to `max_bytes`, the end of its segment, a damaged
    /// part or the batch at `end`; the last batch may be incomplete, as in Kafka. If the first is
    /// longer than `max_bytes`, it is returned in whole if `first_whole`, and None otherwise. None
    /// if the segment was dropped or compacted, or `end` is not after the batch.
    ///
    /// # Errors
    /// The batch ends beyond the bytes that can be read: CORRUPT_MESSAGE.
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

    /// Whether a batch is still at this place: its segment was neither dropped nor compacted.
    pub fn is_current(&self, place: BatchPlace) -> bool {
        self.segment_at(place.segment, place.file).is_some()
    }

    /// Pushes a read of a range onto `ops`. The range must be a current one. The completion has the
    /// caller's `token`.
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

    /// Keeps the file of a range from being removed, until [`OpenFiles::release`].
    pub fn hold(&self, range: &FileRange, files: &mut OpenFiles) {
        let is_it = |segment: &&Segment| segment.file == range.file.segment;
        let segment = self.segments.iter().find(is_it);
        let name = segment.map_or_else(String::new, |it| segment_file_name(it.base_offset));
        files.hold(range.file, &self.place.dir, &name);
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
        written.saturating_sub(before.map_or(0, |_| u64::from(place.position)))
    }

    /// An offset after the last record of a range that begins with a batch. It is too high by at
    /// most the offsets of one index entry.
    pub fn end_offset_of(&self, place: BatchPlace, len: u32) -> i64 {
        let segment = self.segment_at(place.segment, place.file);
        let Some(segment) = segment else { return place.segment };
        segment.offset_from(u64::from(place.position) + u64::from(len))
    }

    /// The segment with this base offset, if its file is still this one.
    pub(super) fn segment_at(&self, base_offset: i64, file: u64) -> Option<&Segment> {
        self.segment_with_base(base_offset).filter(|segment| segment.file == file)
    }

    /// Forgets the places of batches in the segments with these base offsets.
    pub(super) fn forget_recent(&mut self, segments: std::ops::Range<i64>) {
        self.recent.retain(|recent| !segments.contains(&recent.place.segment));
    }

    /// Forgets the places of batches in a file that could not be sent: the next reader looks for
    /// them in the file, and learns why.
    pub fn forget_places_in(&mut self, file: FileKey) {
        self.recent.retain(|recent| recent.place.file != file.segment);
    }

    /// Forgets the places of batches in a damaged part.
    pub(super) fn forget_recent_in(&mut self, part: &DamagedPart) {
        let is_in = |place: BatchPlace| {
            place.segment == part.segment && part.bytes.contains(&u64::from(place.position))
        };
        self.recent.retain(|recent| !is_in(recent.place));
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

impl BatchSearch {
    /// The place of its last read.
    pub fn suspect(&self) -> Suspect {
        Suspect { segment: self.segment, position: self.position }
    }

    fn begin(segment: &Segment, offset: i64) -> Self {
        let position = segment.chunk_of_offset(offset).start;
        Self { offset, segment: segment.base_offset, file: segment.file, position }
    }

    /// Searches the batch in the bytes that were read.
    ///
    /// # Errors
    /// The bytes are not those that were written: CORRUPT_MESSAGE.
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
