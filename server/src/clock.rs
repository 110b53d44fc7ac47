//! The wall clock, which may be set forward or back, and a monotonic clock for timers.
//!
//! Records are stamped with the wall clock, [`Wall`], and checked against it. Monotonic time, a
//! plain `i64`, is for timers and deadlines.

use muster_codec::Wall;
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Monotonic, in milliseconds: for timers and deadlines. At startup it equals the wall clock;
    /// later changes of the wall clock do not affect it.
    pub now: i64,
    /// The wall clock: records are stamped with it, and their times are checked against it.
    pub wall: Wall,
    /// Monotonic, in microseconds: only for measurements.
    pub micros: u64,
    /// How far the wall clock recently jumped ahead, in milliseconds; see [`ClockWatch`].
    pub jumped_ms: i64,
}

impl Times {
    /// A reading in which both clocks show the same time.
    pub fn both(ms: i64) -> Self {
        Self { now: ms, wall: Wall(ms), micros: ms.unsigned_abs() * 1_000, jumped_ms: 0 }
    }

    /// The time by which offsets and records expire: the wall clock without a recent jump.
    pub fn expiry(&self) -> Wall {
        Wall(self.wall.0.saturating_sub(self.jumped_ms))
    }
}

/// The earliest of several deadlines. Each turn calls this often, and most deadlines are None.
pub(crate) fn earliest<const N: usize>(deadlines: [Option<i64>; N]) -> Option<i64> {
    let mut first = None;
    for at in deadlines.iter().copied() {
        if at.is_some_and(|at| first.is_none_or(|first| at < first)) {
            first = at;
        }
    }
    first
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
        let now = self.started_at + (micros / 1_000) as i64;
        Times { now, wall: wall(), micros, jumped_ms: 0 }
    }
}

/// Detects that the wall clock was set, by comparing it with the monotonic clock.
///
/// A jump of [`JUMP_MS`] or more may be a mistake, and all offsets and records would expire at
/// once. So expiry ignores the jump for [`TRUST_MS`], or until the clock is set back.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    /// Wall clock minus monotonic clock at the last reading, in milliseconds.
    lead: Option<i64>,
    /// A possible step that a later reading must confirm.
    unsure: Option<Unsure>,
    jump: Option<Jump>,
}

/// A jump ahead that expiry still ignores.
#[derive(Debug, Clone, Copy)]
struct Jump {
    lead_before: i64,
    /// The monotonic time from which expiry follows the wall clock again.
    until: i64,
}

/// A change of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockStep {
    /// The time that the clock would have shown, and the time that it showed.
    pub(crate) before: i64,
    pub(crate) after: i64,
}

#[derive(Debug)]
struct Unsure {
    step: ClockStep,
    lead_before: i64,
    at: u64,
}

/// The smallest jump that expiry ignores for a while.
const JUMP_MS: i64 = 60_000;

/// How long expiry ignores a jump, by the monotonic clock. An operator can set the clock back in
/// this time.
const TRUST_MS: i64 = 60 * 60 * 1_000;

/// The smallest step. Slewing (`adjtimex`: 0.05 %) changes the clock by less between two readings.
const STEP_MS: i64 = 1_000;

/// A single reading may be wrong. So a step is dropped if the old clock is back within
/// `DOUBT_MICROS`. Otherwise it is confirmed by the first reading that is at least `CONFIRM_MICROS`
/// later than the step.
const CONFIRM_MICROS: u64 = 1_000;
const DOUBT_MICROS: u64 = 1_000_000;

impl ClockStep {
    pub(crate) fn by_ms(self) -> i64 {
        self.after.saturating_sub(self.before)
    }

    /// Whether expiry ignores the step for a while.
    pub(crate) fn is_jump(self) -> bool {
        self.by_ms() >= JUMP_MS
    }
}

impl ClockWatch {
    /// Returns a step of the wall clock that an earlier reading found and this reading confirms. If
    /// the machine was suspended, this looks like a step, because the monotonic clock stood still.
    pub(crate) fn step(&mut self, times: Times) -> Option<ClockStep> {
        let lead = times.wall.0.saturating_sub(times.now);
        let lead_before = self.lead.replace(lead)?;
        self.watch_jump(times.now, lead_before, lead);
        let is_step = |from: i64| lead.saturating_sub(from).saturating_abs() >= STEP_MS;
        let mut confirmed = None;
        if let Some(unsure) = self.unsure.take() {
            let micros = times.micros.saturating_sub(unsure.at);
            if !is_step(unsure.lead_before) && micros < DOUBT_MICROS {
                return None;
            }
            if micros < CONFIRM_MICROS {
                self.unsure = Some(unsure);
                return None;
            }
            confirmed = Some(unsure.step);
        }
        if is_step(lead_before) {
            let before = times.now.saturating_add(lead_before);
            let step = ClockStep { before, after: times.wall.0 };
            self.unsure = Some(Unsure { step, lead_before, at: times.micros });
        }
        confirmed
    }

