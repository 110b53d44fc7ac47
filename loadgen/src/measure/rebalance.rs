//! A rebalance in progress, and the figures that are collected until it ends.

use std::time::Duration;

use super::pauses::Pauses;
use crate::event::{Event, EventKind};
use crate::history::Group;
use crate::report::model::Rebalance;
use crate::time::Time;

pub(super) struct Open {
    pub(super) trigger: String,
    pub(super) prompted: bool,
    /// Whether the group had members when the rebalance began.
    pub(super) populated: bool,
    pub(super) began: Time,
    pub(super) crashed: bool,
    /// When members first learned that the coordinator has noticed the crash.
    pub(super) detected: Option<Time>,
    pub(super) moved: u32,
    pub(super) revoked: u32,
}

/// Results that are collected over all groups.
pub(super) struct Shared<'a> {
    pub(super) pauses: &'a mut Pauses,
    pub(super) rebalances: &'a mut Vec<Rebalance>,
}

impl Open {
    pub(super) fn new(began: Time, trigger: String, prompted: bool) -> Self {
        let (populated, crashed, detected, moved, revoked) = (true, false, None, 0, 0);
        Self { trigger, prompted, populated, began, crashed, detected, moved, revoked }
    }

    /// Notes a sign that the coordinator has noticed a crash. Does nothing if no member has
    /// crashed.
    pub(super) fn detected(&mut self, at: Time) {
        if self.crashed {
            self.detected.get_or_insert(at);
        }
    }

    /// Names the rebalance after an event of a real client, if so far it has only the name
    /// [`BY_ITSELF`].
    pub(super) fn explain(&mut self, by: &EventKind) {
        let what = match by {
            EventKind::ClientAssigned { .. } => "client assigned",
            EventKind::ClientRevoked { .. } => "client revoked",
            EventKind::ClientLost { .. } => "client fenced",
            EventKind::ClientEnded { .. } => "client ended",
            _ => return,
        };
        if self.trigger == BY_ITSELF {
            self.trigger = what.into();
        }
    }

    /// Returns the finished rebalance. `stable_since` is `None` if the next trigger came, or the
    /// run ended, before the group became stable.
    pub(super) fn ended(
        self,
        group: &Group,
        members: u32,
        stable_since: Option<Time>,
        by_next: bool,
    ) -> Rebalance {
        // If the trigger did not unsettle the group, the group has been stable since before the
        // trigger. Then the rebalance took no time.
        let ended = stable_since.map(|since| since.max(self.began));
        let millis_since = |from: Time| ended.map(|end| end.since(from).as_secs_f64() * 1e3);
        Rebalance {
            group: group.id.to_string(),
            trigger: self.trigger,
            began: self.began.seconds(),
            took: millis_since(self.began),
            superseded: by_next && ended.is_none(),
            took_since_detected: self.detected.and_then(millis_since),
            members,
            partitions: group.partitions,
            moved: self.moved,
            revoked: self.revoked,
        }
    }
}

impl Shared<'_> {
    /// Adds a pause: a member was without partitions for this long.
    pub(super) fn pause(&mut self, pause: Duration) {
        self.pauses.add(pause);
    }
}

/// The name of a rebalance without a known cause: the first sign of it was an answer to a member.
const BY_ITSELF: &str = "by itself";

/// The name of a rebalance that had no trigger.
pub(super) fn why(event: &Event) -> &'static str {
    match event.kind {
        EventKind::Started => "members started",
        EventKind::Stopped { .. } => "members ended",
        EventKind::Lost { .. } => "partitions lost",
        EventKind::Fenced { .. } => "members fenced",
        EventKind::Disconnected => "connections lost",
        EventKind::PartitionsGrew { .. } => "partitions added",
        EventKind::ClientEnded { .. } => "client ended",
        EventKind::ClientRevoked { .. } => "client revoked",
        EventKind::ClientLost { .. } => "client fenced",
        _ => BY_ITSELF,
    }
}
