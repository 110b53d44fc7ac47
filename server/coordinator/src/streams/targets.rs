//! The targets of a streams group's members: tasks by the assignor `sticky`.

use super::configured::{Ready, SubtopologyTasks};
use super::member::Profile;
use super::task::{Role, TaskKey};
use super::{Streams, StreamsGroup};
use crate::assignors::SLICE;
use crate::assignors::sticky::{Placed, Sticky, StickyMember, TaskNumber, TasksOf};
use crate::java_order::hash_code;
use crate::modern::member_targets::{MemberTargets, NewTarget, Steps};
use crate::modern::owned::{KeyPartitions, Partitions};
use crate::modern::target::MemberUpdate;
use crate::text::Text;
use alloc::vec::Vec;

/// Tasks and members for each millisecond that has to be between two computations of a target. Of
/// that time computing takes a third, or less.
const PLACES_PER_MS: usize = 500;

pub(crate) type StreamsTargets = MemberTargets<Computation>;

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

impl Steps for Computation {
    type Key = TaskKey;

    fn step(&mut self) -> Option<Vec<NewTarget<TaskKey>>> {
        let placed = match &mut self.sticky {
            Some(sticky) => sticky.step(SLICE)?,
            None => alloc::vec![Placed::default(); self.numbers.len()],
        };
        let part = |placed: &Placed| part(placed, &self.first_tasks);
        let targets = self.numbers.iter().zip(&placed);
        Some(targets.map(|(number, it)| NewTarget { number: *number, part: part(it) }).collect())
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
        let order = self.target.by_member.visited(joining).into_iter();
        let profiles =
            order.filter_map(|number| Some((number, self.profile_after(update, number)?)));
        let profiles: Vec<(u32, &Profile)> = profiles.collect();
        let numbers = profiles.iter().map(|(number, _)| *number).collect();
        let Some(Ok(ready)) = self.own.configured.as_ref().map(|it| &it.outcome) else {
            return Computation { numbers, first_tasks: Vec::new(), sticky: None };
        };
        let first_tasks = first_tasks(ready);
        let members = profiles.iter().map(|(number, profile)| {
            let target = self.target.by_member.part_of(*number);
            StickyMember {
                hash: self.target.by_member.hash_of(*number),
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
