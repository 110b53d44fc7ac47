//! Checks that a server still does each kind of work. Tests call this after attacks or faults.

use super::offsets::{commit, committed};
use super::{Client, Server, create_topic, produce_to_all, topic_id};
use muster_codec::Response;
use muster_codec::messages::*;
use std::time::Duration;

/// If a kind of request gets no answer in this time, the server no longer serves it.
const PATIENCE: Duration = Duration::from_secs(30);

const TOPIC: &str = "liveness";

/// Checks metadata, creation of topics, produce, fetch, commits, and members of groups, at each
/// shard.
pub fn assert_alive_in_each_kind(server: &Server) {
    if !has_topic(server) {
        create_topic(server, TOPIC, i32::from(server.shards));
    }
    let mut led = 0;
    for shard in 0..server.shards {
        let mut client = client(server, shard);
        topic_id(&mut client, TOPIC);
        let Some(partition) = led_by(server, &mut client, shard) else { continue };
        led += 1;
        let offsets = produce_to_all(&mut client, TOPIC, partition..partition + 1, b"alive");
        let offset = offsets.expect("an answer to Produce")[0];
        fetches(&mut client, partition, offset);
    }
    assert!(led > 0, "no shard leads a partition");
    for group in 0..server.shards {
        let group = format!("liveness-{group}");
        let before = committed(server, &group).values().map(|(offset, _)| *offset).max();
        let offset = before.unwrap_or(0) + 1;
        commit(server, &group, TOPIC, 0, offset);
        let now = committed(server, &group).into_values().next();
        assert_eq!(now.map(|(offset, _)| offset), Some(offset), "{group}");
        joins_and_leaves(server, &format!("{group}-members"));
    }
}

fn client(server: &Server, shard: u16) -> Client {
    let client = server.client(shard);
    client.stream().set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

fn metadata(client: &mut Client) -> MetadataResponseTopic<'static> {
    let topic = MetadataRequestTopic { name: Some(TOPIC.into()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let response = client.call(9, request.into());
    let Response::Metadata(mut body) = response else { panic!("{response:?}") };
    body.topics.remove(0)
}

fn has_topic(server: &Server) -> bool {
    metadata(&mut client(server, 0)).error_code == 0
}

/// A partition that the shard leads. Shard i is node i.
fn led_by(server: &Server, client: &mut Client, shard: u16) -> Option<i32> {
    let partitions = metadata(client).partitions;
    assert_eq!(partitions.len(), usize::from(server.shards));
    let is_led = |it: &&MetadataResponsePartition| it.leader_id == i32::from(shard);
    partitions.iter().find(is_led).map(|it| it.partition_index)
}

fn fetches(client: &mut Client, partition: i32, offset: i64) {
    let wanted = FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let topic = FetchTopic { topic: TOPIC.into(), partitions: vec![wanted], ..Default::default() };
    let request = FetchRequest {
        max_bytes: 1 << 20,
        min_bytes: 1,
        max_wait_ms: 1_000,
        topics: vec![topic],
        ..Default::default()
    };
    let response = client.call(4, request.into());
    let Response::Fetch(body) = response else { panic!("{response:?}") };
    let data = &body.responses[0].partitions[0];
    let bytes = data.records.clone().unwrap_or_default();
    assert!(data.error_code == 0 && !bytes.is_empty(), "{data:?}");
}

/// Joins a group as its only member, sends a heartbeat, and leaves.
fn joins_and_leaves(server: &Server, group: &str) {
    let mut client = server.coordinator(group);
    client.stream().set_read_timeout(Some(PATIENCE)).unwrap();
    let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    let join = JoinGroupRequest {
        group_id: group.to_owned().into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    };
    let response = client.call(3, join.into());
    let Response::JoinGroup(joined) = response else { panic!("{response:?}") };
    assert_eq!(joined.error_code, 0);
    let sync = SyncGroupRequest {
        group_id: group.to_owned().into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    };
    let response = client.call(1, sync.into());
    let Response::SyncGroup(body) = response else { panic!("{response:?}") };
    assert_eq!(body.error_code, 0);
    let heartbeat = HeartbeatRequest {
        group_id: group.to_owned().into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    };
    let response = client.call(1, heartbeat.into());
    let Response::Heartbeat(body) = response else { panic!("{response:?}") };
    assert_eq!(body.error_code, 0);
    let leave = LeaveGroupRequest {
        group_id: group.to_owned().into(),
        member_id: joined.member_id,
        ..Default::default()
    };
    let response = client.call(1, leave.into());
    let Response::LeaveGroup(body) = response else { panic!("{response:?}") };
    assert_eq!(body.error_code, 0);
}
