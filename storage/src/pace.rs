//! How fast work beside the loop may go on.

use crate::limits::SLICE_GROWTH_BYTES;

/// Gives work in slices a small share of the time, and more of it the faster the log grows, so that
/// it keeps up: a slice each millisecond, and one for each [`SLICE_GROWTH_BYTES`] that the log grew.
#[derive(Debug, Default)]
pub struct Pace {
    sliced_at: i64,
    grown_to: u64,
    /// When the last operation is paid for, in ms.
    paid_at: i64,
}

impl Pace {
    /// Whether a slice is due; `grown` is how many bytes were written to the log so far.
    pub fn allows(&self, now: i64, grown: u64) -> bool {
        let has_grown = grown.saturating_sub(self.grown_to) >= SLICE_GROWTH_BYTES;
        now >= self.paid_at && (now != self.sliced_at || has_grown)
    }

    /// A slice begins.
    pub fn sliced(&mut self, now: i64, grown: u64) {
        (self.sliced_at, self.grown_to) = (now, grown);
    }

    /// An operation takes as long as `bytes_per_second` says, however fast it is.
    pub fn pay(&mut self, now: i64, bytes: usize, bytes_per_second: u64) {
        let ms = (bytes as u64).saturating_mul(1_000) / bytes_per_second.max(1);
        self.paid_at = now.saturating_add_unsigned(ms);
    }

    /// When the next slice is due if the log does not grow.
    pub fn next(&self) -> i64 {
        self.paid_at.max(self.sliced_at.saturating_add(1))
    }
}
