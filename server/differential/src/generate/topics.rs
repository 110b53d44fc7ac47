//! Topics and their partitions.

use crate::world::World;
use muster_codec::messages::*;
use muster_codec::{Request, Str, Uuid};

pub(super) fn metadata(world: &mut World) -> Request<'static> {
    let topics = if world.chance(8) {
        None
    } else {
        Some(world.some(3, |it| (it.name.clone(), it.topic_id), metadata_topic))
    };
    // Kafka fails on a topic with neither name nor id. If it has begun to create other topics of
    // the same request, it then never creates them. So such a request does not allow creation.
    let names_none = topics.iter().flatten().any(|it| it.name.is_none() && it.topic_id.is_zero());
    MetadataRequest {
        topics,
        allow_auto_topic_creation: !names_none && world.chance(30),
        include_cluster_authorized_operations: world.chance(20),
        include_topic_authorized_operations: world.chance(20),
    }
    .into()
}

fn metadata_topic(world: &mut World) -> MetadataRequestTopic<'static> {
    let topic = world.topic_or_internal();
    match world.random.u32(..6) {
        0 => MetadataRequestTopic { topic_id: topic.id, name: None },
        1 => MetadataRequestTopic { topic_id: topic.id, name: Some(topic.name.into()) },
        _ => MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some(topic.name.into()) },
    }
}

/// Creates a topic with a single segment, whatever the times of its records. Otherwise Kafka would
/// begin a new segment even for a batch that it refuses, and a fetch would end with the old
/// segment.
pub(super) fn create_topic_of_one_segment(world: &mut World) -> Request<'static> {
    let value = Some(i64::MAX.to_string().into());
    create_plain_topic(world, vec![CreatableTopicConfig { name: "segment.ms".into(), value }])
}

pub(super) fn create_plain_topic(
    world: &mut World,
    configs: Vec<CreatableTopicConfig<'static>>,
) -> Request<'static> {
    let topic = CreatableTopic {
        configs,
        name: format!("{}t{}", world.prefix, world.topics.len()).into(),
        num_partitions: world.random.i32(1..4),
        replication_factor: 1,
        ..Default::default()
    };
    CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, validate_only: false }.into()
}

pub(super) fn create_topics(world: &mut World) -> Request<'static> {
    CreateTopicsRequest {
        topics: world.some(3, |it| it.name.clone(), creatable),
        timeout_ms: world.timeout(),
        validate_only: world.chance(10),
    }
    .into()
}

fn creatable(world: &mut World) -> CreatableTopic<'static> {
    let assignments = if world.chance(8) {
        world.some(3, |it| it.partition_index, assignment)
    } else {
        Vec::new()
    };
    let name = if world.chance(2) { "__consumer_offsets".to_owned() } else { world.topic_name() };
    let assigned = !assignments.is_empty() && !world.chance(20);
    CreatableTopic {
        name: name.into(),
        num_partitions: if assigned { -1 } else { world.one(&[1, 2, 3, 3, 4, -1, -1, 0, -2]) },
        replication_factor: if assigned { -1 } else { world.one(&[1, 1, 1, 1, -1, -1, 0, 2, -2]) },
        assignments,
        configs: if world.chance(30) {
            world.some(2, |it| it.name.clone(), topic_config)
        } else {
            Vec::new()
        },
    }
}

fn assignment(world: &mut World) -> CreatableReplicaAssignment {
    CreatableReplicaAssignment {
        partition_index: world.one(&[0, 0, 1, 2, 5, -1]),
        broker_ids: brokers(world),
    }
}

fn brokers(world: &mut World) -> Vec<i32> {
    world.one(&[vec![0], vec![0], vec![0], vec![], vec![2], vec![0, 0], vec![0, 2], vec![-1]])
}

fn topic_config(world: &mut World) -> CreatableTopicConfig<'static> {
    let (name, value) = config_of_topic(world);
    CreatableTopicConfig { name, value }
}

/// A config of a topic. Its value may be invalid.
pub(super) fn config_of_topic(world: &mut World) -> (Str<'static>, Option<Str<'static>>) {
    let (name, values) = world.one(TOPIC_CONFIGS);
    let value = match world.random.u32(..12) {
        0 => None,
        1 => Some(""),
        2 => Some("bogus"),
        _ => Some(world.one(values)),
    };
    (name.into(), value.map(Into::into))
}

