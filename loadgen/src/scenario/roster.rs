//! Which members are up, and the commands that start and stop them in their time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::agenda::{Act, Agenda};
use super::cast::Cast;
use super::conductor::{Cause, Orders, Trigger};
use crate::driver::command::Command;
use crate::event::{Event, EventKind, Stop};
use crate::plan::{GroupIndex, MemberIndex, MemberPlan, Workload};
use crate::time::Time;

/// How long before their time commands are told: more than the time between two ticks, so that
/// members start when they are to, and little enough to change one's mind.
const AHEAD: Duration = Duration::from_millis(150);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    Down,
    /// To be started.
    Due,
    Up,
    /// To be stopped, or about to end.
    Going,
    /// It can't go on, and is not started again.
    Failed,
}

#[derive(Debug)]
pub(super) struct Roster {
    presence: Vec<Presence>,
    /// Of each group, members that are up or going.
    alive: Vec<u32>,
    begun: Vec<bool>,
    workloads: Vec<Workload>,
    /// How long those that are going stay away.
    returns: BTreeMap<MemberIndex, Duration>,
    going: u32,
    agenda: Agenda,
}

impl Roster {
    pub(super) fn new(cast: &Cast) -> Self {
        Self {
            presence: vec![Presence::Down; cast.member_count() as usize],
            alive: vec![0; cast.groups().count()],
            begun: vec![false; cast.groups().count()],
            workloads: cast.groups().map(|group| cast.workload(group.index)).collect(),
            returns: BTreeMap::new(),
            going: 0,
            agenda: Agenda::default(),
        }
    }

    /// Members that are up, or not yet down.
    pub(super) fn alive(&self, group: GroupIndex) -> u32 {
        self.alive[group.0 as usize]
    }

    pub(super) fn is_up(&self, member: MemberIndex) -> bool {
        self.presence[member.0 as usize] == Presence::Up
    }

    /// Whether none of its members is up or to be started.
    pub(super) fn is_down(&self, cast: &Cast, group: GroupIndex) -> bool {
        let mut members = cast.members(group).map(|member| self.presence[member as usize]);
        members.all(|presence| matches!(presence, Presence::Down | Presence::Failed))
    }

    /// Whether it can't go on, and won't be up again.
    pub(super) fn has_failed(&self, member: MemberIndex) -> bool {
        self.presence[member.0 as usize] == Presence::Failed
    }

    /// Whether a member of it was ever started.
    pub(super) fn was_begun(&self, group: GroupIndex) -> bool {
        self.begun[group.0 as usize]
    }

    /// Whether members are to start, stop or come back.
    pub(super) fn is_moving(&self) -> bool {
        !self.agenda.is_empty() || self.going > 0
    }

    pub(super) fn last_act(&self) -> Option<Time> {
        self.agenda.last()
    }

    pub(super) fn down(&self, cast: &Cast, group: GroupIndex) -> Vec<MemberIndex> {
        self.all(cast, group, Presence::Down)
    }

    pub(super) fn up(&self, cast: &Cast, group: GroupIndex) -> Vec<MemberIndex> {
        self.all(cast, group, Presence::Up)
    }

    fn all(&self, cast: &Cast, group: GroupIndex, presence: Presence) -> Vec<MemberIndex> {
        let members = cast.members(group);
        members.filter(|&m| self.presence[m as usize] == presence).map(MemberIndex).collect()
    }

    pub(super) fn start(&mut self, at: Time, member: MemberIndex) {
        self.start_as(at, member, false);
    }

    fn start_as(&mut self, at: Time, member: MemberIndex, again: bool) {
        self.presence[member.0 as usize] = Presence::Due;
        self.agenda.put(at, Act::Start { member, again });
    }

    /// Of a member that is up.
    pub(super) fn stop(
        &mut self,
        at: Time,
        member: MemberIndex,
        how: Stop,
        returns: Option<Duration>,
    ) {
        self.presence[member.0 as usize] = Presence::Going;
        self.going += 1;
        self.agenda.put(at, Act::Stop { member, how, returns });
    }

    /// Tells the measures, at its time, what sets off a rebalance.
    pub(super) fn announce(&mut self, at: Time, group: GroupIndex, cause: Cause) {
        self.agenda.put(at, Act::Announce { group, cause });
    }

    /// What a group's members do from now on, also those that start later.
    pub(super) fn set_workload(
        &mut self,
        cast: &Cast,
        group: GroupIndex,
        workload: Workload,
        orders: &mut Orders,
    ) {
        self.workloads[group.0 as usize] = workload;
        let up = self.up(cast, group).into_iter();
        orders.commands.extend(up.map(|member| Command::Work { member, workload }));
    }

    /// Forgets all that was to happen, and stops all that are up.
    pub(super) fn stop_all(&mut self, now: Time) {
        while let Some((_, act)) = self.agenda.take(Time::MAX) {
            match act {
                Act::Start { member, .. } => self.take_back(member, Presence::Due, Presence::Down),
                Act::Stop { member, .. } => {
                    self.going -= u32::from(!self.has_failed(member));
                    self.take_back(member, Presence::Going, Presence::Up);
                }
                Act::Announce { .. } => {}
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

    /// Tells what is due soon.
    pub(super) fn tell(&mut self, now: Time, cast: &Cast, orders: &mut Orders) {
        let mut returned: BTreeMap<GroupIndex, (Time, u32)> = BTreeMap::new();
        while let Some((at, act)) = self.agenda.take(now + AHEAD) {
            match act {
                Act::Start { member, again } => {
                    let Some(group) = cast.group_of(member) else { continue };
                    if again && cast.has_members(group) {
                        returned.entry(group).or_insert((at, 0)).1 += 1;
                    }
                    let workload = self.workloads[group.0 as usize];
                    let plan = cast.member(group, member, workload);
                    orders.commands.push(self.started(at, plan));
                }
                Act::Stop { member, .. } if self.has_failed(member) => {}
                Act::Stop { member, how, returns } => {
                    self.returns.extend(returns.map(|away| (member, away)));
                    orders.commands.push(Command::Stop { at, member, how });
                }
                Act::Announce { group, cause } => {
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

    /// Learns what became of members.
    pub(super) fn hear(&mut self, now: Time, cast: &Cast, event: &Event) {
        let ended = match event.kind {
            EventKind::Stopped { .. } => Presence::Down,
            EventKind::Failed { .. } => Presence::Failed,
            _ => return,
        };
        let Some(group) = cast.group_of(event.member) else { return };
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
