//! The targets of a streams group's members: tasks by the assignor `sticky`.

use super::configured::{Ready, SubtopologyTasks};
use super::member::Profile;
use super::task::{Role, TaskKey};
use super::{Streams, StreamsGroup};
use crate::assignors::SLICE;
use crate::assignors::order::VisitOrder;
use crate::assignors::sticky::{Placed, Sticky, StickyMember, TaskNumber, TasksOf};
use crate::java_order::hash_code;
use crate::modern::owned::{KeyPartitions, Partitions};
use crate::modern::target::{MemberUpdate, Targets};
use crate::text::Text;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Tasks and members for each millisecond that has to be between two computations of a target. Of
/// that time computing takes a third, or less.
const PLACES_PER_MS: usize = 500;

#[derive(Debug, Default)]
pub(crate) struct StreamsTargets {
    members: BTreeMap<u32, Member>,
    visits: VisitOrder,
    joins: u64,
}

/// A member, by the number of its slot.
#[derive(Debug)]
struct Member {
    /// The Java hash code of its id.
    hash: u32,
    /// Sequence number of its joining.
    joined: u64,
    /// None before the first record of its target.
    target: Option<Partitions<TaskKey>>,
}

/// A computation of the targets of members.
#[derive(Debug)]
pub(crate) struct Computation {
    /// The slots of the members.
    numbers: Vec<u32>,
    /// The subtopologies in the order of their ids, with the number of the first task of each.
    first_tasks: Vec<(Text, TaskNumber)>,
    /// None if nothing can be assigned.
    sticky: Option<Sticky>,
}

/// A member with its new target.
#[derive(Debug)]
pub(crate) struct Change {
    number: u32,
    part: Partitions<TaskKey>,
}

impl Targets for StreamsTargets {
    type Key = TaskKey;
    type Computation = Computation;
    type Change = Change;

    fn of(&self, number: u32) -> Partitions<TaskKey> {
        let target = self.members.get(&number).and_then(|member| member.target.as_ref());
        target.cloned().unwrap_or_default()
    }

    fn step(&self, computation: &mut Computation) -> Option<Vec<Change>> {
        let Computation { numbers, first_tasks, sticky } = computation;
        let placed = match sticky {
            Some(sticky) => sticky.step(SLICE)?,
            None => alloc::vec![Placed::default(); numbers.len()],
        };
        let changes = numbers.iter().zip(placed);
        let changes = changes
            .map(|(number, placed)| Change { number: *number, part: part(&placed, first_tasks) });
        Some(changes.filter(|change| self.differs(change)).collect())
    }

    fn changed(change: &Change) -> u32 {
        change.number
    }

    fn part(&self, change: &Change) -> Partitions<TaskKey> {
        change.part.clone()
    }

    fn replay(&mut self, number: u32, part: Partitions<TaskKey>) {
        if let Some(member) = self.members.get_mut(&number) {
            member.target = Some(part);
        }
    }

    fn forget(&mut self, number: u32) {
        if let Some(member) = self.members.remove(&number) {
            self.visits.remove(number, member.hash, member.joined);
        }
    }
}

impl StreamsTargets {
    /// Tasks in all targets.
    pub(super) fn assigned(&self) -> usize {
        let targets = self.members.values().flat_map(|member| &member.target);
        targets.flatten().map(|of_key| of_key.partitions.len()).sum()
    }

    /// Makes a member known.
    pub(super) fn join(&mut self, number: u32, member_id: &str) {
        if self.members.contains_key(&number) {
            return;
        }
        self.joins += 1;
        let (hash, joined) = (hash_code(member_id), self.joins);
        self.visits.insert(number, hash, joined);
        self.members.insert(number, Member { hash, joined, target: None });
    }

    fn differs(&self, change: &Change) -> bool {
        let had = self.members.get(&change.number).and_then(|member| member.target.as_ref());
        had.is_none_or(|had| *had != change.part)
    }
}

impl StreamsGroup {
    /// The assignor `sticky` computes all of a target for any change of it. While thousands of
    /// members join, most of these targets would be old before any member has seen them.
    pub(super) fn least_interval_ms(&self) -> i32 {
        let Some(Ok(ready)) = self.own.configured.as_ref().map(|it| &it.outcome) else { return 0 };
        let tasks: i32 = ready.subtopologies.iter().map(|it| it.tasks).sum();
        let places = self.len().saturating_add(tasks.unsigned_abs() as usize);
        i32::try_from(places / PLACES_PER_MS).unwrap_or(i32::MAX)
    }

