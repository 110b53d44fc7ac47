//! The time when the next heartbeat of a [`super::membership`] is due, and the member epochs of
//! heartbeats that join or leave.

use std::sync::Arc;
use std::time::Duration;

use super::State;
use super::backoff::Retry;
use super::core::{Core, Turn};
use super::io::{Overdue, Regular};
use crate::time::Time;

/// The member epoch of a request to join.
pub(super) const JOIN: i32 = 0;
pub(super) const LEAVE: i32 = -1;

/// The interval until an answer contains the coordinator's. The first heartbeat does not wait for
/// it: clients send it at once.
const INTERVAL: Duration = Duration::from_secs(5);

#[derive(Clone, Copy)]
pub(super) struct Heartbeats {
    pub(super) interval: Duration,
    /// When the next heartbeat is due.
    pub(super) next: Time,
    pub(super) retry: Retry,
}

impl Heartbeats {
    pub(super) fn new() -> Self {
        Self { interval: INTERVAL, next: Time::ZERO, retry: Retry::default() }
    }

    /// The same interval and back-off, with a heartbeat due at once: the member joins again.
    pub(super) fn again(self) -> Self {
        Self { next: Time::ZERO, ..self }
    }

    /// When the next heartbeat is sent. With `at_once` it waits only for the back-off.
    pub(super) fn deadline(&self, at_once: bool) -> Time {
        let regular = if at_once { Time::ZERO } else { self.next };
        regular.max(self.retry.until())
    }

    pub(super) fn overdue(&self, of: Regular, now: Time) -> Option<Overdue> {
        let (due, every) = (self.next, self.interval);
        (due < now).then_some(Overdue { of, due, every })
    }

    /// Sets the interval from an answer to a heartbeat. If it has changed, the next heartbeat is
    /// due one interval after this answer. Otherwise it stays due one interval after the last was
    /// sent.
    pub(super) fn keep_interval(&mut self, millis: i32, now: Time) {
        let interval = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        if interval != self.interval && !interval.is_zero() {
            self.interval = interval;
            self.next = now + interval;
        }
    }

    /// Sets the time of the first heartbeat after a join ([`Core::first_heartbeat`]).
    pub(super) fn begin(&mut self, turn: &mut Turn<'_, '_>) {
        self.next = Core::first_heartbeat(self.interval, turn);
    }
}

pub(super) fn state(epoch: i32, fenced: bool, unsettled: bool) -> State {
    match () {
        () if fenced => State::Fenced,
        () if epoch == JOIN => State::Joining,
        () if unsettled => State::Reconciling,
        () => State::Stable,
    }
}

/// A new random member id, in the form that clients choose.
pub(super) fn new_member_id(turn: &mut Turn<'_, '_>) -> Arc<str> {
    let bytes = turn.context.random.u128(..).to_be_bytes();
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
    id.to_string().into()
}
