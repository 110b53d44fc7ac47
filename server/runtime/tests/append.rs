//! Operations that the runtime appends, with toy machines on a disk in memory.

#![allow(clippy::unwrap_used)]

mod toys;

use muster_codec::Wall;
use muster_codec::record_batch::{EndTxnMarker, Producer, TransactionOutcome};
use muster_counters::Walk;
use muster_runtime::{Machine, Runtime, Slots, Topic};
use muster_storage::shard_log::recovery::segment_files;
use muster_storage::{AppendError, LogConfig, LogPartition, LogSlot, Recovery};
use std::path::Path;
use test_disk::Disk;
use toys::{DIRECTORY, Sum, TOPICS, Tally, record, runtime, small_log};

const NOW: i64 = 1_000;

const PRODUCER: Producer = Producer { id: 7, epoch: 0 };

struct World {
    runtime: Runtime,
    disk: Disk,
    sums: Slots<Sum>,
    tallies: Slots<Tally>,
}

impl World {
    fn new() -> Self {
        let config = LogConfig { slots: 10, ..small_log() };
        let (sums, tallies) = machines();
        let runtime = runtime(config);
        let mut world = Self { runtime, disk: Disk::default(), sums, tallies };
        world.flush();
        world
    }

    /// Makes all appended operations durable.
    fn flush(&mut self) {
        loop {
            let mut ops = Vec::new();
            assert_eq!(self.runtime.poll(NOW, &mut ops), None);
            if ops.is_empty() {
                return;
            }
            for done in self.disk.perform_all(ops) {
                self.runtime.done(done);
            }
        }
    }

    /// The machines that a replay of the log produces.
    fn loaded(&self) -> (Slots<Sum>, Slots<Tally>) {
        let (mut sums, mut tallies) = machines();
        let files = self.disk.dir(Path::new(DIRECTORY));
        let mut recovery = Recovery::new(TOPICS);
        for (sequence, name) in segment_files(files.keys().cloned()) {
            let replay = |found: muster_storage::RecoveredBatch<'_>| {
                let LogPartition { topic, index } = found.partition;
                let replayed = if topic == Sum::RULE.number {
                    sums.replay(index, &found.batch, found.position)
                } else {
                    tallies.replay(index, &found.batch, found.position)
                };
                assert_eq!(replayed, Some(Ok(true)));
            };
            recovery.segment(sequence, files[&name], replay).unwrap();
        }
        (sums, tallies)
    }

    fn number(&self, name: &str) -> u64 {
        let mut found = 0;
        self.runtime.counters().walk(&mut |metric, _, value| {
            if metric.name == name {
                found = match value {
                    muster_counters::Value::Number(number) => number,
                    muster_counters::Value::Histogram(histogram) => histogram.count(),
                };
            }
        });
        found
    }
}

/// The machines of partitions 1 and 2 of each topic.
fn machines() -> (Slots<Sum>, Slots<Tally>) {
    (Slots::new([1, 2], 0, Sum::default), Slots::new([1, 2], (), Tally::default))
}

#[test]
fn operations_are_applied_at_their_positions_and_found_in_the_log() {
    let mut world = World::new();
    let World { runtime, sums, tallies, .. } = &mut world;
    let operations = [&[record(1), record(2)][..], &[record(3)]];
    assert_eq!(runtime.append(sums, 1, NOW, operations).unwrap(), 1);
    assert_eq!(runtime.append(tallies, 1, NOW, [&[record(9)][..]]).unwrap(), 1);
    assert_eq!(runtime.append(sums, 2, NOW, [&[record(4)][..]]).unwrap(), 1);
    assert_eq!(runtime.append(sums, 1, NOW, []).unwrap(), 1, "that of the last operation");
    assert_eq!((sums.of(1).sum, sums.of(1).applied_at), (6, 1));
    assert_eq!((sums.held(), tallies.held(), *sums.shared()), (10, 9, 3));
    world.flush();
    let (sums, tallies) = world.loaded();
    assert_eq!([1, 2].map(|at| sums.of(at).sum), [6, 4]);
    assert_eq!([1, 2].map(|at| tallies.of(at).sum), [9, 0]);
}

