//! The gap in service when a coordinator restarts. It begins when the first connection breaks. It
//! ends when every member that lost its connection has been answered again or has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use super::cause::Cause;
use super::orders::{Orders, Trigger};
use crate::event::{Event, EventKind, OBSERVER};
use crate::plan::{GroupIndex, MemberIndex};
use crate::time::Time;

#[derive(Default, Debug)]
pub(super) struct Gap {
    began: Option<Time>,
    /// The last time at which a member that had lost its connection was answered again or ended.
    ended: Time,
    groups: BTreeSet<GroupIndex>,
    without_answer: BTreeSet<MemberIndex>,
}

impl Gap {
    pub(super) fn observe(&mut self, event: &Event, orders: &mut Orders) {
        match event.kind {
            EventKind::Disconnected => self.broke(event, orders),
            EventKind::Alive { .. }
            | EventKind::Reached
            | EventKind::Joined { .. }
            | EventKind::Fetched { .. }
            | EventKind::CommitAnswered { .. }
            // The gap does not wait for members that ended.
            | EventKind::Stopped { .. }
            | EventKind::Failed { .. }
                if self.without_answer.remove(&event.member) =>
            {
                self.ended = event.at;
            }
            _ => {}
        }
    }

    fn broke(&mut self, event: &Event, orders: &mut Orders) {
        if event.member == OBSERVER {
            return;
        }
        self.began.get_or_insert(event.at);
        if self.groups.insert(event.group) {
            let cause = Cause::CoordinatorRestarted;
            orders.triggers.push(Trigger { at: event.at, group: event.group, cause });
        }
        self.without_answer.insert(event.member);
    }

    pub(super) fn began(&self) -> Option<Time> {
        self.began
    }

    /// Whether the gap has begun and is over.
    pub(super) fn is_over(&self) -> bool {
        self.began.is_some() && self.without_answer.is_empty()
    }

    /// The length of the gap, once it is over.
    pub(super) fn length(&self) -> Option<Duration> {
        self.began.filter(|_| self.is_over()).map(|began| self.ended.since(began))
    }

    /// A sentence for the user, once the gap is over.
    pub(super) fn summary(&self) -> Option<String> {
        let (began, length) = (self.began?, self.length()?);
        Some(format!(
            "connections broke at {:.1} s; all members that lost theirs were answered again after \
             {:.3} s",
            began.seconds(),
            length.as_secs_f64()
        ))
    }
}
