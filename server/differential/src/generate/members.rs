//! Members of classic groups.

use crate::world::World;
use muster_codec::consumer_protocol::ConsumerProtocolSubscription;
use muster_codec::messages::*;
use muster_codec::{Bytes, Request};
use std::collections::HashSet;

pub(super) fn join_group(world: &mut World) -> Request<'static> {
    let group = world.group_at();
    // If a classic member with a member id joins an empty consumer group, Kafka forgets the group.
    // But it keeps the group's records, so the next load brings the group back. So no id is sent in
    // this case.
    let is_forgotten = world.groups[group].had_consumers && world.groups[group].is_empty();
    let member = if is_forgotten || world.chance(35) {
        crate::world::Member { instance: world.instance(), ..Default::default() }
    } else {
        world.member(group)
    };
    JoinGroupRequest {
        group_id: group_id(world, group).into(),
        session_timeout_ms: if world.chance(5) {
            world.one(&[0, -1, 5_999, 1_800_001])
        } else {
            1_800_000
        },
        rebalance_timeout_ms: 1_800_000,
        member_id: member.id.into(),
        group_instance_id: member.instance.map(Into::into),
        protocol_type: world.one(PROTOCOL_TYPES).into(),
        protocols: protocols(world),
        reason: world.text(20),
    }
    .into()
}

const PROTOCOL_TYPES: &[&str] =
    &["consumer", "consumer", "consumer", "consumer", "consumer", "connect", ""];

/// Protocols, each named once. If a member names a protocol twice, Kafka counts the members that
/// support it wrong, and then never answers.
fn protocols(world: &mut World) -> Vec<JoinGroupRequestProtocol<'static>> {
    let mut protocols = world.some(2, |it| it.name.clone(), protocol);
    let mut seen = HashSet::new();
    protocols.retain(|protocol| seen.insert(protocol.name.clone()));
    protocols
}

fn protocol(world: &mut World) -> JoinGroupRequestProtocol<'static> {
    JoinGroupRequestProtocol {
        name: world.one(&["range", "range", "range", "roundrobin", "sticky"]).into(),
        metadata: subscription(world),
    }
}

fn subscription(world: &mut World) -> Bytes<'static> {
    if world.chance(8) {
        return Bytes::from(world.one(&[vec![], vec![1, 2, 3], vec![0; 8]]));
    }
    let topics = world.some(2, Clone::clone, |world| world.topic().name.into());
    let mut out = Vec::new();
    ConsumerProtocolSubscription { topics, ..Default::default() }
        .write(world.random.i16(0..4), &mut out);
    out.into()
}

fn group_id(world: &mut World, group: usize) -> String {
    if world.chance(4) { world.group_name() } else { world.groups[group].id.clone() }
}

pub(super) fn sync_group(world: &mut World) -> Request<'static> {
    let group = world.group_at();
    let member = world.member(group);
    let everybody = world.groups[group].members.clone();
    let assignments = if world.chance(70) {
        everybody.iter().map(|member| assignment(world, &member.id)).collect()
    } else {
        world.some(
            2,
            |it: &SyncGroupRequestAssignment<'_>| it.member_id.clone(),
            |world| {
                let id = world.member(group).id;
                assignment(world, &id)
            },
        )
    };
    SyncGroupRequest {
        group_id: group_id(world, group).into(),
        generation_id: member.epoch,
        member_id: member.id.into(),
        group_instance_id: member.instance.map(Into::into),
        protocol_type: world.one(&[None, None, Some("consumer"), Some("connect")]).map(Into::into),
        protocol_name: world.one(&[None, None, None, Some("range"), Some("x")]).map(Into::into),
        assignments,
    }
    .into()
}

fn assignment(world: &mut World, member: &str) -> SyncGroupRequestAssignment<'static> {
    let bytes = world.one(&[vec![], vec![0; 10], vec![1, 2, 3]]);
    SyncGroupRequestAssignment { member_id: member.to_owned().into(), assignment: bytes.into() }
}

pub(super) fn heartbeat(world: &mut World) -> Request<'static> {
    let group = world.group_at();
    let member = world.member(group);
    HeartbeatRequest {
        group_id: group_id(world, group).into(),
        generation_id: member.epoch,
        member_id: member.id.into(),
        group_instance_id: member.instance.map(Into::into),
    }
    .into()
}

pub(super) fn leave_group(world: &mut World) -> Request<'static> {
    let group = world.group_at();
    LeaveGroupRequest {
        group_id: group_id(world, group).into(),
        member_id: world.member(group).id.into(),
        members: world.some(
            2,
            |it: &MemberIdentity<'_>| it.member_id.clone(),
            |world| {
                let member = world.member(group);
                MemberIdentity {
                    member_id: member.id.into(),
                    group_instance_id: member.instance.map(Into::into),
                    reason: world.text(20),
                }
            },
        ),
    }
    .into()
}

pub(super) fn describe_groups(world: &mut World) -> Request<'static> {
    DescribeGroupsRequest {
        groups: world.some(3, Clone::clone, |world| world.group_name().into()),
        include_authorized_operations: world.chance(30),
    }
    .into()
}

pub(super) fn list_groups(world: &mut World) -> Request<'static> {
    let states = ["Stable", "Empty", "stable", "Dead", "PreparingRebalance", "", "x", "Assigning"];
    let types = ["classic", "consumer", "Consumer", "share", "streams", "x", ""];
    ListGroupsRequest {
        states_filter: if world.chance(50) {
            Vec::new()
        } else {
            world.some(2, Clone::clone, |world| world.one(&states).into())
        },
        types_filter: if world.chance(50) {
            Vec::new()
        } else {
            world.some(2, Clone::clone, |world| world.one(&types).into())
        },
    }
    .into()
}

pub(super) fn delete_groups(world: &mut World) -> Request<'static> {
    DeleteGroupsRequest {
        groups_names: world.some(2, Clone::clone, |world| world.group_name().into()),
    }
    .into()
}
