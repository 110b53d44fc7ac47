//! Compares the transactions of one partition with a walk through its whole log.
#![allow(clippy::unwrap_used)]

use muster_codec::ErrorCode;
use muster_codec::record_batch::TransactionOutcome;
use muster_transactions::message::{Producer, Stamp};
use muster_transactions::partition::{Aborted, Append, End, Marking, PartitionTransactions, Saved};

fn stamp(sequence: u64) -> Stamp {
    Stamp { coordinator_epoch: 0, sequence }
}

fn end(producer: Producer, version: i8, outcome: TransactionOutcome) -> End {
    End { producer, outcome, version, coordinator_epoch: 0 }
}

enum Batch {
    Data(i64),
    Marker(i64, TransactionOutcome),
}

/// The producer and first offset of a transaction, and its marker if it has ended.
type Found = (i64, i64, Option<(i64, TransactionOutcome)>);

/// All transactions of a log.
fn walk(log: &[Batch]) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for (offset, batch) in (0..).zip(log) {
        let (Batch::Data(id) | Batch::Marker(id, _)) = batch;
        let open = found.iter_mut().find(|it| it.0 == *id && it.2.is_none());
        match (batch, open) {
            (Batch::Data(id), None) => found.push((*id, offset, None)),
            (Batch::Marker(_, outcome), Some(open)) => open.2 = Some((offset, *outcome)),
            (Batch::Data(_), Some(_)) | (Batch::Marker(..), None) => {}
        }
    }
    found
}

#[test]
fn stable_offsets_and_aborted_transactions_are_those_of_the_log() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut transactions, mut log) = (PartitionTransactions::default(), Vec::new());
        let mut high_watermark = 0;
        for _ in 0..60 {
            let (id, offset) = (rng.i64(0..4), log.len() as i64);
            let producer = Producer { id, epoch: 0 };
            if rng.u32(0..3) > 0 {
                transactions.appended(producer, offset, Some(Stamp::default()));
                log.push(Batch::Data(id));
            } else {
                let aborts = rng.bool();
                let outcome =
                    if aborts { TransactionOutcome::Abort } else { TransactionOutcome::Commit };
                transactions.marked(&end(producer, 0, outcome), offset, None);
                log.push(Batch::Marker(id, outcome));
            }
            high_watermark = rng.i64(high_watermark..=log.len() as i64);
            transactions.high_watermark_is(high_watermark);
            check(&transactions, &log, high_watermark, &mut rng);
            check_saved(&transactions);
        }
    }
}

fn check(
    transactions: &PartitionTransactions,
    log: &[Batch],
    high_watermark: i64,
    rng: &mut fastrand::Rng,
) {
    let all = walk(log);
    let unstable = all.iter().filter(|it| it.2.is_none_or(|(at, _)| at >= high_watermark));
    let stable = unstable.map(|it| it.1).fold(high_watermark, i64::min);
    assert_eq!(transactions.last_stable_offset(high_watermark, 0), stable);
    let from = rng.i64(0..=log.len() as i64);
    let until = rng.i64(from..=log.len() as i64);
    let mut expected: Vec<_> = all
        .iter()
        .filter_map(|(id, first, ended)| match ended {
            Some((last, TransactionOutcome::Abort)) => Some((*id, *first, *last)),
            Some((_, TransactionOutcome::Commit)) | None => None,
        })
        .filter(|(_, first, last)| *last >= from && *first < until)
        .collect();
    expected.sort_by_key(|it| it.2);
    let found = transactions.aborted(from, until);
    let found: Vec<_> = found.map(|it| (it.producer_id, it.first_offset, it.last_offset)).collect();
    assert_eq!(found, expected, "from {from} until {until}");
}

/// A snapshot must have the open and the aborted transactions.
fn check_saved(transactions: &PartitionTransactions) {
    let mut bytes = Vec::new();
    transactions.write_snapshot(|id| 1_000 + id, &mut bytes);
    let Saved { transactions: found, written_at } = Saved::read(&bytes).unwrap();
    let open = |it: &PartitionTransactions| {
        it.open().map(|producer| (producer, it.describe(producer.id))).collect::<Vec<_>>()
    };
    let aborted = |it: &PartitionTransactions| it.aborted(0, i64::MAX).copied().collect::<Vec<_>>();
    assert_eq!((open(&found), aborted(&found)), (open(transactions), aborted(transactions)));
    assert!(written_at.iter().all(|(id, at)| *at == 1_000 + id && found.is_open(*id)));
    assert_eq!(found.is_settled(), bytes.len() == 4);
    for end in 0..bytes.len() {
        let rest = bytes.len() - end;
        assert!(Saved::read(&bytes[..end]).is_err() || rest.is_multiple_of(32), "{end}");
    }
}

