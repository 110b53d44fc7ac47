//! Actions that are spread over a time: starts and stops of members.

use std::time::Duration;

use super::cause::Cause;
use super::file::{Start, Stopping};
use super::run_state::RunState;
use crate::event::Stop;
use crate::plan::{GroupIndex, MemberIndex};
use crate::time::Time;

/// Begins to start members. Returns whether there are members to start.
pub(super) fn begin_start(start: &Start, now: Time, state: &mut RunState) -> bool {
    let mut groups = Vec::new();
    for group in state.plan.groups_named(&start.groups.0) {
        let count = start.members.of(state.plan.members(group).len() as u32);
        let mut down = state.members.down(&state.plan, group);
        down.truncate(count as usize);
        let cause = match state.members.alive(group) {
            0 => Cause::Formation,
            _ => Cause::Joined(down.len() as u32),
        };
        groups.push(Share { group, cause: Some(cause), members: down });
    }
    let over = start.over.map_or(Duration::ZERO, |over| over.0);
    spread(groups, now, over, state, |state, at, member| state.members.start(at, member))
}

/// Begins to stop members. Returns whether there are members to stop.
pub(super) fn begin_stop(stopping: &Stopping, how: Stop, now: Time, state: &mut RunState) -> bool {
    let mut groups = Vec::new();
    for group in state.plan.groups_named(&stopping.groups.0) {
        let count = stopping.members.of(state.plan.members(group).len() as u32);
        let mut up = state.members.up(&state.plan, group);
        up.retain(|&member| how != Stop::Close || state.plan.is_static(member));
        state.random.shuffle(&mut up);
        state.plan.gather_processes(group, &mut up);
        up.truncate(count as usize);
        // If all members leave, there is no rebalance.
        let some_stay = (up.len() as u32) < state.members.alive(group);
        let cause = some_stay.then_some(Cause::of_stop(how, up.len() as u32));
        groups.push(Share { group, cause, members: up });
    }
    let over = stopping.over.map_or(Duration::ZERO, |over| over.0);
    let returns = stopping.return_after.map(|after| after.0);
    spread(groups, now, over, state, |state, at, member| {
        state.members.stop(at, member, how, returns);
    })
}

/// The members of one group to which an action applies.
struct Share {
    group: GroupIndex,
    cause: Option<Cause>,
    members: Vec<MemberIndex>,
}

/// Plans an action on all members of `shares`, at equal intervals within the time `over`. The
/// groups take turns, so each has its members spread over the whole time. The cause is announced
/// when the action reaches the first member of a group. Returns whether there are any members.
fn spread(
    shares: Vec<Share>,
    now: Time,
    over: Duration,
    state: &mut RunState,
    put: impl Fn(&mut RunState, Time, MemberIndex),
) -> bool {
    let mut places: Vec<(f64, usize, MemberIndex)> = Vec::new();
    for (at, share) in shares.iter().enumerate() {
        let step = 1.0 / share.members.len() as f64;
        let members = share.members.iter().enumerate();
        places.extend(members.map(|(nth, &member)| (nth as f64 * step, at, member)));
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let step = over.as_secs_f64() / places.len().max(1) as f64;
    let has_members = !places.is_empty();
    for (nth, (place, share, member)) in places.into_iter().enumerate() {
        let at = now + Duration::from_secs_f64(step * nth as f64);
        if place == 0.0
            && let Some(cause) = shares[share].cause
        {
            state.announce(at, shares[share].group, cause);
        }
        put(state, at, member);
    }
    has_members
}
