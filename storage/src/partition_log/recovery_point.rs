//! Recovery points: how much of a partition is known to be on stable storage, and the file with the
//! points of a shard's partitions (Kafka's `recovery-point-offset-checkpoint`).
//!
//! A point is a lower bound. It stays true, so an old point does no harm. If there are several
//! points, the point with the highest offset counts.

use crate::limits::BLOCK_BYTES_MAX;
use muster_codec::Uuid;
use muster_codec::wire::{DecodeError, Reader, Result};
use std::ops::Range;

/// "MRPT"
pub const RECOVERY_POINTS_MAGIC: u32 = 0x4d52_5054;
pub const RECOVERY_POINTS_VERSION: u16 = 1;
pub const RECOVERY_POINTS_HEADER_BYTES: usize = 24;

/// The file position of the first entry. The header has a block of its own, because it is written
/// last.
pub const RECOVERY_POINTS_BODY_AT: usize = BLOCK_BYTES_MAX as usize;
pub const RECOVERY_POINT_BYTES: usize = 64;

const CRC_AT: usize = 8;
const CRC_FROM: usize = 12;

const _: () = assert!(RECOVERY_POINTS_BODY_AT.is_multiple_of(RECOVERY_POINT_BYTES));

/// A position in a log at which a batch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// The offset of the next record.
    pub offset: i64,
    /// The base offset of the segment, and the byte position in it.
    pub segment: i64,
    pub bytes: u64,
}

impl LogEnd {
    /// Whether a batch is consistent with this log end. The batch takes the range `batch` of the
    /// bytes of the segment, and `next_offset` is the offset after it. A batch must not extend over
    /// the log end. If it ends there, its offsets must end there, too.
    pub(super) fn allows(&self, batch: Range<u64>, next_offset: i64) -> bool {
        let is_before = batch.end < self.bytes && next_offset < self.offset;
        let is_last = batch.end == self.bytes && next_offset == self.offset;
        is_before || is_last || batch.start >= self.bytes
    }
}

/// How much of a log is on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryPoint {
    /// All records before this end are on stable storage, unless retention or DeleteRecords has
    /// removed them.
    pub end: LogEnd,
    /// From this offset on, no offsets are missing between two segments. Before this offset some
    /// may be missing: the log was imported from a compacted topic, or a loss was accepted.
    pub whole_from: i64,
    /// The log starts at this offset or later. Earlier records were deleted and must not reappear,
    /// even if [`START_OFFSET_FILE`](super::START_OFFSET_FILE) is lost.
    pub log_start: i64,
}

impl RecoveryPoint {
    /// Combines two points: the result is the point with the higher end offset, but its log start
    /// offset is the higher one of the two.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        let last = if self.end.offset < other.end.offset { other } else { self };
        Self { log_start: self.log_start.max(other.log_start), ..last }
    }

    /// Whether a record with this offset must be in the log, unless it was deleted.
    pub(super) fn covers(&self, offset: i64) -> bool {
        (self.whole_from..self.end.offset).contains(&offset)
    }
}

/// Serializes the file piece by piece.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecoveryPointsWriter {
    entries: u64,
    entries_crc: u32,
}

impl RecoveryPointsWriter {
    /// Appends the entry of a partition to `out`. The caller must write these bytes to the body of
    /// the file.
    pub fn push(&mut self, topic: Uuid, partition: i32, point: &RecoveryPoint, out: &mut Vec<u8>) {
        let start = out.len();
        let RecoveryPoint { end, whole_from, log_start } = point;
        out.extend(topic.0);
        out.extend(partition.to_be_bytes());
        out.extend([0; 4]);
        out.extend(end.offset.to_be_bytes());
        out.extend(end.segment.to_be_bytes());
        out.extend(end.bytes.to_be_bytes());
        out.extend(whole_from.to_be_bytes());
        out.extend(log_start.to_be_bytes());
        self.entries += 1;
        self.entries_crc = crc32c::crc32c_append(self.entries_crc, &out[start..]);
    }

