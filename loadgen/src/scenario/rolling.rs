//! Rolling restarts: a few members of a group at a time.

use std::collections::VecDeque;
use std::time::Duration;

use super::cause::Cause;
use super::conductor::{RunState, Status};
use super::file::Roll;
use crate::plan::{GroupIndex, MemberIndex};
use crate::time::Time;

/// A rolling restart of a group: a few members at a time, each batch when the group is stable
/// again.
pub(super) struct Rolling {
    pub(super) group: GroupIndex,
    waiting: VecDeque<MemberIndex>,
    batch: Vec<MemberIndex>,
    /// The time since which all members of the batch are back.
    back: Option<Time>,
}

impl Rolling {
    pub(super) fn new(group: GroupIndex, waiting: VecDeque<MemberIndex>) -> Self {
        Self { group, waiting, batch: Vec::new(), back: None }
    }

    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.batch.is_empty()
    }

    /// Returns whether a batch began.
    pub(super) fn advance(
        &mut self,
        roll: &Roll,
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
        let at_once = self.waiting.len().min(roll.at_once as usize);
        self.batch = self.waiting.drain(..at_once).collect();
        self.back = None;
        stop_batch(roll, self.group, &self.batch, now, state);
        !self.batch.is_empty()
    }
}

/// The next members go at their time, whether the group is stable or not.
pub(super) fn roll_in_step(
    roll: &Roll,
    every: Duration,
    group: GroupIndex,
    waiting: &VecDeque<MemberIndex>,
    now: Time,
    state: &mut RunState,
) {
    let mut at = now;
    for batch in Vec::from_iter(waiting.iter().copied()).chunks(roll.at_once as usize) {
        stop_batch(roll, group, batch, at, state);
        at = at + every;
    }
}

fn stop_batch(
    roll: &Roll,
    group: GroupIndex,
    batch: &[MemberIndex],
    at: Time,
    state: &mut RunState,
) {
    if batch.is_empty() {
        return;
    }
    let how = roll.how.stop();
    state.announce(at, group, Cause::of_stop(how, batch.len() as u32));
    for &member in batch {
        state.members.stop(at, member, how, Some(roll.down.0));
    }
}
