//! Transactions that are open when a shard is loaded, and are reported to their coordinators. One
//! partition is withheld from clients: its log has lost records, and share groups must first
//! durably forget these records. Transactions in this partition are reported, too.

use super::super::partition_id::PartitionId;
use super::super::{Effects, UNWRITTEN_BYTES_MAX};
use super::offline::{ENDED, both, mark, report, sync};
use super::support::*;
use super::transactions::{ADDS, transactional, yes};
use muster_codec::ErrorCode;
use muster_codec::record_batch::TransactionOutcome;
use muster_fairness::Address;
use muster_transactions::message::{FromSlot, Known};

/// When this world was loaded, a transaction was open in both partitions.
fn loaded() -> World {
    let mut world = World::new();
    let batches = [(0, transactional(1, 7, 0, 0)), (1, transactional(1, 7, 0, 0))];
    let (_, question) = world.start_transactional(ADDS, &batches);
    world.decide(&yes(&question.unwrap(), 1));
    world.sync_all();
    world.reopen();
    world
}

#[test]
fn a_marker_that_cannot_be_written_now_is_to_be_reported_again() {
    let mut world = loaded();
    let outcome = TransactionOutcome::Commit;
    let fate = Known::Decided { producer: ENDED, outcome, version: 2 };
    world.partitions.disk_mut().reserve(Address::default(), UNWRITTEN_BYTES_MAX);
    assert!(!report(&mut world, &[0, 1], fate));
    assert_eq!(world.committed(0).last_stable_offset, 0);
    world.partitions.disk_mut().written(Address::default(), UNWRITTEN_BYTES_MAX);
    assert!(report(&mut world, &[0, 1], fate));
    assert_eq!(world.committed(0).last_stable_offset, 2);
}

/// Like [`loaded`], but the first partition is withheld.
fn withheld() -> World {
    let mut world = loaded();
    world.partitions.withhold([PartitionId { topic: topic_id(), index: 0 }].into(), 1);
    assert_eq!(world.fetch(0, 0).error_code, ErrorCode::NotLeaderOrFollower.code());
    world
}

/// Makes the partition visible to clients. Returns its last stable offset, and whether it has an
/// aborted transaction.
fn found_again(world: &mut World) -> (i64, bool) {
    world.partitions.shard_log_flushed(1);
    let data = world.committed(0);
    (data.last_stable_offset, data.aborted_transactions.is_some_and(|all| !all.is_empty()))
}

#[test]
fn the_answer_to_a_report_ends_what_was_decided_in_a_partition_that_is_withheld() {
    for outcome in [TransactionOutcome::Commit, TransactionOutcome::Abort] {
        let mut world = withheld();
        report(&mut world, &[0, 1], Known::Decided { producer: ENDED, outcome, version: 2 });
        assert_eq!(found_again(&mut world), (2, outcome == TransactionOutcome::Abort));
    }
}

#[test]
fn what_no_coordinator_knows_is_aborted_in_a_partition_that_is_withheld() {
    let mut world = withheld();
    let mut out = Effects::default();
    world.partitions.abort_unknown(world.wall, 0, 2, &mut out);
    world.perform(out);
    world.settle();
    assert_eq!(found_again(&mut world), (2, true));
}

#[test]
fn a_partition_that_is_withheld_gets_the_marker_of_what_continues() {
    let mut world = withheld();
    report(&mut world, &[0, 1], Known::Open);
    let FromSlot::Marked { partitions, is_whole, .. } =
        mark(&mut world, TransactionOutcome::Commit)
    else {
        panic!()
    };
    assert_eq!((partitions, is_whole), (both(), true));
    assert_eq!(found_again(&mut world), (2, false));
}

#[test]
fn a_sync_waits_for_the_answer_to_the_report_of_a_partition_that_is_withheld() {
    let mut world = withheld();
    report(&mut world, &[1], Known::Open);
    sync(&mut world);
    assert!(world.messages.is_empty(), "{:?}", world.messages);
}
