//! The place of a batch in a log.

use super::segment::Segment;
use muster_codec::record_batch::BatchHeader;

/// The place of a batch in the log. `position` is a byte position in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPlace {
    /// The base offset of the segment, and the number of its file.
    pub(super) segment: i64,
    pub(super) file: u64,
    pub(super) position: u32,
    pub(super) len: u32,
}

impl BatchPlace {
    /// The place of a batch that is appended to the segment.
    pub(super) fn at_end(segment: &Segment, batch: &BatchHeader) -> Self {
        // Segments are shorter than 2 GiB.
        let (position, len) = (segment.size as u32, batch.total_len() as u32);
        Self { segment: segment.base_offset, file: segment.file, position, len }
    }

    pub(super) fn is_before(self, other: Self) -> bool {
        (self.segment, self.position) < (other.segment, other.position)
    }
}
