//! Idempotent producers: rows of (epoch, sequence, records) with the result of each row, by the
//! rules of Kafka's `ProducerStateManager`.

use super::support::*;
use muster_codec::ErrorCode;

use Expected::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    /// The batch has this offset: it was appended now, or was found because it had been appended
    /// before.
    At(i64),
    Error(ErrorCode),
}

const OUT_OF_ORDER: Expected = Error(ErrorCode::OutOfOrderSequenceNumber);
const FENCED: Expected = Error(ErrorCode::InvalidProducerEpoch);

fn send(
    world: &mut World,
    producer: i64,
    (epoch, sequence, records): (i16, i32, usize),
) -> Expected {
    let answer = world.produce(0, &sequenced(records, producer, epoch, sequence));
    match error(answer.error_code) {
        ErrorCode::None => At(answer.base_offset),
        other => Error(other),
    }
}

fn story(rows: &[((i16, i32, usize), Expected)]) -> World {
    let mut world = World::new();
    for (at, (row, expected)) in rows.iter().enumerate() {
        assert_eq!(send(&mut world, 7, *row), *expected, "row {at}: {row:?}");
    }
    world
}

#[test]
fn sequences_continue_without_gaps() {
    story(&[
        ((0, 0, 2), At(0)),
        ((0, 2, 3), At(2)),
        ((0, 5, 1), At(5)),
        ((0, 7, 1), OUT_OF_ORDER),
        ((0, 6, 1), At(6)),
    ]);
}

#[test]
fn the_last_five_batches_are_known_again() {
    let mut world = story(&[
        ((0, 0, 1), At(0)),
        ((0, 1, 1), At(1)),
        ((0, 2, 2), At(2)),
        ((0, 4, 1), At(4)),
        ((0, 5, 1), At(5)),
        ((0, 6, 1), At(6)),
        ((0, 6, 1), At(6)),
        ((0, 2, 2), At(2)),
        ((0, 1, 1), At(1)),
        ((0, 0, 1), OUT_OF_ORDER),
        ((0, 2, 1), OUT_OF_ORDER),
        ((0, 5, 2), OUT_OF_ORDER),
    ]);
    assert_eq!(world.fetch(0, 0).high_watermark, 7);
}

#[test]
fn an_unknown_producer_begins_where_it_likes() {
    story(&[((3, 41, 1), At(0)), ((3, 42, 1), At(1)), ((3, 44, 1), OUT_OF_ORDER)]);
}

#[test]
fn a_new_epoch_begins_at_zero_and_fences_the_old_one() {
    story(&[
        ((1, 0, 1), At(0)),
        ((2, 1, 1), OUT_OF_ORDER),
        ((2, 0, 1), At(1)),
        ((1, 1, 1), FENCED),
        ((1, 0, 1), FENCED),
        ((2, 0, 1), At(1)),
        ((2, 1, 1), At(2)),
    ]);
}

#[test]
fn sequences_wrap() {
    story(&[
        ((0, i32::MAX - 1, 1), At(0)),
        ((0, i32::MAX, 3), At(1)),
        ((0, i32::MAX, 3), At(1)),
        ((0, 2, 1), At(4)),
        ((0, 0, 1), OUT_OF_ORDER),
    ]);
    story(&[((0, i32::MAX, 1), At(0)), ((0, 0, 1), At(1))]);
}

#[test]
fn producers_do_not_disturb_each_other() {
    let mut world = World::new();
    for producer in 0..20 {
        assert_eq!(send(&mut world, producer, (0, 0, 1)), At(producer));
    }
    assert_eq!(send(&mut world, 4, (0, 0, 1)), At(4));
    assert_eq!(send(&mut world, 4, (0, 1, 1)), At(20));
}

#[test]
fn batches_in_flight_count() {
    let mut world = World::new();
    let first = world.start_produce(0, &sequenced(1, 7, 0, 0));
    let second = world.start_produce(0, &sequenced(1, 7, 0, 1));
    let gap = world.start_produce(0, &sequenced(1, 7, 0, 3));
    let again = world.start_produce(0, &sequenced(1, 7, 0, 1));
    assert_eq!(error(world.produced(gap).unwrap().error_code), ErrorCode::OutOfOrderSequenceNumber);
    assert!(world.produced(again).is_none(), "the original is not written yet");
    world.settle();
    assert_eq!(world.produced(first).unwrap().base_offset, 0);
    assert_eq!(world.produced(second).unwrap().base_offset, 1);
    assert_eq!(world.produced(again).unwrap().base_offset, 1);
    assert_eq!(world.fetch(0, 0).high_watermark, 2);
}

#[test]
fn state_is_rebuilt_from_the_log() {
    let mut world = story(&[((0, 0, 2), At(0)), ((0, 2, 1), At(2))]);
    world.reopen();
    for (row, expected) in
        [((0, 2, 1), At(2)), ((0, 0, 2), At(0)), ((0, 4, 1), OUT_OF_ORDER), ((0, 3, 1), At(3))]
    {
        assert_eq!(send(&mut world, 7, row), expected, "{row:?}");
    }
}

#[test]
fn an_idle_producer_is_forgotten() {
    let mut world = World::new();
    world.config.producer_id_expiration_ms = 1_000_000;
    world.set("retention.ms", "-1");
    assert_eq!(send(&mut world, 7, (0, 0, 1)), At(0));
    world.pass(600_000);
    assert_eq!(send(&mut world, 7, (0, 2, 1)), OUT_OF_ORDER);
    world.pass(400_000);
    assert_eq!(send(&mut world, 7, (0, 2, 1)), At(1));
}

#[test]
fn a_refused_batch_leaves_no_trace() {
    let mut world = World::new();
    let late = patch(timed_batch(&[NOW + 9_000_000]), 43, &sequenced(1, 7, 0, 0)[43..57]);
    assert_eq!(error(world.produce(0, &late).error_code), ErrorCode::InvalidTimestamp);
    assert_eq!(send(&mut world, 7, (0, 5, 1)), At(0));
}
