//! The members of a run: which of them are up, and the timed commands that start and stop them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::agenda::{Action, Agenda};
use super::cause::Cause;
use super::changes::Changes;
use super::orders::{Orders, Trigger};
use super::run_plan::RunPlan;
use crate::driver::command::Command;
use crate::event::{Event, EventKind, Stop};
use crate::plan::{GroupIndex, GroupPlan, MemberIndex, MemberPlan, TopicIndex, Workload};
use crate::time::Time;

/// A command is sent to the member's core this long before its time. Ticks are closer together
/// than this, so members start on time. Actions that are due later can still be cancelled.
const AHEAD: Duration = Duration::from_millis(150);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    Down,
    /// The member will start shortly.
    Due,
    Up,
    /// The stop of the member is planned or under way.
    Going,
    /// The member can't continue, and will not start again.
    Failed,
}

#[derive(Debug)]
pub(super) struct Members {
    presence: Vec<Presence>,
    /// The number of members of each group that are up or about to end.
    alive: Vec<u32>,
    begun: Vec<bool>,
    workloads: Vec<Workload>,
    /// For each member that was sent a stop and will return: the time from its stop to its start.
    returns: BTreeMap<MemberIndex, Duration>,
    going: u32,
    agenda: Agenda,
    changes: Changes,
}

impl Members {
    pub(super) fn new(plan: &RunPlan) -> Self {
        Self {
            presence: vec![Presence::Down; plan.member_count() as usize],
            alive: vec![0; plan.groups().count()],
            begun: vec![false; plan.groups().count()],
            workloads: plan.groups().map(|group| plan.workload(group.index)).collect(),
            returns: BTreeMap::new(),
            going: 0,
            agenda: Agenda::default(),
            changes: Changes::default(),
        }
    }

    /// The number of members that are up or about to end.
    pub(super) fn alive(&self, group: GroupIndex) -> u32 {
        self.alive[group.0 as usize]
    }

    pub(super) fn is_up(&self, member: MemberIndex) -> bool {
        self.presence[member.0 as usize] == Presence::Up
    }

    /// Whether no member of the group is up, about to start, or about to end.
    pub(super) fn is_down(&self, plan: &RunPlan, group: GroupIndex) -> bool {
        let mut members = plan.members(group).map(|member| self.presence[member as usize]);
        members.all(|presence| matches!(presence, Presence::Down | Presence::Failed))
    }

    /// Whether the member has failed, and will not start again.
    pub(super) fn has_failed(&self, member: MemberIndex) -> bool {
        self.presence[member.0 as usize] == Presence::Failed
    }

    /// Whether the group ever had a member that started.
    pub(super) fn was_begun(&self, group: GroupIndex) -> bool {
        self.begun[group.0 as usize]
    }

    /// Whether starts, stops or returns of members are planned or under way.
    pub(super) fn is_moving(&self) -> bool {
        !self.agenda.is_empty() || self.going > 0
    }

    pub(super) fn last_action(&self) -> Option<Time> {
        self.agenda.last()
    }

    pub(super) fn down(&self, plan: &RunPlan, group: GroupIndex) -> Vec<MemberIndex> {
        self.all(plan, group, Presence::Down)
    }

    pub(super) fn up(&self, plan: &RunPlan, group: GroupIndex) -> Vec<MemberIndex> {
        self.all(plan, group, Presence::Up)
    }

    fn all(&self, plan: &RunPlan, group: GroupIndex, presence: Presence) -> Vec<MemberIndex> {
        let members = plan.members(group);
        members.filter(|&m| self.presence[m as usize] == presence).map(MemberIndex).collect()
    }

    pub(super) fn start(&mut self, at: Time, member: MemberIndex) {
        self.start_as(at, member, false);
    }

    fn start_as(&mut self, at: Time, member: MemberIndex, again: bool) {
        self.presence[member.0 as usize] = Presence::Due;
        self.agenda.put(at, Action::Start { member, again });
    }

    /// Stops a member that is up.
    pub(super) fn stop(
        &mut self,
        at: Time,
        member: MemberIndex,
        how: Stop,
        returns: Option<Duration>,
    ) {
        self.presence[member.0 as usize] = Presence::Going;
        self.going += 1;
        self.agenda.put(at, Action::Stop { member, how, returns });
    }

    /// Gives a member another plan.
    pub(super) fn change(
        &mut self,
        at: Time,
        member: MemberIndex,
        plan: Arc<GroupPlan>,
        continues: bool,
    ) {
        self.agenda.put(at, Action::Change { member, plan, continues });
    }

