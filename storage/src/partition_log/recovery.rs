//! Recovery of a partition's segments: rebuilds the indexes, and decides whether missing or invalid
//! bytes are a torn end or damage.
//!
//! A crash loses only bytes that were not yet on stable storage. A [`RecoveryPoint`] is a lower
//! bound of those that were. After it every batch is checked against its checksum, and the log is
//! cut at the first that is not whole, as Kafka does after an unclean stop. Before it, a log that
//! is short, has a gap, or holds bytes that are not batches is damaged, and is not opened.
//!
//! If a partition has no point, it is only known that a segment is synced soon after the next
//! begins, so the last two may have lost the part that was only in the page cache.

use super::read::BatchPlace;
use super::recovery_point::{LogEnd, RecoveryPoint};
use super::segment::Segment;
use super::segment_file_name;
use crate::limits::PARTITION_SEGMENT_BYTES_MAX;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader, EndTxnMarker};
use std::ops::Range;
use std::{fmt, io};

/// The number of last segments whose batches are always checked against their checksums.
const CHECKED_SEGMENTS: usize = 2;

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

/// The reason why a partition is not opened.
#[derive(Debug)]
pub enum PartitionError {
    /// Bytes of a segment are wrong or missing, and no crash explains it.
    Damaged {
        base_offset: i64,
        at: u64,
        what: String,
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

/// Bytes at the end of a log that are not whole batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornEnd {
    /// The segment, by its base offset.
    pub base_offset: i64,
    /// The place of the first torn byte in its file, and their number.
    pub at: u64,
    pub bytes: u64,
    /// The offset that the next record will get.
    pub next_offset: i64,
    pub what: &'static str,
}

/// A recovered partition, from which [`PartitionLog::open`](super::PartitionLog::open) continues.
#[derive(Debug, Default)]
pub struct RecoveredPartition {
    pub(super) segments: Vec<Segment>,
    pub(super) point: Option<RecoveryPoint>,
    torn: Option<TornEnd>,
    removed: Vec<i64>,
    gaps: Vec<Range<i64>>,
}

impl RecoveredPartition {
    /// The torn end that will be cut off.
    pub fn torn(&self) -> Option<TornEnd> {
        self.torn
    }

    /// Segments that will be removed: those after a torn end, and empty ones before others.
    pub fn removed(&self) -> &[i64] {
        &self.removed
    }

    /// Ranges of offsets that are missing between two segments.
    pub fn gaps(&self) -> &[Range<i64>] {
        &self.gaps
    }

    /// The base offset of the first segment; None without segments.
    pub fn base_offset(&self) -> Option<i64> {
        self.segments.first().map(|first| first.base_offset)
    }

    /// The offset after the last record; 0 without segments.
    pub fn end_offset(&self) -> i64 {
        self.segments.last().map_or(0, |last| last.next_offset)
    }

    /// The end of the log; None without segments.
    pub fn end(&self) -> Option<LogEnd> {
        let Segment { base_offset: segment, next_offset: offset, size: bytes, .. } =
            *self.segments.last()?;
        Some(LogEnd { offset, segment, bytes })
    }

    /// The log start offset, unless the first segment begins later; `start_offset` is that in its
    /// file, or 0 if there is none.
    pub fn log_start(&self, start_offset: i64) -> i64 {
        self.point.map_or(start_offset, |point| point.log_start.max(start_offset))
    }

