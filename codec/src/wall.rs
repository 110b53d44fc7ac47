//! The time of the wall clock, apart from the monotonic time of timers.

/// Milliseconds since the epoch by the machine's clock, which may be set forward and back. Records
/// have timestamps of this clock and expire by it. Timers use monotonic time, a plain `i64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wall(pub i64);

impl Wall {
    /// Milliseconds since a timestamp; negative if the clock was set back to before it.
    pub fn since(self, stamp: i64) -> i64 {
        self.0.saturating_sub(stamp)
    }

    /// Whether `ms` have passed since a timestamp. True if the timestamp is later than now: the
    /// clock was set back, and periodic work must not wait until it has caught up.
    pub fn is_over(self, stamp: i64, ms: i64) -> bool {
        self.0 < stamp || self.since(stamp) >= ms
    }

    /// The timestamp `ms` later, or earlier if negative.
    pub fn plus(self, ms: i64) -> i64 {
        self.0.saturating_add(ms)
    }
}
