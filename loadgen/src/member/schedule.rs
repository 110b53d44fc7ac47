//! The schedule of a load. In a closed loop, a request is due as soon as fewer than the maximum
//! number are in flight. In an open loop, requests are due at fixed times, even if answers are
//! slow. So latencies that count from these times are free of coordinated omission.

use std::time::Duration;

use crate::plan::Load;
use crate::time::Time;

#[derive(Debug)]
pub(super) struct Schedule {
    load: Load,
    /// When the first request of an open loop was due.
    begun: Time,
    /// The number of requests of an open loop that were sent or skipped.
    done: u64,
    in_flight: u32,
    /// Where the next window of partitions begins.
    pub(super) cursor: u32,
}

impl Schedule {
    /// Returns `None` for a rate at which no request is ever due. The first request is due at a
    /// random time within the interval, so that members that start together do not send together.
    /// `in_flight` is the number of unanswered requests of the load that this one replaces.
    pub(super) fn new(
        load: Load,
        in_flight: u32,
        now: Time,
        random: &mut fastrand::Rng,
    ) -> Option<Self> {
        let begun = match load.rate {
            Some(rate) if !(rate > 0.0 && rate.is_finite()) => return None,
            Some(rate) => now + Duration::try_from_secs_f64(random.f64() / rate).ok()?,
            None => now,
        };
        let load = Load { in_flight: load.in_flight.max(1), ..load };
        Some(Self { load, begun, done: 0, in_flight, cursor: 0 })
    }

    /// When the next request is (or was) due. `None` while the maximum number of requests is in
    /// flight.
    pub(super) fn deadline(&self) -> Option<Time> {
        (self.in_flight < self.load.in_flight).then(|| self.due())
    }

    /// If a request may be sent now, returns the time from which its latency counts.
    pub(super) fn next(&self, now: Time) -> Option<Time> {
        let due = self.deadline().filter(|due| *due <= now)?;
        Some(if self.load.rate.is_some() { due } else { now })
    }

    pub(super) fn sent(&mut self) {
        self.done += 1;
        self.in_flight += 1;
    }

    pub(super) fn answered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Skips requests that were due while the member had no partitions for them.
    pub(super) fn skip(&mut self, now: Time) {
        let Some(rate) = self.load.rate else { return };
        let past = (now.since(self.begun).as_secs_f64() * rate).ceil();
        self.done = self.done.max(past as u64);
    }

    /// The time since which a request of an open loop has been due, and the interval of later
    /// requests.
    pub(super) fn overdue(&self, now: Time) -> Option<(Time, Duration)> {
        let (due, rate) = (self.due(), self.load.rate?);
        let every = Duration::try_from_secs_f64(1.0 / rate).ok()?;
        (due < now).then_some((due, every))
    }

    pub(super) fn partitions(&self) -> u32 {
        self.load.partitions
    }

    fn due(&self) -> Time {
        let Some(rate) = self.load.rate else { return self.begun };
        match Duration::try_from_secs_f64(self.done as f64 / rate) {
            Ok(after) => self.begun + after,
            Err(_) => Time::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn schedule(rate: Option<f64>, in_flight: u32) -> Schedule {
        let load = Load { rate, in_flight, partitions: 0 };
        Schedule::new(load, 0, Time::ZERO, &mut fastrand::Rng::with_seed(7)).unwrap()
    }

    #[test]
    fn an_open_loop_keeps_its_times_when_answers_are_late() {
        let mut open = schedule(Some(2.0), 2);
        let first = open.deadline().unwrap();
        assert!(first < Time::from_micros(SECOND / 2));
        let late = first + Duration::from_secs(2);
        assert_eq!(open.next(late), Some(first));
        open.sent();
        assert_eq!(open.next(late), Some(first + Duration::from_millis(500)));
        open.sent();
        assert_eq!((open.next(late), open.deadline()), (None, None));
        let (second, half) = (Duration::from_secs(1), Duration::from_millis(500));
        assert_eq!(open.overdue(late), Some((first + second, half)), "it could not be sent");
        open.answered();
        assert_eq!(open.next(late), Some(first + Duration::from_secs(1)));
        open.skip(late + Duration::from_millis(1));
        assert_eq!(open.deadline(), Some(late + Duration::from_millis(500)));
    }

    #[test]
    fn a_closed_loop_sends_as_soon_as_it_is_answered() {
        let mut closed = schedule(None, 1);
        let now = Time::from_micros(SECOND);
        assert_eq!(closed.next(now), Some(now));
        closed.sent();
        assert_eq!(closed.next(now), None);
        assert_eq!(closed.overdue(now + Duration::from_secs(9)), None, "none is due");
        closed.answered();
        assert_eq!(closed.next(now), Some(now));
    }

    #[test]
    fn invalid_rates_are_no_load() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let load = Load { rate: Some(rate), in_flight: 1, partitions: 0 };
            assert!(Schedule::new(load, 0, Time::ZERO, &mut fastrand::Rng::new()).is_none());
        }
    }
}
