//! Stories of share partitions: changes that are written late, dead letters, and cases in which
//! Kafka is wrong.

#![allow(clippy::unwrap_used)]

use muster_codec::{ErrorCode, Uuid, Wall};
use muster_fairness::Address;
use muster_shares::partition::{
    AbortedTransaction, Acknowledgement, AcquireMode, AcquiredRange, Cause, Change, Fetched,
    Letter, LogBatch, ReadBatch, Wanted, aborted_ranges, are_well_formed,
};
use muster_shares::state::{Initialize, Topics, Write};
use muster_shares::{
    OpenPartitions, RecordState, Settings, SharePartition, SharePartitionKey, StateBatch, States,
};

struct OneTopic;

impl Topics for OneTopic {
    fn has(&self, _: Uuid, _: i32) -> bool {
        true
    }
}

const SETTINGS: Settings = Settings {
    record_lock_duration_ms: 1_000,
    delivery_count_limit: 2,
    partition_max_record_locks: 20,
    renew_acknowledge_enable: true,
    has_dead_letters: false,
};

fn key() -> SharePartitionKey {
    SharePartitionKey::new("g", Uuid([1; 16]), 0)
}

fn initialized(start_offset: i64) -> States {
    let mut states = States::new(500);
    initialize(&mut states, 1, start_offset).unwrap();
    states
}

fn initialize(states: &mut States, state_epoch: i32, start_offset: i64) -> Result<bool, ErrorCode> {
    let request = Initialize { state_epoch, start_offset };
    let record = states.initialize(&key(), request, &OneTopic, Wall(0)).map_err(|it| it.error)?;
    record.iter().for_each(|it| states.replay(it));
    Ok(record.is_some())
}

fn write(
    states: &mut States,
    state_epoch: i32,
    start_offset: i64,
    count: i32,
) -> Option<ErrorCode> {
    let write = Write {
        leader_epoch: 0,
        state_epoch,
        start_offset,
        delivery_complete_count: count,
        batches: &[],
    };
    match states.write(&key(), &write, &OneTopic, Wall(0)) {
        Ok(record) => states.replay(&record),
        Err(refusal) => return Some(refusal.error),
    }
    None
}

fn opened(states: &States) -> SharePartition {
    SharePartition::open(states.get(&key()).unwrap(), 0).unwrap()
}

fn batch(base: i64, last: i64) -> LogBatch {
    LogBatch { base, last }
}

fn acquire(
    partition: &mut SharePartition,
    member: &str,
    batches: &[LogBatch],
    aborted: &[LogBatch],
    now: i64,
) -> Vec<(i64, i64, i16)> {
    let offset = partition.next_fetch_offset();
    let mode = AcquireMode::BatchOptimized;
    let wanted = Wanted { member, mode, max_records: 500, batch_size: 500 };
    let fetched = Fetched { offset, batches, aborted };
    let acquired = partition.acquire(&wanted, &fetched, &SETTINGS, now);
    acquired
        .into_iter()
        .map(|AcquiredRange { first, last, delivery_count }| (first, last, delivery_count))
        .collect()
}

fn acknowledge(partition: &mut SharePartition, member: &str, first: i64, last: i64, kind: i8) {
    let given = Acknowledgement { first, last, types: &[kind] };
    assert_eq!(partition.acknowledge(member, &[given], &SETTINGS, 0), Ok(true));
}

/// Two changes of a share partition are taken, and their records have the same position. The second
/// record has only the second change.
#[test]
fn two_changes_in_one_block_are_in_one_record_each() {
    let (key, log) = (key(), 3);
    let mut open = OpenPartitions::default();
    open.insert(key.clone(), log, opened(&initialized(0)), Address::of("h"));
    open.on(&key, |it| acquire(it, "a", &[batch(0, 9)], &[], 0));
    for (first, last) in [(0, 4), (5, 9)] {
        open.on(&key, |it| acknowledge(it, "a", first, last, 1));
        let change = open.take_change(&key).unwrap();
        let state = StateBatch { first, last, delivery_count: 1, delivery_state: 2 };
        assert_eq!(change.batches, [state]);
        open.written(&key, log, 7);
    }
    assert_eq!(open.flushed(log, 6), []);
    assert_eq!((open.flushed(log, 7), open.is_unflushed(&key, log)), (vec![key.clone()], false));
    assert_eq!(open.get(&key).unwrap().start_offset(), 10);
}

