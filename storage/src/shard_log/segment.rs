//! A segment in the list of a log.

use crate::layout::Format;

/// An entry in the list of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) format: Format,
    /// The last sequence number that the segment covers: its own, unless it is compacted.
    pub(crate) last_sequence: u64,
    pub(crate) block_bytes: u32,
    /// The length of the file.
    pub(crate) segment_bytes: u32,
    /// The number of the compaction pass that wrote it; 0 if none did.
    pub(crate) pass: u64,
    /// The byte position after the last block.
    pub(crate) end: u32,
    /// The byte position of the first block that was not compacted; equals `end` if there is none.
    pub(crate) dirty_from: u32,
    /// The position of its last operation. In a segment without operations: the position of the
    /// last operation before the segment.
    pub(crate) last_position: u64,
    /// The latest timestamp in the first block, and in all blocks, in ms.
    pub(crate) first_timestamp: i64,
    pub(crate) max_timestamp: i64,
    /// See [`Compacted::dropped_position`](crate::layout::Compacted::dropped_position).
    pub(crate) dropped_position: u64,
}

impl Segment {
    /// A segment without blocks. `last_position` is the position of the last operation before it.
    pub(crate) fn new(
        format: Format,
        sequence: u64,
        block_bytes: u32,
        segment_bytes: u32,
        last_position: u64,
    ) -> Self {
        Self {
            format,
            last_sequence: sequence,
            block_bytes,
            segment_bytes,
            pass: 0,
            end: block_bytes,
            dirty_from: block_bytes,
            last_position,
            first_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
            dropped_position: 0,
        }
    }

    /// Notes the timestamp of the next block.
    pub(crate) fn time(&mut self, timestamp: i64) {
        if self.first_timestamp == i64::MAX {
            self.first_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }

    pub(crate) fn is_compacted(&self) -> bool {
        self.pass > 0
    }

    pub(crate) fn has_blocks(&self) -> bool {
        self.end > self.block_bytes
    }
}
