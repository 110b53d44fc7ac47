//! Requests about the offsets of groups.

use crate::world::{Member, Topic, World};
use muster_codec::messages::*;
use muster_codec::{Request, Str};

pub(super) fn offset_commit(world: &mut World) -> Request<'static> {
    let (group, member) = committer(world);
    OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: member.epoch,
        member_id: member.id.into(),
        group_instance_id: member.instance.map(Into::into),
        // Either the server's default or an hour: no offset expires during a history.
        retention_time_ms: world.one(&[-1, -1, 3_600_000]),
        topics: world.some(
            2,
            |it: &OffsetCommitRequestTopic<'_>| it.name.clone(),
            |world| {
                let topic = world.topic_or_internal();
                let partitions = world.some(
                    2,
                    |it: &OffsetCommitRequestPartition<'_>| it.partition_index,
                    |world| committed(world, &topic),
                );
                OffsetCommitRequestTopic { name: topic.name.into(), topic_id: topic.id, partitions }
            },
        ),
    }
    .into()
}

/// A group, and one of its members. Or any group, and the fields of a commit without a member.
fn committer(world: &mut World) -> (String, Member) {
    if world.chance(45) {
        let epoch = if world.chance(8) { world.one(&[0, 1, -2]) } else { -1 };
        let mut group = world.group_name();
        if group.is_empty() {
            // All histories share the group with the empty name.
            group = format!("{}other", world.prefix);
        }
        return (group, Member { epoch, ..Member::default() });
    }
    let group = world.group_at();
    (world.groups[group].id.clone(), world.member(group))
}

pub(super) fn committed(world: &mut World, topic: &Topic) -> OffsetCommitRequestPartition<'static> {
    OffsetCommitRequestPartition {
        partition_index: world.partition(topic),
        committed_offset: world.offset(),
        committed_leader_epoch: world.one(&[-1, -1, 0, 3, -2]),
        committed_metadata: world.text(4096),
    }
}

pub(super) fn offset_fetch(world: &mut World) -> Request<'static> {
    let topics = if world.chance(20) {
        None
    } else {
        Some(world.some(
            3,
            |it: &OffsetFetchRequestTopic<'_>| it.name.clone(),
            |world| {
                let (name, _, partition_indexes) = indexes(world);
                OffsetFetchRequestTopic { name, partition_indexes }
            },
        ))
    };
    OffsetFetchRequest {
        group_id: world.group_name().into(),
        topics,
        groups: world.some(2, |it| it.group_id.clone(), offset_fetch_group),
        require_stable: world.chance(30),
    }
    .into()
}

fn offset_fetch_group(world: &mut World) -> OffsetFetchRequestGroup<'static> {
    let group = world.group_at();
    let by_member = world.chance(35);
    let member = world.member(group);
    OffsetFetchRequestGroup {
        group_id: if world.chance(10) {
            world.group_name().into()
        } else {
            world.groups[group].id.clone().into()
        },
        member_id: by_member.then(|| member.id.into()),
        member_epoch: if by_member { member.epoch } else { -1 },
        topics: if world.chance(20) {
            None
        } else {
            Some(world.some(
                3,
                |it: &OffsetFetchRequestTopics<'_>| it.name.clone(),
                |world| {
                    let (name, topic_id, partition_indexes) = indexes(world);
                    OffsetFetchRequestTopics { name, topic_id, partition_indexes }
                },
            ))
        },
    }
}

fn indexes(world: &mut World) -> (Str<'static>, muster_codec::Uuid, Vec<i32>) {
    let topic = world.topic();
    let partitions = world.some(3, |it| *it, |world| world.partition(&topic));
    (topic.name.into(), topic.id, partitions)
}

pub(super) fn offset_delete(world: &mut World) -> Request<'static> {
    OffsetDeleteRequest {
        group_id: world.group_name().into(),
        topics: world.some(
            2,
            |it: &OffsetDeleteRequestTopic<'_>| it.name.clone(),
            |world| {
                let topic = world.topic();
                let partitions = world.some(
                    2,
                    |it: &OffsetDeleteRequestPartition| it.partition_index,
                    |world| OffsetDeleteRequestPartition {
                        partition_index: world.partition(&topic),
                    },
                );
                OffsetDeleteRequestTopic { name: topic.name.into(), partitions }
            },
        ),
    }
    .into()
}
