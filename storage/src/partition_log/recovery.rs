//! Recovery of a partition's segments: rebuilds the indexes, and decides whether missing or invalid
//! bytes are a torn end or damage.
//!
//! A crash loses only bytes that were not on stable storage. A [`RecoveryPoint`] says how many
//! bytes certainly were on stable storage. After the point, every batch is checked against its
//! checksum, and the log is cut at the first incomplete batch, as in Kafka after an unclean
//! shutdown. Before the point, the log must be complete. It is damaged and not opened if it is too
//! short, has a gap, or contains bytes that are not batches.
//!
//! There is an exception, before and after the point: if a batch cannot be read, but its length
//! leads to a batch that can, it is a [`DamagedPart`]. The log is opened, and everything else is
//! served.
//!
//! Without a recovery point, it is only known that a segment is synced soon after the next one was
//! begun. So the last two segments may have lost data that was only in the page cache.

use super::damaged_part::DamagedPart;
use super::recovery_point::{LogEnd, RecoveryPoint};
use super::scan::{BEYOND, Expected, Scan, SegmentSource, VisitedBatch};
use super::segment::Segment;
use super::segment_file_name;
use std::ops::Range;
use std::{fmt, io};

/// The number of segments at the end of a log whose batches are always checked against their
/// checksums.
const CHECKED_SEGMENTS: usize = 2;

/// The reason why a partition is not opened.
#[derive(Debug)]
pub enum PartitionError {
    /// Bytes of a segment are wrong or missing, and a crash cannot explain it.
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

/// Incomplete batches at the end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornEnd {
    /// The base offset of the segment.
    pub base_offset: i64,
    /// The file position of the first torn byte, and the number of torn bytes.
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

    /// The base offsets of the segments that will be removed: the segments after a torn end, and
    /// empty segments that are not the last.
    pub fn removed(&self) -> &[i64] {
        &self.removed
    }

    /// The damaged parts, in order.
    pub fn damaged(&self) -> impl Iterator<Item = &DamagedPart> {
        self.segments.iter().flat_map(Segment::damaged)
    }

    /// Ranges of offsets that are missing between two segments.
    pub fn gaps(&self) -> &[Range<i64>] {
        &self.gaps
    }

    /// The base offset of the first segment; None if there are no segments.
    pub fn base_offset(&self) -> Option<i64> {
        self.segments.first().map(|first| first.base_offset)
    }

    /// The offset after the last record; 0 if there are no segments.
    pub fn end_offset(&self) -> i64 {
        self.segments.last().map_or(0, |last| last.next_offset)
    }

    /// The end of the log; None if there are no segments.
    pub fn end(&self) -> Option<LogEnd> {
        let Segment { base_offset: segment, next_offset: offset, size: bytes, .. } =
            *self.segments.last()?;
        Some(LogEnd { offset, segment, bytes })
    }

    /// The log start offset. (If the first segment begins later, its base offset counts instead.)
    /// `start_offset` is the content of the file with this offset, or 0 if the file is missing.
    pub fn log_start(&self, start_offset: i64) -> i64 {
        self.point.map_or(start_offset, |point| point.log_start.max(start_offset))
    }

    /// The first offset after the last known gap between two segments.
    pub(super) fn whole_from(&self) -> i64 {
        let known = self.point.map_or(0, |point| point.whole_from);
        self.gaps.last().map_or(known, |gap| gap.end.max(known))
    }
}

/// Reads the segments of a partition, in the order of [`partition_files`](super::partition_files).
#[derive(Debug)]
pub struct PartitionRecovery {
    /// The base offsets of all segments. The first `read` segments were read so far.
    bases: Vec<i64>,
    read: usize,
    is_thorough: bool,
    found: RecoveredPartition,
}

impl PartitionRecovery {
    /// Recovers a partition that has segments with these base offsets, in order, and possibly a
    /// recovery point.
    pub fn new(bases: Vec<i64>, point: Option<RecoveryPoint>) -> Self {
        let found = RecoveredPartition { point, ..Default::default() };
        Self { bases, read: 0, is_thorough: false, found }
    }

    /// Like [`Self::new`], but checks all batches against their checksums.
    pub fn thorough(bases: Vec<i64>, point: Option<RecoveryPoint>) -> Self {
        Self { is_thorough: true, ..Self::new(bases, point) }
    }

