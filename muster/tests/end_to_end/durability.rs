//! The state after a restart: commits and topics after a clean stop, after kill -9, and with
//! another number of shards.

use crate::support::offsets::commit_request;
use crate::support::{Client, Server, command, create_topic, free_ports, produce_to, said};
use muster_codec::messages::*;
use muster_codec::{Request, Response};

fn commit(group: &str, offset: i64) -> Request<'static> {
    commit_request(group, "orders", [0], offset, "").into()
}

fn expect_committed(response: Response<'_>) {
    let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
    assert_eq!(body.topics[0].partitions[0].error_code, 0);
}

fn committed(client: &mut Client, group: &str) -> i64 {
    let group = OffsetFetchRequestGroup {
        group_id: group.to_owned().into(),
        topics: None,
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let response = client.call(8, request.into());
    let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
    body.groups[0].topics[0].partitions[0].committed_offset
}

#[test]
pub fn commits_survive_kill_9_and_a_clean_stop() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), 1, &[]);
    create_topic(&server, "orders", 1);
    expect_committed(server.client(0).call(8, commit("g", 41)));
    server.kill();
    let mut server = server.restart();
    assert_eq!(committed(&mut server.client(0), "g"), 41);
    expect_committed(server.client(0).call(8, commit("g", 42)));
    assert!(server.stop().success());
    let server = server.restart();
    assert_eq!(committed(&mut server.client(0), "g"), 42);
}

#[test]
fn pipelined_commits_are_answered_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &[]);
    create_topic(&server, "orders", 1);
    let mut client = server.client(0);
    let ids: Vec<i32> =
        (0..500).map(|offset| client.send(8, &commit("g", offset)).unwrap()).collect();
    for id in ids {
        let api = muster_codec::ApiKey::OffsetCommit;
        expect_committed(client.receive(api, 8, id).unwrap());
    }
    assert_eq!(committed(&mut client, "g"), 499);
}

#[test]
fn a_directory_of_three_shards_opens_with_two_and_with_five() {
    let directory = tempfile::tempdir().unwrap();
    let groups: Vec<String> = (0..20).map(|i| format!("group-{i}")).collect();
    let mut server = Server::start(directory.path(), 3, &[]);
    create_topic(&server, "orders", 4);
    for (offset, group) in groups.iter().enumerate() {
        expect_committed(server.coordinator(group).call(8, commit(group, offset as i64)));
    }
    server.kill();
    for shards in [2, 5, 5] {
        let mut server = Server::start(directory.path(), shards, &[]);
        for (offset, group) in groups.iter().enumerate() {
            let mut client = server.coordinator(group);
            assert_eq!(committed(&mut client, group), offset as i64, "{group}, {shards} shards");
        }
        server.kill();
    }
}

#[test]
pub fn partitions_are_served_by_their_assigned_shards() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), 2, &[]);
    let nodes = [1, 1, 1, 0, 1, 1];
    let assignment = |(partition_index, node): (i32, &i32)| CreatableReplicaAssignment {
        partition_index,
        broker_ids: vec![*node],
    };
    let topic = CreatableTopic {
        name: "orders".into(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: (0..).zip(&nodes).map(assignment).collect(),
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let Response::CreateTopics(body) = server.client(1).call(7, request.into()) else { panic!() };
    assert_eq!(body.topics[0].error_code, 0, "{body:?}");
    assert_eq!(leaders(&server, "orders"), nodes);
    let mut client = server.client(1);
    for partition in [0, 1, 2, 4, 5] {
        assert_eq!(produce_to(&mut client, "orders", partition, b"first"), Some(0));
    }
    server.kill();
    server = Server::start(directory.path(), 2, &[]);
    assert_eq!(leaders(&server, "orders"), nodes);
    assert_eq!(produce_to(&mut server.client(1), "orders", 5, b"second"), Some(1));
    server.kill();
    server = Server::start(directory.path(), 1, &[]);
    assert_eq!(leaders(&server, "orders"), [0; 6], "shard 0 is the only one");
    assert_eq!(produce_to(&mut server.client(0), "orders", 5, b"third"), Some(2));
}

fn leaders(server: &Server, topic: &str) -> Vec<i32> {
    let topic = MetadataRequestTopic { name: Some(topic.to_owned().into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let Response::Metadata(body) = server.client(0).call(9, request.into()) else { panic!() };
    body.topics[0].partitions.iter().map(|partition| partition.leader_id).collect()
}

#[test]
fn a_directory_in_use_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _server = Server::start(directory.path(), 1, &[]);
    let output = command(directory.path(), free_ports(1), 1, &[]).output().unwrap();
    assert!(!output.status.success());
    let text = said(&output);
    assert!(text.contains("held by another process"), "{text}");
}

#[test]
fn a_start_with_impossible_ports_leaves_the_directory_alone() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &[]);
    create_topic(&server, "orders", 1);
    drop(server);
    let output = command(directory.path(), 65_535, 2, &[]).output().unwrap();
    assert!(!output.status.success());
    let text = said(&output);
    assert!(text.contains("65536") && !text.contains("writes the logs"), "{text}");
}

#[test]
fn another_number_of_offsets_partitions_and_unknown_keys_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    Server::start(directory.path(), 1, &[]).stop();
    let refused = |config: &str| {
        let port = free_ports(1);
        let output = command(directory.path(), port, 1, &[config.to_owned()]).output().unwrap();
        assert!(!output.status.success(), "{config}");
        said(&output)
    };
    assert!(refused("offsets.topic.num.partitions=7").contains("offsets.topic.num.partitions=50"));
    assert!(refused("no.such.key=1").contains("no.such.key"));
    assert!(refused("group.max.size=0").contains("group.max.size"));
}

#[test]
fn a_signal_that_comes_twice_at_once_counts_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), 1, &[]);
    let pid = server.pid().to_string();
    assert!(std::process::Command::new("kill").args([&pid, &pid]).status().unwrap().success());
    assert!(server.wait().success());
}
