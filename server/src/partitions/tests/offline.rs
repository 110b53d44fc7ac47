//! A transaction with a partition that goes offline, and is served again later.

use super::super::Effects;
use super::support::*;
use super::transactions::{ADDS, transactional, yes};
use muster_codec::ErrorCode;
use muster_codec::record_batch::TransactionOutcome;
use muster_transactions::PartitionSet;
use muster_transactions::message::{
    FromSlot, Known, Marker, OpenIn, Producer, Reported, Stamp, Sync,
};

const PRODUCER: Producer = Producer { id: 7, epoch: 0 };
pub(super) const ENDED: Producer = Producer { id: 7, epoch: 1 };
const STAMP: Stamp = Stamp { coordinator_epoch: 2, sequence: 1 };

pub(super) fn both() -> PartitionSet {
    [(TOPIC, 0), (TOPIC, 1)].into_iter().collect()
}

/// A transaction is open in both partitions, and the first partition is damaged.
fn damaged() -> World {
    let mut world = World::new();
    let batches = [(0, transactional(1, 7, 0, 0)), (1, transactional(1, 7, 0, 0))];
    let (request, question) = world.start_transactional(ADDS, &batches);
    world.decide(&yes(&question.unwrap(), 1));
    assert_eq!(world.results(request).unwrap(), [(ErrorCode::None, 0), (ErrorCode::None, 0)]);
    world.sync_all();
    flip_magic(&mut world);
    world.reopen();
    assert_eq!(world.partitions.offline(), 1);
    world
}

/// Changes the magic byte of the only batch, or changes it back.
fn flip_magic(world: &mut World) {
    world.segment(0)[16] ^= 1;
}

/// Handles an answer to a report. Returns false if a marker cannot be written now.
pub(super) fn report(world: &mut World, open: &[i32], fate: Known) -> bool {
    let open = open.iter().map(|partition| {
        let (producer, topic) = (PRODUCER, TOPIC.into());
        OpenIn { producer, topic, partition: *partition }
    });
    let reported = Reported { stamp: STAMP, number: 1, known: vec![(PRODUCER, fate)] };
    let mut out = Effects::default();
    let wall = world.wall;
    let are_marked =
        world.partitions.reported(wall, &open.collect::<Vec<_>>(), &reported, &mut out);
    world.perform(out);
    world.settle();
    are_marked
}

pub(super) fn mark(world: &mut World, outcome: TransactionOutcome) -> FromSlot {
    let stamp = Stamp { sequence: 2, ..STAMP };
    let marker = Marker { stamp, producer: ENDED, outcome, version: 2, partitions: both() };
    let mut out = Effects::default();
    world.partitions.mark_transaction(world.wall, 4, &marker, &mut out);
    world.perform(out);
    world.settle();
    let (coordinator, message) = world.messages.pop().unwrap();
    assert_eq!(coordinator, 4);
    message
}

pub(super) fn sync(world: &mut World) {
    let mut out = Effects::default();
    let sync = Sync { stamp: STAMP, producer: PRODUCER, partitions: both() };
    world.partitions.sync_transaction(4, sync, &mut out);
    world.partitions.start_syncs(&mut out);
    world.perform(out);
    world.settle();
}

#[test]
fn a_transaction_of_a_partition_that_is_offline_is_not_whole() {
    let mut world = damaged();
    report(&mut world, &[1], Known::Open);
    sync(&mut world);
    let expected = FromSlot::Synced { stamp: STAMP, partitions: both(), is_whole: false };
    assert_eq!(world.messages, [(4, expected)]);
}

#[test]
fn it_ends_where_it_can_and_in_that_partition_once_it_is_served_again() {
    for outcome in [TransactionOutcome::Commit, TransactionOutcome::Abort] {
        let mut world = damaged();
        report(&mut world, &[1], Known::Open);
        let FromSlot::Marked { partitions, is_synced, is_whole, .. } = mark(&mut world, outcome)
        else {
            panic!()
        };
        assert_eq!((partitions, is_synced, is_whole), (both(), false, false));
        let request = world.start_fetch(&fetch_request(0, &[(1, 0)]));
        world.settle();
        assert_eq!(only(world.fetched(request).unwrap()).last_stable_offset, 2);
        world.sync_all();

        flip_magic(&mut world);
        world.reopen();
        assert_eq!(world.partitions.offline(), 0);
        assert_eq!(world.committed(0).last_stable_offset, 0, "it is open as before");
        report(&mut world, &[0], Known::Decided { producer: ENDED, outcome, version: 2 });
        let data = world.committed(0);
        let is_aborted = data.aborted_transactions.is_some_and(|all| !all.is_empty());
        assert_eq!(data.last_stable_offset, 2);
        assert_eq!(is_aborted, outcome == TransactionOutcome::Abort);
    }
}
