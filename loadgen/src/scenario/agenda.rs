//! The planned actions of a run, by time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::cause::Cause;
use crate::event::Stop;
use crate::plan::{GroupIndex, GroupPlan, MemberIndex};
use crate::time::Time;

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// `again` is set if the member returns after a stop.
    Start { member: MemberIndex, again: bool },
    /// `returns` is the time from the stop to the next start of the member, if it starts again.
    Stop { member: MemberIndex, how: Stop, returns: Option<Duration> },
    /// The member gets another plan. If `continues`, the plan applies at once. Otherwise it applies
    /// when the member next starts.
    Change { member: MemberIndex, plan: Arc<GroupPlan>, continues: bool },
    /// Announces the cause of a rebalance to the measures.
    Announce { group: GroupIndex, cause: Cause },
}

/// Actions sorted by time. Actions with equal times are in the order in which they were added.
#[derive(Default, Debug)]
pub(super) struct Agenda {
    actions: BTreeMap<(Time, u64), Action>,
    next: u64,
}

impl Agenda {
    pub(super) fn put(&mut self, at: Time, action: Action) {
        self.actions.insert((at, self.next), action);
        self.next += 1;
    }

    /// Removes and returns the first action, if it is due by `until`.
    pub(super) fn take(&mut self, until: Time) -> Option<(Time, Action)> {
        let entry = self.actions.first_entry()?;
        let at = entry.key().0;
        (at <= until).then(|| (at, entry.remove()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// When the last action is due.
    pub(super) fn last(&self) -> Option<Time> {
        self.actions.last_key_value().map(|((at, _), _)| *at)
    }
}
