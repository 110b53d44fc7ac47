//! The time of the wall clock, apart from the monotonic time of timers.

/// Milliseconds since the epoch by the machine's clock, which may be set forward and back: what
/// records are stamped with, and judged by. Timers go by monotonic time, a plain `i64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wall(pub i64);

impl Wall {
    /// Milliseconds since a stamp; less than 0 if the clock was set back behind it.
    pub fn since(self, stamp: i64) -> i64 {
        self.0.saturating_sub(stamp)
    }

    /// Whether `ms` are over since a stamp. A stamp that is later than now comes of a clock that was
    /// set back since: what is limited to once in a while does not wait until it has come again.
    pub fn is_over(self, stamp: i64, ms: i64) -> bool {
        self.0 < stamp || self.since(stamp) >= ms
    }

    /// The stamp `ms` later, or earlier.
    pub fn plus(self, ms: i64) -> i64 {
        self.0.saturating_add(ms)
    }
}
