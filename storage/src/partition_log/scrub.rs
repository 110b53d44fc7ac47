//! Scrubbing: reads a segment again while it is being served, and finds unreadable batches.
//!
//! Usually damage makes only one batch unreadable. If a length field is damaged, the start of the
//! next batch is unknown, and the batches up to the next entry of the sparse index are lost, too.
//! This index is in memory, and has the positions of some batches.

use super::PartitionLog;
use super::damaged_part::{DamagedPart, Suspect};
use super::segment::{Boundary, Segment};
use crate::file_op::{FileOp, FileToken};
use crate::limits::SCRUB_READ_BYTES;
use crate::open_files::OpenFiles;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::BatchHeader;

/// The checksum of a batch covers the bytes from this one on.
const CRC_FROM: u64 = 21;

const HEADER_BYTES: u64 = RECORD_BATCH_HEADER_BYTES as u64;

/// The scrub of a segment or a part of it. [`PartitionLog::scrub_read`] plans the next read, and
/// [`PartitionLog::scrubbed`] takes the bytes that were read.
#[derive(Debug)]
pub struct Scrub {
    segment: i64,
    file: u64,
    /// The end of the scrub: the start of a batch, or the end of the written bytes.
    end: Boundary,
    /// The position of the next batch. `from` is the lowest offset that this batch may have.
    at: u64,
    from: i64,
    /// The batch at `at`, while its checksum is being computed.
    batch: Option<Checked>,
    bad: Option<Bad>,
    gap: Option<Gap>,
    /// The length of the read in progress.
    asked: u32,
}

/// A batch whose checksum has been computed up to the position `to`.
#[derive(Debug)]
struct Checked {
    header: BatchHeader,
    crc: u32,
    to: u64,
}

/// Unreadable bytes, up to the next readable batch.
#[derive(Debug)]
struct Bad {
    start: u64,
    from: i64,
    what: &'static str,
}

/// A batch before which offsets are missing. If the next batch has the missing offsets, this batch
/// is the damaged one: checksums do not cover base offsets.
#[derive(Debug)]
struct Gap {
    at: u64,
    from: i64,
}

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    /// More bytes are needed.
    Read,
}

impl PartitionLog {
    /// Begins a scrub of the first segment with written bytes whose base offset is at least
    /// `base_offset`. Also returns the segment's base offset.
    pub fn scrub_from(&self, base_offset: i64) -> Option<(i64, Scrub)> {
        let at = self.segments.partition_point(|segment| segment.base_offset < base_offset);
        let segment = self.segments[at..].iter().find(|segment| segment.written > 0)?;
        let start = Boundary { position: 0, offset: segment.base_offset };
        Some((segment.base_offset, Scrub::new(segment, start, self.end_of(segment))))
    }

    /// Begins a scrub around a position where a read failed: from the index entry before it to the
    /// one after it.
    pub fn scrub_suspect(&self, suspect: &Suspect) -> Option<Scrub> {
        let segment = self.segment_with_base(suspect.segment).filter(|it| it.written > 0)?;
        let end = self.end_of(segment);
        let start = segment.chunk_start(suspect.position.min(end.position));
        let behind = segment.boundary_after(suspect.position);
        let behind = behind.filter(|it| it.position < end.position);
        let start = Boundary { position: start, offset: segment.offset_from(start) };
        Some(Scrub::new(segment, start, behind.unwrap_or(end)))
    }

    /// Plans the next read of a scrub and pushes it onto `ops`, with the caller's `token`. Returns
    /// the number of bytes to read; None at the end, or if the segment was dropped or compacted.
    pub fn scrub_read(
        &self,
        scrub: &mut Scrub,
        token: FileToken,
        files: &mut OpenFiles,
        ops: &mut Vec<FileOp>,
    ) -> Option<u32> {
        let segment = self.segment_at(scrub.segment, scrub.file)?;
        scrub.pass_known(segment, &mut Vec::new());
        let from = scrub.read_from();
        let to = segment.readable_end(from).min(scrub.end.position);
        let len = to.saturating_sub(from).min(u64::from(SCRUB_READ_BYTES)) as u32;
        if len == 0 {
            return None;
        }
        scrub.asked = len;
        let file = self.file(segment, files, ops);
        ops.push(FileOp::Read { token, file, offset: from, len });
        Some(len)
    }

