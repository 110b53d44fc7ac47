//! Questions of administrators: the sizes of partitions, and the quorum.

use super::frames::{answers, frame};
use super::world::{World, commit};
use crate::cluster::OFFSETS_TOPIC;
use crate::net::ConnectionId;
use crate::shard::Event;
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Request, Response};
use std::collections::BTreeMap;

const CLIENT: ConnectionId = ConnectionId(0);

fn call(
    world: &mut World,
    version: i16,
    request: impl Into<Request<'static>>,
) -> Response<'static> {
    let request = request.into();
    let api = request.api_key();
    // Appended records are written.
    world.pass(100);
    world.step(Event::Received { connection: CLIENT, data: &frame(version, request) });
    answers(world, CLIENT, (api, version)).pop().unwrap()
}

/// The sizes of partitions that are not empty, by topic and index.
fn sizes(world: &mut World) -> BTreeMap<(String, i32), i64> {
    let all = DescribeLogDirsRequest { topics: None };
    let Response::DescribeLogDirs(body) = call(world, 5, all) else { panic!() };
    let [dir] = &body.results[..] else { panic!("{body:?}") };
    assert_eq!((dir.total_bytes, dir.usable_bytes, &*dir.log_dir), (1 << 30, 1 << 20, "/data"));
    let of_topic = |topic: &DescribeLogDirsTopic<'_>| {
        let name = topic.name.to_string();
        let of = move |it: &DescribeLogDirsPartition| {
            ((name.clone(), it.partition_index), it.partition_size)
        };
        topic.partitions.iter().map(of).collect::<Vec<_>>()
    };
    dir.topics.iter().flat_map(of_topic).filter(|(_, bytes)| *bytes > 0).collect()
}

#[test]
fn the_sizes_of_internal_topics_are_parts_of_the_log_and_the_same_after_a_restart() {
    let mut world = World::new(&[]);
    world.connect(CLIENT);
    assert_eq!(sizes(&mut world), BTreeMap::new());
    (0..700).for_each(|it| world.append(&commit(it % 7, it % 3, Some(it as i64))));
    let before = sizes(&mut world);
    let bytes: i64 = before.values().sum();
    let of_log: u64 = world.shard.runtime.log().sizes().map(|(_, bytes)| bytes).sum();
    assert!(before.len() > 1 && before.keys().all(|(topic, _)| topic == OFFSETS_TOPIC));
    assert!(bytes > 0 && bytes.unsigned_abs() <= of_log, "{bytes} of {of_log}");
    world.restart();
    world.connect(CLIENT);
    assert_eq!(sizes(&mut world), before);
}

#[test]
fn the_first_shard_is_the_only_voter_and_knows_the_end_of_the_log() {
    let mut world = World::new(&[]);
    world.connect(CLIENT);
    let asked = |index| {
        let partitions = vec![DescribeQuorumPartition { partition_index: index }];
        let topic_name = "__cluster_metadata".into();
        DescribeQuorumRequest { topics: vec![DescribeQuorumTopic { topic_name, partitions }] }
    };
    let described = |world: &mut World| {
        let Response::DescribeQuorum(body) = call(world, 2, asked(0)) else { panic!() };
        assert_eq!((body.error_code, body.nodes.len()), (0, 1));
        let partition = body.topics[0].partitions[0].clone();
        let [voter] = &partition.current_voters[..] else { panic!("{partition:?}") };
        assert_eq!((partition.leader_id, voter.replica_id, partition.observers.len()), (0, 0, 0));
        assert_eq!(voter.log_end_offset, partition.high_watermark);
        partition.high_watermark
    };
    let before = described(&mut world);
    world.create_topic("t");
    assert!(described(&mut world) > before);
    let Response::DescribeQuorum(body) = call(&mut world, 2, asked(1)) else { panic!() };
    let code = body.topics[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::UnknownTopicOrPartition.code());
    assert!(body.nodes.is_empty());
}