#[test]
fn a_released_record_is_given_out_again_once_its_record_is_flushed() {
    let mut partition = opened(&initialized(0));
    assert_eq!(acquire(&mut partition, "a", &[batch(0, 9)], &[], 0), [(0, 9, 1)]);
    acknowledge(&mut partition, "a", 0, 4, 1);
    acknowledge(&mut partition, "a", 5, 9, 2);
    assert_eq!(acquire(&mut partition, "b", &[batch(0, 9)], &[], 0), []);
    let change = partition.take_change(7).unwrap();
    let state =
        |first, last, delivery_state| StateBatch { first, last, delivery_count: 1, delivery_state };
    assert_eq!((change.start_offset, change.delivery_complete_count), (0, 5));
    assert_eq!(change.batches, [state(0, 4, 2), state(5, 9, 0)]);
    assert_eq!(partition.take_change(8), None);
    assert!(!partition.flushed(6));
    assert_eq!((partition.start_offset(), partition.next_fetch_offset()), (0, 10));
    assert!(partition.flushed(7));
    assert_eq!((partition.start_offset(), partition.next_fetch_offset()), (5, 5));
    assert_eq!(acquire(&mut partition, "b", &[batch(0, 9)], &[], 0), [(5, 9, 2)]);
}

/// Acknowledges records of a group with a dead letter queue, and flushes the change.
fn flushed_acknowledgement(partition: &mut SharePartition, given: (i64, i64, i8), position: u64) {
    let (first, last, kind) = given;
    let settings = Settings { has_dead_letters: true, ..SETTINGS };
    let given = Acknowledgement { first, last, types: &[kind] };
    assert_eq!(partition.acknowledge("a", &[given], &settings, 0), Ok(true));
    assert!(partition.take_change(position).is_some() && partition.flushed(position));
}

#[test]
fn a_rejected_record_is_archived_in_two_records_with_its_letter_between() {
    let settings = Settings { has_dead_letters: true, ..SETTINGS };
    let mut partition = opened(&initialized(0));
    acquire(&mut partition, "a", &[batch(0, 9)], &[], 0);
    let given = Acknowledgement { first: 0, last: 4, types: &[3] };
    assert_eq!(partition.acknowledge("a", &[given], &settings, 0), Ok(true));
    let state =
        |first, last, delivery_state| StateBatch { first, last, delivery_count: 1, delivery_state };
    let change = partition.take_change(1).unwrap();
    assert_eq!((change.start_offset, change.delivery_complete_count), (0, 0));
    assert_eq!(change.batches, [state(0, 4, 3)]);
    assert_eq!(partition.take_letters(&settings), [], "not before the record is flushed");
    partition.flushed(1);
    let letter = Letter { first: 0, last: 4, delivery_count: 1, cause: Cause::Rejected };
    assert_eq!(partition.take_letters(&settings), [letter]);
    assert_eq!(partition.take_letters(&settings), [], "once");
    assert_eq!((partition.start_offset(), partition.take_change(2)), (0, None));
    partition.letter_ended(0, 2);
    let change = partition.take_change(2).unwrap();
    assert_eq!((change.start_offset, change.delivery_complete_count), (0, 3));
    assert_eq!(change.batches, [state(0, 2, 4)]);
    partition.flushed(2);
    assert_eq!((partition.start_offset(), partition.awaits_letters()), (3, true));
    partition.letter_ended(3, 4);
    assert_eq!(partition.take_change(3).unwrap().batches, [state(3, 4, 4)]);
    partition.flushed(3);
    assert_eq!((partition.start_offset(), partition.awaits_letters()), (5, false));
}