    /// How many milliseconds the wall clock was ahead at the last reading because of a recent jump.
    pub(crate) fn jumped_ms(&self) -> i64 {
        let ahead = |jump: Jump| self.lead.map_or(0, |lead| lead.saturating_sub(jump.lead_before));
        self.jump.map_or(0, ahead)
    }

    fn watch_jump(&mut self, now: i64, lead_before: i64, lead: i64) {
        if lead.saturating_sub(lead_before) >= JUMP_MS {
            let lead_before = self.jump.map_or(lead_before, |jump| jump.lead_before);
            self.jump = Some(Jump { lead_before, until: now.saturating_add(TRUST_MS) });
        }
        let is_ahead = |jump: &Jump| lead.saturating_sub(jump.lead_before) >= JUMP_MS;
        self.jump = self.jump.filter(|jump| now < jump.until && is_ahead(jump));
    }
}

/// A monotonic time in nanoseconds, to measure how long the work on one request takes.
pub type Stopwatch = fn() -> u64;

/// The stopwatch of the machine.
pub fn stopwatch() -> u64 {
    static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
    STARTED.elapsed().as_nanos() as u64
}

/// The current time of the wall clock.
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
        let set = |before, after| Some(ClockStep { before, after });
        assert_eq!(step(1_000, 501_000), None, "the first reading");
        assert_eq!(step(61_000, 561_030), None, "slewed");
        assert_eq!(step(61_001, 562_030), None, "by less than a second");
        assert_eq!(step(61_002, 4_162_031), None, "it may be a wrong reading");
        assert_eq!(step(61_003, 4_162_032), set(562_031, 4_162_031));
        assert_eq!(step(61_004, 562_033), None);
        assert_eq!(step(63_004, 4_164_033), set(4_162_033, 562_033));
        assert_eq!(step(63_005, 4_164_034), set(564_033, 4_164_033));
        assert_eq!(step(63_006, 4_164_035), None);
    }

    #[test]
    fn nothing_expires_by_a_jump_for_an_hour_or_until_the_clock_is_set_back() {
        const DAY: i64 = 24 * 60 * 60 * 1_000;
        let mut watch = ClockWatch::default();
        let mut expiry = |now: i64, ahead: i64| {
            let times = Times { wall: Wall(now + ahead), ..Times::both(now) };
            watch.step(times);
            Times { jumped_ms: watch.jumped_ms(), ..times }.expiry().0
        };
        assert_eq!(expiry(1_000, 0), 1_000);
        assert_eq!(expiry(2_000, JUMP_MS - 1), 2_000 + JUMP_MS - 1, "less is no jump");
        assert_eq!(expiry(3_000, 0), 3_000);
        assert_eq!(expiry(4_000, 10 * DAY), 4_000, "with its first reading");
        assert_eq!(expiry(9_000, 10 * DAY), 9_000);
        assert_eq!(expiry(10_000, 10), 10_010, "it is set back");
        assert_eq!(expiry(11_000, 10 * DAY), 11_010);
        assert_eq!(expiry(12_000, 11 * DAY), 12_010, "another jump");
        assert_eq!(expiry(11_000 + TRUST_MS, 11 * DAY), 11_010 + TRUST_MS);
        let end = 12_000 + TRUST_MS;
        assert_eq!(expiry(end - 1, 11 * DAY), end + 9);
        assert_eq!(expiry(end, 11 * DAY), end + 11 * DAY, "it is believed");
        assert_eq!(expiry(end + 1_000, 10), end + 1_010, "back again");
    }

    #[test]
    fn a_single_wrong_reading_is_no_step() {
        let mut watch = ClockWatch::default();
        let mut step = |now: i64, micros, wall| {
            watch.step(Times { micros, wall: Wall(wall), ..Times::both(now) })
        };
        let found = [
            step(1_000, 1_000_000, 1_000),
            step(1_001, 1_001_000, 99_001),
            step(1_001, 1_001_200, 99_001),
            step(1_001, 1_001_400, 1_001),
            step(1_003, 1_003_000, 1_003),
            step(2_000, 2_000_000, 98_000),
            step(2_900, 2_900_000, 2_900),
            step(2_901, 2_901_000, 2_901),
        ];
        assert_eq!(found, [None; 8]);
    }
}
