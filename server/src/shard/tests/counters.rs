//! The numbers of a shard follow its clients and its log.

use super::frames::frame;
use super::world::World;
use crate::clock::Times;
use crate::cluster::{GROUP_RESOURCE, config_record};
use crate::net::ConnectionId;
use crate::shard::{Event, ListenerIndex, Shard};
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, HeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol,
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use muster_coordinator::EventBody;
use muster_counters::Totals;

/// A commit of a group without members, for a topic that exists.
pub(super) fn commit() -> Vec<u8> {
    let partition = OffsetCommitRequestPartition { committed_offset: 7, ..Default::default() };
    let topic = OffsetCommitRequestTopic {
        name: "__consumer_offsets".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let topics = vec![topic];
    frame(7, OffsetCommitRequest { group_id: "g".into(), topics, ..Default::default() })
}

#[test]
fn connections_requests_and_errors_are_counted() {
    let mut world = World::new(&["max.connections.per.ip=1"]);
    let [first, second] = [0, 1].map(|slot| ConnectionId::new(slot, 0));
    for connection in [first, second] {
        world.connect(connection);
    }
    let heartbeat = frame(4, HeartbeatRequest { group_id: "g".into(), ..Default::default() });
    world.step(Event::Received { connection: first, data: &heartbeat });
    let sent = world.shard.output(first).unwrap().len() as u64;
    let totals = world.totals();
    let of = |name: &str| totals.of(&format!("clients_{name}"));
    let connections = ["opened", "refused", "closed"];
    assert_eq!(connections.map(|it| of(&format!("connections_{it}"))), [1, 1, 0]);
    let most = totals.of("limit_max{limit=\"max.connections\"}");
    assert_eq!((of("connections"), most), (1, i32::MAX as u64));
    assert_eq!(of("requests{api=\"Heartbeat\",version=\"4\"}"), 1);
    assert_eq!(of("errors{api=\"Heartbeat\",error=\"UNKNOWN_MEMBER_ID\"}"), 1);
    assert_eq!((of("received_bytes"), of("sent_bytes")), (heartbeat.len() as u64, sent));
    world.step(Event::Ended { connection: first });
    let totals = world.totals();
    assert_eq!(totals.of("clients_connections_closed"), 1);
    assert_eq!(totals.of("clients_connections"), 0);
}

#[test]
fn a_flush_is_measured_from_its_submission_until_it_is_durable() {
    let mut world = World::new(&[]);
    let connection = ConnectionId::new(0, 0);
    world.connect(connection);
    world.pass(1_000);
    let flushes = world.totals().of("log_flush_micros");
    world.step(Event::Received { connection, data: &commit() });
    world.step(Event::Received { connection, data: &commit() });
    let totals = world.totals();
    assert_eq!((totals.of("log_records"), totals.of("clients_answers_waiting")), (2, 2));
    assert_eq!(totals.of("log_flush_micros"), flushes, "its write is under way");
    world.pass(1_000);
    let totals = world.totals();
    assert_eq!(totals.of("log_flush_micros"), flushes + 2, "the second gathered meanwhile");
    assert_eq!(totals.of("log_flush_operations"), totals.of("log_flush_bytes"));
    assert_eq!((totals.of("groups_offsets_committed"), totals.of("groups_offsets")), (2, 1));
    assert_eq!(totals.of("clients_answers_waiting"), 0);
}

#[test]
fn operations_that_the_log_refuses_are_counted_whatever_their_topic() {
    let mut world = World::new(&[]);
    let too_large = "v".repeat(world.common.log_sizes.operation_bytes_max + 1);
    let record = config_record(GROUP_RESOURCE, "g", "key", Some(too_large));
    let Shard { controller, runtime, .. } = &mut world.shard;
    let controller = controller.as_mut().unwrap();
    controller.write_records(runtime, world.now, None, vec![record]).unwrap_err();
    assert_eq!(world.totals().of("log_operations_refused"), 1);
}

#[test]
fn a_turn_takes_the_time_from_its_first_event_to_its_end() {
    let mut world = World::new(&[]);
    let turns = world.totals().of("shard_turn_micros");
    let at = |micros: u64| Times { micros, ..Times::both(2_000) };
    let connection = ConnectionId::new(0, 0);
    let opened = Event::Opened {
        connection,
        listener: ListenerIndex::FIRST,
        host: "/10.0.0.1".into(),
        port: 0,
    };
    let commands = &mut Vec::new();
    world.shard.step(at(2_000_000), opened, commands);
    world.shard.step(at(2_000_100), Event::Ended { connection }, commands);
    world.shard.end_turn(at(2_000_300), 2_000, commands);
    assert_eq!(world.totals().of("shard_turn_micros"), turns + 1);
    assert_eq!(world.shard.counters.turn_micros.sum(), 300);
}

#[test]
fn the_last_rebalances_of_a_group_are_kept() {
    let mut world = World::new(&[]);
    let connection = ConnectionId::new(0, 0);
    let listener = ListenerIndex::FIRST;
    world.step(Event::Opened { connection, listener, host: "/10.0.0.1".into(), port: 0 });
    let join = ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["t".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    world.step(Event::Received { connection, data: &frame(1, join) });
    world.pass(1_000);
    let (ended, under_way) = world.shard.inspect().rebalances("g");
    let [
        &muster_coordinator::Event {
            protocol: "consumer",
            body: EventBody::Rebalanced(ref rebalance),
            ..
        },
    ] = ended[..]
    else {
        panic!("{ended:?}")
    };
    assert_eq!((rebalance.epoch, rebalance.members, under_way), (2, 1, None));
    assert_eq!(rebalance.causes.to_string(), "1 joined (m)");
    assert_eq!(world.totals().of("rebalances_consumer_micros"), 1);
    assert!(world.shard.inspect().rebalances("other").0.is_empty());
}

#[test]
fn a_rebalance_has_an_age_and_is_counted_if_it_was_long() {
    let mut world = World::new(&["group.initial.rebalance.delay.ms=50000"]);
    let connection = ConnectionId::new(0, 0);
    let listener = ListenerIndex::FIRST;
    world.step(Event::Opened { connection, listener, host: "/10.0.0.1".into(), port: 0 });
    let join = JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 50_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), ..Default::default() }],
        ..Default::default()
    };
    world.step(Event::Received { connection, data: &frame(3, join) });
    let seen = |world: &mut World| {
        world.turn();
        let totals = world.totals();
        (totals.of("rebalances_oldest_micros"), totals.of("rebalances_long"))
    };
    world.pass(40_000);
    assert_eq!(seen(&mut world), (40_000_000, 0));
    // The member does not sync, and its session ends.
    world.pass(41_000);
    assert_eq!(seen(&mut world), (0, 1));
    assert_eq!(world.totals().of("rebalances_classic_micros"), 1);
}