    /// Takes the bytes that were read. If damaged parts end in these bytes, adds the parts to the
    /// segment and returns them, except parts that overlap one that another scrub has found.
    pub fn scrubbed(&mut self, scrub: &mut Scrub, data: &[u8]) -> Vec<DamagedPart> {
        let mut found = Vec::new();
        let Some(segment) = self.segment_at(scrub.segment, scrub.file) else { return found };
        if data.len() < scrub.asked as usize {
            // The file has become shorter; the check of file names (`sight`) reports that.
            scrub.give_up();
            return found;
        }
        let data_at = scrub.read_from();
        while scrub.step(segment, data_at, data, &mut found) == Step::Done {}
        found.retain(|part| self.add_damaged(part));
        found
    }

    /// Handles a failed read: the scrub continues after the unreadable bytes.
    pub fn scrub_failed(&self, scrub: &mut Scrub) {
        let Some(segment) = self.segment_at(scrub.segment, scrub.file) else { return };
        let last = scrub.read_from() + u64::from(scrub.asked) - 1;
        let Boundary { position, offset } = scrub.boundary_after(segment, last);
        (scrub.at, scrub.from) = (position, offset);
        (scrub.batch, scrub.bad, scrub.gap) = (None, None, None);
    }

    /// Adds a damaged part to its segment. Returns false, and adds nothing, if the part overlaps
    /// one that another scrub has added.
    fn add_damaged(&mut self, part: &DamagedPart) -> bool {
        self.forget_recent_in(part);
        let at = self.segment_of(part.segment);
        self.segments[at].add_damaged(part.clone())
    }

    /// The end of the written bytes of a segment.
    fn end_of(&self, segment: &Segment) -> Boundary {
        let is_written = segment.written == segment.size;
        let offset = if is_written { segment.next_offset } else { self.high_watermark };
        Boundary { position: segment.written, offset }
    }
}

impl Scrub {
    /// The base offset of the scrubbed segment.
    pub fn segment(&self) -> i64 {
        self.segment
    }

    fn new(segment: &Segment, start: Boundary, end: Boundary) -> Self {
        Self {
            segment: segment.base_offset,
            file: segment.file,
            end,
            at: start.position,
            from: start.offset,
            batch: None,
            bad: None,
            gap: None,
            asked: 0,
        }
    }

    /// The position of the first byte that was not scrubbed yet.
    fn read_from(&self) -> u64 {
        self.batch.as_ref().map_or(self.at, |batch| batch.to)
    }

    fn give_up(&mut self) {
        (self.at, self.batch, self.bad) = (self.end.position, None, None);
    }

    /// Processes the next bytes. `data` contains the bytes from position `data_at` on.
    fn step(
        &mut self,
        segment: &Segment,
        data_at: u64,
        data: &[u8],
        found: &mut Vec<DamagedPart>,
    ) -> Step {
        self.pass_known(segment, found);
        if self.at >= self.end.position {
            self.close_bad(self.end, found);
            return Step::Read;
        }
        let data = data.get((self.read_from() - data_at) as usize..).unwrap_or_default();
        match self.batch.take() {
            Some(batch) => self.resume(segment, batch, data, found),
            None => self.begin(segment, data),
        }
    }

    /// Processes the header of the next batch.
    fn begin(&mut self, segment: &Segment, data: &[u8]) -> Step {
        let left = self.boundary_after(segment, self.at).position - self.at;
        if left < HEADER_BYTES {
            self.refuse(segment, None, "the file ends within a header");
            return Step::Done;
        }
        if (data.len() as u64) < HEADER_BYTES {
            return Step::Read;
        }
        let Ok(header) = BatchHeader::read(data) else {
            self.refuse(segment, None, "not a batch");
            return Step::Done;
        };
        self.doubt_gap(&header);
        match self.wrong(segment, &header) {
            Some(what) => self.refuse(segment, Some(&header), what),
            None => self.batch = Some(Checked { header, crc: 0, to: self.at + CRC_FROM }),
        }
        Step::Done
    }

