//! Connections that are idle, or whose clients have closed their sending side.

use super::frames::frame_of;
use super::world::World;
use crate::net::{ConnectionId, IDLE_SWEEP_MS, INPUT_ENDED_PATIENCE_MS};
use crate::shard::Event;
use muster_codec::messages::{JoinGroupRequest, JoinGroupRequestProtocol};

const VERSION: i16 = 3;

/// A join that may wait for its answer for longer than connections are kept.
fn join() -> Vec<u8> {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    let request = JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 1_000_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    };
    frame_of("test", VERSION, request)
}

#[test]
fn a_connection_without_further_input_waits_for_answers_for_a_bounded_time() {
    let mut world = World::new(&["group.initial.rebalance.delay.ms=1000000"]);
    let [waits, asks_nothing] = [0, 1].map(|slot| ConnectionId::new(slot, 0));
    for connection in [waits, asks_nothing] {
        world.connect(connection);
    }
    world.step(Event::Received { connection: waits, data: &join() });
    for connection in [waits, asks_nothing] {
        world.step(Event::InputEnded { connection });
    }
    assert_eq!(world.closed, [asks_nothing]);
    world.pass(INPUT_ENDED_PATIENCE_MS);
    assert_eq!(world.closed, [asks_nothing], "an answer may still come");
    world.pass(IDLE_SWEEP_MS + 1);
    assert_eq!(world.closed, [asks_nothing, waits]);
}

#[test]
fn a_connection_that_was_closed_as_idle_is_counted() {
    let mut world = World::new(&["connections.max.idle.ms=20000"]);
    let idle = ConnectionId::new(0, 0);
    world.connect(idle);
    world.pass(20_000 + IDLE_SWEEP_MS);
    assert_eq!(world.closed, [idle]);
    assert_eq!(world.totals().of("clients_connections_idle_closed"), 1);
}
