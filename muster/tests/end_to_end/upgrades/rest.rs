//! The rest of a directory, which those from 0.1.0 on contain: a classic group and a consumer group
//! with one member each, an open transaction, topics, configs and an ACL.

use crate::support::offsets::{commit, committed};
use crate::support::rules::{alice_reads_orders, all_acls, describe_configs};
use crate::support::sessions::join_alone;
use crate::support::streams::WORDS;
use crate::support::transactional::{Producer, Version, settled, settled_offset};
use crate::support::{Client, Server, create_topic, produce_to, rules};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};
use std::time::{Duration, Instant};

const ORDERS: &str = "orders";
const PARTITIONS: i32 = 3;
const CLASSIC: &str = "classic";
const CONSUMERS: &str = "consumers";
const MEMBER: &str = "m";
/// The group that commits in the transaction that stays open.
const PENDING: &str = "pending";

pub fn fill(server: &Server) {
    create_topic(server, ORDERS, PARTITIONS);
    (0..PARTITIONS).for_each(|partition| {
        produce_to(&mut server.client(0), ORDERS, partition, b"order").unwrap();
    });
    let size = [("max.message.bytes", Some("1234567"))];
    rules::alter(server, rules::TOPIC, ORDERS, &size);
    let response = server.client(0).call(3, alice_reads_orders().into());
    let Response::CreateAcls(created) = response else { panic!("{response:?}") };
    assert_eq!(created.results[0].error_code, 0, "{created:?}");

    let member = join(&mut server.coordinator(CLASSIC));
    commit_as(server, &member, 11);
    let mut client = server.coordinator(CONSUMERS);
    assert_eq!(beat(&mut client, 0), (0, FIRST_EPOCH));
    commit(server, "offsets-of-consumers", ORDERS, 0, 12);

    let mut producer = Producer::begin(server, PENDING, Version::Two, WORDS);
    assert_eq!(producer.send(server, 0, "of the open transaction"), 0);
    assert_eq!(producer.commit(server, PENDING, 13), 0);
}

/// The generation of the classic group after its member has joined.
const GENERATION: i32 = 1;
/// The epoch of the consumer group's member.
const FIRST_EPOCH: i32 = 2;

pub fn check(server: &Server) {
    let members = described(server);
    let [(member, assignment)] = &members[..] else { panic!("{members:?}") };
    assert_eq!(assignment[..], [2]);
    assert_eq!(classic_beat(server, member), 0, "the member of the classic group is known");
    assert_eq!(beat(&mut server.coordinator(CONSUMERS), FIRST_EPOCH), (0, FIRST_EPOCH));

    // The next producer with this transactional id ends the transaction.
    let mut producer = Producer::begin(server, PENDING, Version::Two, WORDS);
    assert_eq!(settled_offset(server, PENDING, WORDS), -1, "the offset was not committed");
    assert_eq!(settled(server, WORDS, 0), [""; 0], "nor was the record");
    assert_eq!(producer.send(server, 0, "next"), 0);
    assert_eq!(producer.commit(server, PENDING, 14), 0);
    assert_eq!(producer.end(server, true), 0);
    commit_as(server, member, 21);
    check_again(server);
}

/// Checks what must still hold after another restart.
pub fn check_again(server: &Server) {
    assert_eq!(settled_offset(server, PENDING, WORDS), 14);
    assert_eq!(settled(server, WORDS, 0), ["next"]);
    let offset = |group| {
        let all = committed(server, group);
        all.into_values().map(|(offset, _)| offset).collect::<Vec<_>>()
    };
    assert_eq!((offset(CLASSIC), offset("offsets-of-consumers")), (vec![21], vec![12]));
    for partition in 0..PARTITIONS {
        assert_eq!(settled(server, ORDERS, partition), ["order"]);
    }
    let request = describe_configs(rules::TOPIC, ORDERS, Some("max.message.bytes"));
    let response = server.client(0).call(4, request.into());
    let Response::DescribeConfigs(body) = response else { panic!("{response:?}") };
    assert_eq!(body.results[0].configs[0].value.as_deref(), Some("1234567"));
    let response = server.client(0).call(3, all_acls().into());
    let Response::DescribeAcls(acls) = response else { panic!("{response:?}") };
    assert_eq!((acls.resources.len(), &*acls.resources[0].resource_name), (1, ORDERS));
    assert_eq!(acls.resources[0].acls[0].principal, "User:alice");
}

/// Joins as the only member, and assigns to itself. Returns its id.
fn join(client: &mut Client) -> String {
    let member_id = join_alone(client, CLASSIC);
    let assignment = SyncGroupRequestAssignment {
        member_id: member_id.clone().into(),
        assignment: [2][..].into(),
    };
    let request = SyncGroupRequest {
        group_id: CLASSIC.into(),
        generation_id: GENERATION,
        member_id: member_id.clone().into(),
        assignments: vec![assignment],
        ..Default::default()
    };
    let Response::SyncGroup(synced) = client.call(3, request.into()) else { panic!() };
    assert_eq!(synced.error_code, 0);
    member_id
}

fn classic_beat(server: &Server, member: &str) -> i16 {
    let request = HeartbeatRequest {
        group_id: CLASSIC.into(),
        generation_id: GENERATION,
        member_id: member.to_owned().into(),
        ..Default::default()
    };
    let response = server.coordinator(CLASSIC).call(3, request.into());
    let Response::Heartbeat(body) = response else { panic!("{response:?}") };
    body.error_code
}

/// Commits an offset as the member of the classic group.
fn commit_as(server: &Server, member: &str, offset: i64) {
    let partition = OffsetCommitRequestPartition {
        partition_index: 0,
        committed_offset: offset,
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: ORDERS.into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: CLASSIC.into(),
        generation_id_or_member_epoch: GENERATION,
        member_id: member.to_owned().into(),
        topics: vec![topic],
        ..Default::default()
    };
    let response = server.coordinator(CLASSIC).call(8, request.into());
    let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
    assert_eq!(body.topics[0].partitions[0].error_code, 0, "{body:?}");
}

/// The members of the classic group with their assignments.
fn described(server: &Server) -> Vec<(String, Vec<u8>)> {
    let request = DescribeGroupsRequest { groups: vec![CLASSIC.into()], ..Default::default() };
    let response = server.coordinator(CLASSIC).call(5, request.into());
    let Response::DescribeGroups(body) = response else { panic!("{response:?}") };
    assert_eq!(body.groups[0].group_state, "Stable", "{body:?}");
    let members = body.groups[0].members.iter();
    members.map(|it| (it.member_id.to_string(), it.member_assignment.to_vec())).collect()
}

/// A heartbeat of the member of the consumer group: its error, and the epoch of the member. Asks
/// again while the server still loads the group.
fn beat(client: &mut Client, epoch: i32) -> (i16, i32) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: CONSUMERS.into(),
            member_id: MEMBER.into(),
            member_epoch: epoch,
            rebalance_timeout_ms: if epoch == 0 { 300_000 } else { -1 },
            subscribed_topic_names: (epoch == 0).then(|| vec![ORDERS.into()]),
            topic_partitions: (epoch == 0).then(Vec::new),
            ..Default::default()
        };
        let response = client.call(1, request.into());
        let Response::ConsumerGroupHeartbeat(body) = response else { panic!("{response:?}") };
        if body.error_code != ErrorCode::CoordinatorLoadInProgress.code() {
            return (body.error_code, body.member_epoch);
        }
        assert!(Instant::now() < until, "the group is not loaded");
    }
}
