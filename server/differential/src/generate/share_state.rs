//! Requests of brokers that read and change the state of share partitions.

use crate::world::{SHARE_GROUP, Topic, World};
use muster_codec::messages::*;
use muster_codec::{Request, Str};

/// The id of a group. Mostly it is a group that only these requests use, because coordinators
/// manage the states of other groups.
fn group_id(world: &mut World) -> Str<'static> {
    match world.random.u32(..20) {
        0 => "".into(),
        1 => format!("{}s:2", world.prefix).into(),
        _ => format!("{}s{}", world.prefix, world.random.u32(..2)).into(),
    }
}

/// Topics, each with partitions. Sometimes a partition occurs twice. `one` returns a partition's
/// fields.
fn partitions<P: Clone>(
    world: &mut World,
    index: impl Fn(&P) -> i32,
    mut one: impl FnMut(&mut World, i32) -> P,
) -> Vec<(Topic, Vec<P>)> {
    let topic = |world: &mut World| {
        let topic = world.topic();
        let partition = |world: &mut World| {
            let index = world.partition(&topic);
            one(world, index)
        };
        let partitions = world.some(2, &index, partition);
        (topic, partitions)
    };
    world.some(2, |it| it.0.id, topic)
}

fn epoch(world: &mut World) -> i32 {
    match world.random.u32(..20) {
        0 => world.one(&[-1, -2, i32::MAX, i32::MIN]),
        _ => world.random.i32(0..4),
    }
}

fn start_offset(world: &mut World) -> i64 {
    if world.chance(30) { -1 } else { world.offset() }
}

fn delivery_complete_count(world: &mut World) -> i32 {
    world.one(&[-1, 0, 0, 1, 2, 5, -2])
}

fn batches(world: &mut World) -> Vec<ShareGroupStateBatch> {
    if world.chance(30) {
        return Vec::new();
    }
    world.some(
        3,
        |it: &ShareGroupStateBatch| it.first_offset,
        |world| {
            let first_offset = world.random.i64(0..20);
            ShareGroupStateBatch {
                first_offset,
                last_offset: first_offset + world.random.i64(0..6),
                delivery_state: world.one(&[0, 0, 2, 2, 4]),
                delivery_count: world.one(&[1, 1, 2, 3]),
            }
        },
    )
}

pub(super) fn initialize_share_group_state(world: &mut World) -> Request<'static> {
    let partition = |world: &mut World, partition| InitializeStatePartition {
        partition,
        state_epoch: epoch(world),
        start_offset: start_offset(world),
    };
    let topics = partitions(world, |it| it.partition, partition);
    let topic =
        |(topic, partitions): (Topic, _)| InitializeStateTopic { topic_id: topic.id, partitions };
    InitializeShareGroupStateRequest {
        group_id: group_id(world),
        topics: topics.into_iter().map(topic).collect(),
    }
    .into()
}

pub(super) fn read_share_group_state(world: &mut World) -> Request<'static> {
    let partition =
        |world: &mut World, partition| ReadStatePartition { partition, leader_epoch: epoch(world) };
    let topics = partitions(world, |it| it.partition, partition);
    let topic = |(topic, partitions): (Topic, _)| ReadStateTopic { topic_id: topic.id, partitions };
    ReadShareGroupStateRequest {
        group_id: group_id(world),
        topics: topics.into_iter().map(topic).collect(),
    }
    .into()
}

pub(super) fn write_share_group_state(world: &mut World) -> Request<'static> {
    let partition = |world: &mut World, partition| WriteStatePartition {
        partition,
        state_epoch: epoch(world),
        leader_epoch: epoch(world),
        start_offset: start_offset(world),
        delivery_complete_count: delivery_complete_count(world),
        state_batches: batches(world),
    };
    let topics = partitions(world, |it| it.partition, partition);
    let topic =
        |(topic, partitions): (Topic, _)| WriteStateTopic { topic_id: topic.id, partitions };
    WriteShareGroupStateRequest {
        group_id: group_id(world),
        topics: topics.into_iter().map(topic).collect(),
    }
    .into()
}

pub(super) fn delete_share_group_state(world: &mut World) -> Request<'static> {
    let partition = |_: &mut World, partition| DeleteStatePartition { partition };
    let topics = partitions(world, |it| it.partition, partition);
    let topic =
        |(topic, partitions): (Topic, _)| DeleteStateTopic { topic_id: topic.id, partitions };
    DeleteShareGroupStateRequest {
        group_id: group_id(world),
        topics: topics.into_iter().map(topic).collect(),
    }
    .into()
}

pub(super) fn read_share_group_state_summary(world: &mut World) -> Request<'static> {
    let partition = |world: &mut World, partition| ReadStateSummaryPartition {
        partition,
        leader_epoch: epoch(world),
    };
    let topics = partitions(world, |it| it.partition, partition);
    let topic =
        |(topic, partitions): (Topic, _)| ReadStateSummaryTopic { topic_id: topic.id, partitions };
    let group_id = if world.chance(40) {
        world.groups[SHARE_GROUP].id.clone().into()
    } else {
        group_id(world)
    };
    ReadShareGroupStateSummaryRequest { group_id, topics: topics.into_iter().map(topic).collect() }
        .into()
}
