//! Requests that show the effects of earlier requests, for all partitions, groups and transactional
//! ids of the history.

use super::{Versions, version};
use crate::wire::{Ask, Flaw};
use crate::world::{Topic, World};
use muster_codec::messages::*;
use muster_codec::{Request, Str};

type Observation = fn(&mut World) -> Request<'static>;

const OBSERVATIONS: [Observation; 8] = [
    describe_transactions,
    list_transactions,
    describe_producers,
    |world| fetch(world, READ_UNCOMMITTED),
    |world| fetch(world, READ_COMMITTED),
    |world| list_offsets(world, READ_UNCOMMITTED),
    |world| list_offsets(world, READ_COMMITTED),
    offset_fetch,
];

const READ_UNCOMMITTED: i8 = 0;
const READ_COMMITTED: i8 = 1;

/// Queues all these requests, or some of them, to be sent next.
pub(super) fn demand(world: &mut World, versions: &Versions<'_>) {
    let share = world.one(&[100, 30, 15]);
    for observation in OBSERVATIONS {
        if world.chance(share) {
            let request = observation(world);
            let version = version(world, &versions(request.api_key()));
            world.due.push_back(Ask { version, request, flaw: Flaw::None });
        }
    }
}

fn names(world: &World) -> Vec<Str<'static>> {
    world.transactional_ids.iter().map(|id| id.name.clone().into()).collect()
}

fn describe_transactions(world: &mut World) -> Request<'static> {
    let mut transactional_ids = names(world);
    match world.random.u32(..30) {
        0 => transactional_ids.push("".into()),
        1 => transactional_ids.push(format!("{}none", world.prefix).into()),
        2 => transactional_ids.clear(),
        3 => transactional_ids.push(transactional_ids[0].clone()),
        _ => {}
    }
    DescribeTransactionsRequest { transactional_ids }.into()
}

fn list_transactions(world: &mut World) -> Request<'static> {
    let prefix = world.prefix.clone();
    let pattern = match world.random.u32(..12) {
        0 => Some("".into()),
        1 => None,
        2 => Some("(".into()),
        3 => Some(format!("{prefix}x0")),
        4 => Some(format!("{prefix}x[01]|other")),
        5 => Some("x0".into()),
        _ => Some(format!("{prefix}.*")),
    };
    let clients = world.transactional_ids.iter().flat_map(|id| &id.instances);
    let mut producers: Vec<i64> = clients.map(|client| client.producer_id).collect();
    if world.chance(60) {
        producers.truncate(world.random.usize(..2));
    }
    ListTransactionsRequest {
        state_filters: if world.chance(40) { states(world) } else { Vec::new() },
        producer_id_filters: producers,
        // Either no transaction has lasted for this duration, or all transactions have.
        duration_filter: world.one(&[-1, -1, -1, 3_600_000, i64::MAX, i64::MIN]),
        transactional_id_pattern: pattern.map(Into::into),
    }
    .into()
}

fn states(world: &mut World) -> Vec<Str<'static>> {
    const STATES: [&str; 8] = [
        "Empty",
        "Ongoing",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "ongoing",
        "PrepareEpochFence",
        "",
    ];
    world.some(3, |it: &Str<'_>| it.clone(), |world| world.one(&STATES).into())
}

/// The existing partitions of a topic, and sometimes one that does not exist.
fn partitions(world: &mut World, topic: &Topic) -> Vec<i32> {
    let more = i32::from(world.chance(2));
    (0..topic.partitions.min(8) + more).collect()
}

fn describe_producers(world: &mut World) -> Request<'static> {
    let topics = world.topics.clone().into_iter().map(|topic| {
        let partition_indexes = partitions(world, &topic);
        DescribeProducersTopic { name: topic.name.into(), partition_indexes }
    });
    DescribeProducersRequest { topics: topics.collect() }.into()
}

fn fetch(world: &mut World, isolation_level: i8) -> Request<'static> {
    let topics = world.topics.clone().into_iter().map(|topic| {
        let partitions = partitions(world, &topic).into_iter();
        let partitions = partitions.map(|partition| fetched(world, partition)).collect();
        FetchTopic { topic: topic.name.into(), topic_id: topic.id, partitions }
    });
    FetchRequest {
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: i32::MAX,
        isolation_level,
        session_epoch: -1,
        topics: topics.collect(),
        ..Default::default()
    }
    .into()
}

fn fetched(world: &mut World, partition: i32) -> FetchPartition {
    FetchPartition {
        partition,
        current_leader_epoch: -1,
        fetch_offset: if world.chance(60) { 0 } else { world.random.i64(0..20) },
        last_fetched_epoch: -1,
        log_start_offset: -1,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    }
}

fn list_offsets(world: &mut World, isolation_level: i8) -> Request<'static> {
    // The record with the greatest timestamp is not requested, because each server sets the times
    // of its markers.
    const TIMESTAMPS: [i64; 7] = [-1, -1, -1, -2, 0, 1_700_000_000_000, 1_700_000_000_001];
    let topics = world.topics.clone().into_iter().map(|topic| {
        let partitions = partitions(world, &topic).into_iter();
        let partitions = partitions.map(|partition_index| ListOffsetsPartition {
            partition_index,
            current_leader_epoch: -1,
            timestamp: world.one(&TIMESTAMPS),
        });
        ListOffsetsTopic { name: topic.name.into(), partitions: partitions.collect() }
    });
    let topics = topics.collect();
    ListOffsetsRequest { replica_id: -1, isolation_level, topics, timeout_ms: 30_000 }.into()
}

fn offset_fetch(world: &mut World) -> Request<'static> {
    let group = world.group_at();
    let topics: Vec<_> = world.topics.iter().map(offset_fetch_topic).collect();
    let groups = world.groups.iter().map(|group| OffsetFetchRequestGroup {
        group_id: group.id.clone().into(),
        topics: Some(world.topics.iter().map(offset_fetch_topics).collect()),
        ..Default::default()
    });
    let groups = groups.collect();
    OffsetFetchRequest {
        group_id: world.groups[group].id.clone().into(),
        topics: Some(topics),
        groups,
        require_stable: world.chance(50),
    }
    .into()
}

fn offset_fetch_topic(topic: &Topic) -> OffsetFetchRequestTopic<'static> {
    let partition_indexes = (0..topic.partitions.min(8)).collect();
    OffsetFetchRequestTopic { name: topic.name.clone().into(), partition_indexes }
}

fn offset_fetch_topics(topic: &Topic) -> OffsetFetchRequestTopics<'static> {
    let partition_indexes = (0..topic.partitions.min(8)).collect();
    let (name, topic_id) = (topic.name.clone().into(), topic.id);
    OffsetFetchRequestTopics { name, topic_id, partition_indexes }
}
