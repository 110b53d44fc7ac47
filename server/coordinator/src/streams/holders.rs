//! For each task, the processes that have it. As in Kafka, the members of a process are not
//! distinguished: if two members of a process have the same task and one of them gives it up, the
//! process no longer has the task. (In a correct client, two members of a process never have the
//! same task.) An active task belongs to the process that got it last.

use super::task::Role;
use crate::modern::owned::Owned;
use crate::text::Text;
use alloc::vec::Vec;
use hashbrown::HashMap;

use super::task::TaskKey;

#[derive(Debug, Default)]
pub(crate) struct Holders {
    active: HashMap<Text, HashMap<i32, Text>>,
    /// The processes with standbys and with warm-ups of each task.
    others: [HashMap<Text, HashMap<i32, Vec<Text>>>; 2],
}

impl Holders {
    /// Whether a process may get a task for its member, which has the tasks `own`. A task can be
    /// active in only one process. In one process, only one member may have the task, in one role.
    /// If this member has it in another role, that role may change to the new one, except from
    /// active to warm-up.
    pub(crate) fn is_free(
        &self,
        process: &str,
        own: &Owned<TaskKey>,
        key: &TaskKey,
        partition: i32,
    ) -> bool {
        let is_own = |role| own.contains(&key.in_role(role), partition);
        let active = self.active_at(&key.subtopology, partition);
        let has_active = active.is_some_and(|it| **it == *process);
        let is_active_elsewhere = match key.role {
            Role::Active => active.is_some(),
            Role::Standby => has_active && !is_own(Role::Active),
            Role::Warmup => has_active,
        };
        let is_held = |role: Role| {
            let of = &self.others[other(role).unwrap_or_default()];
            let of_task = of.get(&key.subtopology).and_then(|it| it.get(&partition));
            let has_process = of_task.is_some_and(|it| it.iter().any(|it| **it == *process));
            has_process && (role == key.role || !is_own(role))
        };
        !is_active_elsewhere && !is_held(Role::Standby) && !is_held(Role::Warmup)
    }

    fn active_at(&self, subtopology: &Text, partition: i32) -> Option<&Text> {
        self.active.get(subtopology)?.get(&partition)
    }

    /// The number of pairs of a task and a process that has it.
    #[expect(clippy::disallowed_methods, reason = "a sum does not depend on the order")]
    pub(crate) fn len(&self) -> usize {
        let active: usize = self.active.values().map(HashMap::len).sum();
        let others = self.others.iter().flat_map(HashMap::values).flat_map(HashMap::values);
        active + others.map(Vec::len).sum::<usize>()
    }

    /// Notes that a process has these tasks.
    pub(crate) fn add(&mut self, process: &Text, tasks: &Owned<TaskKey>) {
        for of_key in tasks.by_key() {
            let (role, subtopology) = (of_key.key.role, of_key.key.subtopology.clone());
            let partitions = of_key.partitions.iter().map(|it| it.partition);
            let Some(others) = other(role) else {
                let of_active = self.active.entry(subtopology).or_default();
                of_active.extend(partitions.map(|partition| (partition, process.clone())));
                continue;
            };
            let of_key = self.others[others].entry(subtopology).or_default();
            for partition in partitions {
                let processes = of_key.entry(partition).or_default();
                if !processes.contains(process) {
                    processes.push(process.clone());
                }
            }
        }
    }

    /// Notes that a process no longer has these tasks.
    pub(crate) fn remove(&mut self, process: &Text, tasks: &Owned<TaskKey>) {
        for of_key in tasks.by_key() {
            let (role, subtopology) = (of_key.key.role, &of_key.key.subtopology);
            let partitions = of_key.partitions.iter().map(|it| it.partition);
            match other(role) {
                None => take(&mut self.active, subtopology, partitions, |has| has == process),
                Some(others) => {
                    take(&mut self.others[others], subtopology, partitions, |processes| {
                        processes.retain(|it| it != process);
                        processes.is_empty()
                    });
                }
            }
        }
    }
}

/// The index of a role in `others`; None for active tasks.
fn other(role: Role) -> Option<usize> {
    match role {
        Role::Active => None,
        Role::Standby => Some(0),
        Role::Warmup => Some(1),
    }
}

/// Removes the entries of tasks for which `is_gone` holds.
fn take<T>(
    tasks: &mut HashMap<Text, HashMap<i32, T>>,
    subtopology: &Text,
    partitions: impl Iterator<Item = i32>,
    is_gone: impl Fn(&mut T) -> bool,
) {
    let Some(of_subtopology) = tasks.get_mut(subtopology) else { return };
    for partition in partitions {
        if of_subtopology.get_mut(&partition).is_some_and(&is_gone) {
            of_subtopology.remove(&partition);
        }
    }
    if of_subtopology.is_empty() {
        tasks.remove(subtopology);
    }
}
