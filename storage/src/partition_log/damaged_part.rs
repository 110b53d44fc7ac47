//! A damaged part of a segment between readable batches, and a position where damage is suspected.

use std::ops::Range;

/// A range of a segment that cannot be read as batches. It ends where a readable batch begins, or
/// at the end of the segment, so nothing readable of the segment is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedPart {
    /// The base offset of the segment.
    pub segment: i64,
    /// The range of bytes in the segment's file.
    pub bytes: Range<u64>,
    /// The range of lost offsets: from the end of the batch before the part to the start of the
    /// batch after it. Numbers in the damaged bytes themselves are not trusted.
    pub offsets: Range<i64>,
    /// The reason why the first batch of the part cannot be read.
    pub what: &'static str,
}

impl DamagedPart {
    /// Merges with an adjacent part of the same segment.
    pub(super) fn join(&mut self, other: Self) {
        if other.bytes.start < self.bytes.start {
            self.what = other.what;
        }
        self.bytes = self.bytes.start.min(other.bytes.start)..self.bytes.end.max(other.bytes.end);
        let (mine, its) = (&self.offsets, other.offsets);
        self.offsets = mine.start.min(its.start)..mine.end.max(its.end);
    }
}

/// A position at which reading failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspect {
    /// The base offset of the segment.
    pub segment: i64,
    /// The file position, at which a batch or, in a search by timestamp, a record begins.
    pub position: u64,
}
