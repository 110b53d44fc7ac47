//! `POST /reset`: afterwards the next test has a server like a new one.

use crate::support::records::fetched;
use crate::support::sessions::join_alone;
use crate::support::streams::{StreamsMember, WORDS};
use crate::support::transactional::{Producer, Version};
use crate::support::{
    Client, Server, create_topic, free_ports, http, offsets, produce, rules, topic_id, variable,
};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};
use std::path::Path;
use std::time::Instant;

const GROUPS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A server for tests, and the port of its admin listener.
fn start(data: &Path, shards: u16) -> (Server, u16) {
    let admin = free_ports(1);
    let listener = format!("admin.listener=127.0.0.1:{admin}");
    let configs = [
        "admin.reset.enable=true",
        "group.initial.rebalance.delay.ms=0",
        "group.streams.initial.rebalance.delay.ms=0",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
        &listener,
    ];
    (Server::start(data, shards, &configs), admin)
}

/// Resets the server with additional request headers. Returns the status of the answer.
fn reset_with(admin: u16, lines: &str) -> String {
    let answer = http::raw(admin, format!("POST /reset HTTP/1.1\r\n{lines}\r\n").as_bytes());
    answer.split(' ').nth(1).unwrap().to_owned()
}

fn reset(admin: u16) {
    assert_eq!(reset_with(admin, "Host: localhost\r\n"), "200");
}

fn heartbeat(client: &mut Client, group: &'static str, member_id: &str) -> Option<ErrorCode> {
    let member_id = member_id.to_owned().into();
    let request = HeartbeatRequest {
        group_id: group.into(),
        generation_id: 1,
        member_id,
        ..Default::default()
    };
    let Response::Heartbeat(body) = client.call(3, request.into()) else { panic!() };
    ErrorCode::from_code(body.error_code)
}

/// Sends a heartbeat of the only member of a consumer group. Returns the error and the epoch.
fn consumer_heartbeat(client: &mut Client, member_epoch: i32) -> (Option<ErrorCode>, i32) {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "consumers".into(),
        member_id: "m".into(),
        member_epoch,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["orders".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let response = client.call(1, request.into());
    let Response::ConsumerGroupHeartbeat(body) = response else { panic!("{response:?}") };
    (ErrorCode::from_code(body.error_code), body.member_epoch)
}

fn share_heartbeat(client: &mut Client, member_epoch: i32) -> Option<ErrorCode> {
    let request = ShareGroupHeartbeatRequest {
        group_id: "sharers".into(),
        member_id: "s".into(),
        member_epoch,
        subscribed_topic_names: Some(vec!["orders".into()]),
        ..Default::default()
    };
    let response = client.call(1, request.into());
    let Response::ShareGroupHeartbeat(body) = response else { panic!("{response:?}") };
    ErrorCode::from_code(body.error_code)
}

fn set_quota(server: &Server) {
    let user = QuotaEntity { entity_type: "user".into(), entity_name: Some("alice".into()) };
    let op = QuotaOp { key: "request_percentage".into(), value: 50.0, remove: false };
    let entries = vec![QuotaAlteration { entity: vec![user], ops: vec![op] }];
    let request = AlterClientQuotasRequest { entries, validate_only: false };
    let Response::AlterClientQuotas(body) = server.client(0).call(1, request.into()) else {
        panic!()
    };
    assert_eq!(body.entries[0].error_code, 0);
}

/// Creates an ACL for alice, and alters a config of all brokers and a config of a group.
fn set_rules(server: &Server) {
    let request = rules::alice_reads_orders();
    let Response::CreateAcls(body) = server.client(0).call(3, request.into()) else { panic!() };
    assert_eq!(body.results[0].error_code, 0);
    for (resource_type, name, key, value) in ALTERED {
        rules::alter(server, resource_type, name, &[(key, Some(value))]);
    }
}

/// The altered configs: type and name of the resource, key and value.
const ALTERED: [(i8, &str, &str, &str); 2] = [
    (rules::BROKER, "", "log.retention.ms", "12345"),
    (rules::GROUP, "consumers", "consumer.session.timeout.ms", "46000"),
];

/// The altered configs that a shard returns.
fn altered(client: &mut Client) -> Vec<String> {
    let resource = |(resource_type, resource_name, ..): (i8, &'static str, _, _)| {
        let resource_name = resource_name.into();
        DescribeConfigsResource { resource_type, resource_name, configuration_keys: None }
    };
    let resources = ALTERED.map(resource).into();
    let request = DescribeConfigsRequest { resources, ..Default::default() };
    let Response::DescribeConfigs(body) = client.call(4, request.into()) else { panic!() };
    let configs = body.results.into_iter().flat_map(|it| it.configs);
    let of_altered = |it: &DescribeConfigsResourceResult<'_>| {
        ALTERED
            .iter()
            .any(|(_, _, key, value)| it.name == *key && it.value.as_deref() == Some(value))
    };
    configs.filter(of_altered).map(|it| it.name.to_string()).collect()
}

