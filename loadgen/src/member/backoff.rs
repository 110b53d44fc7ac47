//! Back-off of retries: `retry.backoff.ms`, doubled for each failure in a row up to
//! `retry.backoff.max.ms`, with 20 % jitter (Kafka's `ExponentialBackoff` and `RequestState`).

use std::time::Duration;

use crate::plan::Backoff;
use crate::time::Time;

const JITTER: f64 = 0.2;

/// The back-off of one kind of request: how often it failed in a row, and the time before which it
/// is not retried.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Retry {
    failures: u8,
    until: Time,
}

impl Retry {
    /// Notes a failure. Failures during the back-off do not count: their requests were sent
    /// together with the first one that failed.
    pub(super) fn failed(&mut self, now: Time, backoff: &Backoff, random: &mut fastrand::Rng) {
        if !self.ready(now) {
            return;
        }
        self.until = now + delay(self.failures, backoff, random);
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes a failure after which real clients always retry at once. Here, only the first retry is
    /// sent at once, and later ones wait. So a coordinator that always refuses is not flooded.
    pub(super) fn failed_once(&mut self, now: Time, backoff: &Backoff, random: &mut fastrand::Rng) {
        match self.failures {
            0 => *self = Self { failures: 1, until: now },
            _ => self.failed(now, backoff, random),
        }
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Notes a success after which the next request still waits for the back-off.
    pub(super) fn succeeded_with_pause(
        &mut self,
        now: Time,
        backoff: &Backoff,
        random: &mut fastrand::Rng,
    ) {
        *self = Self { failures: 0, until: now + delay(0, backoff, random) };
    }

    /// Notes a failure after which clients wait for a fixed time, until `until`.
    pub(super) fn pause(&mut self, until: Time) {
        self.until = self.until.max(until);
    }

    pub(super) fn ready(&self, now: Time) -> bool {
        self.until <= now
    }

    pub(super) fn until(&self) -> Time {
        self.until
    }
}

fn delay(failures: u8, backoff: &Backoff, random: &mut fastrand::Rng) -> Duration {
    let doubled = backoff.initial.saturating_mul(1 << failures.min(20)).min(backoff.max);
    doubled.mul_f64(1.0 - JITTER + 2.0 * JITTER * random.f64()).min(backoff.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_limit_within_twenty_percent() {
        let backoff =
            Backoff { initial: Duration::from_millis(100), max: Duration::from_millis(1000) };
        let mut random = fastrand::Rng::with_seed(1);
        let mut retry = Retry::default();
        let mut now = Time::ZERO;
        for expected in [100.0, 200.0, 400.0, 800.0, 1000.0, 1000.0] {
            retry.failed(now, &backoff, &mut random);
            let until = retry.until();
            retry.failed(now, &backoff, &mut random);
            assert_eq!(until, retry.until(), "one failure");
            let millis = until.since(now).as_secs_f64() * 1e3;
            now = until;
            assert!((0.8 * expected..=1.2 * expected).contains(&millis), "{millis} for {expected}");
            assert!(millis <= 1000.0);
        }
        retry.succeeded();
        assert!(retry.ready(Time::ZERO));
        retry.failed_once(Time::ZERO, &backoff, &mut random);
        assert!(retry.ready(Time::ZERO));
        retry.failed_once(Time::ZERO, &backoff, &mut random);
        assert!(!retry.ready(Time::ZERO));
    }
}
