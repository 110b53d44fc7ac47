//! Writes and syncs that found no file.

use super::{PartitionLog, SEQUENCE_MASK, SIDE_BIT, TOKEN_MASK, sync_count};
use crate::file_op::FileToken;

/// The part of a log that is lost because a write or sync found no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostWrite {
    /// The base offset of the segment to which the missing file belongs, or of the newest segment
    /// if the file belongs to no segment.
    pub segment: i64,
    /// Appended records that have this offset or a later one never become readable. Earlier records
    /// do, once their own writes are completed.
    pub from: i64,
}

impl PartitionLog {
    /// The loss that the operation with this token has caused.
    pub fn lost(&self, token: FileToken) -> LostWrite {
        let low = token.0 & TOKEN_MASK;
        if low & SIDE_BIT != 0 {
            let closed = self.segments.iter().map(|segment| segment.base_offset);
            let segment = closed.into_iter().find(|closed| sync_count(*closed) == low);
            return self.lost_sync(segment.unwrap_or(self.active_segment()));
        }
        let is_earlier = |sequence: u64| {
            let first = self.pending.front().map_or(sequence, |first| first.sequence);
            sequence.wrapping_sub(first) & SEQUENCE_MASK < low.wrapping_sub(first) & SEQUENCE_MASK
        };
        let at = self.pending.partition_point(|pending| is_earlier(pending.sequence));
        let before = at.checked_sub(1).and_then(|before| self.pending.get(before));
        LostWrite {
            segment: self.pending.get(at).map_or(self.active_segment(), |it| it.segment),
            from: before.map_or(self.high_watermark, |before| before.next_offset),
        }
    }

    /// The loss if a sync of a segment found no file. No records are lost by that: all appended
    /// ones stay readable.
    pub fn lost_sync(&self, segment: i64) -> LostWrite {
        LostWrite { segment, from: self.log_end_offset() }
    }
}
