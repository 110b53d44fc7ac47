//! The numbers of a shard follow its clients and its log.

use super::world::{World, frame};
use crate::clock::Times;
use crate::net::ConnectionId;
use crate::shard::{Event, ListenerIndex};
use muster_codec::messages::{
    HeartbeatRequest, OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};

/// A commit of a group without members, for a topic that exists.
fn commit() -> Vec<u8> {
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
        world.step(Event::Opened {
            connection,
            listener: ListenerIndex::FIRST,
            host: "/10.0.0.1".into(),
        });
    }
    let heartbeat = frame(4, HeartbeatRequest { group_id: "g".into(), ..Default::default() });
    world.step(Event::Received { connection: first, data: &heartbeat });
    let sent = world.shard.output(first).unwrap().len() as u64;
    let totals = world.totals();
    let of = |name: &str| totals.of(&format!("clients_{name}"));
    let connections = ["opened", "refused", "closed"];
    assert_eq!(connections.map(|it| of(&format!("connections_{it}"))), [1, 1, 0]);
    assert_eq!(of("connections"), 1);
    assert_eq!(of("requests{api=\"Heartbeat\"}"), 1);
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
    world.step(Event::Opened {
        connection,
        listener: ListenerIndex::FIRST,
        host: "/10.0.0.1".into(),
    });
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
fn a_turn_takes_the_time_from_its_first_event_to_its_end() {
    let mut world = World::new(&[]);
    let turns = world.totals().of("shard_turn_micros");
    let at = |micros: u64| Times { micros, ..Times::both(2_000) };
    let connection = ConnectionId::new(0, 0);
    let opened =
        Event::Opened { connection, listener: ListenerIndex::FIRST, host: "/10.0.0.1".into() };
    let commands = &mut Vec::new();
    world.shard.step(at(2_000_000), opened, commands);
    world.shard.step(at(2_000_100), Event::Ended { connection }, commands);
    world.shard.end_turn(at(2_000_300), 2_000, commands);
    assert_eq!(world.totals().of("shard_turn_micros"), turns + 1);
    assert_eq!(world.shard.counters.turn_micros.sum(), 300);
}
