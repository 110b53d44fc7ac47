//! Snapshots of a shard that stops.

use super::world::{World, commit};
use crate::shard::{Event, Message};
use muster_storage::snapshot::SNAPSHOT_FILE_NAME;

/// Commits that come faster than slices of snapshots are written, followed by a stop.
fn stopped(configs: &[&str]) -> World {
    let mut world = World::new(configs);
    for number in 0..600 {
        world.append(&commit(number % 60, number % 8, Some(number as i64)));
        world.pass(0);
    }
    assert!(world.shard.groups.is_snapshot_due(world.now), "a snapshot is due");
    world.step(Event::Mail(Message::Stop));
    world.pass(1_000);
    world
}

#[test]
fn a_clean_stop_writes_the_snapshot_that_is_due() {
    let mut world = stopped(&[]);
    assert!(world.stopped.is_some() && !world.shard.groups.is_snapshot_due(world.now));
    let end = world.shard.groups.log().progress().accepted();
    let bytes = std::fs::read(world.path(SNAPSHOT_FILE_NAME)).unwrap();
    let header = muster_storage::snapshot::Snapshot::open(&bytes).unwrap().header;
    assert!(header.from > end * 9 / 10, "{} of {end}", header.from);
    world.restart();
    assert!(world.unloaded > 50, "{} groups need no replay", world.unloaded);
}

#[test]
fn a_stop_does_not_wait_for_a_snapshot_if_so_configured() {
    let world = stopped(&["snapshot.on.stop.max.ms=0"]);
    assert!(world.stopped.is_some() && world.shard.groups.is_snapshot_due(world.now));
}
