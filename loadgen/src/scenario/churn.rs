//! Churn: members stop at random moments, and come back.

use std::time::Duration;

use super::cause::Cause;
use super::file::{Churn, How};
use super::run_state::RunState;
use crate::plan::GroupIndex;
use crate::time::Time;

pub(super) struct Churning {
    groups: Vec<GroupIndex>,
    next: Time,
}

impl Churning {
    pub(super) fn begin(groups: Vec<GroupIndex>, now: Time) -> Option<Self> {
        (!groups.is_empty()).then_some(Self { groups, next: now })
    }

    /// Stops a random member at each random moment up to `now`. On average, there are `churn.rate`
    /// moments a second (a Poisson process).
    pub(super) fn advance(&mut self, churn: &Churn, now: Time, until: Time, state: &mut RunState) {
        while self.next <= now && self.next < until {
            stop_random(churn, &self.groups, self.next, state);
            let wait = -(1.0 - state.random.f64()).ln() / churn.rate;
            self.next = self.next + Duration::from_secs_f64(wait.min(1e6));
        }
    }
}

/// Stops a random member of these groups, in one of the allowed ways, chosen at random.
fn stop_random(churn: &Churn, groups: &[GroupIndex], at: Time, state: &mut RunState) {
    let group = random_group(groups, state);
    let up = state.members.up(&state.plan, group);
    if up.is_empty() {
        return;
    }
    let member = up[state.random.usize(..up.len())];
    let can = |how: &&How| **how != How::Close || state.plan.is_static(member);
    let ways: Vec<How> = churn.how.0.iter().filter(can).copied().collect();
    if ways.is_empty() {
        return;
    }
    let how = ways[state.random.usize(..ways.len())].stop();
    state.announce(at, group, Cause::of_stop(how, 1));
    state.members.stop(at, member, how, Some(churn.down.0));
}

/// Chooses a group with a probability proportional to its number of members.
fn random_group(groups: &[GroupIndex], state: &mut RunState) -> GroupIndex {
    let size = |group: &GroupIndex| state.plan.members(*group).len();
    let members: usize = groups.iter().map(size).sum();
    let mut lot = state.random.usize(..members);
    let drawn = groups.iter().find(|group| match lot.checked_sub(size(group)) {
        Some(rest) => {
            lot = rest;
            false
        }
        None => true,
    });
    *drawn.unwrap_or(&groups[0])
}
