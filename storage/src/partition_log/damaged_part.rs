//! A part of a segment that cannot be read, between batches that can, and a place where one may be.

use std::ops::Range;

/// Bytes of a segment that hold no batch that can be read. The lengths in them lead to a batch that
/// can, or to the end of the segment: so nothing else of the segment is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedPart {
    /// The base offset of the segment.
    pub segment: i64,
    /// The place in its file.
    pub bytes: Range<u64>,
    /// The offsets from the end of the batch before the part to the beginning of the batch after
    /// it: nothing in the part itself is trusted.
    pub offsets: Range<i64>,
    /// The reason why its first batch cannot be read.
    pub what: &'static str,
}

impl DamagedPart {
    /// Adds a part of the same segment that touches this one.
    pub(super) fn join(&mut self, other: Self) {
        if other.bytes.start < self.bytes.start {
            self.what = other.what;
        }
        self.bytes = self.bytes.start.min(other.bytes.start)..self.bytes.end.max(other.bytes.end);
        let (mine, its) = (&self.offsets, other.offsets);
        self.offsets = mine.start.min(its.start)..mine.end.max(its.end);
    }
}

/// A place at which something could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspect {
    /// The base offset of the segment.
    pub segment: i64,
    /// A batch begins there.
    pub position: u64,
}
