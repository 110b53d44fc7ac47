//! Tasks. A task is a partition of a subtopology, in one of three roles.

use crate::java_order;
use crate::modern::owned::{KeyPartitions, Owned, Partitions, owned};
use crate::text::{Text, owned as text};
use alloc::vec::Vec;
use core::cmp::Ordering;
use muster_codec::messages::{StreamsGroupAssignment, StreamsGroupTaskIds};

/// The role of a member in a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Active,
    Standby,
    Warmup,
}

/// The key of tasks: a subtopology and a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskKey {
    pub(crate) role: Role,
    pub(crate) subtopology: Text,
}

impl TaskKey {
    /// The key of the same subtopology and another role.
    pub(crate) fn in_role(&self, role: Role) -> Self {
        Self { role, subtopology: self.subtopology.clone() }
    }

    /// The name of the role, for operators.
    pub(crate) fn role_name(&self) -> &'static str {
        match self.role {
            Role::Active => "active",
            Role::Standby => "standby",
            Role::Warmup => "warmup",
        }
    }
}

impl Ord for TaskKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = || java_order::compare(&self.subtopology, &other.subtopology);
        self.role.cmp(&other.role).then_with(by_name)
    }
}

impl PartialOrd for TaskKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The tasks in the three lists of a request or record, one list for each role. A subtopology may
/// occur several times in a list.
pub(crate) fn partitions<'l, 's: 'l>(
    lists: [&'l [StreamsGroupTaskIds<'s>]; 3],
) -> Vec<KeyPartitions<TaskKey, i32>> {
    let roles = [Role::Active, Role::Standby, Role::Warmup].into_iter().zip(lists);
    let of_role = |(role, list): (Role, &'l [StreamsGroupTaskIds<'s>])| {
        list.iter().map(move |it| KeyPartitions {
            key: TaskKey { role, subtopology: Text::from(&*it.subtopology_id) },
            partitions: it.partitions.clone(),
        })
    };
    let mut all: Partitions<TaskKey> = roles.flat_map(of_role).collect();
    all.retain(|of_key| !of_key.partitions.is_empty());
    all.sort_by(|one, other| one.key.cmp(&other.key));
    all.dedup_by(|more, kept| {
        let is_same = more.key == kept.key;
        if is_same {
            kept.partitions.append(&mut more.partitions);
        }
        is_same
    });
    for of_key in &mut all {
        of_key.partitions.sort_unstable();
        of_key.partitions.dedup();
    }
    all
}

/// The target of a member in its record.
pub(crate) fn target_part(value: &StreamsGroupAssignment<'_>) -> Partitions<TaskKey> {
    partitions([&value.active_tasks, &value.standby_tasks, &value.warmup_tasks])
}

pub(crate) fn target_value(part: Partitions<TaskKey>) -> StreamsGroupAssignment<'static> {
    let of_role = |role| {
        let of_role = part.iter().filter(|it| it.key.role == role);
        of_role.map(|it| task_ids(&it.key.subtopology, it.partitions.clone())).collect()
    };
    StreamsGroupAssignment {
        active_tasks: of_role(Role::Active),
        standby_tasks: of_role(Role::Standby),
        warmup_tasks: of_role(Role::Warmup),
    }
}

/// The tasks of a role in an assignment.
pub(crate) fn of_role(tasks: &Owned<TaskKey>, role: Role) -> Vec<StreamsGroupTaskIds<'static>> {
    let of_role = tasks.by_key().iter().filter(|it| it.key.role == role);
    let partitions = |it: &KeyPartitions<_, _>| it.partitions.iter().map(partition_of).collect();
    of_role.map(|it| task_ids(&it.key.subtopology, partitions(it))).collect()
}

fn partition_of(it: &crate::modern::owned::OwnedPartition) -> i32 {
    it.partition
}

/// An assignment in the form of a description.
pub(crate) fn assignment(tasks: &Owned<TaskKey>) -> StreamsGroupAssignment<'static> {
    StreamsGroupAssignment {
        active_tasks: of_role(tasks, Role::Active),
        standby_tasks: of_role(tasks, Role::Standby),
        warmup_tasks: of_role(tasks, Role::Warmup),
    }
}

/// The tasks that a member reports.
pub(crate) fn reported(lists: [&[StreamsGroupTaskIds<'_>]; 3]) -> Owned<TaskKey> {
    let keys = partitions(lists).into_iter().map(|of_key| KeyPartitions {
        key: of_key.key,
        partitions: of_key.partitions.into_iter().map(|it| owned(it, 0)).collect(),
    });
    Owned::new(keys.collect())
}

fn task_ids(subtopology: &str, partitions: Vec<i32>) -> StreamsGroupTaskIds<'static> {
    StreamsGroupTaskIds { subtopology_id: text(subtopology), partitions }
}
