//! The data directories to damage: small and large, of one shard and of three, after a clean stop
//! and after kill -9. Each comes with an earlier state.

use super::image::Image;
use super::truth::Truth;
use crate::support::bulk::Bulk;
use crate::support::consumers::LONG_SESSIONS;
use crate::support::offsets::commit;
use crate::support::{Server, create_topic, produce_to, rules};
use muster_codec::Response;
use muster_codec::messages::*;
use std::path::Path;

/// How a data directory is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    pub shards: u16,
    /// Whether the shards' logs have several segments.
    pub is_large: bool,
    pub is_killed: bool,
}

pub const KINDS: &[Kind] = &[
    Kind { name: "clean-1", shards: 1, is_large: false, is_killed: false },
    Kind { name: "killed-1", shards: 1, is_large: false, is_killed: true },
    Kind { name: "clean-3", shards: 3, is_large: false, is_killed: false },
    Kind { name: "killed-3", shards: 3, is_large: false, is_killed: true },
    Kind { name: "large-clean-1", shards: 1, is_large: true, is_killed: false },
    Kind { name: "large-killed-3", shards: 3, is_large: true, is_killed: true },
];

/// The configs of servers that make a directory: frequent snapshots and small segments.
const MAKING: &[&str] = &[
    "offsets.topic.num.partitions=6",
    "offsets.topic.segment.bytes=16777216",
    "log.segment.bytes=1048576",
    "log.cleaner.backoff.ms=1",
    "metadata.log.max.record.bytes.between.snapshots=1",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.assignment.interval.ms=0",
    LONG_SESSIONS[0],
    LONG_SESSIONS[1],
];

/// The configs of the servers that are judged. These servers have no retention or compaction, so
/// they change files only because of the damage.
pub const JUDGING: &[&str] = &[
    "offsets.topic.num.partitions=6",
    "offsets.topic.segment.bytes=16777216",
    "log.segment.bytes=1048576",
    "log.cleaner.enable=false",
    "log.retention.ms=-1",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.assignment.interval.ms=0",
    LONG_SESSIONS[0],
    LONG_SESSIONS[1],
];

/// A data directory, and the data that a server serves from it.
pub struct Made {
    pub kind: Kind,
    pub earlier: Image,
    pub image: Image,
    pub truth: Truth,
}

const TOPICS: [(&str, i32); 3] = [("orders", 3), ("clicks", 1), ("unused", 1)];
const GROUPS: usize = 9;
const RECORD_BYTES: usize = 200_000;

/// The number of records. They fill four segments of a user topic, each of one MiB, and a part of a
/// fifth.
const RECORDS: usize = 22;

/// The bytes of commits in each shard of a large directory.
const LARGE_BYTES: i64 = 24 << 20;

impl Made {
    pub fn make(kind: Kind) -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path();
        let mut server = Server::start(path, kind.shards, MAKING);
        first_half(&server);
        assert!(server.stop().success());
        let earlier = Image::read(path);
        server = server.restart();
        second_half(&server, kind);
        let truth = Truth::of(server.port, kind.shards).expect("the server serves");
        if kind.is_killed {
            server.kill()
        } else {
            assert!(server.stop().success())
        }
        let image = Image::read(path);
        Self { kind, earlier, image, truth }
    }
}

fn first_half(server: &Server) {
    TOPICS.iter().for_each(|(name, partitions)| create_topic(server, name, *partitions));
    (0..GROUPS).for_each(|i| commit(server, &format!("first-{i}"), "orders", 0, i as i64));
    join_classic(server);
    join_consumer(server);
    for (topic, partition) in [("orders", 0), ("orders", 1), ("clicks", 0)] {
        (0..RECORDS / 2).for_each(|i| produce_one(server, topic, partition, i));
    }
}

fn second_half(server: &Server, kind: Kind) {
    create_topic(server, "later", 2);
    set_config(server);
    for (topic, partition) in [("orders", 0), ("orders", 1), ("clicks", 0), ("later", 0)] {
        (0..RECORDS / 2).for_each(|i| produce_one(server, topic, partition, RECORDS / 2 + i));
    }
    delete_records(server, "orders", 1, 2);
    for i in 0..GROUPS {
        commit(server, &format!("first-{i}"), "orders", 1, 100 + i as i64);
        commit(server, &format!("second-{i}"), "clicks", 0, 200 + i as i64);
    }
    if kind.is_large {
        create_topic(server, "bulk", 16);
        fill_logs(server);
    }
    // The last acknowledged operations of each shard are commits.
    (0..GROUPS).for_each(|i| commit(server, &format!("last-{i}"), "orders", 2, 300 + i as i64));
}