const TOPIC_CONFIGS: &[(&str, &[&str])] = &[
    (
        "cleanup.policy",
        &["delete", "compact", "compact,delete", "delete, compact", " delete,delete", ",", "none"],
    ),
    ("leader.replication.throttled.replicas", &["*", "0:1, 1:0", "0:1,", "*,*", "0"]),
    ("retention.ms", &["86400000", " +0086400000 ", "-1", "-2", "1e3", "x"]),
    ("retention.bytes", &["-1", "1073741824", "-3"]),
    ("segment.bytes", &["1073741824", "1048576", "13"]),
    ("max.message.bytes", &["1048588", "300", "-1"]),
    ("message.timestamp.type", &["CreateTime", "LogAppendTime", "logappendtime"]),
    ("message.timestamp.before.max.ms", &["9223372036854775807", "1000", "-1"]),
    ("message.timestamp.after.max.ms", &["9223372036854775807", "3600000", "-1"]),
    ("min.insync.replicas", &["1", "2", "0"]),
    ("compression.type", &["producer", "uncompressed", "gzip", "zip"]),
    ("unclean.leader.election.enable", &["true", "false", "TRUE", " False ", "yes"]),
    ("flush.messages", &["9223372036854775807", "1", "0"]),
    ("min.cleanable.dirty.ratio", &["0.5", "1.5", "1", ".50f", "1e-5", "0.1e", "NaN"]),
    ("segment.ms", &["604800000", "0"]),
    ("local.retention.ms", &["-2", "1000"]),
    ("remote.storage.enable", &["false", "true"]),
    ("no.such.config", &["1"]),
    ("", &["1"]),
];

pub(super) fn delete_topics(world: &mut World) -> Request<'static> {
    DeleteTopicsRequest {
        topics: world.some(
            2,
            |it: &DeleteTopicState<'_>| (it.name.clone(), it.topic_id),
            |world| {
                let topic = world.topic();
                match world.random.u32(..8) {
                    0..3 => DeleteTopicState { name: None, topic_id: topic.id },
                    3 => DeleteTopicState { name: Some(topic.name.into()), topic_id: topic.id },
                    _ => DeleteTopicState { name: Some(topic.name.into()), topic_id: Uuid::ZERO },
                }
            },
        ),
        topic_names: world.some(2, Clone::clone, |world| world.topic().name.into()),
        timeout_ms: world.timeout(),
    }
    .into()
}

pub(super) fn create_partitions(world: &mut World) -> Request<'static> {
    CreatePartitionsRequest {
        topics: world.some(2, |it| it.name.clone(), more_partitions),
        timeout_ms: world.timeout(),
        validate_only: world.chance(15),
    }
    .into()
}

fn more_partitions(world: &mut World) -> CreatePartitionsTopic<'static> {
    let topic = world.topic();
    CreatePartitionsTopic {
        name: topic.name.into(),
        count: match world.random.u32(..8) {
            0 => world.one(&[0, -1, i32::MIN]),
            1 => topic.partitions,
            2 => topic.partitions - 1,
            _ => (topic.partitions + 1).min(8),
        },
        assignments: match world.random.u32(..8) {
            0 => Some(world.some(
                2,
                |_| 0,
                |world| CreatePartitionsAssignment { broker_ids: brokers(world) },
            )),
            1 => Some(Vec::new()),
            _ => None,
        },
    }
}

pub(super) fn describe_topic_partitions(world: &mut World) -> Request<'static> {
    let mut topics = world.some(
        3,
        |it: &TopicRequest<'_>| it.name.clone(),
        |world| TopicRequest { name: world.topic().name.into() },
    );
    if topics.is_empty() {
        // Without names, the answer would contain the topics of other histories, too.
        topics.push(TopicRequest { name: world.topic().name.into() });
    }
    DescribeTopicPartitionsRequest {
        topics,
        response_partition_limit: world.one(&[2000, 2000, 2, 1, 0, -1]),
        cursor: world.chance(25).then(|| {
            let topic = world.topic();
            let partition_index = world.partition(&topic);
            Cursor { topic_name: topic.name.into(), partition_index }
        }),
    }
    .into()
}