    /// The offset after which there are no gaps.
    pub(super) fn whole_from(&self) -> i64 {
        let known = self.point.map_or(0, |point| point.whole_from);
        self.gaps.last().map_or(known, |gap| gap.end.max(known))
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

/// Reads the segments of a partition in the order of
/// [`partition_files`](super::partition_files).
#[derive(Debug)]
pub struct PartitionRecovery {
    left: usize,
    found: RecoveredPartition,
}

impl PartitionRecovery {
    /// Recovery of a partition with this number of segments, and with its recovery point if it has
    /// one.
    pub fn new(segments: usize, point: Option<RecoveryPoint>) -> Self {
        Self { left: segments, found: RecoveredPartition { point, ..Default::default() } }
    }

    /// Reads the next segment and passes each batch to `visit`, in order: for the state of
    /// producers.
    ///
    /// # Errors
    /// Damage, and errors of the file.
    pub fn segment(
        &mut self,
        base_offset: i64,
        source: &(impl SegmentSource + ?Sized),
        now: i64,
        visit: impl FnMut(&VisitedBatch),
    ) -> Result<(), PartitionError> {
        assert!(self.left > 0, "more segments than were announced");
        let is_recent = self.left <= CHECKED_SEGMENTS;
        self.left -= 1;
        if self.found.torn.is_some() {
            self.found.removed.push(base_offset);
            return Ok(());
        }
        self.join(base_offset)?;
        let synced = self.synced_bytes(base_offset, is_recent);
        let checked_from = if is_recent { 0 } else { synced };
        let end = self.found.point.map(|point| point.end).filter(|it| it.segment == base_offset);
        let mut scan = Scan { source, checked_from, end, window: Vec::new(), window_at: 0 };
        let mut segment = Segment::new(base_offset, now);
        if let Some(what) = scan.run(&mut segment, visit)? {
            let Segment { size: at, next_offset, .. } = segment;
            if at < synced {
                return Err(PartitionError::Damaged { base_offset, at, what: what.to_owned() });
            }
            let bytes = source.len() - at;
            self.found.torn = Some(TornEnd { base_offset, at, bytes, next_offset, what });
        }
        self.found.segments.push(segment);
        Ok(())
    }

    /// Ends the recovery, after all segments.
    ///
    /// # Errors
    /// The log ends before its recovery point.
    pub fn finish(self) -> Result<RecoveredPartition, PartitionError> {
        assert_eq!(self.left, 0, "fewer segments than were announced");
        let end = self.found.end_offset();
        let Some(point) = self.found.point.filter(|point| end < point.end.offset) else {
            return Ok(self.found);
        };
        let last = self.found.segments.last();
        let (base_offset, at) =
            last.map_or((point.end.segment, 0), |last| (last.base_offset, last.size));
        let what = format!(
            "the log ends at offset {end}, and everything before offset {} was on the disk",
            point.end.offset
        );
        Err(PartitionError::Damaged { base_offset, at, what })
    }

    /// Checks for a gap between the last segment and the next one. A gap is damage if the recovery
    /// point covers it, and otherwise skipped, as in Kafka; an empty segment before it is dropped.
    fn join(&mut self, base_offset: i64) -> Result<(), PartitionError> {
        let Some(last) = self.found.segments.last() else { return Ok(()) };
        let Segment { base_offset: before, next_offset: end, size: at, .. } = *last;
        if base_offset < end {
            let what = "it begins before the segment before it ends".to_owned();
            return Err(PartitionError::Damaged { base_offset, at: 0, what });
        }
        if base_offset == end {
            return Ok(());
        }
        if self.found.point.is_some_and(|point| point.covers(end)) {
            let last = base_offset - 1;
            let what = format!("the records from offset {end} to {last} are missing behind it");
            return Err(PartitionError::Damaged { base_offset: before, at, what });
        }
        if at == 0 {
            self.found.segments.pop();
            self.found.removed.push(before);
        }
        self.found.gaps.push(end..base_offset);
        Ok(())
    }

    /// The number of bytes of a segment that must be on stable storage.
    fn synced_bytes(&self, base_offset: i64, is_recent: bool) -> u64 {
        match self.found.point {
            Some(RecoveryPoint { end, .. }) if base_offset == end.segment => end.bytes,
            Some(RecoveryPoint { end, .. }) if base_offset > end.segment => 0,
            None if is_recent => 0,
            Some(_) | None => u64::MAX,
        }
    }
}

/// The offset after the last record of a segment that compaction has completed.
///
/// # Errors
/// The segment is damaged: one of its batches does not match its checksum, for example.
pub fn segment_end(
    base_offset: i64,
    source: &(impl SegmentSource + ?Sized),
) -> Result<i64, PartitionError> {
    let mut scan = Scan { source, checked_from: 0, end: None, window: Vec::new(), window_at: 0 };
    let mut segment = Segment::new(base_offset, 0);
    match scan.run(&mut segment, |_| {})? {
        None if segment.size > 0 => Ok(segment.next_offset),
        what => {
            let (at, what) = (segment.size, what.unwrap_or("it is empty").to_owned());
            Err(PartitionError::Damaged { base_offset, at, what })
        }
    }
}

/// Reads the batches of a file through a window of bounded size.
struct Scan<'s, S: ?Sized> {
    source: &'s S,
    /// Batches that begin here or later are checked against their checksums.
    checked_from: u64,
    /// The end in the recovery point, if it is in this segment: a batch must end there.
    end: Option<LogEnd>,
    window: Vec<u8>,
    window_at: u64,
}

impl<S: SegmentSource + ?Sized> Scan<'_, S> {
    /// Adds all valid batches to the segment; returns why the bytes after them, if any, are not
    /// one.
    fn run(
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
