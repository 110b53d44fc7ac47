//! The difference between a worker's clock and ours, measured by the shortest round trips.

use std::time::Duration;

use crate::time::Time;

/// The number of round trips in a window. Only the shortest of them is used.
const WINDOW: usize = 16;

/// One request for the time of the worker, with its answer.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) asked: Time,
    pub(super) theirs: Time,
    pub(super) answered: Time,
}

/// How far a worker's clock is ahead of ours, in microseconds. Negative if the worker's clock is
/// behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Alignment {
    ahead: i128,
    /// The maximum error of the difference.
    error: Duration,
    /// The shortest round trip of the current window: its length, and the clock difference.
    best: Option<(Duration, i128)>,
    rounds: usize,
}

impl Alignment {
    /// Takes a round trip. The difference is updated once per window, because clocks of machines
    /// drift.
    pub(super) fn add(&mut self, round: Round) {
        let length = round.answered.since(round.asked);
        let middle = i128::from(round.asked.micros()) + (length.as_micros() / 2) as i128;
        let ahead = i128::from(round.theirs.micros()) - middle;
        if self.best.is_none_or(|(best, _)| length < best) {
            self.best = Some((length, ahead));
        }
        self.rounds += 1;
        if self.rounds.is_multiple_of(WINDOW) {
            self.take_best();
        }
    }

    fn take_best(&mut self) {
        if let Some((length, ahead)) = self.best.take() {
            self.ahead = ahead;
            // The request and the answer may take different times, but neither takes less than
            // zero.
            self.error = length / 2;
        }
    }

    /// Whether a window is complete, so that the difference is known.
    pub(super) fn is_known(&self) -> bool {
        self.rounds >= WINDOW
    }

    pub(super) fn error(&self) -> Duration {
        self.error
    }

    pub(super) fn ours(&self, theirs: Time) -> Time {
        moved(theirs, -self.ahead)
    }

    pub(super) fn theirs(&self, ours: Time) -> Time {
        moved(ours, self.ahead)
    }
}

/// Adds `by` microseconds to a time. [`Time::MAX`] stays as it is, and the result is at least 0.
fn moved(time: Time, by: i128) -> Time {
    if time == Time::MAX {
        return time;
    }
    let moved = (i128::from(time.micros()) + by).clamp(0, i128::from(u64::MAX));
    Time::from_micros(moved as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    /// The worker's clock is 5,000 µs ahead, and one way takes longer than the other.
    #[test]
    fn the_shortest_round_trip_counts() {
        let mut alignment = Alignment::default();
        for number in 0..WINDOW as u64 {
            let (there, back) = if number == 7 { (100, 60) } else { (900 + number, 100) };
            let asked = at(1_000_000 + number * 10_000);
            let theirs = at(asked.micros() + there + 5_000);
            let answered = at(asked.micros() + there + back);
            alignment.add(Round { asked, theirs, answered });
        }
        assert!(alignment.is_known());
        assert_eq!(alignment.error(), Duration::from_micros(80));
        assert_eq!(alignment.ours(at(1_005_020)), at(1_000_000));
        assert_eq!(alignment.theirs(at(1_000_000)), at(1_005_020));
        assert_eq!(alignment.ours(at(3)), Time::ZERO);
        assert_eq!(alignment.theirs(Time::MAX), Time::MAX);
    }
}
