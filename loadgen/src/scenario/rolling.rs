//! Rolling restarts and changes of a group, a few members at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::cause::{Cause, What};
use super::orders::Status;
use super::run_state::RunState;
use crate::event::Stop;
use crate::plan::{GroupIndex, GroupPlan, MemberIndex};
use crate::time::Time;

/// Members of a group that wait to be restarted or changed.
pub(super) struct Rolling {
    pub(super) group: GroupIndex,
    waiting: VecDeque<MemberIndex>,
    at_once: usize,
    act: Act,
    batch: Vec<MemberIndex>,
    /// The time since which all members of the batch are back, or have failed.
    back: Option<Time>,
}

pub(super) enum Act {
    /// The members stop, and start again after a time.
    Restart {
        how: Stop,
        down: Duration,
    },
    Change(Change),
}

/// The new plans of members.
pub(super) struct Change {
    pub(super) what: What,
    pub(super) plans: BTreeMap<MemberIndex, Arc<GroupPlan>>,
    /// How long each member is down. `None` if members continue.
    pub(super) down: Option<Duration>,
}

impl Rolling {
    pub(super) fn new(
        group: GroupIndex,
        waiting: VecDeque<MemberIndex>,
        at_once: u32,
        act: Act,
    ) -> Self {
        let at_once = at_once as usize;
        Self { group, waiting, at_once, act, batch: Vec::new(), back: None }
    }

    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.batch.is_empty()
    }

    /// Plans all batches now, one per `every`, whether the group is stable between them or not.
    pub(super) fn in_step(mut self, every: Duration, now: Time, state: &mut RunState) {
        let mut at = now;
        while !self.waiting.is_empty() {
            let at_once = self.waiting.len().min(self.at_once);
            let batch: Vec<_> = self.waiting.drain(..at_once).collect();
            self.act.on(self.group, &batch, at, state);
            at = at + every;
        }
    }

    /// Begins the next batch if it is due. Returns whether a batch began.
    pub(super) fn advance(
        &mut self,
        settle: Duration,
        now: Time,
        status: &Status<'_>,
        state: &mut RunState,
    ) -> bool {
        let is_back =
            |&member: &MemberIndex| state.members.is_up(member) || state.members.has_failed(member);
        if !self.batch.iter().all(is_back) {
            self.back = None;
            return false;
        }
        let back = *self.back.get_or_insert(now);
        let stable = (status.stable_since)(self.group).map(|since| since.max(back));
        let first = self.batch.is_empty();
        if !first && stable.is_none_or(|since| now.since(since) < settle) {
            return false;
        }
        let up = |member: &MemberIndex| state.members.is_up(*member);
        self.waiting.retain(up);
        let at_once = self.waiting.len().min(self.at_once);
        self.batch = self.waiting.drain(..at_once).collect();
        self.back = None;
        self.act.on(self.group, &self.batch, now, state);
        !self.batch.is_empty()
    }
}

impl Act {
    fn on(&self, group: GroupIndex, batch: &[MemberIndex], at: Time, state: &mut RunState) {
        let count = batch.len() as u32;
        if count == 0 {
            return;
        }
        match self {
            Self::Restart { how, down } => {
                state.announce(at, group, Cause::of_stop(*how, count));
                for &member in batch {
                    state.members.stop(at, member, *how, Some(*down));
                }
            }
            Self::Change(change) => {
                state.announce(at, group, Cause::Changed(count, change.what));
                for member in batch {
                    change.of(*member, at, state);
                }
            }
        }
    }
}

impl Change {
    fn of(&self, member: MemberIndex, at: Time, state: &mut RunState) {
        let Some(plan) = self.plans.get(&member) else { return };
        state.members.change(at, member, Arc::clone(plan), self.down.is_none());
        if let Some(down) = self.down {
            state.members.stop(at, member, Stop::Leave, Some(down));
        }
    }
}