#[test]
fn a_verdict_counts_for_the_open_question_and_after_the_last_marker() {
    let (old, new) = (Producer { id: 9, epoch: 3 }, Producer { id: 9, epoch: 4 });
    let mut it = PartitionTransactions::default();
    assert_eq!(it.may_append(old), Append::Ask);
    it.ask(old, 1);
    assert_eq!(it.admit(old, 2, stamp(1)), Err(ErrorCode::InvalidTxnState));
    assert_eq!(it.admit(old, 1, stamp(2)), Ok(()));
    assert_eq!(it.admit(old, 1, stamp(2)), Err(ErrorCode::InvalidTxnState), "it counts once");
    it.appended(old, 0, Some(stamp(2)));
    assert_eq!(it.may_append(old), Append::Now);

    // The marker that ends the transaction has the next epoch. A marker older than the verdict is
    // stale.
    let commit = end(new, 2, TransactionOutcome::Commit);
    assert_eq!(it.may_mark(&commit, Some(stamp(1))), Marking::Stale);
    assert_eq!(it.may_mark(&commit, Some(stamp(3))), Marking::Write);
    it.marked(&commit, 1, Some(stamp(3)));
    assert_eq!(it.may_mark(&commit, Some(stamp(3))), Marking::Stale);
    assert_eq!(it.may_append(old), Append::Refuse(ErrorCode::InvalidProducerEpoch));

    // A verdict that is older than the marker allows no append, even if the producer has the new
    // epoch: the question was about the next transaction.
    it.ask(new, 4);
    assert_eq!(it.admit(new, 4, stamp(2)), Err(ErrorCode::InvalidTxnState));
    assert_eq!(it.admit(new, 4, stamp(4)), Ok(()));
    it.appended(new, 2, Some(stamp(4)));
    assert_eq!(it.may_mark(&commit, Some(stamp(5))), Marking::Stale, "the next one is open");
}

#[test]
fn a_question_that_a_later_one_replaces_is_asked_again() {
    let (producer, mut partition) =
        (Producer { id: 7, epoch: 1 }, PartitionTransactions::default());
    partition.ask(producer, 1);
    partition.ask(producer, 2);
    assert_eq!(partition.admit(producer, 1, stamp(1)), Err(ErrorCode::NetworkException));
    assert_eq!(partition.admit(producer, 2, stamp(2)), Ok(()));
}

#[test]
fn a_later_marker_waits_until_it_is_known_how_a_found_transaction_ended() {
    let producer = |epoch| Producer { id: 9, epoch };
    let mut it = PartitionTransactions::default();
    it.appended(producer(4), 0, None);
    let later = end(producer(6), 2, TransactionOutcome::Abort);
    let refused = Marking::Refuse(ErrorCode::ConcurrentTransactions);
    assert_eq!(it.may_mark(&later, Some(stamp(2))), refused);
    for (epoch, version) in [(4, 0), (5, 2)] {
        let own = end(producer(epoch), version, TransactionOutcome::Commit);
        assert_eq!(it.may_mark(&own, Some(stamp(1))), Marking::Write);
    }
    it.marked(&end(producer(4), 0, TransactionOutcome::Commit), 1, Some(stamp(3)));
    assert_eq!(it.may_mark(&later, Some(stamp(4))), Marking::Write);
}

#[test]
fn a_producer_with_an_open_question_does_not_expire() {
    let (producer, mut partition) =
        (Producer { id: 7, epoch: 1 }, PartitionTransactions::default());
    partition.ask(producer, 1);
    partition.forget(producer.id);
    assert_eq!(partition.admit(producer, 1, stamp(1)), Ok(()));
    partition.forget(producer.id);
    assert!(partition.is_empty());
}

#[test]
fn markers_of_administrators_are_checked_as_by_kafka() {
    let producer = Producer { id: 9, epoch: 3 };
    let mut it = PartitionTransactions::default();
    it.appended(producer, 5, Some(Stamp::default()));
    let refused = |error| Marking::Refuse(error);
    let abort = end(producer, 0, TransactionOutcome::Abort);
    let of_epoch = |epoch, version| end(Producer { id: 9, epoch }, version, abort.outcome);
    let invalid = refused(ErrorCode::InvalidProducerEpoch);
    assert_eq!(it.may_mark(&of_epoch(2, 0), None), invalid);
    assert_eq!(it.may_mark(&of_epoch(3, 2), None), invalid);
    assert_eq!(it.may_mark(&of_epoch(4, 2), None), Marking::Write);
    assert_eq!(it.may_mark(&abort, None), Marking::Write);
    it.marked(&End { coordinator_epoch: 7, ..abort }, 6, None);
    let fenced = refused(ErrorCode::TransactionCoordinatorFenced);
    assert_eq!(it.may_mark(&abort, None), fenced);
    assert_eq!(it.may_mark(&of_epoch(2, 0), None), invalid, "the epoch counts first");
    let again = End { coordinator_epoch: 7, version: 2, ..abort };
    assert_eq!(it.may_mark(&again, None), Marking::Write, "a retry is written again");
    let aborted =
        Aborted { producer_id: 9, first_offset: 5, last_offset: 6, last_stable_offset: 7 };
    assert_eq!(it.aborted(6, 7).collect::<Vec<_>>(), [&aborted]);
    it.log_starts_at(7);
    assert_eq!(it.aborted(0, 9).count(), 0);
}
