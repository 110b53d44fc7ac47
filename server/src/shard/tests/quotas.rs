//! Client quotas: the answers to clients that exceed a quota have a throttle time, and these
//! clients are not served until it is over.

use super::frames::{answers, frame_of};
use super::world::{World, take_time};
use crate::net::ConnectionId;
use crate::quotas::{Bound, Entity, Name, QuotaKey};
use crate::shard::Event;
use muster_codec::messages::*;
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{ApiKey, ErrorCode, Request, Response};

const CLIENT: ConnectionId = ConnectionId(0);
const OTHER: ConnectionId = ConnectionId(1);

fn world(configs: &[&str], quotas: &[(Entity, QuotaKey, u32)]) -> World {
    let mut world = World::new(configs);
    quotas.iter().for_each(|(entity, key, bound)| set(&mut world, entity, *key, Some(*bound)));
    world.pass(100);
    [CLIENT, OTHER].into_iter().for_each(|id| world.connect(id));
    world
}

/// Sets a quota, or removes it.
fn set(world: &mut World, entity: &Entity, key: QuotaKey, bound: Option<u32>) {
    let record = crate::cluster::client_quota_record(entity, key, bound.map(Bound::from));
    world.shard.write_records(vec![record]);
}

fn send(world: &mut World, id: ConnectionId, version: i16, request: impl Into<Request<'static>>) {
    let data = frame_of("app", version, request);
    world.step(Event::Received { connection: id, data: &data });
}

const FIND: (ApiKey, i16) = (ApiKey::FindCoordinator, 4);

fn find() -> FindCoordinatorRequest<'static> {
    FindCoordinatorRequest { coordinator_keys: vec!["g".into()], ..Default::default() }
}

/// The throttle times of the answers to FindCoordinator.
fn throttle_times(world: &mut World, id: ConnectionId) -> Vec<i32> {
    let answers = answers(world, id, FIND).into_iter();
    answers.map(|mut answer| *answer.throttle_time_ms().unwrap()).collect()
}

fn user(name: &str) -> Entity {
    Entity::User(Name::of(name))
}

const ANONYMOUS: &str = "ANONYMOUS";

#[test]
fn a_client_that_takes_too_much_time_is_served_later() {
    let mut world = world(&[], &[(user(ANONYMOUS), QuotaKey::RequestPercentage, 1)]);
    take_time(200);
    send(&mut world, CLIENT, FIND.1, find());
    take_time(0);
    // 200 ms of work are 2 % of ten seconds, which is twice the quota. The throttle time is at most
    // the length of one sample, which is a second.
    assert_eq!(throttle_times(&mut world, CLIENT), [1_000]);
    send(&mut world, CLIENT, FIND.1, find());
    send(&mut world, OTHER, FIND.1, find());
    assert_eq!(throttle_times(&mut world, OTHER), [1_000], "it is the same user");
    world.pass(999);
    assert!(throttle_times(&mut world, CLIENT).is_empty());
    world.pass(1);
    assert_eq!(throttle_times(&mut world, CLIENT).len(), 1);
    assert_eq!(world.totals().of("clients_requests_throttled"), 3);
    world.pass(20_000);
    send(&mut world, CLIENT, FIND.1, find());
    assert_eq!(throttle_times(&mut world, CLIENT), [0]);
}

#[test]
fn a_client_without_a_quota_is_not_measured() {
    let mut world = world(&[], &[(user("alice"), QuotaKey::RequestPercentage, 1)]);
    take_time(5_000);
    send(&mut world, CLIENT, FIND.1, find());
    take_time(0);
    assert_eq!(throttle_times(&mut world, CLIENT), [0]);
}

const PRODUCE: (ApiKey, i16) = (ApiKey::Produce, 12);

/// A batch of one record of this size.
fn batch(bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    builder.append(1_000, &(&b"key"[..], Some(&vec![b'x'; bytes][..])));
    builder.seal(0, -1).to_vec()
}

/// A produce with one record of this size.
fn produce(bytes: usize) -> ProduceRequest<'static> {
    let records = batch(bytes);
    let partitions = vec![PartitionProduceData { index: 0, records: Some(records.into()) }];
    let topic =
        TopicProduceData { name: "t".into(), partition_data: partitions, ..Default::default() };
    ProduceRequest { acks: 1, timeout_ms: 1_000, topic_data: vec![topic], ..Default::default() }
}

#[test]
fn a_producer_waits_until_its_bytes_are_paid_back() {
    let key = QuotaKey::ProducerByteRate;
    let mut world = world(&[], &[(Entity::Client(Name::Default), key, 1_000)]);
    world.create_topic("t");
    send(&mut world, CLIENT, PRODUCE.1, produce(15_000));
    world.pass(100);
    let answer = answers(&mut world, CLIENT, PRODUCE).pop().unwrap();
    let Response::Produce(answer) = answer else { panic!("{answer:?}") };
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0, "it is written");
    assert!((5_000..5_500).contains(&answer.throttle_time_ms), "{}", answer.throttle_time_ms);
    send(&mut world, CLIENT, FIND.1, find());
    world.pass(i64::from(answer.throttle_time_ms) - 101);
    assert!(throttle_times(&mut world, CLIENT).is_empty());
    world.pass(101);
    assert_eq!(throttle_times(&mut world, CLIENT), [0]);
}

const CREATE: ApiKey = ApiKey::CreateTopics;

fn create(name: &'static str, num_partitions: i32) -> CreateTopicsRequest<'static> {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions,
        replication_factor: 1,
        ..Default::default()
    };
    CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..Default::default() }
}

