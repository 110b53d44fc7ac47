//! The rule `task-twice`: no process of a streams group has a task twice, neither at two of its
//! threads nor in two roles. Its state directory has only one place for the task.
//!
//! A coordinator assigns a task to a process only after the process has given up the task in every
//! other role. So the interval in which a process certainly has a task is computed as for an owner
//! ([`super::owners`]). A member that has a task in two roles needs no such interval as a proof.
//! Either both roles came in one assignment, or the second role came before the member had reported
//! that it had given up the first role.

use std::collections::{BTreeSet, HashMap};

use super::found::Found;
use super::group::{Facts, Members};
use super::owners::{Owners, Place, Rule};
use crate::event::Event;
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

pub(super) struct Processes {
    members: HashMap<MemberIndex, Tasks>,
    owners: Owners,
}

/// The tasks of a member.
#[derive(Default)]
struct Tasks {
    process: u32,
    active: BTreeSet<Partition>,
    standby: BTreeSet<Partition>,
}

impl Processes {
    pub(super) fn new() -> Self {
        Self { members: HashMap::new(), owners: Owners::new(Rule::TaskTwice) }
    }

    pub(super) fn runs_in(&mut self, member: MemberIndex, process: u32) {
        self.members.entry(member).or_default().process = process;
    }

    pub(super) fn assigned(
        &mut self,
        event: &Event,
        epoch: i32,
        partitions: &[Partition],
        members: &mut Members,
        facts: &Facts,
        found: &mut Found,
    ) {
        let tasks = self.members.entry(event.member).or_default();
        let twice = partitions.iter().find(|task| tasks.standby.contains(task));
        report(event, twice, facts, found);
        tasks.active.extend(partitions);
        let places = places(tasks.process, partitions.iter().copied());
        self.owners.assigned(event, epoch, places, members);
    }

    /// Notes that a member has these standby tasks from now on, and no others.
    pub(super) fn standbys(
        &mut self,
        event: &Event,
        epoch: i32,
        partitions: &[Partition],
        members: &mut Members,
        facts: &Facts,
        found: &mut Found,
    ) {
        let tasks = self.members.entry(event.member).or_default();
        let now = BTreeSet::from_iter(partitions.iter().copied());
        let before = std::mem::replace(&mut tasks.standby, now.clone());
        let twice = now.iter().find(|task| tasks.active.contains(task));
        report(event, twice, facts, found);
        let process = tasks.process;
        self.owners.released(event.member, places(process, before.difference(&now).copied()));
        let added = places(process, now.difference(&before).copied());
        self.owners.assigned(event, epoch, added, members);
    }

    pub(super) fn released(&mut self, member: MemberIndex, partitions: &[Partition]) {
        let Some(tasks) = self.members.get_mut(&member) else { return };
        partitions.iter().for_each(|task| {
            tasks.active.remove(task);
        });
        self.owners.released(member, places(tasks.process, partitions.iter().copied()));
    }

    /// Notes that a member has lost all its tasks.
    pub(super) fn gone(&mut self, member: MemberIndex) {
        if let Some(tasks) = self.members.get_mut(&member) {
            *tasks = Tasks { process: tasks.process, ..Tasks::default() };
        }
        self.owners.gone(member);
    }

    pub(super) fn judge(
        &mut self,
        member: MemberIndex,
        now: Time,
        members: &Members,
        facts: &Facts,
        found: &mut Found,
    ) {
        self.owners.judge(member, now, members, facts, found);
    }
}

fn places(process: u32, tasks: impl Iterator<Item = Partition>) -> impl Iterator<Item = Place> {
    tasks.map(move |partition| Place { process, partition })
}

/// Reports a member that has a task in two roles.
fn report(event: &Event, twice: Option<&Partition>, facts: &Facts, found: &mut Found) {
    let Some(task) = twice else { return };
    found.add("task-twice", event.at, &facts.group.id, || {
        let (member, name) = (event.member.0, facts.name(*task));
        let what = format!("{name} was assigned to member {member} as active and standby at once");
        (what, vec![event.clone()])
    });
}
