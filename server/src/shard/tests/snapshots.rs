//! Snapshots of a shard that stops.

use super::world::{World, commit};
use crate::shard::{Event, Message, compare_snapshot, load};
use crate::topics::InternalTopic;
use muster_codec::messages::ListTransactionsRequest;
use muster_storage::snapshot::{SNAPSHOT_FILE_NAME, Snapshot};

const IDS: u64 = 200;

/// A stopped shard, which got commits so fast that a snapshot was still due when the stop began.
fn stopped(configs: &[&str]) -> World {
    stop(World::new(configs))
}

pub(super) fn stop(mut world: World) -> World {
    for number in 0..600 {
        world.append(&commit(number % 60, number % 8, Some(number as i64)));
        world.pass(0);
    }
    assert!(world.is_snapshot_due(), "a snapshot is due");
    world.step(Event::Mail(Message::Stop));
    world.pass(1_000);
    world
}

#[test]
fn a_clean_stop_writes_the_snapshot_that_is_due() {
    let mut world = stopped(&[]);
    assert!(world.stopped.is_some() && !world.is_snapshot_due());
    let end = world.shard.runtime.log().progress().accepted();
    let bytes = std::fs::read(world.path(SNAPSHOT_FILE_NAME)).unwrap();
    let header = Snapshot::open(&bytes).unwrap().header;
    assert!(header.from > end * 9 / 10, "{} of {end}", header.from);
    world.restart();
    assert!(world.unloaded > 50, "{} groups need no replay", world.unloaded);
}

#[test]
fn a_stop_does_not_wait_for_a_snapshot_if_so_configured() {
    let world = stopped(&["snapshot.on.stop.max.ms=0"]);
    assert!(world.stopped.is_some() && world.is_snapshot_due());
}

/// A shard with unloaded transactional ids.
fn with_unloaded_ids() -> World {
    let mut world = World::new(&[]);
    for number in 0..IDS {
        world.append_id(number, Some(1));
        world.pass(1);
    }
    let mut world = stop(world);
    world.restart();
    world
}

fn ids(world: &World) -> usize {
    world.shard.inspect().transactional_ids().unwrap().len()
}

fn unloaded_ids(world: &World) -> usize {
    world.shard.transactions.coordinators().unloaded_ids()
}

/// The number of ids in a list.
fn listed(world: &mut World) -> usize {
    let request = ListTransactionsRequest { duration_filter: -1, ..Default::default() };
    let mut listing = crate::transactions::ListingOfIds::new(&request);
    let (wall, mut found) = (muster_codec::Wall(0), 0);
    while !listing.list.is_complete() {
        let coordinators = world.shard.transactions.coordinators();
        coordinators.list(&mut listing, wall, 10, |_| u64::MAX);
        found += listing.take().transaction_states.len();
    }
    found
}

#[test]
fn ids_at_rest_stay_unloaded_over_starts_and_snapshots() {
    let mut world = with_unloaded_ids();
    assert_eq!((ids(&world), unloaded_ids(&world)), (IDS as usize, IDS as usize));
    assert_eq!((listed(&mut world), unloaded_ids(&world)), (IDS as usize, IDS as usize));
    let mut world = stop(world);
    world.restart();
    assert_eq!((listed(&mut world), unloaded_ids(&world)), (IDS as usize, IDS as usize));
}

#[test]
fn a_shard_whose_unloaded_ids_are_damaged_fails_and_reads_its_log() {
    let mut world = with_unloaded_ids();
    let path = world.path(SNAPSHOT_FILE_NAME);
    let mut bytes = std::fs::read(&path).unwrap();
    let opened = Snapshot::open(&bytes).unwrap();
    let ids = InternalTopic::TransactionState.number();
    let ids_of_first = opened.sections_of(ids, 0).next().unwrap().part.range();
    bytes[ids_of_first.start + 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    world.restart();
    assert_eq!(unloaded_ids(&world), IDS as usize, "it was not read yet");
    listed(&mut world);
    world.turn();
    assert!(world.is_failed());
    world.pass(1);
    assert!(!path.exists(), "it is put aside");
    world.restart();
    assert_eq!((listed(&mut world), unloaded_ids(&world)), (IDS as usize, 0));
}

#[test]
fn a_damaged_log_beside_a_snapshot_of_another_format_names_the_version_that_wrote_it() {
    let (world, data) = (stopped(&[]), "../..");
    let path = world.path(SNAPSHOT_FILE_NAME);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4..6].copy_from_slice(&8u16.to_be_bytes());
    std::fs::write(&path, bytes).unwrap();
    assert!(load(&world.path(data), &world.common, 0).is_ok(), "the log has all");
    let segment = world.path("00000000000000000001.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[5_000] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let refused = || load(&world.path(data), &world.common, 0).err().unwrap().to_string();
    let cure = "its format is 8, and this version reads 9. Start the version that wrote";
    assert!(refused().contains(cure), "{}", refused());
    std::fs::remove_file(path).unwrap();
    assert!(!refused().contains("snapshot"), "{}", refused());
}

#[test]
fn all_states_of_a_snapshot_are_compared_with_the_log() {
    let compared = |world: &World| {
        let bytes = std::fs::read(world.path(SNAPSHOT_FILE_NAME)).unwrap();
        compare_snapshot(&world.path(""), bytes, &world.common, 0).unwrap()
    };
    let equal = compared(&stopped(&[]));
    assert_eq!((equal.groups, equal.differences), (60, Vec::new()));
    let mut world = World::new(&[]);
    world.append_id(7, Some(1));
    world.replay_id(7, Some(2));
    let differences = compared(&stop(world)).differences;
    let words = "transactional id \"id-7\" differs from its records in the log";
    assert!(differences.len() == 1 && differences[0].ends_with(words), "{differences:?}");
}