/// The topics, groups, transactional ids, quotas, ACLs and altered configs of the server: the
/// answers of all shards together.
fn seen(server: &Server) -> [Vec<String>; 6] {
    let mut all: [Vec<String>; 6] = Default::default();
    for shard in 0..server.shards {
        let mut client = server.client(shard);
        let request = MetadataRequest { topics: None, ..Default::default() };
        let Response::Metadata(body) = client.call(12, request.into()) else { panic!() };
        let topics = body.topics.iter().filter(|it| !it.is_internal);
        all[0].extend(topics.map(|it| it.name.as_deref().unwrap().to_owned()));
        let Response::ListGroups(body) = client.call(5, ListGroupsRequest::default().into()) else {
            panic!()
        };
        all[1].extend(body.groups.iter().map(|it| it.group_id.to_string()));
        let request = ListTransactionsRequest { duration_filter: -1, ..Default::default() };
        let Response::ListTransactions(body) = client.call(1, request.into()) else { panic!() };
        all[2].extend(body.transaction_states.iter().map(|it| it.transactional_id.to_string()));
        let request = DescribeClientQuotasRequest::default();
        let Response::DescribeClientQuotas(body) = client.call(1, request.into()) else { panic!() };
        all[3].extend(body.entries.iter().flatten().map(|_| "quota".to_owned()));
        let request = rules::all_acls();
        let Response::DescribeAcls(body) = client.call(3, request.into()) else { panic!() };
        all[4].extend(body.resources.iter().map(|it| it.resource_name.to_string()));
        all[5].extend(altered(&mut client));
    }
    all
}

#[test]
fn a_reset_leaves_a_server_like_a_new_one() {
    let data = tempfile::tempdir().unwrap();
    let (server, admin) = start(data.path(), 2);
    create_topic(&server, "orders", 3);
    create_topic(&server, "payments", 1);
    let first_id = topic_id(&mut server.client(0), "orders");
    for group in GROUPS {
        offsets::commit(&server, group, "orders", 0, 41);
    }
    let mut classic = server.coordinator("joined");
    let member = join_alone(&mut classic, "joined");
    let mut consumer = server.coordinator("consumers");
    let (error, epoch) = consumer_heartbeat(&mut consumer, 0);
    assert_eq!(error, Some(ErrorCode::None));
    let mut sharer = server.coordinator("sharers");
    assert_eq!(share_heartbeat(&mut sharer, 0), Some(ErrorCode::None));
    let mut open = Producer::begin(&server, "open", Version::Two, "orders");
    assert_eq!(open.send(&server, 0, "never read"), 0);
    let mut ended = Producer::begin(&server, "ended", Version::Two, "orders");
    assert_eq!((ended.send(&server, 1, "read"), ended.end(&server, true)), (0, 0));
    create_topic(&server, WORDS, 2);
    let mut streams = [StreamsMember::new(server.coordinator("streams"), "streams", "t")];
    StreamsMember::beat_until(&mut streams, "tasks", |members| !members[0].active.is_empty());
    set_quota(&server);
    set_rules(&server);
    let before = seen(&server);
    assert_eq!(before[1].len(), GROUPS.len() + 4, "{before:?}");
    assert!(before.iter().all(|kind| kind.len() >= 2), "{before:?}");

    reset(admin);
    let nothing: [Vec<String>; 6] = Default::default();
    assert_eq!(seen(&server), nothing);
    assert_eq!(heartbeat(&mut classic, "joined", &member), Some(ErrorCode::UnknownMemberId));
    assert_eq!(consumer_heartbeat(&mut consumer, epoch).0, Some(ErrorCode::GroupIdNotFound));
    assert_eq!(share_heartbeat(&mut sharer, 1), Some(ErrorCode::GroupIdNotFound));
    assert_eq!(streams[0].ask().error_code, ErrorCode::GroupIdNotFound as i16);
    assert!(offsets::committed(&server, "a").is_empty());

    let server = server.restart();
    assert_eq!(seen(&server), nothing, "it was durable");
    create_topic(&server, "orders", 3);
    assert_ne!(topic_id(&mut server.client(0), "orders"), first_id);
    assert!(offsets::committed(&server, "a").is_empty());
    reset(admin);
    reset(admin);
    assert_eq!(seen(&server), nothing, "twice is once");
}

/// A suite of small tests. Each creates a topic, produces, consumes in a group, commits, and resets
/// the server.
#[test]
fn a_reset_separates_the_tests_of_a_suite() {
    let data = tempfile::tempdir().unwrap();
    let (server, admin) = start(data.path(), 1);
    let (tests, began) = (variable("MUSTER_RESETS", 30), Instant::now());
    let mut client = server.client(0);
    for test in 0..tests {
        create_topic(&server, "orders", 1);
        assert_eq!(produce(&mut client, "orders", b"record"), Some(0), "test {test}");
        assert!(offsets::committed(&server, "readers").is_empty(), "test {test}");
        join_alone(&mut client, "readers");
        assert_eq!(fetched(&mut client, "orders", 0), (0, Some(0)), "test {test}");
        offsets::commit(&server, "writers", "orders", 0, 1);
        reset(admin);
    }
    eprintln!("{tests} tests took {} ms", began.elapsed().as_millis());
}

#[test]
fn only_a_server_for_tests_is_reset_and_by_no_page() {
    let data = tempfile::tempdir().unwrap();
    let admin = free_ports(1);
    let listener = format!("admin.listener=127.0.0.1:{admin}");
    let server = Server::start(&data.path().join("served"), 1, &[&listener]);
    create_topic(&server, "orders", 1);
    assert_eq!(reset_with(admin, "Host: localhost\r\n"), "403");
    assert_eq!(seen(&server)[0], ["orders"]);
    drop(server);

    let (server, admin) = start(&data.path().join("tested"), 1);
    create_topic(&server, "orders", 1);
    let page = "Host: localhost\r\nOrigin: http://evil.example\r\n";
    assert_eq!(reset_with(admin, page), "403");
    assert_eq!(reset_with(admin, "Host: evil.example\r\n"), "403");
    assert_eq!(seen(&server)[0], ["orders"]);
    reset(admin);
    assert!(seen(&server)[0].is_empty());
}
