//! Owed requests: those that were due and have no answer. The latency of each counts from the time
//! when it was due until a later answer ends it ([`Owing::answered`]), or until the member or the
//! run ends. So the figures of latency contain the requests that a server does not answer, too.

use std::time::Duration;

use super::command::RoundTrip;
use super::connections::Waiting;
use super::core::Core;
use super::meter::Histograms;
use crate::member::{Member, Overdue, Regular};
use crate::time::Time;

/// The maximum number of lost requests that are kept per member.
const LOST_MAX: usize = 64;
/// The minimum age of a request that counts as unanswered. A younger one counts as in flight.
const WAITING_LEAST: Duration = Duration::from_secs(1);

/// A request that was due and has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owed {
    pub(super) kind: RoundTrip,
    pub(super) due: Time,
    /// The interval of later requests of this kind. They were not sent while this request waited.
    pub(super) every: Option<Duration>,
}

/// The lost requests of a member.
#[derive(Default)]
pub(super) struct Owing {
    lost: Vec<Owed>,
}

impl Owing {
    /// Keeps a lost request, or returns it if there is no space. Requests other than the load are
    /// repeated until one is answered. They count as one request, due when the first was due.
    #[must_use]
    pub(super) fn keep(&mut self, owed: Owed) -> Option<Owed> {
        if !is_load(owed.kind) && self.has(owed.kind) {
            return None;
        }
        if self.lost.len() >= LOST_MAX {
            return Some(owed);
        }
        self.lost.push(owed);
        None
    }

    /// Removes the lost requests that are no longer waited for, because a request of this kind was
    /// answered. Returns them. An answer shows that the broker that sent it works again: any broker
    /// answers lookups, a partition's leader answers batches and reads, and the coordinator answers
    /// all other requests.
    pub(super) fn answered(&mut self, kind: RoundTrip) -> Vec<Owed> {
        use RoundTrip::{
            FindCoordinator, ListOffsets, Metadata, Produce, Read, ShareAcknowledge, ShareFetch,
        };
        let by_leader =
            |kind| matches!(kind, Produce | Read | ListOffsets | ShareFetch | ShareAcknowledge);
        let by_coordinator = !by_leader(kind) && !matches!(kind, FindCoordinator | Metadata);
        let ends = |owed: &mut Owed| match owed.kind {
            lost if by_leader(lost) => lost == kind,
            lost => lost == kind || by_coordinator,
        };
        self.lost.extract_if(.., ends).collect()
    }

    pub(super) fn take(&mut self) -> Vec<Owed> {
        std::mem::take(&mut self.lost)
    }

    fn has(&self, kind: RoundTrip) -> bool {
        self.lost.iter().any(|owed| owed.kind == kind)
    }

    /// The member's lost requests, and its requests that are due and can't be sent.
    pub(super) fn of(&self, member: &Member, now: Time) -> impl Iterator<Item = Owed> {
        let overdue = member.overdue(now).map(Owed::of);
        // A lost heartbeat is still owed. The next heartbeat, which is due now, is the same request
        // once more, and does not count.
        let overdue = overdue.filter(|owed| is_load(owed.kind) || !self.has(owed.kind));
        self.lost.iter().copied().chain(overdue)
    }
}

fn is_load(kind: RoundTrip) -> bool {
    matches!(kind, RoundTrip::Commit | RoundTrip::Fetch | RoundTrip::Transaction)
}

impl Owed {
    pub(super) fn by(waiting: &Waiting) -> Self {
        Self { kind: waiting.kind, due: waiting.due, every: waiting.every }
    }

    /// A transaction under way, which was due at `due`.
    pub(super) fn transaction(due: Time) -> Self {
        Self { kind: RoundTrip::Transaction, due, every: None }
    }

    fn of(overdue: Overdue) -> Self {
        let kind = match overdue.of {
            Regular::Commit => RoundTrip::Commit,
            Regular::Fetch => RoundTrip::Fetch,
            Regular::Produce => RoundTrip::Produce,
            Regular::Transaction => RoundTrip::Transaction,
            Regular::Heartbeat => RoundTrip::Heartbeat,
            Regular::ConsumerHeartbeat => RoundTrip::ConsumerHeartbeat,
            Regular::ShareHeartbeat => RoundTrip::ShareHeartbeat,
            Regular::StreamsHeartbeat => RoundTrip::StreamsHeartbeat,
        };
        Self { kind, due: overdue.due, every: Some(overdue.every) }
    }
}

impl Core {
    /// Records a request that will not be answered. Its latency is not known, so its age is
    /// recorded.
    pub(super) fn never_answered(&mut self, owed: Owed) {
        let now = self.clock.now();
        self.meter.unanswered(owed.kind);
        self.meter.owed(owed, now);
    }

    /// The ages in microseconds of all requests that have been due for at least [`WAITING_LEAST`]
    /// and are unanswered.
    pub(super) fn ages(&self, now: Time) -> Histograms {
        let mut ages = Histograms::default();
        let on_their_way = self.connections.in_flight().map(Owed::by);
        for owed in on_their_way.chain(self.members.owed(now)) {
            let age = now.since(owed.due);
            if age >= WAITING_LEAST {
                ages.record(owed.kind, age, owed.every);
            }
        }
        ages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owed(kind: RoundTrip, due: u64) -> Owed {
        Owed { kind, due: Time::from_micros(due), every: None }
    }

    #[test]
    fn lost_requests_are_owed_until_the_coordinator_answers() {
        let mut owing = Owing::default();
        for (kind, due) in [
            (RoundTrip::Heartbeat, 1),
            (RoundTrip::Heartbeat, 2),
            (RoundTrip::FindCoordinator, 3),
            (RoundTrip::Commit, 4),
            (RoundTrip::Commit, 5),
        ] {
            assert_eq!(owing.keep(owed(kind, due)), None);
        }
        let lookups = owing.answered(RoundTrip::FindCoordinator);
        assert_eq!(lookups, [owed(RoundTrip::FindCoordinator, 3)]);
        let others = owing.answered(RoundTrip::Commit);
        let due = others.iter().map(|owed| owed.due.micros());
        assert_eq!(Vec::from_iter(due), [1, 4, 5], "a heartbeat that is repeated is one");
        assert_eq!(owing.answered(RoundTrip::Commit), []);
    }

    #[test]
    fn a_lost_request_without_room_is_returned() {
        let mut owing = Owing::default();
        let refused = (0..70).filter_map(|due| owing.keep(owed(RoundTrip::Commit, due)));
        assert_eq!(refused.count(), 70 - LOST_MAX);
    }
}