#[test]
fn a_record_at_the_delivery_limit_has_a_letter_however_it_is_lost() {
    let settings = Settings { has_dead_letters: true, ..SETTINGS };
    let mut partition = opened(&initialized(0));
    for (position, kind) in [(1, 2), (2, 2)] {
        acquire(&mut partition, "a", &[batch(0, 0)], &[], 0);
        flushed_acknowledgement(&mut partition, (0, 0, kind), position);
    }
    let spent = |at| Letter { first: at, last: at, delivery_count: 2, cause: Cause::DeliveryLimit };
    assert_eq!(partition.take_letters(&settings), [spent(0)]);
    for now in [0, 1_000] {
        acquire(&mut partition, "a", &[batch(1, 1)], &[], now);
        assert!(partition.expire(now + 1_000, &settings));
        partition.take_change(3);
        partition.flushed(3);
    }
    assert_eq!(partition.take_letters(&settings), [spent(1)]);
    for member in ["a", "b"] {
        acquire(&mut partition, member, &[batch(2, 2)], &[], 0);
        assert!(partition.release(member, &settings));
        partition.take_change(4);
        partition.flushed(4);
    }
    assert_eq!(partition.take_letters(&settings), [spent(2)]);
    // The record has also reached the delivery limit, but the cause is the rejection.
    acquire(&mut partition, "a", &[batch(3, 3)], &[], 0);
    flushed_acknowledgement(&mut partition, (3, 3, 2), 5);
    acquire(&mut partition, "a", &[batch(3, 3)], &[], 0);
    flushed_acknowledgement(&mut partition, (3, 3, 3), 6);
    assert_eq!(partition.take_letters(&settings), [Letter { cause: Cause::Rejected, ..spent(3) }]);
}

#[test]
fn a_gap_has_no_letter() {
    let mut partition = opened(&initialized(0));
    acquire(&mut partition, "a", &[batch(0, 4)], &[], 0);
    flushed_acknowledgement(&mut partition, (0, 4, 0), 1);
    assert_eq!((partition.start_offset(), partition.has_letters()), (5, false));
}

#[test]
fn a_share_partition_that_is_opened_has_the_letters_of_what_is_archiving() {
    let mut states = initialized(0);
    let state =
        |first, last, delivery_count| StateBatch { first, last, delivery_count, delivery_state: 3 };
    let change = Change {
        start_offset: 0,
        delivery_complete_count: 0,
        batches: vec![state(0, 4, 1), state(5, 9, 2)],
    };
    let record = states.change(&key(), &change.as_write(), Wall(0)).unwrap();
    states.replay(&record);
    let mut partition = opened(&states);
    assert_eq!(acquire(&mut partition, "a", &[batch(0, 9)], &[], 0), []);
    // The present configs do not matter.
    let letter = |first, last, delivery_count, cause| Letter { first, last, delivery_count, cause };
    let expected = [letter(0, 4, 1, Cause::Rejected), letter(5, 9, 2, Cause::DeliveryLimit)];
    assert_eq!(partition.take_letters(&SETTINGS), expected);
}

#[test]
fn locks_that_end_together_are_one_change() {
    let mut partition = opened(&initialized(0));
    acquire(&mut partition, "a", &[batch(0, 4)], &[], 0);
    acquire(&mut partition, "b", &[batch(5, 9)], &[], 500);
    assert_eq!(partition.next_deadline(), Some(1_000));
    assert!(!partition.expire(999, &SETTINGS));
    assert!(partition.expire(1_000, &SETTINGS));
    assert_eq!(partition.next_deadline(), Some(1_500));
    assert!(partition.expire(2_000, &SETTINGS));
    assert_eq!(partition.next_deadline(), None);
    let change = partition.take_change(1).unwrap();
    assert_eq!(
        change.batches.iter().map(|it| (it.first, it.last)).collect::<Vec<_>>(),
        [(0, 4), (5, 9)]
    );
}

