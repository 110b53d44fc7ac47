//! Wall-clock time. It has a type of its own so that it is not confused with the monotonic time of
//! timers.

/// Wall-clock time in milliseconds since the epoch; it may jump forward and back. Records have
/// timestamps of this clock and expire by it. Timers use monotonic time, a plain `i64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wall(pub i64);

impl Wall {
    /// Milliseconds since a timestamp; negative if the clock was set back to a time before it.
    pub fn since(self, stamp: i64) -> i64 {
        self.0.saturating_sub(stamp)
    }

    /// Whether `ms` have passed since a timestamp. Returns true if the timestamp is in the future:
    /// the clock was set back, and periodic work must not wait until the clock has caught up.
    pub fn is_over(self, stamp: i64, ms: i64) -> bool {
        self.0 < stamp || self.since(stamp) >= ms
    }

    /// The timestamp `ms` after this time; before it if `ms` is negative.
    pub fn plus(self, ms: i64) -> i64 {
        self.0.saturating_add(ms)
    }
}
