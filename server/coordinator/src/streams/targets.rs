//! The targets of a streams group's members: tasks that an assignor, such as `sticky`, has placed.

use super::configured::{Ready, SubtopologyTasks};
use super::member::Member;
use super::task::{Role, TaskKey};
use super::task_offsets::Reports;
use super::{Streams, StreamsGroup};
use crate::assignors::sticky::{Placed, Sticky, StickyMember, TaskNumber, TasksOf};
use crate::assignors::{SLICE, TaskAssignor};
use crate::java_order::hash_code;
use crate::modern::member_targets::{MemberTargets, NewTarget, Steps};
use crate::modern::owned::{KeyPartitions, Owned, Partitions};
use crate::modern::target::MemberUpdate;
use crate::text::Text;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The least interval between two computations of a target, in ms, is the number of tasks and
/// members divided by this. So computing takes at most a third of the time.
const PLACES_PER_MS: usize = 500;

pub(crate) type StreamsTargets = MemberTargets<Computation>;

/// A computation of the targets of members.
#[derive(Debug)]
pub(crate) struct Computation {
    /// The slots of the members.
    numbers: Vec<u32>,
    /// The subtopologies, sorted by id, each with the number of its first task.
    first_tasks: Vec<(Text, TaskNumber)>,
    placing: Placing,
}

#[derive(Debug)]
enum Placing {
    /// Nothing can be assigned.
    Nothing,
    Sticky(Box<Sticky>),
    /// The result of an assignor other than `sticky`.
    Placed(Vec<Placed>),
}

impl Steps for Computation {
    type Key = TaskKey;

    fn step(&mut self) -> Option<Vec<NewTarget<TaskKey>>> {
        let placed = match &mut self.placing {
            Placing::Sticky(sticky) => sticky.step(SLICE)?,
            Placing::Placed(placed) => core::mem::take(placed),
            Placing::Nothing => alloc::vec![Placed::default(); self.numbers.len()],
        };
        let part = |placed: &Placed| part(placed, &self.first_tasks);
        let targets = self.numbers.iter().zip(&placed);
        Some(targets.map(|(number, it)| NewTarget { number: *number, part: part(it) }).collect())
    }
}

impl StreamsGroup {
    /// The least time between two computations, in proportion to the tasks and members. The
    /// assignor `sticky` computes the whole target for each change; while thousands of members
    /// join, most of these targets would be outdated before any member gets them.
    pub(super) fn least_interval_ms(&self) -> i32 {
        let Some(Ok(ready)) = self.own.configured.as_ref().map(|it| &it.outcome) else { return 0 };
        let tasks: i32 = ready.subtopologies.iter().map(|it| it.tasks).sum();
        let places = self.len().saturating_add(tasks.unsigned_abs() as usize);
        i32::try_from(places / PLACES_PER_MS).unwrap_or(i32::MAX)
    }

    /// Begins to compute a target. The heartbeat's member counts as it is after the heartbeat.
    pub(super) fn computation(
        &mut self,
        update: Option<&MemberUpdate<'_, Streams>>,
        standbys: i32,
        assignor: TaskAssignor,
    ) -> Computation {
        if let Some(update) = update
            && let Some(slot) = self.members.slot(update.number)
        {
            match update.replaces {
                Some(former) => self.target.by_member.replace(former, update.number, &slot.id),
                None => self.target.by_member.join(update.number, &slot.id),
            }
        }
        let joining = update.filter(|it| it.is_new).map(|it| it.number);
        let order = self.target.by_member.visited(joining).into_iter();
        let members = order.filter_map(|number| Some((number, self.member_after(update, number)?)));
        let members: Vec<(u32, &Member)> = members.collect();
        let numbers = members.iter().map(|(number, _)| *number).collect();
        let Some(Ok(ready)) = self.own.configured.as_ref().map(|it| &it.outcome) else {
            return Computation { numbers, first_tasks: Vec::new(), placing: Placing::Nothing };
        };
        let first_tasks = first_tasks(ready);
        let members = members.iter().map(|(number, Member { profile, current })| {
            let tasks = |role| tasks(&current.assigned, role, &first_tasks, ready);
            StickyMember {
                id: self.member_id(*number).unwrap_or_default(),
                hash: self.target.by_member.hash_of(*number),
                process: &profile.process_id,
                process_hash: hash_code(&profile.process_id),
                active: tasks(Role::Active),
                standby: tasks(Role::Standby),
                offsets: self.offsets(*number, &first_tasks, ready),
            }
        });
        let of = |it: &SubtopologyTasks| TasksOf {
            partitions: it.tasks.unsigned_abs(),
            is_stateful: it.is_stateful,
        };
        let all: Vec<_> = ready.subtopologies.iter().map(of).collect();
        let standbys = usize::try_from(standbys).unwrap_or(0);
        let members: Vec<_> = members.collect();
        let placing = match assignor.place() {
            None => Placing::Sticky(Box::new(Sticky::new(&members, &all, standbys))),
            Some(place) => Placing::Placed(place(&members, &all)),
        };
        Computation { numbers, first_tasks, placing }
    }

    /// The offsets that a member reported, each with its task.
    fn offsets(
        &self,
        number: u32,
        first_tasks: &[(Text, TaskNumber)],
        ready: &Ready,
    ) -> Vec<(TaskNumber, i64)> {
        let slot = self.members.slot(number);
        let reports = slot.and_then(|slot| self.own.task_offsets.of(&slot.id));
        let offsets = reports.into_iter().flat_map(Reports::offsets);
        let numbered = offsets.filter_map(|(subtopology, partition, offset)| {
            let at = ready.place_of(subtopology)?;
            let exists = (0..ready.subtopologies[at].tasks).contains(&partition);
            exists.then(|| (first_tasks[at].1 + partition.unsigned_abs(), offset))
        });
        numbered.collect()
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

/// The numbers of the existing tasks that have this role.
fn tasks(
    assigned: &Owned<TaskKey>,
    role: Role,
    first_tasks: &[(Text, TaskNumber)],
    ready: &Ready,
) -> Vec<TaskNumber> {
    let of_role = assigned.by_key().iter().filter(|it| it.key.role == role);
    let numbers = of_role.filter_map(|of_key| {
        let at = ready.place_of(&of_key.key.subtopology)?;
        let (first, count) = (first_tasks[at].1, ready.subtopologies[at].tasks);
        let partitions = of_key.partitions.iter().map(|it| it.partition);
        let exist = partitions.filter(move |it| (0..count).contains(it));
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
