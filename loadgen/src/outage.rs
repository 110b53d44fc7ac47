//! Detects that no broker answers any longer.

use std::time::{Duration, Instant};

/// If no answer comes for this long, the user is notified.
const SILENT: Duration = Duration::from_secs(5);
/// The age of the oldest request is measured once a second, and one measurement may be missing. So
/// the request may be older than measured, by at most this time.
const WAITING_LAG: Duration = Duration::from_secs(2);

pub(crate) struct Outage {
    give_up: Duration,
    answered: Instant,
    is_noted: bool,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Sign {
    Silent(String),
    Gone(String),
}

impl Outage {
    pub(crate) fn new(give_up: Duration, now: Instant) -> Self {
        Self { give_up, answered: now, is_noted: false }
    }

    /// Notes that a broker answered a request of a member.
    pub(crate) fn answered(&mut self, now: Instant) {
        (self.answered, self.is_noted) = (now, false);
    }

    /// Checks whether brokers answer. `waiting` is how long the oldest unanswered request of a
    /// member has been waiting. It is zero if there is none: then there is no outage.
    pub(crate) fn check(&mut self, waiting: Duration, now: Instant) -> Option<Sign> {
        let silent = now.duration_since(self.answered).min(waiting + WAITING_LAG);
        if waiting.is_zero() || silent < SILENT.min(self.give_up) {
            return None;
        }
        let give_up = humantime::format_duration(self.give_up);
        if silent >= self.give_up {
            return Some(Sign::Gone(format!("no broker has answered for {give_up}")));
        }
        let is_news = !std::mem::replace(&mut self.is_noted, true);
        is_news.then(|| {
            let seconds = silent.as_secs();
            Sign::Silent(format!(
                "no broker has answered for {seconds} s; the run ends if that lasts {give_up}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_silence_is_noted_once_and_then_ends_the_run() {
        let began = Instant::now();
        let mut outage = Outage::new(seconds(60), began);
        let mut check = |at| outage.check(seconds(at), began + seconds(at));
        assert_eq!(check(4), None);
        assert!(matches!(check(6), Some(Sign::Silent(_))));
        assert_eq!(check(7), None);
        assert!(matches!(check(60), Some(Sign::Gone(_))));
    }

    #[test]
    fn an_answer_ends_it_and_without_a_request_there_is_none() {
        let began = Instant::now();
        let mut outage = Outage::new(seconds(60), began);
        assert_eq!(outage.check(Duration::ZERO, began + seconds(600)), None, "nothing was asked");
        assert_eq!(outage.check(seconds(1), began + seconds(600)), None, "asked a second ago");
        assert!(outage.check(seconds(10), began + seconds(600)).is_some());
        outage.answered(began + seconds(600));
        assert_eq!(outage.check(seconds(10), began + seconds(604)), None);
        assert!(outage.check(seconds(10), began + seconds(606)).is_some(), "another one");
    }
}