#[test]
fn the_first_error_undoes_all() {
    let mut partition = opened(&initialized(0));
    acquire(&mut partition, "a", &[batch(0, 9)], &[], 0);
    let given = [
        Acknowledgement { first: 0, last: 3, types: &[1, 2, 3, 0] },
        Acknowledgement { first: 4, last: 12, types: &[1] },
    ];
    assert!(are_well_formed(&given, false));
    let refused = partition.acknowledge("a", &given, &SETTINGS, 0).unwrap_err();
    assert_eq!(refused.error(), ErrorCode::InvalidRequest);
    assert!(partition.in_flight().all(|it| it.state == RecordState::Acquired && !it.is_changing));
    assert_eq!(partition.take_change(1), None);
    let of_other = Acknowledgement { first: 0, last: 9, types: &[1] };
    let refused = partition.acknowledge("b", &[of_other], &SETTINGS, 0).unwrap_err();
    assert_eq!(refused.error(), ErrorCode::InvalidRecordState);
}

#[test]
fn malformed_acknowledgements_are_found() {
    let given = |first, last, types| Acknowledgement { first, last, types };
    assert!(are_well_formed(&[given(0, 3, &[1]), given(3, 4, &[0, 3])], false));
    assert!(are_well_formed(&[given(0, 3, &[4])], true));
    for wrong in [
        given(0, 3, &[4]),
        given(0, 3, &[-1]),
        given(0, 3, &[]),
        given(0, 3, &[1, 1]),
        given(3, 2, &[1]),
        given(i64::MIN, i64::MAX, &[1]),
    ] {
        assert!(!are_well_formed(&[wrong], false), "{wrong:?}");
    }
    assert!(!are_well_formed(&[given(4, 9, &[1]), given(0, 3, &[1])], false));
    assert!(!are_well_formed(&[given(-2, 3, &[1])], false));
}

/// Kafka 4.3 fails the whole fetch, and the records of all its partitions stay acquired.
#[test]
fn an_aborted_batch_before_the_start_fails_no_fetch_and_uses_up_no_delivery() {
    let mut partition = opened(&initialized(5));
    let read = |base, last, producer_id, is_abort_marker| ReadBatch {
        bounds: batch(base, last),
        producer_id: Some(producer_id),
        is_transactional: producer_id == 1,
        is_abort_marker,
    };
    let read = [read(0, 9, 1, false), read(10, 10, 1, true), read(11, 19, 2, false)];
    let aborted = aborted_ranges(&read, &[AbortedTransaction { producer_id: 1, first_offset: 0 }]);
    assert_eq!(aborted, [batch(0, 9)]);
    let bounds = read.map(|it| it.bounds);
    assert_eq!(acquire(&mut partition, "a", &bounds, &aborted, 0), [(10, 19, 1)]);
    let states: Vec<_> =
        partition.in_flight().map(|it| (it.first, it.last, it.state, it.delivery_count)).collect();
    assert_eq!(states, [(5, 9, RecordState::Archived, 1), (10, 19, RecordState::Acquired, 1)]);
}

/// In Kafka, aborted records count as lag until the group's next change.
#[test]
fn the_next_record_counts_aborted_records_as_done() {
    let mut partition = opened(&initialized(0));
    let aborted = [batch(0, 9)];
    assert_eq!(acquire(&mut partition, "a", &aborted, &aborted, 0), []);
    let change = partition.take_change(1).unwrap();
    let counted = Change { start_offset: 0, delivery_complete_count: 10, batches: vec![] };
    assert_eq!(change, counted);
}

/// Kafka 4.3 moves the start offset only after it has written a change. Here there is no change to
/// write.
#[test]
fn a_share_partition_full_of_aborted_records_is_not_stuck() {
    let mut partition = opened(&initialized(0));
    let aborted = [batch(0, 9), batch(10, 24)];
    assert_eq!(acquire(&mut partition, "a", &aborted, &aborted, 0), []);
    assert_eq!(partition.in_flight_count(), 25);
    assert!(partition.can_acquire(&SETTINGS));
    assert_eq!((partition.start_offset(), partition.next_fetch_offset()), (25, 25));
    assert_eq!(acquire(&mut partition, "a", &[batch(25, 29)], &[], 0), [(25, 29, 1)]);
}

