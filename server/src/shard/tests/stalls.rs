//! Stalled work of a shard. While the log hangs, waiting commits count as stalled. Requests that
//! wait for other members or for records do not.

use super::frames::frame;
use super::world::World;
use crate::net::ConnectionId;
use crate::shard::{Event, Shard};
use crate::stall::{FilesStanding, LOOK_MS, STALLED_MS};
use muster_codec::messages::*;

const NONE: (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());

fn send(world: &mut World, slot: u32, frame: &[u8]) {
    let connection = ConnectionId::new(slot, 0);
    world.connect(connection);
    world.step(Event::Received { connection, data: frame });
}

/// A join that waits for others, and a fetch that waits for records, both for a minute.
fn send_parked(world: &mut World) {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    let join = JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 1_000_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    };
    send(world, 0, &frame(3, join));
    let partition = FetchPartition { partition_max_bytes: 1_000, ..Default::default() };
    let topic = FetchTopic { topic: "t".into(), partitions: vec![partition], ..Default::default() };
    let topics = vec![topic];
    let fetch = FetchRequest { max_wait_ms: 60_000, min_bytes: 1, topics, ..Default::default() };
    send(world, 1, &frame(4, fetch));
}

#[test]
fn a_join_that_waits_behind_a_timer_which_does_not_fire_shows() {
    let mut world = World::new(&["group.initial.rebalance.delay.ms=10000"]);
    world.create_topic("t");
    send_parked(&mut world);
    let start = world.now;
    world.pass(1_000);
    let late_at = |world: &mut World, ms: i64| {
        let Shard { groups, runtime, .. } = &mut world.shard;
        groups.advance(start + ms, runtime.log());
        groups.timers_late_since(start + ms).map(|since| since - start)
    };
    // The clock of groups advances by one second at most in each turn.
    let found: Vec<_> = (2..16).map(|s| late_at(&mut world, s * 1_000)).collect();
    let since = Some(12_000);
    assert_eq!(found[..10], [None; 10]);
    assert_eq!(found[10..], [since; 4]);
    let deadline = world.shard.groups.late_deadline();
    assert!(deadline.is_some_and(|at| at <= start + 15_000), "{deadline:?}: it is looked for");
    world.now = start + 16_000;
    world.turn();
    assert_eq!(late_at(&mut world, 17_000), None, "it has fired");
}

fn commit() -> OffsetCommitRequest<'static> {
    let partition = OffsetCommitRequestPartition { committed_offset: 1, ..Default::default() };
    let partitions = vec![partition];
    let topic = OffsetCommitRequestTopic { name: "t".into(), partitions, ..Default::default() };
    OffsetCommitRequest { group_id: "of-commits".into(), topics: vec![topic], ..Default::default() }
}

#[test]
fn a_commit_is_stalled_while_the_log_hangs_and_requests_that_wait_for_others_are_not() {
    let mut world = World::new(&["group.initial.rebalance.delay.ms=1000000"]);
    world.create_topic("t");
    send_parked(&mut world);
    world.pass(40_000);
    assert_eq!(world.shard.stalls(), NONE);
    world.hold_log(true);
    send(&mut world, 2, &frame(8, commit()));
    world.pass(STALLED_MS - 1);
    assert_eq!(world.shard.stalls(), NONE);
    world.pass(3 * LOOK_MS + 1);
    let (stalled, _) = world.shard.stalls();
    let beginnings = ["records have not been flushed", "OffsetCommit has not been answered"];
    assert_eq!(stalled.len(), beginnings.len(), "{stalled:?}");
    for (words, beginning) in stalled.iter().zip(beginnings) {
        assert!(words.starts_with(beginning), "{words}");
    }
    // Nothing is known of the disk.
    world.pass(STALLED_MS + LOOK_MS);
    assert_eq!(world.shard.stalls().1.len(), 2);
    world.shard.set_files(FilesStanding { operation_since: Some(0), deferred_since: None });
    world.pass(LOOK_MS + 1);
    assert_eq!(world.shard.stalls().1, Vec::<String>::new(), "the disk is slow");
    world.shard.set_files(FilesStanding::default());
    world.hold_log(false);
    world.pass(2 * LOOK_MS);
    assert_eq!(world.shard.stalls(), NONE);
}
