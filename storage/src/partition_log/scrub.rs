//! Scrubbing: reads a segment again while it is served, and finds the batches that cannot be read.
//!
//! The log knows where some of the batches begin, as the sparse index is in memory: a damaged
//! length costs the batches up to the next index entry. Everything else costs one batch.

use super::PartitionLog;
use super::damaged_part::{DamagedPart, Suspect};
use super::segment::{Boundary, Segment};
use crate::file_op::{FileOp, FileToken};
use crate::limits::SCRUB_READ_BYTES;
use crate::open_files::OpenFiles;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::BatchHeader;

/// The first byte of a batch that its checksum covers.
const CRC_FROM: u64 = 21;

const HEADER_BYTES: u64 = RECORD_BATCH_HEADER_BYTES as u64;

/// The scrub of a segment, or of a part of it. [`PartitionLog::scrub_read`] plans its next read,
/// [`PartitionLog::scrubbed`] takes the bytes that were read.
#[derive(Debug)]
pub struct Scrub {
    segment: i64,
    file: u64,
    /// Where it ends: at a batch, or at the end of the written bytes.
    end: Boundary,
    /// The place of the next batch, and the least offset that it may have.
    at: u64,
    from: i64,
    /// The batch there whose checksum is being computed.
    batch: Option<Checked>,
    bad: Option<Bad>,
    gap: Option<Gap>,
    /// The length of the read under way.
    asked: u32,
}

/// A batch whose checksum is computed up to a place.
#[derive(Debug)]
struct Checked {
    header: BatchHeader,
    crc: u32,
    to: u64,
}

/// Batches that cannot be read, up to one that can.
#[derive(Debug)]
struct Bad {
    start: u64,
    from: i64,
    what: &'static str,
}

/// A batch before which offsets are missing. Base offsets are in no checksum: if the next batch has
/// these offsets, it is this batch that is wrong.
#[derive(Debug)]
struct Gap {
    at: u64,
    from: i64,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    /// More bytes are needed.
    Read,
}

impl PartitionLog {
    /// A scrub of the first segment with written bytes from a base offset on, and the base offset
    /// of that segment.
    pub fn scrub_from(&self, base_offset: i64) -> Option<(i64, Scrub)> {
        let at = self.segments.partition_point(|segment| segment.base_offset < base_offset);
        let segment = self.segments[at..].iter().find(|segment| segment.written > 0)?;
        let start = Boundary { position: 0, offset: segment.base_offset };
        Some((segment.base_offset, Scrub::new(segment, start, self.end_of(segment))))
    }

    /// A scrub of a place that could not be read: from the index entry before it to the index entry
    /// after it.
    pub fn scrub_suspect(&self, suspect: &Suspect) -> Option<Scrub> {
        let segment = self.segment_with_base(suspect.segment).filter(|it| it.written > 0)?;
        let end = self.end_of(segment);
        let start = segment.chunk_start(suspect.position.min(end.position));
        let behind = segment.boundary_after(suspect.position);
        let behind = behind.filter(|it| it.position < end.position);
        let start = Boundary { position: start, offset: segment.offset_from(start) };
        Some(Scrub::new(segment, start, behind.unwrap_or(end)))
    }

    /// Plans the next read of a scrub and pushes it onto `ops`; its completion has `token`, which
    /// is the caller's. None at the end, and if the segment was dropped or compacted; otherwise the
    /// bytes that are read.
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

    /// Takes the bytes that were read. The parts that cannot be read are returned; they are parts
    /// of the log from now on.
    pub fn scrubbed(&mut self, scrub: &mut Scrub, data: &[u8]) -> Vec<DamagedPart> {
        let mut found = Vec::new();
        let Some(segment) = self.segment_at(scrub.segment, scrub.file) else { return found };
        if data.len() < scrub.asked as usize {
            // The file is shorter than it was, which a look at its name shows.
            scrub.give_up();
            return found;
        }
        let data_at = scrub.read_from();
        while scrub.step(segment, data_at, data, &mut found) == Step::Done {}
        found.retain(|part| self.add_damaged(part));
        found
    }