/// The operations of a request may be in two blocks. Their answer waits for the position of the
/// last one, so it must not leave when only the first block is durable.
#[test]
fn two_topics_of_a_slot_have_one_position_for_each_block() {
    let mut world = World::new();
    let World { runtime, disk, sums, tallies } = &mut world;
    let slot = LogSlot::at(1);
    assert_eq!(runtime.append(sums, 1, NOW, [&[record(1)][..]]).unwrap(), 1);
    let (mut last, mut operations) = (1, 0);
    while last == 1 {
        let next = runtime.next_position(slot);
        last = runtime.append(tallies, 1, NOW, [&[record(40); 3][..]]).unwrap();
        assert_eq!(last, next);
        operations += 1;
    }
    assert!(operations > 10, "the first block had room");
    let sum = runtime.append(sums, 1, NOW, [&[record(1)][..]]).unwrap();
    assert_eq!((last, sum, sums.of(1).applied_at), (2, 2, 2));
    for flushed in [1, 2] {
        let mut ops = Vec::new();
        assert_eq!(runtime.poll(NOW, &mut ops), None);
        for done in disk.perform_all(ops) {
            runtime.done(done);
        }
        assert_eq!(runtime.flushed(slot), flushed);
    }
}

#[test]
fn an_operation_that_is_too_large_is_refused_with_those_that_follow() {
    let mut world = World::new();
    let World { runtime, sums, .. } = &mut world;
    let too_large = [record(40); 8];
    let operations = [&[record(1), record(2)][..], &too_large, &[record(4)]];
    let refused = runtime.append(sums, 1, NOW, operations).unwrap_err();
    assert_eq!((refused.error, refused.written), (AppendError::TooLarge, 2));
    assert_eq!(sums.of(1).sum, 3);
    assert_eq!(world.number("log_operations_refused"), 1);
    world.flush();
    assert_eq!(world.loaded().0.of(1).sum, 3);
}

#[test]
fn a_transaction_counts_from_its_marker_on() {
    for (outcome, expected) in [(TransactionOutcome::Commit, 7), (TransactionOutcome::Abort, 2)] {
        let mut world = World::new();
        let World { runtime, tallies, .. } = &mut world;
        let operations = [&[record(5)][..]];
        runtime.append_in_transaction(tallies, 1, NOW, PRODUCER, operations).unwrap();
        runtime.append(tallies, 1, NOW, [&[record(2)][..]]).unwrap();
        assert_eq!((tallies.of(1).sum, &tallies.of(1).pending), (2, &[(7, 5)].into()));
        world.flush();
        assert_eq!(world.loaded().1.of(1), world.tallies.of(1));
        let World { runtime, tallies, .. } = &mut world;
        let marker = EndTxnMarker { outcome, coordinator_epoch: 1 };
        assert_eq!(runtime.append_marker(tallies, 1, NOW, PRODUCER, marker), 2);
        assert_eq!((tallies.of(1).sum, tallies.of(1).pending.len()), (expected, 0));
        world.flush();
        assert_eq!(world.loaded().1.of(1), world.tallies.of(1));
    }
}

#[test]
fn a_record_of_the_state_is_written_again_but_not_applied() {
    let mut world = World::new();
    world.sums.on(2, |sum, _| (sum.sum, sum.records) = (3, 1));
    let World { runtime, sums, .. } = &mut world;
    let has_more = sums.restate(2, &mut None, 10, (runtime.log_mut(), NOW)).unwrap();
    assert_eq!((has_more, sums.of(2).sum), (false, 3));
    world.flush();
    assert_eq!(world.loaded().0.of(2).sum, 3);
}

#[test]
fn the_time_for_which_operations_wait_is_measured_where_they_may() {
    let mut world = World::new();
    let append_both = |world: &mut World, has_lingering: bool| {
        let World { runtime, sums, tallies, .. } = world;
        runtime.append(sums, 1, NOW, [&[record(1)][..]]).unwrap();
        if has_lingering {
            runtime.append(tallies, 1, NOW, [&[record(1)][..]]).unwrap();
        }
        world.flush();
    };
    world.runtime.advance(NOW, Wall(NOW), 5_000);
    append_both(&mut world, false);
    let numbers =
        |world: &World| ["log_flush_micros", "log_linger_micros"].map(|name| world.number(name));
    assert_eq!(numbers(&world), [1, 0]);
    append_both(&mut world, true);
    assert_eq!(numbers(&world), [2, 1]);
}
