//! Repairs a segment: damaged batches are restored or cut out, everything else stays.
//!
//! A batch's checksum does not cover its offset, length and magic. So these three are set to the
//! values that follow from the neighbours of the batch. If the checksum then matches, the batch is
//! restored. Otherwise a batch without records replaces it. The offset of this batch is the last
//! lost offset, so that no offset is missing between this segment and the next.

use super::damaged_part::DamagedPart;
use super::scan::{Expected, Scan, SegmentSource};
use super::segment::Segment;
use crate::limits::{PARTITION_SEGMENT_BYTES_MAX, RESTORED_BATCH_BYTES_MAX};
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{BatchHeader, restore_framing, validate};
use std::io;
use std::ops::Range;

/// The repair of one segment. The file is not changed yet: this has the changes planned so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentRepair {
    base_offset: i64,
    /// The content of the repaired segment.
    pieces: Vec<Piece>,
    cuts: Vec<SegmentCut>,
}

/// A range of bytes that is cut out of the segment's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentCut {
    pub bytes: Range<u64>,
    /// The offsets of lost records; empty if the batch is restored.
    pub lost: Range<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// A range of the original file.
    Kept(Range<u64>),
    /// Bytes that replace a part that was cut out.
    New(Vec<u8>),
}

/// A view of a segment as it is after its repair.
#[derive(Debug)]
pub struct Repaired<'s, S: ?Sized> {
    source: &'s S,
    repair: &'s SegmentRepair,
}

impl SegmentRepair {
    /// A repair of a segment of this length, without changes so far.
    pub fn new(base_offset: i64, len: u64) -> Self {
        Self { base_offset, pieces: vec![Piece::Kept(0..len)], cuts: Vec::new() }
    }

    /// A view of the repaired segment, for the original bytes in `source`.
    pub fn of<'s, S: ?Sized>(&'s self, source: &'s S) -> Repaired<'s, S> {
        Repaired { source, repair: self }
    }

    /// Whether nothing is left of the segment.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(|piece| piece.len() == 0)
    }

    /// The ranges that are cut out, in the order in which they were found.
    pub fn cuts(&self) -> &[SegmentCut] {
        &self.cuts
    }

    /// Restores a damaged part or cuts it out. If a segment has several parts, begin with the last
    /// one: the positions in `part` are those in the segment as earlier repairs have left it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn part(
        &mut self,
        source: &(impl SegmentSource + ?Sized),
        part: &DamagedPart,
    ) -> io::Result<()> {
        let DamagedPart { bytes, offsets, .. } = part;
        let restored = restored(&self.of(source), bytes.clone(), offsets.clone())?;
        self.replace(bytes.clone(), offsets.clone(), restored);
        Ok(())
    }

    /// Restores or cuts out bytes that do not look like batches, from `at` to the next readable
    /// batch or to the end of the segment. `end` is the base offset of the next segment, or the log
    /// end offset. In two cases nothing replaces the bytes that are cut out: if they are the whole
    /// segment, and if no offset after them is known.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn unframed(
        &mut self,
        source: &(impl SegmentSource + ?Sized),
        at: u64,
        end: Option<i64>,
    ) -> io::Result<()> {
        let view = self.of(source);
        let expected = Expected { next_base: end, ..Expected::default() };
        let mut scan = Scan::new(&view, expected);
        let mut segment = Segment::new(self.base_offset, 0);
        scan.run_to(&mut segment, at)?;
        let next = scan.next_batch(&segment)?;
        let first = segment.next_offset;
        let (bytes, offsets) = match next {
            Some((place, header)) => (at..place, first..header.base_offset),
            None => (at..view.len(), first..end.unwrap_or(i64::MAX)),
        };
        let restored = restored(&view, bytes.clone(), offsets.clone())?;
        let is_end_known = next.is_some() || end.is_some();
        if restored.is_some() || (is_end_known && (at > 0 || next.is_some())) {
            self.replace(bytes, offsets, restored);
        } else {
            self.cut(bytes, first..end.map_or(first, |end| end.max(first)), Vec::new());
        }
        Ok(())
    }

    fn replace(&mut self, bytes: Range<u64>, offsets: Range<i64>, restored: Option<Vec<u8>>) {
        match restored {
            Some(batch) => self.cut(bytes, offsets.start..offsets.start, batch),
            None if offsets.is_empty() => self.cut(bytes, offsets.start..offsets.start, Vec::new()),
            None => self.cut(bytes, offsets.clone(), empty_batch(offsets.end - 1)),
        }
    }

    fn cut(&mut self, bytes: Range<u64>, lost: Range<i64>, instead: Vec<u8>) {
        let in_file = self.in_file(bytes.start)..self.in_file(bytes.end);
        self.cuts.push(SegmentCut { bytes: in_file, lost });
        let (mut pieces, mut at) = (Vec::new(), 0);
        let mut instead = Some(Piece::New(instead));
        for piece in std::mem::take(&mut self.pieces) {
            let (start, end) = (at, at + piece.len());
            at = end;
            pieces.extend(piece.part(0..bytes.start.clamp(start, end) - start));
            if end >= bytes.start {
                pieces.extend(instead.take());
            }
            pieces.extend(piece.part(bytes.end.clamp(start, end) - start..end - start));
        }
        pieces.extend(instead.take());
        pieces.retain(|piece| piece.len() > 0);
        self.pieces = pieces;
    }

    /// Converts a position in the repaired segment to a position in the file.
    fn in_file(&self, place: u64) -> u64 {
        let (mut at, mut last) = (0, 0);
        for piece in &self.pieces {
            if let Piece::Kept(bytes) = piece {
                last = bytes.start + place.saturating_sub(at).min(piece.len());
            }
            at += piece.len();
            if place < at {
                break;
            }
        }
        last
    }
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::Kept(bytes) => bytes.end - bytes.start,
            Self::New(bytes) => bytes.len() as u64,
        }
    }

    fn part(&self, part: Range<u64>) -> Option<Self> {
        (!part.is_empty()).then(|| match self {
            Self::Kept(bytes) => Self::Kept(bytes.start + part.start..bytes.start + part.end),
            Self::New(bytes) => Self::New(bytes[part.start as usize..part.end as usize].to_vec()),
        })
    }
}

