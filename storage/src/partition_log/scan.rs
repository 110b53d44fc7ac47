//! Scans a segment: finds its batches and where they end.

use super::batch_place::BatchPlace;
use super::damaged_part::DamagedPart;
use super::recovery_point::LogEnd;
use super::segment::Segment;
use crate::limits::{PARTITION_SEGMENT_BYTES_MAX, SEARCHED_BYTES_PER_BYTE};
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader, EndTxnMarker, NO_TIMESTAMP};
use std::io;

const WINDOW_BYTES: usize = 64 << 10;

/// The checksum of a batch covers the bytes from this one on.
const CRC_FROM: usize = 21;

/// Reads the bytes of a segment's file.
pub trait SegmentSource {
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// The file cannot be read, or ends before `buffer` is full.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl SegmentSource for [u8] {
    fn len(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = self.get(offset as usize..).unwrap_or_default();
        let bytes = from.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

/// A batch that recovery found.
#[derive(Debug, Clone, Copy)]
pub struct VisitedBatch {
    pub header: BatchHeader,
    pub place: BatchPlace,
    /// The marker in the batch; None if the batch has none.
    pub marker: Option<EndTxnMarker>,
}

/// The error for a batch whose offsets belong to the next segment.
pub(super) const BEYOND: &str = "an offset is not before the next segment's first";

/// Facts about a segment that are known without its file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Expected {
    /// Checksums are verified for batches that begin at or after this position.
    pub(super) checked_from: u64,
    /// The end in the recovery point, if it is in this segment. A batch must end there.
    pub(super) end: Option<LogEnd>,
    /// The base offset of the next segment.
    pub(super) next_base: Option<i64>,
}

/// Reads the batches of a file through a buffer of bounded size.
pub(super) struct Scan<'s, S: ?Sized> {
    source: &'s S,
    /// The number of bytes to scan.
    len: u64,
    expected: Expected,
    window: Vec<u8>,
    window_at: u64,
}

impl<'s, S: SegmentSource + ?Sized> Scan<'s, S> {
    pub(super) fn new(source: &'s S, expected: Expected) -> Self {
        Self { source, len: source.len(), expected, window: Vec::new(), window_at: 0 }
    }