/// If a scrape looked at each group, it would cost more than a hundred times as much.
#[test]
fn a_scrape_costs_a_shard_the_same_however_many_groups_it_has() {
    let (few, many) = (scrape_cost(100), scrape_cost(20_000));
    println!("a scrape takes {few} ns with 100 groups, and {many} ns with 20,000");
    assert!(many < 10 * few, "{few} ns, {many} ns");
}

/// The CPU time of the shard's part of a scrape in nanoseconds, which other work on the machine
/// does not lengthen. It is the minimum of several tries, because the first tries fill caches.
fn scrape_cost(groups: u64) -> i64 {
    let mut world = World::new(&[]);
    let slots = world.shard.groups.slots_mut();
    for group in 0..groups {
        let record = super::world::commit(group, 0, Some(1));
        let slot = slots.slot_of(record.group_id());
        slots.on(slot, |coordinator, _| coordinator.replay(&record, 1));
    }
    let scrape = |_| {
        let began = cpu_nanos();
        let numbers = world.shard.inspect().numbers();
        let took = cpu_nanos() - began;
        let mut totals = Totals::default();
        totals.count(&numbers);
        assert_eq!(totals.of("groups_classic_empty"), groups);
        took
    };
    (0..50).map(scrape).min().unwrap()
}

/// The CPU time that this thread has taken.
fn cpu_nanos() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
