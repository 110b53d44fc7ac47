//! The scan of a segment: the batches that are in it, and where they end.

use super::read::BatchPlace;
use super::recovery_point::LogEnd;
use super::segment::Segment;
use crate::limits::PARTITION_SEGMENT_BYTES_MAX;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader, EndTxnMarker};
use std::io;

const WINDOW_BYTES: usize = 64 << 10;

/// The first byte of a batch that its checksum covers.
const CRC_FROM: usize = 21;

/// The bytes of a segment's file.
pub trait SegmentSource {
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// Errors of the file, and its end before `buffer` is full.
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

/// A batch that recovery has found.
#[derive(Debug, Clone, Copy)]
pub struct VisitedBatch {
    pub header: BatchHeader,
    pub place: BatchPlace,
    /// The end of a transaction, if it is one.
    pub marker: Option<EndTxnMarker>,
}

/// Reads the batches of a file through a window of bounded size.
pub(super) struct Scan<'s, S: ?Sized> {
    source: &'s S,
    /// Batches that begin here or later are checked against their checksums.
    checked_from: u64,
    /// The end in the recovery point, if it is in this segment: a batch must end there.
    end: Option<LogEnd>,
    window: Vec<u8>,
    window_at: u64,
}

impl<'s, S: SegmentSource + ?Sized> Scan<'s, S> {
    /// Batches that begin at `checked_from` or later are checked against their checksums. `end` is
    /// the end in the recovery point, if it is in this segment.
    pub(super) fn new(source: &'s S, checked_from: u64, end: Option<LogEnd>) -> Self {
        Self { source, checked_from, end, window: Vec::new(), window_at: 0 }
    }

    /// Adds all valid batches to the segment; returns why the bytes after them, if any, are not
    /// one.
    pub(super) fn run(
        &mut self,
        segment: &mut Segment,
        mut visit: impl FnMut(&VisitedBatch),
    ) -> io::Result<Option<&'static str>> {
        while segment.size < self.source.len() {
            let header = match self.batch(segment)? {
                Ok(header) => header,
                Err(what) => return Ok(Some(what)),
            };
            let (place, marker) =
                (BatchPlace::at_end(segment, &header), self.marker(segment, &header)?);
            visit(&VisitedBatch { header, place, marker });
            segment.push(&header);
            segment.set_written(segment.size, header.max_timestamp);
        }
        Ok(None)
    }

    /// The next batch of the segment, or why the bytes there are not a batch.
    fn batch(&mut self, segment: &Segment) -> io::Result<Result<BatchHeader, &'static str>> {
        let at = segment.size;
        let left = self.source.len() - at;
        if left < RECORD_BATCH_HEADER_BYTES as u64 {
            return Ok(Err("the file ends within a header"));
        }
        let Ok(header) = BatchHeader::read(self.bytes(at, RECORD_BATCH_HEADER_BYTES)?) else {
            return Ok(Err("not a batch"));
        };
        let end = at + header.total_len() as u64;
        let relative_end = header.next_offset().checked_sub(segment.base_offset);
        Ok(if end > self.source.len() || end > PARTITION_SEGMENT_BYTES_MAX {
            Err("the file ends within a batch")
        } else if header.base_offset < segment.next_offset || header.last_offset_delta < 0 {
            Err("offsets go back")
        } else if relative_end.is_none_or(|end| !(1..=i64::from(u32::MAX)).contains(&end)) {
            Err("an offset is too far from the segment's first")
        } else if at >= self.checked_from && self.checksum(at + CRC_FROM as u64, end)? != header.crc
        {
            Err("a checksum does not match")
        } else if self.end.is_some_and(|known| !known.allows(at..end, header.next_offset())) {
            Err("the offsets are not those that were there")
        } else {
            Ok(header)
        })
    }

    /// The marker of a control batch. One that is too long to be one is none.
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
        assert!(len <= WINDOW_BYTES && at + len as u64 <= self.source.len());
        let is_there =
            self.window_at <= at && at + len as u64 <= self.window_at + self.window.len() as u64;
        if !is_there {
            let want = (self.source.len() - at).min(WINDOW_BYTES as u64) as usize;
            self.window.resize(want, 0);
            self.source.read_at(at, &mut self.window)?;
            self.window_at = at;
        }
        let from = (at - self.window_at) as usize;
        Ok(&self.window[from..from + len])
    }
}