/// A state with a hole: records that were never acknowledged precede acknowledged records.
fn opened_with_hole() -> SharePartition {
    let mut states = initialized(0);
    let done = StateBatch { first: 5, last: 9, delivery_count: 1, delivery_state: 2 };
    let change = Write {
        leader_epoch: -1,
        state_epoch: -1,
        start_offset: 0,
        delivery_complete_count: 5,
        batches: &[done],
    };
    let record = states.change(&key(), &change, Wall(0)).unwrap();
    states.replay(&record);
    opened(&states)
}

#[test]
fn records_of_a_hole_are_acquired() {
    let mut partition = opened_with_hole();
    assert_eq!(partition.next_fetch_offset(), 0);
    assert_eq!(acquire(&mut partition, "a", &[batch(0, 9)], &[], 0), [(0, 4, 1)]);
    assert_eq!(partition.next_fetch_offset(), 10);
}

/// Kafka 4.3 reads the hole for ever, and its start offset stays there.
#[test]
fn a_hole_that_was_compacted_away_is_left_out() {
    let mut partition = opened_with_hole();
    assert_eq!(acquire(&mut partition, "a", &[batch(5, 9)], &[], 0), []);
    assert_eq!(partition.next_fetch_offset(), 10);
    assert_eq!(acquire(&mut partition, "a", &[batch(10, 14)], &[], 0), [(10, 14, 1)]);
    acknowledge(&mut partition, "a", 10, 14, 1);
    assert!(partition.take_change(1).is_some() && partition.flushed(1));
    assert_eq!(partition.start_offset(), 15);
}

#[test]
fn the_next_record_counts_no_hole_that_was_compacted_away() {
    let mut partition = opened_with_hole();
    assert_eq!(acquire(&mut partition, "a", &[batch(5, 9)], &[], 0), []);
    let counted = Change { start_offset: 10, delivery_complete_count: 0, batches: vec![] };
    assert_eq!(partition.take_change(1), Some(counted));
}

#[test]
fn the_next_record_counts_records_that_were_compacted_away_as_done() {
    let mut partition = opened(&initialized(0));
    assert_eq!(acquire(&mut partition, "a", &[batch(0, 4)], &[], 0), [(0, 4, 1)]);
    acknowledge(&mut partition, "a", 0, 4, 2);
    assert!(partition.take_change(1).is_some() && partition.flushed(1));
    assert_eq!(acquire(&mut partition, "a", &[batch(5, 9)], &[], 0), [(5, 9, 1)]);
    let counted = Change { start_offset: 0, delivery_complete_count: 5, batches: vec![] };
    assert_eq!(partition.take_change(2), Some(counted));
}

#[test]
fn offsets_without_records_count_as_done() {
    let mut partition = opened(&initialized(0));
    assert_eq!(acquire(&mut partition, "a", &[batch(2, 4)], &[], 0), [(2, 4, 1)]);
    assert_eq!(acquire(&mut partition, "a", &[batch(7, 9)], &[], 0), [(7, 9, 1)]);
    acknowledge(&mut partition, "a", 7, 9, 1);
    let change = partition.take_change(1).unwrap();
    assert_eq!((change.start_offset, change.delivery_complete_count), (2, 5), "5 to 9");
}

#[test]
fn offsets_of_a_hole_that_is_not_read_yet_do_not_count_as_done() {
    let mut partition = opened_with_hole();
    assert_eq!(acquire(&mut partition, "a", &[batch(0, 1)], &[], 0), [(0, 1, 1)]);
    acknowledge(&mut partition, "a", 0, 1, 1);
    let change = partition.take_change(1).unwrap();
    assert_eq!((change.start_offset, change.delivery_complete_count), (0, 7), "not 2 to 4");
}