    /// Begins to compute a target, with the member of a heartbeat as it is after it.
    pub(super) fn computation(
        &mut self,
        update: Option<&MemberUpdate<'_, Streams>>,
        standbys: i32,
    ) -> Computation {
        if let Some(update) = update
            && let Some(slot) = self.members.slot(update.number)
        {
            self.target.by_member.join(update.number, &slot.id);
        }
        let joining = update.filter(|it| it.is_new).map(|it| it.number);
        let order = self.target.by_member.visits.members(joining).into_iter();
        let profiles = order.filter_map(|number| Some((number, self.profile(update, number)?)));
        let profiles: Vec<(u32, &Profile)> = profiles.collect();
        let numbers = profiles.iter().map(|(number, _)| *number).collect();
        let Some(Ok(ready)) = self.own.configured.as_ref().map(|it| &it.outcome) else {
            return Computation { numbers, first_tasks: Vec::new(), sticky: None };
        };
        let first_tasks = first_tasks(ready);
        let members = profiles.iter().map(|(number, profile)| {
            let known = self.target.by_member.members.get(number);
            let target = known.and_then(|it| it.target.as_deref()).unwrap_or_default();
            StickyMember {
                hash: known.map_or(0, |it| it.hash),
                process: &profile.process_id,
                process_hash: hash_code(&profile.process_id),
                active: tasks(target, Role::Active, &first_tasks, ready),
                standby: tasks(target, Role::Standby, &first_tasks, ready),
            }
        });
        let of = |it: &SubtopologyTasks| TasksOf {
            partitions: it.tasks.unsigned_abs(),
            is_stateful: it.is_stateful,
        };
        let all: Vec<_> = ready.subtopologies.iter().map(of).collect();
        let standbys = usize::try_from(standbys).unwrap_or(0);
        let sticky = Some(Sticky::new(&members.collect::<Vec<_>>(), &all, standbys));
        Computation { numbers, first_tasks, sticky }
    }

    /// The profile of a member after the update; None if it is none.
    fn profile<'g>(
        &'g self,
        update: Option<&MemberUpdate<'g, Streams>>,
        number: u32,
    ) -> Option<&'g Profile> {
        if let Some(update) = update.filter(|it| it.number == number) {
            return Some(&update.after.profile);
        }
        self.members.slot(number)?.member.as_ref().map(|member| &member.profile)
    }
}

fn first_tasks(ready: &Ready) -> Vec<(Text, TaskNumber)> {
    let mut first = 0;
    let mut all = Vec::with_capacity(ready.subtopologies.len());
    for of in &ready.subtopologies {
        all.push((of.id.clone(), first));
        first += of.tasks.unsigned_abs();
    }
    all
}

/// The numbers of the tasks of a role that exist.
fn tasks(
    target: &[KeyPartitions<TaskKey, i32>],
    role: Role,
    first_tasks: &[(Text, TaskNumber)],
    ready: &Ready,
) -> Vec<TaskNumber> {
    let of_role = target.iter().filter(|it| it.key.role == role);
    let numbers = of_role.filter_map(|of_key| {
        let at = ready.place_of(&of_key.key.subtopology)?;
        let (first, count) = (first_tasks[at].1, ready.subtopologies[at].tasks);
        let exist = of_key.partitions.iter().filter(move |it| (0..count).contains(*it));
        Some(exist.map(move |it| first + it.unsigned_abs()))
    });
    numbers.flatten().collect()
}

/// The target of a member.
fn part(placed: &Placed, first_tasks: &[(Text, TaskNumber)]) -> Partitions<TaskKey> {
    let mut part: Partitions<TaskKey> = Vec::new();
    for (role, tasks) in [(Role::Active, &placed.active), (Role::Standby, &placed.standby)] {
        for task in tasks {
            let at = first_tasks.partition_point(|(_, first)| first <= task) - 1;
            let (subtopology, first) = &first_tasks[at];
            let partition = (task - first).cast_signed();
            match part.last_mut() {
                Some(last) if last.key.role == role && last.key.subtopology == *subtopology => {
                    last.partitions.push(partition);
                }
                _ => part.push(KeyPartitions {
                    key: TaskKey { role, subtopology: subtopology.clone() },
                    partitions: [partition].into(),
                }),
            }
        }
    }
    part
}