    /// Continues to compute the checksum of a batch.
    fn resume(
        &mut self,
        segment: &Segment,
        mut batch: Checked,
        data: &[u8],
        found: &mut Vec<DamagedPart>,
    ) -> Step {
        let end = self.at + batch.header.total_len() as u64;
        let len = (end - batch.to).min(data.len() as u64) as usize;
        batch.crc = crc32c::crc32c_append(batch.crc, &data[..len]);
        batch.to += len as u64;
        if batch.to < end {
            self.batch = Some(batch);
            return Step::Read;
        }
        let Checked { header, crc, .. } = batch;
        if crc == header.crc {
            self.accept(&header, found);
        } else {
            self.refuse(segment, Some(&header), "a checksum does not match");
        }
        Step::Done
    }

    /// The reason why this is not a valid header of the next batch; None if it is valid.
    fn wrong(&self, segment: &Segment, header: &BatchHeader) -> Option<&'static str> {
        let Boundary { position, offset } = self.boundary_after(segment, self.at);
        // The unreadable bytes before this batch contain at least one offset.
        let least = self.from + i64::from(self.bad.is_some());
        let is_known = |offset| segment.offset_at(self.at).is_some_and(|known| known != offset);
        if self.at + header.total_len() as u64 > position {
            Some("it does not end before the next batch")
        } else if header.base_offset < least || header.last_offset_delta < 0 {
            Some("offsets go back")
        } else if header.next_offset() > offset || header.next_offset() <= header.base_offset {
            Some("its offsets are those of the next batch")
        } else if is_known(header.base_offset) {
            Some("the offset contradicts the index")
        } else {
            None
        }
    }

    fn accept(&mut self, header: &BatchHeader, found: &mut Vec<DamagedPart>) {
        let Self { at, from, .. } = *self;
        let was_bad = self.bad.is_some();
        self.close_bad(Boundary { position: at, offset: header.base_offset }, found);
        self.gap = (!was_bad && header.base_offset > from).then_some(Gap { at, from });
        (self.at, self.from) = (at + header.total_len() as u64, header.next_offset());
    }

    /// Handles an unreadable batch. The scrub continues after as many bytes as the batch's header
    /// says, if this is not beyond the next boundary ([`Scrub::boundary_after`]); otherwise it
    /// continues at this boundary.
    fn refuse(&mut self, segment: &Segment, header: Option<&BatchHeader>, what: &'static str) {
        let (start, from) = (self.at, self.from);
        self.bad.get_or_insert(Bad { start, from, what });
        self.gap = None;
        let known = self.boundary_after(segment, self.at).position;
        let end = header.map(|header| self.at + header.total_len() as u64);
        self.at = end.filter(|end| *end <= known).unwrap_or(known);
    }

    /// Called for each batch. If offsets were missing before the batch that precedes it, and this
    /// batch has them, marks the preceding one as damaged.
    fn doubt_gap(&mut self, next: &BatchHeader) {
        let Some(Gap { at: start, from }) = self.gap.take() else { return };
        if (from..self.from).contains(&next.base_offset) {
            self.bad = Some(Bad { start, from, what: "its offsets are those of the next batch" });
            self.from = from;
        }
    }

    /// Skips a part that is already known to be damaged. Another scrub may have found it; it may
    /// even begin in the middle of the batch whose checksum is being computed.
    fn pass_known(&mut self, segment: &Segment, found: &mut Vec<DamagedPart>) {
        let Some(part) = segment.damage_of(self.read_from()) else { return };
        let (position, offset) = (part.bytes.start, part.offsets.start);
        (self.at, self.from) = (part.bytes.end, part.offsets.end);
        (self.batch, self.gap) = (None, None);
        self.close_bad(Boundary { position, offset }, found);
    }

    /// If unreadable bytes were found, makes them a damaged part that ends at `end`. This is the
    /// start of a readable batch or of a known damaged part, or the end of the scrub.
    fn close_bad(&mut self, end: Boundary, found: &mut Vec<DamagedPart>) {
        let Some(Bad { start, from, what }) = self.bad.take() else { return };
        let (bytes, offsets) = (start..end.position, from..end.offset);
        if !bytes.is_empty() && !offsets.is_empty() {
            found.push(DamagedPart { segment: self.segment, bytes, offsets, what });
        }
    }

    /// The first position after `position` at which a batch or a damaged part is known to begin;
    /// the end of the scrub if there is none before it.
    fn boundary_after(&self, segment: &Segment, position: u64) -> Boundary {
        let known = segment.boundary_after(position);
        known.filter(|known| known.position < self.end.position).unwrap_or(self.end)
    }
}