#[test]
fn a_member_holds_what_it_acquires_where_all_before_was_compacted_away() {
    let mut partition = opened_with_hole();
    assert_eq!(acquire(&mut partition, "a", &[batch(10, 14)], &[], 0), [(10, 14, 1)]);
    assert!(partition.in_flight().all(|it| it.member == Some("a")));
    acknowledge(&mut partition, "a", 10, 14, 1);
}

#[test]
fn nothing_before_the_start_is_acquired_although_older_batches_are_in_flight() {
    let mut partition = opened(&initialized(0));
    assert_eq!(acquire(&mut partition, "a", &[batch(0, 2)], &[], 0), [(0, 2, 1)]);
    partition.log_starts_at(6);
    assert_eq!(acquire(&mut partition, "b", &[batch(4, 9)], &[], 0), [(6, 9, 1)]);
    assert_eq!(partition.next_fetch_offset(), 10);
}

/// Kafka 4.3 fetches at the hole for ever, although the offset is out of range.
#[test]
fn a_hole_before_the_logs_start_is_left_out() {
    let mut partition = opened_with_hole();
    partition.log_starts_at(7);
    assert_eq!((partition.start_offset(), partition.next_fetch_offset()), (7, 10));
}

/// The new start has to be in a record even if the group makes no further change. See also
/// [`the_next_record_counts_records_that_were_compacted_away_as_done`].
#[test]
fn the_next_record_has_the_logs_start() {
    let mut partition = opened(&initialized(0));
    partition.log_starts_at(3);
    let moved = Change { start_offset: 3, delivery_complete_count: 0, batches: vec![] };
    assert_eq!(partition.take_change(1), Some(moved));
    partition.log_starts_at(3);
    assert_eq!(partition.take_change(2), None, "it has not moved again");
}

#[test]
fn start_offsets_never_go_back() {
    let mut states = initialized(0);
    assert_eq!(write(&mut states, 1, 10, 3), None);
    assert_eq!(write(&mut states, 1, 7, 9), None);
    let state = |states: &States| {
        let state = states.get(&key()).unwrap();
        (state.start_offset, state.delivery_complete_count)
    };
    assert_eq!(state(&states), (10, 3));
    assert_eq!(write(&mut states, 1, 10, 2), None);
    assert_eq!(state(&states), (10, 3));
    assert_eq!(write(&mut states, 1, 12, 0), None);
    assert_eq!(state(&states), (12, 0));
}

#[test]
fn altered_offsets_have_a_greater_state_epoch_that_fences_the_older() {
    let mut states = initialized(0);
    assert_eq!(write(&mut states, 1, 10, 0), None);
    assert_eq!(initialize(&mut states, 2, 3), Ok(true));
    assert_eq!(states.get(&key()).unwrap().start_offset, 3);
    assert_eq!(write(&mut states, 1, 20, 0), Some(ErrorCode::FencedStateEpoch));
    assert_eq!(initialize(&mut states, 2, 3), Ok(false), "a repetition changes nothing");
    assert_eq!(initialize(&mut states, 1, 0), Err(ErrorCode::FencedStateEpoch));
}

#[test]
fn an_address_leaves_an_eighth_of_the_open_share_partitions_to_others() {
    let (states, mut open) = (initialized(0), OpenPartitions::default());
    let fill = |open: &mut OpenPartitions, host: &str| {
        let address = Address::of(host);
        let opened_all = (0..100).take_while(|partition| {
            let is_admitted = open.admit(address, 80).is_ok();
            if is_admitted {
                let key = SharePartitionKey::new(host, Uuid([1; 16]), *partition);
                open.insert(key, 0, opened(&states), address);
            }
            is_admitted
        });
        opened_all.count()
    };
    assert_eq!(fill(&mut open, "/127.0.0.2"), 70);
    assert_eq!(fill(&mut open, "/127.0.0.1"), 5);
    for key in open.of_group("/127.0.0.2") {
        open.remove(&key);
    }
    assert_eq!(fill(&mut open, "/127.0.0.1"), 70, "five of them are opened again");
    assert_eq!(open.len(), 70);
}