    /// Adds all valid batches, and the damaged parts between them, to the segment. If it stops
    /// before the end of the bytes, returns the reason why the next batch cannot be read.
    pub(super) fn run(
        &mut self,
        segment: &mut Segment,
        mut visit: impl FnMut(&VisitedBatch),
    ) -> io::Result<Option<&'static str>> {
        while segment.size < self.len {
            let header = match self.batch(segment)? {
                Ok(header) => header,
                Err(what) => match self.damaged_part(segment, what)? {
                    Some(part) => {
                        segment.push_damaged(part);
                        segment.set_written(segment.size, NO_TIMESTAMP);
                        continue;
                    }
                    None => return Ok(Some(what)),
                },
            };
            let (place, marker) =
                (BatchPlace::at_end(segment, &header), self.marker(segment, &header)?);
            visit(&VisitedBatch { header, place, marker });
            segment.push(&header);
            segment.set_written(segment.size, header.max_timestamp);
        }
        Ok(None)
    }

    /// Like [`Self::run`], for the bytes before `end` only.
    pub(super) fn run_to(&mut self, segment: &mut Segment, end: u64) -> io::Result<()> {
        self.len = end;
        self.run(segment, |_| {})?;
        self.len = self.source.len();
        Ok(())
    }

    /// Finds the first readable batch after the end of the scanned part, and its position. A client
    /// can send records that contain the bytes of a valid batch, so the found batch may be such
    /// bytes. This does no harm: the client could have sent the batch itself.
    pub(super) fn next_batch(
        &mut self,
        segment: &Segment,
    ) -> io::Result<Option<(u64, BatchHeader)>> {
        let mut left = self.len.saturating_mul(SEARCHED_BYTES_PER_BYTE);
        let last = self.len.saturating_sub(RECORD_BATCH_HEADER_BYTES as u64);
        for at in segment.size + 1..=last {
            let Ok(header) = self.framed(at)? else { continue };
            if self.wrong(segment, at, segment.next_offset, &header, false)?.is_some() {
                continue;
            }
            left = left.saturating_sub(header.total_len() as u64);
            if left == 0 {
                break;
            }
            if self.wrong(segment, at, segment.next_offset, &header, true)?.is_none() {
                return Ok(Some((at, header)));
            }
        }
        Ok(None)
    }

    /// Reads the next batch of the segment, or returns the reason why there is none.
    fn batch(&mut self, segment: &Segment) -> io::Result<Result<BatchHeader, &'static str>> {
        let (at, from) = (segment.size, segment.next_offset);
        let header = match self.framed(at)? {
            Ok(header) => header,
            Err(what) => return Ok(Err(what)),
        };
        let is_checked = at >= self.expected.checked_from;
        if let Some(what) = self.wrong(segment, at, from, &header, is_checked)? {
            return Ok(Err(what));
        }
        // Checksums do not cover base offsets, so the base offset of this batch may be wrong. It is
        // wrong if offsets are missing before this batch, and its offsets overlap those of the
        // next.
        if header.base_offset > from
            && let Ok(next) = self.framed(at + header.total_len() as u64)?
            && (from..header.next_offset()).contains(&next.base_offset)
        {
            return Ok(Err("its offsets are those of the next batch"));
        }
        Ok(Ok(header))
    }

    /// Returns the damaged part that begins at the end of the scanned part. To find its end,
    /// follows the length fields in it, which must lead to a readable batch, or to a position whose
    /// offset is known; otherwise returns None. Also returns None if the part contains several
    /// valid batches: they belong to another file.
    fn damaged_part(
        &mut self,
        segment: &Segment,
        what: &'static str,
    ) -> io::Result<Option<DamagedPart>> {
        let (start, from) = (segment.size, segment.next_offset);
        let (mut at, mut whole) = (start, 0);
        let end_offset = loop {
            let Ok(header) = self.framed(at)? else { return Ok(None) };
            let end = at + header.total_len() as u64;
            whole += usize::from(self.checksum(at + CRC_FROM as u64, end)? == header.crc);
            if whole > 1 {
                return Ok(None);
            }
            let known = self.expected.end.filter(|known| at < known.bytes);
            at = end;
            match known {
                Some(known) if at > known.bytes => return Ok(None),
                Some(known) if at == known.bytes => break known.offset,
                Some(_) | None => {}
            }
            if at == self.len {
                let Some(next_base) = self.expected.next_base else { return Ok(None) };
                break next_base;
            }
            if let Ok(next) = self.framed(at)?
                && self.wrong(segment, at, from.saturating_add(1), &next, true)?.is_none()
            {
                break next.base_offset;
            }
        };
        let part = DamagedPart {
            segment: segment.base_offset,
            bytes: start..at,
            offsets: from..end_offset,
            what,
        };
        Ok((from < end_offset).then_some(part))
    }

    /// Reads the header at a position, or returns the reason why no whole batch can be there.
    fn framed(&mut self, at: u64) -> io::Result<Result<BatchHeader, &'static str>> {
        if self.len - at < RECORD_BATCH_HEADER_BYTES as u64 {
            return Ok(Err("the file ends within a header"));
        }
        let Ok(header) = BatchHeader::read(self.bytes(at, RECORD_BATCH_HEADER_BYTES)?) else {
            return Ok(Err("not a batch"));
        };
        let end = at + header.total_len() as u64;
        let is_cut = end > self.len || end > PARTITION_SEGMENT_BYTES_MAX;
        Ok(if is_cut { Err("the file ends within a batch") } else { Ok(header) })
    }

    /// The reason why the batch at the position `at` is invalid; None if it is valid. Its offsets
    /// must be `from` or higher.
    fn wrong(
        &mut self,
        segment: &Segment,
        at: u64,
        from: i64,
        header: &BatchHeader,
        is_checked: bool,
    ) -> io::Result<Option<&'static str>> {
        let Expected { end: known, next_base, .. } = self.expected;
        let (end, next_offset) = (at + header.total_len() as u64, header.next_offset());
        let relative_end = next_offset.checked_sub(segment.base_offset);
        Ok(if header.base_offset < from || header.last_offset_delta < 0 {
            Some("offsets go back")
        } else if relative_end.is_none_or(|end| !(1..=i64::from(u32::MAX)).contains(&end)) {
            Some("an offset is too far from the segment's first")
        } else if is_checked && self.checksum(at + CRC_FROM as u64, end)? != header.crc {
            Some("a checksum does not match")
        } else if known.is_some_and(|known| !known.allows(at..end, next_offset)) {
            Some("the offsets contradict the recovery point")
        } else if next_base.is_some_and(|next_base| next_offset > next_base) {
            Some(BEYOND)
        } else {
            None
        })
    }

    /// Reads the marker of a control batch. An oversized control batch is not a marker.
    fn marker(
        &mut self,
        segment: &Segment,
        header: &BatchHeader,
    ) -> io::Result<Option<EndTxnMarker>> {
        if !header.is_control() || header.total_len() > WINDOW_BYTES {
            return Ok(None);
        }
        let bytes = self.bytes(segment.size, header.total_len())?;
        let read = Batch::read(bytes).and_then(|batch| EndTxnMarker::of_batch(&batch));
        Ok(read.unwrap_or_default())
    }

    fn checksum(&mut self, mut at: u64, end: u64) -> io::Result<u32> {
        let mut crc = 0;
        while at < end {
            let len = (end - at).min(WINDOW_BYTES as u64) as usize;
            crc = crc32c::crc32c_append(crc, self.bytes(at, len)?);
            at += len as u64;
        }
        Ok(crc)
    }

    fn bytes(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        assert!(len <= WINDOW_BYTES && at + len as u64 <= self.len);
        let is_there =
            self.window_at <= at && at + len as u64 <= self.window_at + self.window.len() as u64;
        if !is_there {
            let want = (self.len - at).min(WINDOW_BYTES as u64) as usize;
            self.window.resize(want, 0);
            self.source.read_at(at, &mut self.window)?;
            self.window_at = at;
        }
        let from = (at - self.window_at) as usize;
        Ok(&self.window[from..from + len])
    }
}
