//! The clock of the groups' timers. It is monotonic time, but it leaves out times in which the
//! shard itself could not read or answer its members. So neither a stopped process, nor a long
//! turn, nor a stalled disk costs a member its session.

/// The maximum time by which a turn advances this clock. If more time has passed, the shard was
/// stopped or overloaded, or its machine was paused. Then timers must not fire before the shard has
/// read the input that arrived meanwhile.
pub(crate) const TURN_MS_MAX: i64 = 1_000;

/// If the log makes no progress for longer than this, the clock stands still: the members get no
/// answers, and without these they send no further heartbeats.
const FLUSH_MS_MAX: i64 = 1_000;

/// A timer is late once it has been due for this long.
const LATE_MS: i64 = 1_000;

#[derive(Debug)]
pub(crate) struct GroupClock {
    /// The monotonic time that did not count.
    skipped: i64,
    /// The time of the last reading.
    seen: i64,
    /// None if no operations are pending. Otherwise, the position up to which the log is durable,
    /// and the time since which this position has not changed.
    flushing: Option<(u64, i64)>,
}

impl GroupClock {
    pub(crate) fn new(now: i64) -> Self {
        Self { skipped: 0, seen: now, flushing: None }
    }

    /// Advances the time to `now`.
    pub(crate) fn advance(&mut self, now: i64) {
        let passed = now - self.seen;
        let counted = if self.stands_still(self.seen) { 0 } else { passed.min(TURN_MS_MAX) };
        self.skipped += passed - counted;
        self.seen = now;
    }

    /// Notes the durable position and the accepted position.
    pub(crate) fn watch(&mut self, flushed: u64, accepted: u64) {
        let is_known = self.flushing.is_some_and(|(known, _)| known == flushed);
        if flushed == accepted {
            self.flushing = None;
        } else if !is_known {
            self.flushing = Some((flushed, self.seen));
        }
    }

    /// Converts a past monotonic time, usually that of the last reading, to the groups' time.
    pub(crate) fn at(&self, time: i64) -> i64 {
        time - self.skipped
    }

    /// Converts a deadline to monotonic time. The result is at most `TURN_MS_MAX` from the last
    /// reading, because a longer turn would not count in full. None while the clock stands still.
    pub(crate) fn wake_at(&self, deadline: i64) -> Option<i64> {
        let at = deadline.saturating_add(self.skipped).min(self.seen + TURN_MS_MAX);
        (!self.stands_still(self.seen)).then_some(at)
    }

    /// Whether a timer should have fired already. Normally, a timer fires in a turn shortly after
    /// it is due.
    pub(crate) fn is_late(&self, deadline: i64) -> bool {
        deadline.saturating_add(LATE_MS) <= self.at(self.seen)
    }

    /// Like [`Self::wake_at`], for the time at which the timer is late.
    pub(crate) fn late_at(&self, deadline: i64) -> Option<i64> {
        self.wake_at(deadline.saturating_add(LATE_MS))
    }

    /// The time since which operations have been pending without any becoming durable.
    pub(crate) fn flushing_since(&self) -> Option<i64> {
        self.flushing.map(|(_, since)| since)
    }

    fn stands_still(&self, now: i64) -> bool {
        self.flushing.is_some_and(|(_, since)| now - since > FLUSH_MS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_counts_as_a_second_at_the_most() {
        let mut clock = GroupClock::new(100);
        clock.advance(600);
        assert_eq!(clock.at(600), 600);
        clock.advance(15_600);
        assert_eq!(clock.at(15_600), 1_600);
        assert_eq!(clock.wake_at(1_700), Some(15_700));
        assert_eq!(
            clock.wake_at(9_000),
            Some(15_600 + TURN_MS_MAX),
            "so that the wait counts in full"
        );
    }

    #[test]
    fn no_time_passes_while_the_log_makes_no_progress() {
        let mut clock = GroupClock::new(0);
        clock.watch(4, 5);
        for now in [1_000, 1_500, 2_500, 60_000] {
            clock.advance(now);
            clock.watch(4, 7);
        }
        assert_eq!((clock.at(60_000), clock.wake_at(5_000)), (1_500, None));
        clock.watch(5, 7);
        clock.advance(61_000);
        assert_eq!(clock.at(61_000), 2_500, "slow progress does not stop the clock");
        clock.watch(7, 7);
        clock.advance(62_000);
        clock.advance(63_000);
        assert_eq!(clock.at(63_000), 4_500);
    }
}