    /// Reads the next segment and passes each batch, in order, to `visit`. The caller rebuilds the
    /// state of producers from these batches. Batches of damaged parts are not passed, because
    /// nothing in them is trusted.
    ///
    /// # Errors
    /// The segment is damaged, or its file cannot be read.
    ///
    /// # Panics
    /// All segments were read already.
    pub fn segment(
        &mut self,
        source: &(impl SegmentSource + ?Sized),
        now: i64,
        visit: impl FnMut(&VisitedBatch),
    ) -> Result<(), PartitionError> {
        let base_offset = self.bases[self.read];
        let is_recent = self.read + CHECKED_SEGMENTS >= self.bases.len();
        self.read += 1;
        if self.found.torn.is_some() {
            self.found.removed.push(base_offset);
            return Ok(());
        }
        self.join(base_offset)?;
        let synced = self.synced_bytes(base_offset, is_recent);
        let expected = Expected {
            checked_from: if is_recent || self.is_thorough { 0 } else { synced },
            end: self.found.point.map(|point| point.end).filter(|it| it.segment == base_offset),
            next_base: self.bases.get(self.read).copied(),
        };
        let mut segment = Segment::new(base_offset, now);
        if let Some(what) = Scan::new(source, expected).run(&mut segment, visit)? {
            let Segment { size: at, next_offset, .. } = segment;
            if at < synced || what == BEYOND {
                return Err(PartitionError::Damaged { base_offset, at, what: what.to_owned() });
            }
            let bytes = source.len() - at;
            self.found.torn = Some(TornEnd { base_offset, at, bytes, next_offset, what });
        }
        self.found.segments.push(segment);
        Ok(())
    }

    /// Ends the recovery after all segments were read.
    ///
    /// # Errors
    /// The log ends before its recovery point.
    pub fn finish(self) -> Result<RecoveredPartition, PartitionError> {
        assert_eq!(self.read, self.bases.len(), "fewer segments than were announced");
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

    /// Checks for a gap between the last segment and the next one. If the recovery point covers the
    /// gap, it is damage. Any other gap is skipped, as in Kafka; if the segment before it is empty,
    /// this segment is dropped.
    fn join(&mut self, base_offset: i64) -> Result<(), PartitionError> {
        let Some(last) = self.found.segments.last() else { return Ok(()) };
        let Segment { base_offset: before, next_offset: end, size: at, .. } = *last;
        if base_offset < end {
            let what = "it begins before the previous segment ends".to_owned();
            return Err(PartitionError::Damaged { base_offset, at: 0, what });
        }
        if base_offset == end {
            return Ok(());
        }
        if self.found.point.is_some_and(|point| point.covers(end)) {
            let last = base_offset - 1;
            let what = format!("the records from offset {end} to {last} are missing after it");
            return Err(PartitionError::Damaged { base_offset: before, at, what });
        }
        if at == 0 {
            self.found.segments.pop();
            self.found.removed.push(before);
        }
        self.found.gaps.push(end..base_offset);
        Ok(())
    }

    /// How many bytes of a segment certainly were on stable storage; `u64::MAX` means all.
    fn synced_bytes(&self, base_offset: i64, is_recent: bool) -> u64 {
        match self.found.point {
            Some(RecoveryPoint { end, .. }) if base_offset == end.segment => end.bytes,
            Some(RecoveryPoint { end, .. }) if base_offset > end.segment => 0,
            None if is_recent => 0,
            Some(_) | None => u64::MAX,
        }
    }
}

/// The offset after the last record of a completed compacted segment.
///
/// # Errors
/// The segment is damaged (for example, a batch does not match its checksum), or its file cannot be
/// read.
pub fn segment_end(
    base_offset: i64,
    source: &(impl SegmentSource + ?Sized),
) -> Result<i64, PartitionError> {
    let mut segment = Segment::new(base_offset, 0);
    let ended = Scan::new(source, Expected::default()).run(&mut segment, |_| {})?;
    let damaged = segment.damaged().first().map(|part| (part.bytes.start, part.what));
    match damaged.or(ended.map(|what| (segment.size, what))) {
        None if segment.size > 0 => Ok(segment.next_offset),
        found => {
            let (at, what) = found.unwrap_or((0, "it is empty"));
            let what = what.to_owned();
            Err(PartitionError::Damaged { base_offset, at, what })
        }
    }
}
