//! The rewrite of a log from toy machines, on a disk in memory.

#![allow(clippy::unwrap_used)]

mod toys;

use muster_codec::record_batch::Producer;
use muster_runtime::{Load, LogNews, Rewrite, RewriteConfig, Runtime, Turn};
use muster_storage::RecoveredBatch;
use muster_storage::shard_log::recovery::segment_files;
use std::collections::BTreeMap;
use std::path::Path;
use test_disk::Disk;
use toys::{DIRECTORY, Toys, record, runtime, small_log};

const PRODUCER: Producer = Producer { id: 7, epoch: 0 };

struct World {
    runtime: Runtime,
    rewrite: Rewrite,
    disk: Disk,
    toys: Toys,
    now: i64,
    /// The number of times that a snapshot was due.
    due: u32,
}

/// For each partition: the sum and its number of records, and the tally and its pending amounts.
type State = Vec<(i64, i64, i64, BTreeMap<i64, i64>)>;

impl World {
    fn new() -> Self {
        let rewrite = RewriteConfig {
            shard: 0,
            place_of: |path, now| Path::new("trash").join(format!("{now}")).join(path),
        };
        let mut world = Self {
            runtime: runtime(small_log()),
            rewrite: Rewrite::new(rewrite),
            disk: Disk::default(),
            toys: Toys::new(),
            now: 0,
            due: 0,
        };
        world.turn();
        for index in [1, 5, 40] {
            for amount in [3, 4] {
                world.add(index, amount);
            }
            let Self { runtime, toys: Toys { tallies, .. }, now, .. } = &mut world;
            let operation = [record(index as usize)];
            let operations = [&operation[..]];
            runtime.append_in_transaction(tallies, index, *now, PRODUCER, operations).unwrap();
            world.turn();
        }
        world
    }

    fn add(&mut self, index: u32, amount: usize) {
        let Self { runtime, toys: Toys { sums, tallies, .. }, now, .. } = self;
        runtime.append(sums, index, *now, [&[record(amount)][..]]).unwrap();
        runtime.append(tallies, index, *now, [&[record(amount)][..]]).unwrap();
    }

    fn turn(&mut self) {
        self.now += 1;
        let (turn, mut ops) = (Turn { now: self.now, is_stopping: false }, Vec::new());
        let Self { runtime, rewrite, toys, disk, now, due } = self;
        *due += u32::from(rewrite.turn(runtime, toys, turn));
        if let Some(news) = runtime.poll(*now, &mut ops) {
            let LogNews::Rewritten(position) = news else { panic!("{news:?}") };
            rewrite.ended(position);
        }
        for done in disk.perform_all(ops) {
            runtime.done(done);
        }
    }

    fn state(&self) -> State {
        state(&self.toys)
    }

    /// The state that the files of the log make.
    fn loaded(&self) -> State {
        let (mut load, files) = (Load::new(Toys::new()), self.disk.dir(Path::new(DIRECTORY)));
        let mut recovery = load.recovery();
        for (sequence, name) in segment_files(files.keys().cloned()) {
            let replay = |found: RecoveredBatch<'_>| load.replay(found).unwrap();
            recovery.segment(sequence, files[&name], replay).unwrap();
        }
        state(&load.topics)
    }
}

fn state(Toys { sums, tallies, .. }: &Toys) -> State {
    let both = sums.machines().zip(tallies.machines());
    both.map(|(sum, tally)| (sum.sum, sum.records, tally.sum, tally.pending.clone())).collect()
}

#[test]
fn a_log_is_rewritten_from_its_machines() {
    let mut world = World::new();
    assert_eq!(world.loaded(), world.state());
    world.rewrite.begin("a bit is wrong");
    // The old log has no record for this change of the state. So if a load finds it, the rewrite
    // has written it.
    world.toys.sums.on(7, |sum, _| (sum.sum, sum.records) = (2, 1));
    let mut turns = 0;
    while world.rewrite.is_under_way() {
        world.turn();
        turns += 1;
        assert!(turns < 100, "the rewrite does not end");
    }
    assert_eq!(world.due, 1);
    assert_eq!(world.loaded(), world.state());
    let counters = *world.rewrite.counters();
    assert_eq!((counters.damage_found, counters.rewritten, counters.damaged), (1, 1, 0));
    let kept = world.disk.live.keys().filter(|path| path.starts_with("trash"));
    assert_eq!(kept.count(), 1);
    world.add(5, 6);
    world.turn();
    assert_eq!(world.loaded(), world.state());
}

#[test]
fn a_rewrite_ends_if_a_part_of_the_state_is_damaged() {
    let mut world = World::new();
    world.toys.sums.of(5).is_found_damaged.set(true);
    world.rewrite.begin("a bit is wrong");
    (0..20).for_each(|_| world.turn());
    assert!(!world.rewrite.is_under_way());
    let counters = *world.rewrite.counters();
    assert_eq!((counters.rewritten, counters.damaged), (0, 1));
    let trouble = world.rewrite.trouble().unwrap();
    assert!(trouble.contains("could not be rewritten"), "{trouble}");
}
