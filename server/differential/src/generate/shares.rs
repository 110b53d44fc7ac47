//! Members of share groups (KIP-932), and the offsets of these groups.

use super::learn::take;
use crate::world::{ALTERED_GROUP, Group, Member, SHARE_GROUP, World};
use muster_codec::messages::*;
use muster_codec::{Request, Response, Str};

pub(super) fn share_group_heartbeat(world: &mut World) -> Request<'static> {
    let group = world.group_of(SHARE_GROUP);
    let group_id =
        if world.chance(3) { world.group_name() } else { world.groups[group].id.clone() };
    if world.chance(30) || world.groups[group].members.is_empty() {
        let member = Member { id: world.member_id(), ..Member::default() };
        return whole(world, group_id, member);
    }
    let mut member = world.member(group);
    match world.random.u32(..10) {
        0 => {
            member.epoch = world.one(&[-1, -1, -1, -2]);
            alive(group_id, member)
        }
        1 | 2 => whole(world, group_id, member),
        _ => alive(group_id, member),
    }
}

/// A heartbeat with all fields.
fn whole(world: &mut World, group_id: String, member: Member) -> Request<'static> {
    ShareGroupHeartbeatRequest {
        group_id: group_id.into(),
        member_id: member.id.into(),
        member_epoch: member.epoch,
        rack_id: world.one(&[None, None, None, Some(""), Some("rack")]).map(Into::into),
        subscribed_topic_names: if world.chance(4) { None } else { Some(names(world)) },
    }
    .into()
}

fn alive(group_id: String, member: Member) -> Request<'static> {
    ShareGroupHeartbeatRequest {
        group_id: group_id.into(),
        member_id: member.id.into(),
        member_epoch: member.epoch,
        ..Default::default()
    }
    .into()
}

fn names(world: &mut World) -> Vec<Str<'static>> {
    world.some(2, Clone::clone, |world| world.topic().name.into())
}

pub(super) fn share_group_describe(world: &mut World) -> Request<'static> {
    ShareGroupDescribeRequest {
        group_ids: world.some(3, Clone::clone, |it| it.group_name_of(SHARE_GROUP).into()),
        include_authorized_operations: world.chance(30),
    }
    .into()
}

pub(super) fn describe_share_group_offsets(world: &mut World) -> Request<'static> {
    let group = |world: &mut World| DescribeShareGroupOffsetsRequestGroup {
        group_id: described_group(world).into(),
        topics: if world.chance(50) {
            None
        } else {
            Some(world.some(3, |it| it.topic_name.clone(), described))
        },
    };
    let groups = world.some(2, |it| it.group_id.clone(), group);
    DescribeShareGroupOffsetsRequest { groups }.into()
}

fn described_group(world: &mut World) -> String {
    let kind = world.one(&[SHARE_GROUP, ALTERED_GROUP]);
    world.group_name_of(kind)
}

fn described(world: &mut World) -> DescribeShareGroupOffsetsRequestTopic<'static> {
    let topic = world.topic();
    // Kafka searches half a minute for a partition that does not exist, so that is rare.
    let partitions = world.some(
        3,
        |it| *it,
        |world| {
            if world.chance(2) { -1 } else { world.random.i32(0..topic.partitions.max(1)) }
        },
    );
    DescribeShareGroupOffsetsRequestTopic { topic_name: topic.name.into(), partitions }
}

pub(super) fn alter_share_group_offsets(world: &mut World) -> Request<'static> {
    AlterShareGroupOffsetsRequest {
        group_id: altered_group(world).into(),
        topics: world.some(2, |it| it.topic_name.clone(), altered),
    }
    .into()
}

/// Mostly a group without members. If a group has members, its offsets must not be altered, and the
/// request is refused.
fn altered_group(world: &mut World) -> String {
    let at = world.random.usize(..world.groups.len());
    match world.random.u32(..12) {
        0 => String::new(),
        1..4 if !world.groups[at].is_empty() => world.groups[at].id.clone(),
        _ => world.groups[ALTERED_GROUP].id.clone(),
    }
}

fn altered(world: &mut World) -> AlterShareGroupOffsetsRequestTopic<'static> {
    let topic = world.topic();
    let partition = |world: &mut World| AlterShareGroupOffsetsRequestPartition {
        partition_index: world.partition(&topic),
        start_offset: world.offset(),
    };
    let partitions = world.distinct(2, |it| it.partition_index, partition);
    AlterShareGroupOffsetsRequestTopic { topic_name: topic.name.into(), partitions }
}

pub(super) fn delete_share_group_offsets(world: &mut World) -> Request<'static> {
    let topic = |world: &mut World| DeleteShareGroupOffsetsRequestTopic {
        topic_name: world.topic().name.into(),
    };
    DeleteShareGroupOffsetsRequest {
        group_id: described_group(world).into(),
        topics: world.some(2, |it| it.topic_name.clone(), topic),
    }
    .into()
}

/// A config change that lets share groups start at the first records of topics.
pub(super) fn read_from_the_start(world: &World) -> Request<'static> {
    const GROUP: i8 = 32;
    let config = AlterableConfig {
        name: "share.auto.offset.reset".into(),
        config_operation: 0,
        value: Some("earliest".into()),
    };
    let resource = |kind: usize| AlterConfigsResource {
        resource_type: GROUP,
        resource_name: world.groups[kind].id.clone().into(),
        configs: vec![config.clone()],
    };
    let resources = [SHARE_GROUP, ALTERED_GROUP].map(resource).to_vec();
    IncrementalAlterConfigsRequest { resources, validate_only: false }.into()
}

/// Learns from an answer which members exist.
pub(super) fn learn(world: &mut World, ask: &Request<'static>, answer: &Response<'static>) {
    let (Request::ShareGroupHeartbeat(asked), Response::ShareGroupHeartbeat(answer)) =
        (ask, answer)
    else {
        return;
    };
    let group = world.groups.iter_mut().find(|known| known.id == asked.group_id);
    let Some(Group { members, .. }) = group else { return };
    if answer.error_code != 0 {
        return;
    }
    let id = asked.member_id.to_string();
    if answer.member_epoch < 0 {
        members.retain(|member| member.id != id);
        return;
    }
    take(members, Member { id, epoch: answer.member_epoch, ..Member::default() });
}