/// Writes long commits until every shard's log has several segments.
fn fill_logs(server: &Server) {
    for index in 0..3 * usize::from(server.shards) {
        let mut bulk = Bulk::new(index, "bulk");
        let mut client = server.coordinator(&bulk.group());
        while bulk.bytes() < LARGE_BYTES / 3 {
            bulk.commit(&mut client).unwrap();
        }
    }
}

fn leader(server: &Server, topic: &str, partition: i32) -> u16 {
    let topic = MetadataRequestTopic { name: Some(topic.to_owned().into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let response = server.client(0).call(9, request.into());
    let Response::Metadata(body) = response else { panic!("{response:?}") };
    let mut partitions = body.topics[0].partitions.iter();
    partitions.find(|it| it.partition_index == partition).unwrap().leader_id as u16
}

/// Produces a record whose contents identify it.
fn produce_one(server: &Server, topic: &'static str, partition: i32, number: usize) {
    let word = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let value: Vec<u8> = word.iter().copied().cycle().take(RECORD_BYTES).collect();
    let mut client = server.client(leader(server, topic, partition));
    produce_to(&mut client, topic, partition, &value).unwrap();
}

fn delete_records(server: &Server, topic: &'static str, partition: i32, offset: i64) {
    let partitions = vec![DeleteRecordsPartition { partition_index: partition, offset }];
    let topics = vec![DeleteRecordsTopic { name: topic.into(), partitions }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 10_000 };
    let response = server.client(leader(server, topic, partition)).call(2, request.into());
    let Response::DeleteRecords(body) = response else { panic!("{response:?}") };
    assert_eq!(body.topics[0].partitions[0].error_code, 0);
}

fn set_config(server: &Server) {
    let size = [("max.message.bytes", Some("1234567"))];
    rules::alter(server, rules::TOPIC, "clicks", &size);
}

/// Joins the group `classic` as its only member. Afterwards the state of the group does not change.
fn join_classic(server: &Server) {
    let mut client = server.coordinator("classic");
    let protocols =
        vec![JoinGroupRequestProtocol { name: "range".into(), metadata: [1][..].into() }];
    let request = JoinGroupRequest {
        group_id: "classic".into(),
        session_timeout_ms: 600_000,
        rebalance_timeout_ms: 600_000,
        protocol_type: "test".into(),
        protocols,
        ..Default::default()
    };
    let response = client.call(3, request.into());
    let Response::JoinGroup(joined) = response else { panic!("{response:?}") };
    assert_eq!(joined.error_code, 0);
    let assignment = SyncGroupRequestAssignment {
        member_id: joined.member_id.clone(),
        assignment: [2][..].into(),
    };
    let request = SyncGroupRequest {
        group_id: "classic".into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id,
        assignments: vec![assignment],
        ..Default::default()
    };
    let response = client.call(3, request.into());
    let Response::SyncGroup(synced) = response else { panic!("{response:?}") };
    assert_eq!(synced.error_code, 0);
}

fn join_consumer(server: &Server) {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "consumer".into(),
        member_id: "member".into(),
        rebalance_timeout_ms: 600_000,
        subscribed_topic_names: Some(vec!["orders".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let response = server.coordinator("consumer").call(1, request.into());
    let Response::ConsumerGroupHeartbeat(body) = response else { panic!("{response:?}") };
    assert_eq!(body.error_code, 0, "{body:?}");
}

/// The topics, and the names of their directories without the partition's number.
pub fn topic_directories(truth: &Truth) -> impl Iterator<Item = (&str, String)> {
    truth.topics.iter().map(|(name, topic)| (name.as_str(), format!("{}", topic.id)))
}

/// The path with topic names instead of topic ids, which differ in each run.
pub fn alias(truth: &Truth, path: &Path) -> String {
    let path = path.display().to_string();
    topic_directories(truth).fold(path, |path, (name, id)| path.replace(&id, name))
}