    /// Returns the first block of the file. Call it after all entries were pushed.
    pub fn header(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(RECOVERY_POINTS_BODY_AT);
        header.extend(RECOVERY_POINTS_MAGIC.to_be_bytes());
        header.extend(RECOVERY_POINTS_VERSION.to_be_bytes());
        header.extend([0; 6]);
        header.extend(self.entries_crc.to_be_bytes());
        header.extend(self.entries.to_be_bytes());
        debug_assert_eq!(header.len(), RECOVERY_POINTS_HEADER_BYTES);
        let crc = crc32c::crc32c(&header[CRC_FROM..]);
        header[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        header.resize(RECOVERY_POINTS_BODY_AT, 0);
        header
    }
}

/// Reads the points of a file; zeros may follow them.
///
/// # Errors
/// The bytes are not a file of recovery points, or are damaged.
pub fn read_recovery_points(file: &[u8]) -> Result<Vec<(Uuid, i32, RecoveryPoint)>> {
    let header = file.get(..RECOVERY_POINTS_HEADER_BYTES).ok_or(DecodeError::UnexpectedEnd)?;
    let mut reader = Reader::new(header);
    let magic = reader.array().map(u32::from_be_bytes)?;
    let version = reader.array().map(u16::from_be_bytes)?;
    let _reserved = reader.i16()?;
    let crc = reader.array().map(u32::from_be_bytes)?;
    let entries_crc = reader.array().map(u32::from_be_bytes)?;
    let count = reader.array().map(u64::from_be_bytes)?;
    let is_valid = magic == RECOVERY_POINTS_MAGIC
        && version == RECOVERY_POINTS_VERSION
        && crc == crc32c::crc32c(&header[CRC_FROM..]);
    if !is_valid {
        return Err(DecodeError::InvalidBatch("not the recovery points of partitions"));
    }
    let body = file.get(RECOVERY_POINTS_BODY_AT..).ok_or(DecodeError::UnexpectedEnd)?;
    let (entries, _) = body.as_chunks::<RECOVERY_POINT_BYTES>();
    let entries = usize::try_from(count).ok().and_then(|count| entries.get(..count));
    let entries = entries.ok_or(DecodeError::UnexpectedEnd)?;
    if crc32c::crc32c(entries.as_flattened()) != entries_crc {
        return Err(DecodeError::InvalidBatch("an entry is not what was written"));
    }
    entries.iter().map(|entry| read_point(entry)).collect()
}

fn read_point(entry: &[u8]) -> Result<(Uuid, i32, RecoveryPoint)> {
    let mut reader = Reader::new(entry);
    let (topic, partition) = (Uuid(reader.array()?), reader.i32()?);
    let _reserved = reader.i32()?;
    let (offset, segment) = (reader.i64()?, reader.i64()?);
    let bytes = reader.array().map(u64::from_be_bytes)?;
    let end = LogEnd { offset, segment, bytes };
    let (whole_from, log_start) = (reader.i64()?, reader.i64()?);
    Ok((topic, partition, RecoveryPoint { end, whole_from, log_start }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<(Uuid, i32, RecoveryPoint)> {
        let point = |number: i64| {
            let end = LogEnd { offset: number * 100, segment: number, bytes: number as u64 };
            let point = RecoveryPoint { end, whole_from: number, log_start: number * 10 };
            (Uuid([number as u8; 16]), number as i32, point)
        };
        (0..9).map(point).collect()
    }

    fn file() -> Vec<u8> {
        let (mut body, mut writer) = (Vec::new(), RecoveryPointsWriter::default());
        for (topic, partition, point) in points() {
            writer.push(topic, partition, &point, &mut body);
        }
        assert_eq!(body.len(), 9 * RECOVERY_POINT_BYTES);
        [writer.header(), body].concat()
    }

    #[test]
    fn a_file_is_read_as_it_was_written_with_or_without_zeros_at_its_end() {
        let mut file = file();
        assert_eq!(read_recovery_points(&file), Ok(points()));
        file.resize(2 * RECOVERY_POINTS_BODY_AT, 0);
        assert_eq!(read_recovery_points(&file), Ok(points()));
        let none = RecoveryPointsWriter::default().header();
        assert_eq!(read_recovery_points(&none), Ok(Vec::new()));
    }

    #[test]
    fn the_later_of_two_points_keeps_the_later_start() {
        let point = |offset, log_start| {
            let end = LogEnd { offset, segment: 0, bytes: 1 };
            RecoveryPoint { end, whole_from: 0, log_start }
        };
        assert_eq!(point(10, 3).later(point(20, 0)), point(20, 3));
        assert_eq!(point(20, 0).later(point(10, 3)), point(20, 3));
    }

    #[test]
    fn a_changed_bit_and_a_missing_byte_are_noticed() {
        let file = file();
        let reserved = [6, 7];
        let header = (0..RECOVERY_POINTS_HEADER_BYTES).filter(|at| !reserved.contains(at));
        for at in header.chain(RECOVERY_POINTS_BODY_AT..file.len()) {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                assert!(read_recovery_points(&damaged).is_err(), "bit {bit} of byte {at}");
            }
            assert!(read_recovery_points(&file[..at]).is_err(), "{at} bytes");
        }
    }
}
