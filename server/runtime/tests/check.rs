//! The running check with toy machines on a disk in memory.

#![allow(clippy::unwrap_used)]

mod toys;

use muster_codec::record_batch::{EndTxnMarker, Producer, TransactionOutcome};
use muster_runtime::{CheckConfig, CheckNames, Difference, LogCheck, Runtime, Turn, differences};
use muster_storage::{FileToken, LogPartition};
use std::path::Path;
use test_disk::Disk;
use toys::{DIRECTORY, HEAD_FILE, HeadFile, PARTITIONS, Toys, record, runtime, small_log};

const PRODUCER: Producer = Producer { id: 7, epoch: 0 };

struct World {
    runtime: Runtime,
    check: LogCheck,
    disk: Disk,
    head: HeadFile,
    toys: Toys,
    now: i64,
}

impl World {
    /// A world with records in two partitions of each topic, and a transaction.
    fn new() -> Self {
        let partitions = [0, 1]
            .into_iter()
            .flat_map(|topic| (1..=PARTITIONS).map(move |index| LogPartition { topic, index }));
        let check = CheckConfig {
            shard: 0,
            names: CheckNames {
                token: FileToken(4 << 56),
                file: HEAD_FILE,
                file_token: FileToken(5 << 56),
            },
            bytes_per_second: 1 << 20,
            partitions: partitions.collect(),
            name_of: |LogPartition { topic, index }| format!("partition {index} of topic {topic}"),
        };
        let mut world = Self {
            runtime: runtime(small_log()),
            check: LogCheck::new(check, 0),
            disk: Disk::default(),
            head: HeadFile::default(),
            toys: Toys::new(),
            now: 0,
        };
        world.pass(1);
        for index in [1, 5] {
            world.add(index, 3);
            let Self { runtime, toys: Toys { tallies, .. }, now, .. } = &mut world;
            let operation = [record(5)];
            let appended =
                runtime.append_in_transaction(tallies, index, *now, PRODUCER, [&operation[..]]);
            appended.unwrap();
            world.pass(1);
        }
        world
    }

    fn add(&mut self, index: u32, amount: usize) {
        let Self { runtime, toys: Toys { sums, tallies, .. }, now, .. } = self;
        runtime.append(sums, index, *now, [&[record(amount)][..]]).unwrap();
        runtime.append(tallies, index, *now, [&[record(amount)][..]]).unwrap();
    }

    /// Ends turns until a time has passed.
    fn pass(&mut self, ms: i64) {
        for _ in 0..ms {
            self.now += 1;
            let (turn, mut ops) = (Turn { now: self.now, is_stopping: false }, Vec::new());
            let Self { runtime, check, toys, now, .. } = self;
            assert_eq!(runtime.poll(*now, &mut ops), None);
            check.turn(runtime.log_mut(), toys, turn, &mut ops);
            for op in ops {
                let Some(done) = self.head.perform(&mut self.disk, op) else { continue };
                let Self { runtime, check, now, .. } = self;
                if check.owns(done.token()) {
                    check.done(runtime.log_mut(), *now, done);
                } else {
                    runtime.done(done);
                }
            }
        }
    }

    /// Inverts a bit of the last record in the first segment.
    fn damage(&mut self) {
        let names: Vec<_> = self.disk.dir(Path::new(DIRECTORY)).into_keys().collect();
        let segment = self.disk.live.get_mut(&Path::new(DIRECTORY).join(&names[0])).unwrap();
        let at = segment.windows(5).rposition(|bytes| bytes == b"a key").unwrap();
        segment[at] ^= 1;
    }
}

#[test]
fn states_that_equal_their_log_are_compared_again_and_again() {
    let mut world = World::new();
    world.pass(3_000);
    let before = world.check.counters().compared;
    assert!(before > 2 * 2, "two states of two partitions: {before}");
    let Toys { tallies, .. } = &mut world.toys;
    let marker = EndTxnMarker { outcome: TransactionOutcome::Commit, coordinator_epoch: 0 };
    world.runtime.append_marker(tallies, 5, world.now, PRODUCER, marker);
    world.pass(3_000);
    assert!(world.check.counters().compared > 2 * before);
    let counted = *world.check.counters();
    assert!(counted.file_rounds > 0 && counted.read_bytes > 0, "{counted:?}");
    assert_eq!((world.check.take_found(), world.check.take_damage()), (None, None));
}

#[test]
fn a_state_that_differs_from_its_log_is_found() {
    let mut world = World::new();
    world.pass(2_000);
    world.toys.tallies.on(5, |tally, _| tally.sum = 4);
    world.pass(2_000);
    let found = world.check.take_found().unwrap();
    let words =
        "tally \"sum\" is 0000000000000004, but its records make 0000000000000003 in the log";
    assert!(found.contains(words), "{found}");
    assert_eq!(world.check.take_found(), None);
}

/// Sums have no check copy. The damage may be reported for another partition, because one read may
/// cover records of several partitions.
#[test]
fn records_of_machines_without_a_copy_are_read_too() {
    let mut world = World::new();
    let Toys { sums, .. } = &mut world.toys;
    world.runtime.append(sums, 3, world.now, [&[record(9)][..]]).unwrap();
    world.pass(1);
    world.damage();
    world.pass(3_000);
    assert!(world.check.is_broken());
    let damage = world.check.take_damage().unwrap();
    assert!(damage.starts_with("partition ") && damage.contains(" after offset "), "{damage}");
    world.check.log_rewritten(world.now);
    assert!(!world.check.is_broken());
}

#[test]
fn the_ids_whose_states_differ_between_two_sets_are_named() {
    let (mut one, mut other) = (Toys::new(), Toys::new());
    assert_eq!(differences(&mut one, &mut other), []);
    one.tallies.on(5, |tally, _| tally.sum = 4);
    other.tallies.on(6, |tally, _| tally.pending = [(7, 1)].into());
    other.sums.on(6, |sum, _| sum.sum = 1);
    let of = |index, id: &str| Difference {
        partition: LogPartition { topic: 0, index },
        noun: "tally",
        id: id.into(),
    };
    assert_eq!(differences(&mut one, &mut other), [of(5, "sum"), of(6, "pending")]);
}
