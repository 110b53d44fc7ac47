//! The wall clock, which may be set forward and back, and a monotonic clock for timers.

use muster_codec::Wall;
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Monotonic, in milliseconds: for timers and deadlines. It starts at the wall clock's time,
    /// but does not follow that later.
    pub now: i64,
    /// The time that records are stamped with and checked against.
    pub wall: Wall,
    /// Monotonic, in microseconds: for measurements alone.
    pub micros: u64,
}

impl Times {
    /// Both clocks at the same time.
    pub fn both(ms: i64) -> Self {
        Self { now: ms, wall: Wall(ms), micros: ms.unsigned_abs() * 1_000 }
    }
}

/// The clocks of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started_at: i64,
    started: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self { started_at: wall().0, started: Instant::now() }
    }

    pub fn now(self) -> i64 {
        self.started_at + self.started.elapsed().as_millis() as i64
    }

    pub fn times(self) -> Times {
        let micros = self.started.elapsed().as_micros() as u64;
        Times { now: self.started_at + (micros / 1_000) as i64, wall: wall(), micros }
    }
}

/// Finds out that the wall clock was set: what it gained or lost against the monotonic one.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    /// How far the wall clock was ahead at the last reading, in milliseconds.
    lead: Option<i64>,
}

/// No clock that is only slewed gains or loses as much between two readings (`adjtimex`: 0.05 %).
const STEP_MS: i64 = 1_000;

impl ClockWatch {
    /// The milliseconds by which the wall clock was set since the last reading, if it was. A
    /// machine that was suspended looks alike: its monotonic clock stood still.
    pub(crate) fn step(&mut self, times: Times) -> Option<i64> {
        let lead = times.wall.0.saturating_sub(times.now);
        let moved = lead.saturating_sub(self.lead.replace(lead)?);
        (moved.saturating_abs() >= STEP_MS).then_some(moved)
    }
}

/// A monotonic time in nanoseconds, to measure how long the work on one request takes.
pub type Stopwatch = fn() -> u64;

/// The stopwatch of the machine.
pub fn stopwatch() -> u64 {
    static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
    STARTED.elapsed().as_nanos() as u64
}

/// The present time of the wall clock.
pub fn wall() -> Wall {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(since_epoch.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_noticed_once() {
        let mut watch = ClockWatch::default();
        let mut step = |now, wall| watch.step(Times { wall: Wall(wall), ..Times::both(now) });
        assert_eq!(step(1_000, 501_000), None, "the first reading");
        assert_eq!(step(61_000, 561_030), None, "slewed");
        assert_eq!(step(61_001, 562_030), None, "by less than a second");
        assert_eq!(step(61_002, 4_162_031), Some(3_600_000));
        assert_eq!(step(61_003, 4_162_032), None);
        assert_eq!(step(61_004, 562_033), Some(-3_600_000));
    }
}