    /// A read has failed: continues after the bytes that could not be read.
    pub fn scrub_failed(&self, scrub: &mut Scrub) {
        let Some(segment) = self.segment_at(scrub.segment, scrub.file) else { return };
        let last = scrub.read_from() + u64::from(scrub.asked) - 1;
        let Boundary { position, offset } = scrub.boundary_after(segment, last);
        (scrub.at, scrub.from) = (position, offset);
        (scrub.batch, scrub.bad, scrub.gap) = (None, None, None);
    }

    /// Returns false if another scrub has found it meanwhile.
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
    /// The base offset of its segment.
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

    /// The first byte that has not been looked at.
    fn read_from(&self) -> u64 {
        self.batch.as_ref().map_or(self.at, |batch| batch.to)
    }

    fn give_up(&mut self) {
        (self.at, self.batch, self.bad) = (self.end.position, None, None);
    }

    /// Looks at the next bytes. `data` has the bytes from `data_at` on.
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

    /// Begins with the next batch.
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

    /// Continues the checksum of a batch.
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

    /// The reason why a header is not the header of the next batch; None if it is.
    fn wrong(&self, segment: &Segment, header: &BatchHeader) -> Option<&'static str> {
        let Boundary { position, offset } = self.boundary_after(segment, self.at);
        // Bytes that cannot be read have at least one offset.
        let least = self.from + i64::from(self.bad.is_some());
        let is_known = |offset| segment.offset_at(self.at).is_some_and(|known| known != offset);
        if self.at + header.total_len() as u64 > position {
            Some("it does not end before the next batch")
        } else if header.base_offset < least || header.last_offset_delta < 0 {
            Some("offsets go back")
        } else if header.next_offset() > offset || header.next_offset() <= header.base_offset {
            Some("its offsets are those of the next batch")
        } else if is_known(header.base_offset) {
            Some("the offsets are not those that were there")
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

    /// The batch cannot be read: continues at the place to which its length leads, or at the next
    /// one that is known.
    fn refuse(&mut self, segment: &Segment, header: Option<&BatchHeader>, what: &'static str) {
        let (start, from) = (self.at, self.from);
        self.bad.get_or_insert(Bad { start, from, what });
        self.gap = None;
        let known = self.boundary_after(segment, self.at).position;
        let end = header.map(|header| self.at + header.total_len() as u64);
        self.at = end.filter(|end| *end <= known).unwrap_or(known);
    }

    /// The batch before this one is wrong if this one has the offsets that are missing before it.
    fn doubt_gap(&mut self, next: &BatchHeader) {
        let Some(Gap { at: start, from }) = self.gap.take() else { return };
        if (from..self.from).contains(&next.base_offset) {
            self.bad = Some(Bad { start, from, what: "its offsets are those of the next batch" });
            self.from = from;
        }
    }

    /// Skips a part that is known to be damaged: another scrub may have found it in the middle of a
    /// batch of this one.
    fn pass_known(&mut self, segment: &Segment, found: &mut Vec<DamagedPart>) {
        let Some(part) = segment.damage_of(self.read_from()) else { return };
        let (position, offset) = (part.bytes.start, part.offsets.start);
        (self.at, self.from) = (part.bytes.end, part.offsets.end);
        (self.batch, self.gap) = (None, None);
        self.close_bad(Boundary { position, offset }, found);
    }

    /// A batch that can be read, or the end, is behind what cannot.
    fn close_bad(&mut self, end: Boundary, found: &mut Vec<DamagedPart>) {
        let Some(Bad { start, from, what }) = self.bad.take() else { return };
        let (bytes, offsets) = (start..end.position, from..end.offset);
        if !bytes.is_empty() && !offsets.is_empty() {
            found.push(DamagedPart { segment: self.segment, bytes, offsets, what });
        }
    }

    /// The next place after a position at which a batch is known to begin, or the end.
    fn boundary_after(&self, segment: &Segment, position: u64) -> Boundary {
        let known = segment.boundary_after(position);
        known.filter(|known| known.position < self.end.position).unwrap_or(self.end)
    }
}