    pub(super) fn plan_of<'a>(
        &'a self,
        plan: &'a RunPlan,
        group: GroupIndex,
        member: MemberIndex,
    ) -> &'a Arc<GroupPlan> {
        self.changes.of(plan, group, member)
    }

    pub(super) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The topics of the members that are up, about to start, or about to end.
    pub(super) fn topics(&self, plan: &RunPlan, group: GroupIndex) -> BTreeSet<TopicIndex> {
        let members = plan.members(group).map(MemberIndex);
        let are_there = members.filter(|member| {
            matches!(
                self.presence[member.0 as usize],
                Presence::Up | Presence::Due | Presence::Going
            )
        });
        let plans = are_there.map(|member| self.plan_of(plan, group, member));
        plans.flat_map(|plan| plan.subscription.topics().iter().copied()).collect()
    }

    /// Plans an announcement: at the time `at` the measures learn why the group rebalances.
    pub(super) fn announce(&mut self, at: Time, group: GroupIndex, cause: Cause) {
        self.agenda.put(at, Action::Announce { group, cause });
    }

    /// The current loads of a group's members.
    pub(super) fn workload(&self, group: GroupIndex) -> Workload {
        self.workloads[group.0 as usize]
    }

    /// Sets the loads of a group's members, including those that start later.
    pub(super) fn set_workload(
        &mut self,
        plan: &RunPlan,
        group: GroupIndex,
        workload: Workload,
        orders: &mut Orders,
    ) {
        self.workloads[group.0 as usize] = workload;
        let up = self.up(plan, group).into_iter();
        orders.commands.extend(up.map(|member| Command::Work { member, workload }));
    }

    /// Cancels all planned actions, and stops all members that are up.
    pub(super) fn stop_all(&mut self, now: Time) {
        while let Some((_, action)) = self.agenda.take(Time::MAX) {
            match action {
                Action::Start { member, .. } => {
                    self.take_back(member, Presence::Due, Presence::Down)
                }
                Action::Stop { member, .. } => {
                    self.going -= u32::from(!self.has_failed(member));
                    self.take_back(member, Presence::Going, Presence::Up);
                }
                Action::Change { .. } | Action::Announce { .. } => {}
            }
        }
        self.returns.clear();
        for member in (0..self.presence.len() as u32).map(MemberIndex) {
            if self.is_up(member) {
                self.stop(now, member, Stop::Leave, None);
            }
        }
    }

    fn take_back(&mut self, member: MemberIndex, from: Presence, to: Presence) {
        let presence = &mut self.presence[member.0 as usize];
        if *presence == from {
            *presence = to;
        }
    }

    /// Sends the commands and triggers that are due soon.
    pub(super) fn send_due(&mut self, now: Time, plan: &RunPlan, orders: &mut Orders) {
        let mut returned: BTreeMap<GroupIndex, (Time, u32)> = BTreeMap::new();
        while let Some((at, action)) = self.agenda.take(now + AHEAD) {
            match action {
                Action::Start { member, again } => {
                    let Some(group) = plan.group_of(member) else { continue };
                    if again && plan.has_members(group) {
                        returned.entry(group).or_insert((at, 0)).1 += 1;
                    }
                    let workload = self.workloads[group.0 as usize];
                    let own = Arc::clone(self.plan_of(plan, group, member));
                    let member = plan.member(group, member, workload);
                    orders.commands.push(self.started(at, MemberPlan { group: own, ..member }));
                }
                Action::Stop { member, .. } if self.has_failed(member) => {}
                Action::Stop { member, how, returns } => {
                    self.returns.extend(returns.map(|away| (member, away)));
                    orders.commands.push(Command::Stop { at, member, how });
                }
                Action::Change { member, plan, continues } => {
                    self.changes.set(member, Arc::clone(&plan));
                    if continues && self.is_up(member) {
                        orders.commands.push(Command::Subscribe { at, member, group: plan });
                    }
                }
                Action::Announce { group, cause } => {
                    orders.triggers.push(Trigger { at, group, cause });
                }
            }
        }
        for (group, (at, count)) in returned {
            orders.triggers.push(Trigger { at, group, cause: Cause::Returned(count) });
        }
    }

    fn started(&mut self, at: Time, member: MemberPlan) -> Command {
        let group = member.group.index.0 as usize;
        self.presence[member.index.0 as usize] = Presence::Up;
        self.alive[group] += 1;
        self.begun[group] = true;
        Command::Start { at, member }
    }

    /// Handles the event of a member that stopped or failed.
    pub(super) fn observe(&mut self, now: Time, plan: &RunPlan, event: &Event) {
        let ended = match event.kind {
            EventKind::Stopped { .. } => Presence::Down,
            EventKind::Failed { .. } => Presence::Failed,
            _ => return,
        };
        let Some(group) = plan.group_of(event.member) else { return };
        let presence = &mut self.presence[event.member.0 as usize];
        let was = std::mem::replace(presence, ended);
        if was == Presence::Going {
            self.going -= 1;
        }
        if matches!(was, Presence::Up | Presence::Going) {
            self.alive[group.0 as usize] -= 1;
        }
        let away = self.returns.remove(&event.member);
        if let Some(away) = away.filter(|_| ended == Presence::Down) {
            self.start_as((event.at + away).max(now), event.member, true);
        }
    }
}
