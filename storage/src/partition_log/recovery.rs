//! What the segments of a partition hold after a stop: indexes are rebuilt, a torn end is cut off.
//!
//! A segment is synced soon after the next begins, so only the last two can have lost what the page
//! cache held: there every batch is checked against its checksum, and from the first that is not
//! whole the log is cut, as Kafka does after an unclean stop. In older segments headers are enough
//! to rebuild the index; one that is not valid there is damage to data that was safe.

use super::segment::Segment;
use super::segment_file_name;
use crate::limits::PARTITION_SEGMENT_BYTES_MAX;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::BatchHeader;
use std::{fmt, io};

/// The last segments, whose batches are checked against their checksums.
const CHECKED_SEGMENTS: usize = 2;

const WINDOW_BYTES: usize = 64 << 10;

/// Where the checksum of a batch begins.
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
    /// Those of the file; also its end, if it comes too early.
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

/// Why a partition is not opened.
#[derive(Debug)]
pub enum PartitionError {
    /// Bytes in an older segment are not a batch.
    Damaged {
        base_offset: i64,
        at: u64,
        what: &'static str,
    },
    Io(io::Error),
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { base_offset, at, what } => {
                let name = segment_file_name(*base_offset);
                write!(f, "segment {name} is damaged at byte {at}: {what}")
            }
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PartitionError {}

impl From<io::Error> for PartitionError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads the segments of a partition in the order of
/// [`partition_files`](super::partition_files).
#[derive(Debug)]
pub struct PartitionRecovery {
    left: usize,
    pub(super) segments: Vec<Segment>,
    /// The last segment is longer than its batches.
    pub(super) is_torn: bool,
    /// Segments after the torn end.
    pub(super) dropped: Vec<i64>,
}

impl PartitionRecovery {
    /// For a partition of so many segments.
    pub fn new(segments: usize) -> Self {
        Self { left: segments, segments: Vec::new(), is_torn: false, dropped: Vec::new() }
    }

    /// Takes the next segment and gives the header of each batch to `visit`, in order: for the
    /// state of idempotent producers.
    ///
    /// # Errors
    /// Damage that no crash explains, and errors of the file.
    pub fn segment(
        &mut self,
        base_offset: i64,
        source: &(impl SegmentSource + ?Sized),
        now: i64,
        visit: impl FnMut(&BatchHeader),
    ) -> Result<(), PartitionError> {
        assert!(self.left > 0, "more segments than were announced");
        let is_checked = self.left <= CHECKED_SEGMENTS;
        self.left -= 1;
        if self.is_torn {
            self.dropped.push(base_offset);
            return Ok(());
        }
        let end = self.segments.last().map_or(0, |last| last.next_offset);
        if base_offset < end {
            let what = "it begins before the segment before it ends";
            return Err(PartitionError::Damaged { base_offset, at: 0, what });
        }
        let mut scan = Scan { source, is_checked, window: Vec::new(), window_at: 0 };
        let mut segment = Segment::new(base_offset, now);
        let torn = scan.run(&mut segment, visit)?;
        if let Some(what) = torn {
            if !is_checked {
                return Err(PartitionError::Damaged { base_offset, at: segment.size, what });
            }
            self.is_torn = true;
        }
        self.segments.push(segment);
        Ok(())
    }

    /// Whether bytes at the end were not whole batches and will be cut off.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }
}

/// Goes through the batches of a file with a window of bounded size.
struct Scan<'s, S: ?Sized> {
    source: &'s S,
    is_checked: bool,
    window: Vec<u8>,
    window_at: u64,
}

impl<S: SegmentSource + ?Sized> Scan<'_, S> {
    /// Adds all batches to the segment. What is wrong with the bytes after them, if there are any.
    fn run(
        &mut self,
        segment: &mut Segment,
        mut visit: impl FnMut(&BatchHeader),
    ) -> io::Result<Option<&'static str>> {
        while segment.size < self.source.len() {
            let header = match self.batch(segment)? {
                Ok(header) => header,
                Err(what) => return Ok(Some(what)),
            };
            visit(&header);
            segment.push(&header);
            segment.set_written(segment.size, header.max_timestamp);
        }
        Ok(None)
    }

    /// The batch behind the last of the segment, or why it is none.
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
        } else if self.is_checked && self.checksum(at + CRC_FROM as u64, end)? != header.crc {
            Err("a checksum does not match")
        } else {
            Ok(header)
        })
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
