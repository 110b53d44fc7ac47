//! Members of consumer groups (KIP-848).

use crate::world::{Member, World};
use muster_codec::messages::*;
use muster_codec::{Request, Uuid};

pub(super) fn consumer_group_heartbeat(world: &mut World) -> Request<'static> {
    let group = world.group_at();
    let group_id =
        if world.chance(3) { world.group_name() } else { world.groups[group].id.clone() };
    if world.chance(35) {
        return join(world, group_id);
    }
    let member = world.member(group);
    match world.random.u32(..10) {
        0 => leave(world, group_id, member),
        1 | 2 => whole(world, group_id, member),
        _ => alive(world, group_id, member),
    }
}

fn join(world: &mut World, group_id: String) -> Request<'static> {
    let id = match world.random.u32(..8) {
        0 => String::new(),
        _ => format!("{}m{}", world.prefix, world.random.u32(..5)),
    };
    let member = Member { id, instance: world.instance(), ..Member::default() };
    whole(world, group_id, member)
}

/// A heartbeat with all fields.
fn whole(world: &mut World, group_id: String, member: Member) -> Request<'static> {
    let regex = world.chance(6);
    ConsumerGroupHeartbeatRequest {
        group_id: group_id.into(),
        member_id: member.id.into(),
        member_epoch: member.epoch,
        instance_id: member.instance.map(Into::into),
        rack_id: world.one(&[None, None, Some(""), Some("rack")]).map(Into::into),
        rebalance_timeout_ms: if world.chance(6) { world.one(&[-1, 0, -2]) } else { 1_800_000 },
        subscribed_topic_names: if world.chance(4) || (regex && world.chance(80)) {
            None
        } else {
            Some(world.some(2, Clone::clone, |world| world.topic().name.into()))
        },
        subscribed_topic_regex: regex
            .then(|| world.one(&[format!("{}t[01]", world.prefix), "(".into(), String::new()]))
            .map(Into::into),
        server_assignor: world
            .one(&[None, None, None, Some("uniform"), Some("range"), Some("x"), Some("")])
            .map(Into::into),
        topic_partitions: match world.random.u32(..10) {
            0 => None,
            1 => Some(owned(&member.assigned)),
            _ => Some(Vec::new()),
        },
    }
    .into()
}

fn alive(world: &mut World, group_id: String, member: Member) -> Request<'static> {
    ConsumerGroupHeartbeatRequest {
        group_id: group_id.into(),
        member_id: member.id.into(),
        member_epoch: member.epoch,
        instance_id: member.instance.map(Into::into),
        topic_partitions: match world.random.u32(..4) {
            0 => None,
            1 => Some(Vec::new()),
            _ => Some(owned(&member.assigned)),
        },
        ..Default::default()
    }
    .into()
}

fn leave(world: &mut World, group_id: String, member: Member) -> Request<'static> {
    ConsumerGroupHeartbeatRequest {
        group_id: group_id.into(),
        member_id: member.id.into(),
        member_epoch: world.one(&[-1, -1, -1, -2]),
        instance_id: member.instance.map(Into::into),
        ..Default::default()
    }
    .into()
}

fn owned(assigned: &[(Uuid, Vec<i32>)]) -> Vec<ConsumerGroupHeartbeatTopicPartitions> {
    let owned = |(topic_id, partitions): &(Uuid, Vec<i32>)| ConsumerGroupHeartbeatTopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.clone(),
    };
    assigned.iter().map(owned).collect()
}

pub(super) fn consumer_group_describe(world: &mut World) -> Request<'static> {
    ConsumerGroupDescribeRequest {
        group_ids: world.some(3, Clone::clone, |world| world.group_name().into()),
        include_authorized_operations: world.chance(30),
    }
    .into()
}
