//! The rate of background work.

use crate::limits::SLICE_GROWTH_BYTES;

/// Allows a slice of background work each millisecond, and one more for each [`SLICE_GROWTH_BYTES`]
/// that the log grows. Background work thus takes a small share of the time, but keeps up when the
/// log grows fast.
#[derive(Debug, Default)]
pub struct Pace {
    sliced_at: i64,
    grown_to: u64,
    /// No slice is allowed before this time in ms. [`Pace::pay`] sets it.
    paid_at: i64,
}

impl Pace {
    /// Whether a slice is due. `grown` is the number of bytes ever written to the log.
    pub fn allows(&self, now: i64, grown: u64) -> bool {
        let has_grown = grown.saturating_sub(self.grown_to) >= SLICE_GROWTH_BYTES;
        now >= self.paid_at && (now != self.sliced_at || has_grown)
    }

    /// Notes that a slice begins.
    pub fn sliced(&mut self, now: i64, grown: u64) {
        (self.sliced_at, self.grown_to) = (now, grown);
    }

    /// Delays the next slice by the time in which `bytes` would be handled at `bytes_per_second`.
    pub fn pay(&mut self, now: i64, bytes: usize, bytes_per_second: u64) {
        let ms = (bytes as u64).saturating_mul(1_000) / bytes_per_second.max(1);
        self.paid_at = now.saturating_add_unsigned(ms);
    }

    /// The time at which the next slice is due if the log does not grow.
    pub fn next(&self) -> i64 {
        self.paid_at.max(self.sliced_at.saturating_add(1))
    }
}