impl<S: SegmentSource + ?Sized> SegmentSource for Repaired<'_, S> {
    fn len(&self) -> u64 {
        self.repair.pieces.iter().map(Piece::len).sum()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (mut at, mut filled) = (0, 0);
        for piece in &self.repair.pieces {
            let skipped = (offset + filled as u64).saturating_sub(at);
            at += piece.len();
            let len = piece.len().saturating_sub(skipped).min((buffer.len() - filled) as u64);
            let into = &mut buffer[filled..filled + len as usize];
            match piece {
                Piece::Kept(bytes) if len > 0 => {
                    self.source.read_at(bytes.start + skipped, into)?;
                }
                Piece::New(bytes) if len > 0 => {
                    into.copy_from_slice(&bytes[skipped as usize..(skipped + len) as usize]);
                }
                Piece::Kept(_) | Piece::New(_) => {}
            }
            filled += len as usize;
        }
        if filled == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// Sets the offset, length and magic of the batch in these bytes; its checksum does not cover them.
/// Returns the batch if it is valid now and its offsets are exactly `offsets`.
fn restored(
    source: &(impl SegmentSource + ?Sized),
    bytes: Range<u64>,
    offsets: Range<i64>,
) -> io::Result<Option<Vec<u8>>> {
    let len = bytes.end - bytes.start;
    let lens = RECORD_BATCH_HEADER_BYTES as u64..=RESTORED_BATCH_BYTES_MAX;
    if !lens.contains(&len) || bytes.end > PARTITION_SEGMENT_BYTES_MAX {
        return Ok(None);
    }
    let mut batch = vec![0; len as usize];
    source.read_at(bytes.start, &mut batch)?;
    restore_framing(&mut batch, offsets.start);
    let is_whole = validate(&batch).is_ok_and(|header| {
        header.next_offset() > header.base_offset
            && (header.next_offset() == offsets.end || offsets.end == i64::MAX)
    });
    Ok(is_whole.then_some(batch))
}

/// A batch with one offset and no records.
fn empty_batch(offset: i64) -> Vec<u8> {
    let mut batch = vec![0; RECORD_BATCH_HEADER_BYTES];
    BatchHeader::empty(offset).write(&mut batch);
    batch
}