/// The error and the throttle time of a creation.
fn created(world: &mut World, version: i16, name: &'static str, partitions: i32) -> (i16, i32) {
    send(world, CLIENT, version, create(name, partitions));
    world.pass(100);
    let answer = answers(world, CLIENT, (CREATE, version)).pop().unwrap();
    let Response::CreateTopics(answer) = answer else { panic!("{answer:?}") };
    (answer.topics[0].error_code, answer.throttle_time_ms)
}

#[test]
fn changes_of_topics_are_limited_by_partitions() {
    let key = QuotaKey::ControllerMutationRate;
    let configs = ["controller.quota.window.num=10"];
    let mut world = world(&configs, &[(user(ANONYMOUS), key, 1)]);
    assert_eq!(created(&mut world, 7, "a", 15), (0, 0), "a burst is admitted");
    let exceeded = ErrorCode::ThrottlingQuotaExceeded.code();
    let (error, throttle_time_ms) = created(&mut world, 7, "b", 1);
    assert!(error == exceeded && (4_500..5_000).contains(&throttle_time_ms), "{throttle_time_ms}");
    world.pass(i64::from(throttle_time_ms));
    assert_eq!(created(&mut world, 7, "b", 3), (0, 0), "the bucket is full enough");
    let (error, throttle_time_ms) = created(&mut world, 5, "c", 30);
    assert!(error == 0 && throttle_time_ms > 30_000, "an old client is throttled alone");
}

#[test]
fn a_quota_of_changes_that_is_removed_is_not_obeyed() {
    let key = QuotaKey::ControllerMutationRate;
    let mut world = world(&[], &[(user(ANONYMOUS), key, 1)]);
    assert_eq!(created(&mut world, 7, "a", 100), (0, 0));
    assert_eq!(created(&mut world, 7, "b", 1).0, ErrorCode::ThrottlingQuotaExceeded.code());
    set(&mut world, &user(ANONYMOUS), key, None);
    world.pass(100_000);
    assert_eq!(created(&mut world, 5, "b", 100), (0, 0), "there are no quotas left");
}

#[test]
fn new_connections_beyond_the_rate_of_their_address_are_closed() {
    let key = QuotaKey::ConnectionCreationRate;
    let address = Entity::Ip(Name::of("10.0.0.1"));
    let mut world = world(&[], &[(address, key, 1)]);
    (2..12).for_each(|slot| world.connect(ConnectionId(slot)));
    send(&mut world, ConnectionId(9), FIND.1, find());
    assert_eq!(throttle_times(&mut world, ConnectionId(9)), [0], "the tenth is served");
    send(&mut world, ConnectionId(11), FIND.1, find());
    assert!(throttle_times(&mut world, ConnectionId(11)).is_empty() && world.closed.is_empty());
    world.pass(2_000);
    assert_eq!(world.closed, [ConnectionId(10), ConnectionId(11)]);
}

#[test]
fn an_address_that_was_turned_away_has_its_rate_later() {
    let key = QuotaKey::ConnectionCreationRate;
    let address = Entity::Ip(Name::of("10.0.0.1"));
    let mut world = world(&[], &[(address, key, 1)]);
    (2..1_000).for_each(|slot| world.connect(ConnectionId(slot)));
    world.pass(11_000);
    world.connect(ConnectionId(1_000));
    send(&mut world, ConnectionId(1_000), FIND.1, find());
    assert_eq!(throttle_times(&mut world, ConnectionId(1_000)), [0], "refusals do not count");
}

#[test]
fn connections_beyond_the_most_wait_until_one_is_closed() {
    let mut world = world(&["max.connections=3"], &[]);
    (2..5).for_each(|slot| world.connect(ConnectionId(slot)));
    for slot in 2..5 {
        send(&mut world, ConnectionId(slot), FIND.1, find());
    }
    let served = |world: &mut World| {
        let answers = |slot: &u64| !throttle_times(world, ConnectionId(*slot)).is_empty();
        (2..5).filter(answers).collect::<Vec<_>>()
    };
    assert_eq!(served(&mut world), [2]);
    world.step(Event::Ended { connection: ConnectionId(3) });
    world.step(Event::Ended { connection: CLIENT });
    world.pass(1);
    assert_eq!(served(&mut world), [4], "one of those that waited has gone");
}

#[test]
fn a_lower_limit_closes_those_that_were_quiet_for_longest() {
    let mut world = world(&[], &[]);
    (2..5).for_each(|slot| world.connect(ConnectionId(slot)));
    world.pass(1_000);
    for slot in [0, 1, 3] {
        send(&mut world, ConnectionId(slot), FIND.1, find());
    }
    let max = Some("3".to_owned());
    let record = crate::cluster::config_record(4, "", "max.connections", max);
    world.shard.write_records(vec![record]);
    world.pass(100);
    assert_eq!(world.closed, [ConnectionId(2), ConnectionId(4)]);
}

#[test]
fn new_connections_beyond_the_rate_of_all_are_served_one_after_the_other() {
    let mut world = world(&["max.connection.creation.rate=1"], &[]);
    (2..13).for_each(|slot| world.connect(ConnectionId(slot)));
    let served = |world: &mut World, slot: u64| {
        send(world, ConnectionId(slot), FIND.1, find());
        throttle_times(world, ConnectionId(slot)).len()
    };
    assert_eq!((served(&mut world, 9), served(&mut world, 10), served(&mut world, 11)), (1, 0, 0));
    world.pass(1_100);
    assert_eq!(throttle_times(&mut world, ConnectionId(10)).len(), 1);
    assert!(throttle_times(&mut world, ConnectionId(11)).is_empty());
    world.pass(1_100);
    assert_eq!(throttle_times(&mut world, ConnectionId(11)).len(), 1);
    assert!(world.closed.is_empty());
}
