//! The records of the test's kind of groups ([`super::tasks`]). They have the types of consumer
//! groups' records, with a topic id made of a task's role and unit.

use super::super::member::{Current, CurrentOf, MemberState};
use super::super::owned::{KeyPartitions, Owned, owned as owned_since};
use super::tasks::{Role, Task, Tasks};
use crate::text::owned as text;
use alloc::vec::Vec;
use muster_codec::Uuid;
use muster_codec::records::{
    ConsumerGroupCurrentMemberAssignmentValue as CurrentValue, ConsumerGroupKey,
    ConsumerGroupMemberKey, ConsumerGroupOwnedTopicPartitions as OwnedValue,
};

pub(super) fn group_key(group_id: &str) -> ConsumerGroupKey<'static> {
    ConsumerGroupKey { group_id: text(group_id) }
}

pub(super) fn member_key(group_id: &str, member_id: &str) -> ConsumerGroupMemberKey<'static> {
    let (group_id, member_id) = (text(group_id), text(member_id));
    ConsumerGroupMemberKey { group_id, member_id }
}

pub(super) fn id_of((role, unit): Task) -> Uuid {
    let mut id = [0; 16];
    (id[0], id[1]) = (role as u8, unit);
    Uuid(id)
}

pub(super) fn task_of(id: Uuid) -> Task {
    (if id.0[0] == 0 { Role::Active } else { Role::Standby }, id.0[1])
}

pub(super) fn owned_value(owned: &Owned<Task>) -> Vec<OwnedValue> {
    let tasks = owned.by_key().iter().map(|of_key| OwnedValue {
        topic_id: id_of(of_key.key),
        partitions: of_key.partitions.iter().map(|it| it.partition).collect(),
        assignment_epochs: Some(of_key.partitions.iter().map(|it| it.epoch).collect()),
    });
    tasks.collect()
}

pub(super) fn current(value: &CurrentValue) -> CurrentOf<Tasks> {
    let states =
        [MemberState::Stable, MemberState::UnrevokedPartitions, MemberState::UnreleasedPartitions];
    Current {
        epoch: value.member_epoch,
        previous_epoch: value.previous_member_epoch,
        state: states[value.state as usize],
        assigned: owned(&value.assigned_partitions),
        revoking: owned(&value.partitions_pending_revocation),
    }
}

pub(super) fn owned(values: &[OwnedValue]) -> Owned<Task> {
    let tasks = values.iter().map(|value| {
        let epochs = value.assignment_epochs.iter().flatten();
        let partitions = value.partitions.iter().zip(epochs);
        KeyPartitions {
            key: task_of(value.topic_id),
            partitions: partitions.map(|(at, epoch)| owned_since(*at, *epoch)).collect(),
        }
    });
    Owned::new(tasks.collect())
}
