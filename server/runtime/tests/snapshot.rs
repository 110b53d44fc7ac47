//! Snapshots of toy machines on a disk in memory. The snapshot and the part of the log that follows
//! it must load the same state as the whole log, even after a crash at any point.

#![allow(clippy::unwrap_used)]

mod toys;

use muster_codec::record_batch::{Batch, BatchBuilder};
use muster_runtime::{
    Load, LoadedSnapshot, Machine, Runtime, Snapshots, SnapshotsDue, TopicSet, Turn, damaged,
};
use muster_snapshot_index::SnapshotBytes;
use muster_storage::shard_log::recovery::segment_files;
use muster_storage::snapshot::{
    Part, SNAPSHOT_ASIDE_FILE_NAME, SNAPSHOT_FILE_NAME, SNAPSHOT_HEADER_BYTES, SectionRow,
    Snapshot, WriterConfig,
};
use muster_storage::{
    CompactionConfig, FileId, FileOp, FileToken, LogPartition, Recovered, RecoveredBatch,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use test_disk::Disk;
use toys::{DIRECTORY, PARTITIONS, Sum, Toys, record, runtime, small_log};

/// The pause after a snapshot was given up.
const PAUSE_MS: i64 = 10_000;

/// Looks at the disk before an operation.
type Look<'l> = &'l mut dyn FnMut(&Disk, &FileOp);

struct World {
    runtime: Runtime,
    snapshots: Snapshots,
    disk: Disk,
    toys: Toys,
    now: i64,
    is_stopping: bool,
}

/// The states of both topics, by partition. First the sums, each with its number of records; then
/// the tallies, each with its pending amounts.
type State = (Vec<(i64, i64)>, Vec<(i64, BTreeMap<i64, i64>)>);

impl World {
    fn new(growth_bytes_min: u64) -> Self {
        let writer = WriterConfig {
            dir: DIRECTORY.into(),
            file: FileId(1 << 20),
            token: FileToken(0x55 << 56),
        };
        let due = SnapshotsDue { growth_bytes_min, interval_ms: 0 };
        let mut world = Self {
            runtime: runtime(small_log()),
            snapshots: Snapshots::new(due, writer, LoadedSnapshot::default(), 0),
            disk: Disk::default(),
            toys: Toys::new(),
            now: 0,
            is_stopping: false,
        };
        world.turn(&mut |_, _| {});
        world
    }

    /// Ends a turn, and performs its operations one by one.
    fn turn(&mut self, look: Look<'_>) {
        self.now += 1;
        let (turn, mut ops) = (self.end_of_turn(), Vec::new());
        assert_eq!(self.runtime.poll(self.now, &mut ops), None);
        self.snapshots.turn(self.runtime.log_mut(), &mut self.toys, turn, &mut ops);
        while !ops.is_empty() {
            let op = ops.remove(0);
            look(&self.disk, &op);
            let Some(done) = self.disk.perform(op) else { continue };
            if self.snapshots.owns(done.token()) {
                self.snapshots.done(self.runtime.log_mut(), self.now, done, &mut ops);
            } else {
                self.runtime.done(done);
            }
        }
    }

    fn end_of_turn(&self) -> Turn {
        Turn { now: self.now, is_stopping: self.is_stopping }
    }

    /// Ends turns until nothing of a snapshot is left to write. Appends `adds` in each.
    fn write(&mut self, adds: &[(u32, usize)], look: Look<'_>) {
        self.snapshots.want();
        for _ in 0..100 {
            for (index, amount) in adds {
                self.add(*index, *amount);
            }
            self.turn(look);
            if !self.snapshots.has_some_to_write(self.runtime.log(), self.end_of_turn()) {
                return;
            }
        }
        panic!("the snapshot does not end");
    }

    fn add(&mut self, index: u32, amount: usize) {
        let Self { runtime, toys: Toys { sums, tallies, .. }, now, .. } = self;
        runtime.append(sums, index, *now, [&[record(amount)][..]]).unwrap();
        runtime.append(tallies, index, *now, [&[record(amount)][..]]).unwrap();
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::open((*file(&self.disk).unwrap()).as_ref()).unwrap()
    }

    /// The numbers of snapshots that were written and given up.
    fn counted(&self) -> (u64, u64) {
        let counters = self.snapshots.counters();
        (counters.written, counters.given_up)
    }
}

fn file(disk: &Disk) -> Option<SnapshotBytes> {
    Some(Arc::new(disk.live.get(&Path::new(DIRECTORY).join(SNAPSHOT_FILE_NAME))?.clone()))
}

/// The machines with the snapshot, if it is used, and the log after it. Also returns the number of
/// records that the sections had.
fn loaded(disk: &Disk, with_snapshot: bool) -> (State, u64) {
    let file = file(disk).filter(|_| with_snapshot);
    let mut load = match &file {
        Some(file) => Load::with_snapshot(Toys::new(), file).unwrap(),
        None => Load::new(Toys::new()),
    };
    let (mut recovery, mut records) = (load.recovery(), 0);
    let files = disk.dir(Path::new(DIRECTORY));
    for (sequence, name) in segment_files(files.keys().cloned()) {
        let replay = |found: RecoveredBatch<'_>| {
            records += u64::from(found.batch.header.records_count.unsigned_abs());
            load.replay(found).unwrap();
        };
        recovery.segment(sequence, files[&name], replay).unwrap();
    }
    let recovered = recovery.finish();
    assert_eq!(load.refusal(&recovered), None);
    let (newest, last) = (load.snapshot().map_or(0, |it| it.newest), recovered.position());
    assert!(newest <= last, "the log has all that the snapshot has: {newest} of {last}");
    (state(&load.topics), records - load.replayed().records)
}

fn state(Toys { sums, tallies, .. }: &Toys) -> State {
    let sums = sums.machines().map(|it| (it.sum, it.records));
    let tallies = tallies.machines().map(|it| (it.sum, it.pending.clone()));
    (sums.collect(), tallies.collect())
}

fn keys(rows: &[SectionRow]) -> Vec<(u8, u32, u8)> {
    rows.iter().map(SectionRow::key).collect()
}

#[test]
fn sections_are_in_the_order_of_topic_partition_and_section_without_the_empty_ones() {
    let mut world = World::new(u64::MAX);
    world.add(2, 7);
    world.write(&[], &mut |_, _| {});
    let snapshot = world.snapshot();
    assert_eq!(keys(&snapshot.sections), [(0, 2, 0), (1, 2, 0), (1, 2, 1)]);
    world.add(1, 9);
    world.write(&[], &mut |_, _| {});
    let snapshot = world.snapshot();
    let all = [(0, 1, 0), (0, 2, 0), (1, 1, 0), (1, 1, 1), (1, 2, 0), (1, 2, 1)];
    assert_eq!(keys(&snapshot.sections), all);
    let end = world.runtime.log().progress().accepted();
    for row in &snapshot.sections {
        assert_eq!((row.from, row.newest, row.log_end, row.term), (end, end, 1, 0));
    }
    assert_eq!(world.counted(), (2, 0));
    let (found, skipped) = loaded(&world.disk, true);
    assert_eq!((found, skipped), (state(&world.toys), 4), "nothing is replayed");
}

#[test]
fn each_section_of_a_partition_has_its_own_position_and_the_log_continues_it() {
    let mut world = World::new(u64::MAX);
    (0..8).for_each(|_| world.add(1, 44));
    world.write(&[(1, 3), (2, 5)], &mut |_, _| {});
    let snapshot = world.snapshot();
    let of = |section| *snapshot.sections_of(Sum::RULE.number, section).next().unwrap();
    let (sum, records) = (of(0), of(1));
    assert!(sum.from < sum.newest && sum.newest <= records.from, "{sum:?} {records:?}");
    assert!(sum.log_end < records.log_end);
    assert!(snapshot.header.from <= sum.from && records.newest <= snapshot.header.newest);
    world.add(1, 2);
    world.turn(&mut |_, _| {});
    let (found, skipped) = loaded(&world.disk, true);
    assert!(skipped > 0);
    assert_eq!(found, state(&world.toys));
    assert_eq!(found, loaded(&world.disk, false).0);
}

/// A slice also ends after a number of steps. Where it ends depends on the place of the large
/// section, and on partition 8, which has no sum. In the cases of the loop, it ends at each of the
/// small sections.
#[test]
fn a_section_is_of_the_position_at_which_its_slice_begins_it() {
    for large in (1..=PARTITIONS).filter(|index| *index != 8) {
        let mut world = World::new(u64::MAX);
        (0..8).for_each(|_| world.add(large, 44));
        (1..=PARTITIONS).for_each(|index| world.add(index, usize::from(index != 8)));
        let adds: Vec<_> = (1..=PARTITIONS).map(|index| (index, 0)).collect();
        world.write(&adds, &mut |_, _| {});
        let (found, skipped) = loaded(&world.disk, true);
        assert!(skipped > 0);
        assert_eq!(found, state(&world.toys), "{large}");
        assert_eq!(found, loaded(&world.disk, false).0);
    }
}

#[test]
fn after_a_crash_at_any_point_snapshot_and_log_make_what_the_log_makes() {
    let mut world = World::new(u64::MAX);
    (0..8).for_each(|_| world.add(1, 44));
    let (mut images, mut with_snapshot) = (0, 0);
    let mut look = |disk: &Disk, op: &FileOp| {
        let tears: [fn(usize) -> bool; 4] =
            [|_| false, |block| block % 2 == 0, |block| block % 2 == 1, |_| true];
        for keeps in tears {
            let mut crashed = disk.clone();
            crashed.tear(op, 512, keeps);
            crashed.crash();
            let (by_log, _) = loaded(&crashed, false);
            images += 1;
            with_snapshot += u32::from(file(&crashed).is_some());
            assert_eq!(loaded(&crashed, true).0, by_log, "{op:?}");
        }
    };
    for _ in 0..3 {
        world.write(&[(1, 3), (2, 5)], &mut look);
    }
    assert!(images > 100 && with_snapshot > 50, "{images} {with_snapshot}");
}

#[test]
fn a_snapshot_that_cannot_be_written_is_given_up_and_leaves_no_file() {
    let mut world = World::new(u64::MAX);
    world.add(1, 1);
    world.toys.sums.on(1, |sum, _| sum.sum = 1_000);
    world.write(&[], &mut |_, _| {});
    assert_eq!(world.counted(), (0, 1));
    let files = world.disk.dir(Path::new(DIRECTORY));
    assert!(
        [SNAPSHOT_FILE_NAME, SNAPSHOT_ASIDE_FILE_NAME].iter().all(|it| !files.contains_key(*it))
    );
    world.toys.sums.on(1, |sum, _| sum.sum = 1);
    world.now += PAUSE_MS - 2;
    world.turn(&mut |_, _| {});
    assert_eq!(world.counted(), (0, 1), "it is too early");
    for _ in 0..10 {
        world.turn(&mut |_, _| {});
    }
    assert_eq!(world.counted(), (1, 1), "it is still wanted");
}

#[test]
fn on_a_disk_that_stays_full_a_wanted_snapshot_is_tried_less_and_less_often() {
    let mut world = World::new(u64::MAX);
    world.add(1, 1);
    world.disk.is_full = true;
    world.write(&[], &mut |_, _| {});
    let began = world.now;
    let mut tried_at = Vec::new();
    for _ in 0..1_000 {
        let before = world.counted().1;
        world.now += PAUSE_MS / 10;
        world.turn(&mut |_, _| {});
        if world.counted().1 > before {
            tried_at.push((world.now - began) / PAUSE_MS);
        }
    }
    assert_eq!(tried_at, [1, 3, 7, 15, 31, 63, 95]);
    world.disk.is_full = false;
    world.now = i64::from(u32::MAX);
    world.write(&[], &mut |_, _| {});
    assert_eq!(world.counted().0, 1);
}

#[test]
fn a_snapshot_that_was_written_because_the_log_grew_ends_the_pause() {
    let mut world = World::new(2_000);
    world.add(1, 1);
    world.disk.is_full = true;
    world.write(&[], &mut |_, _| {});
    assert_eq!(world.counted(), (0, 1));
    world.disk.is_full = false;
    while world.counted().0 == 0 {
        world.add(1, 1);
        world.turn(&mut |_, _| {});
        assert!(world.now < PAUSE_MS, "it is written within the pause");
    }
    world.write(&[], &mut |_, _| {});
    assert_eq!(world.counted(), (2, 1), "the next one that is wanted does not wait");
}

#[test]
fn a_stop_tries_once_to_write_a_wanted_snapshot_although_one_was_just_given_up() {
    for stays_full in [false, true] {
        let mut world = World::new(u64::MAX);
        world.add(1, 1);
        world.disk.is_full = true;
        world.write(&[], &mut |_, _| {});
        assert_eq!(world.counted(), (0, 1));
        (world.disk.is_full, world.is_stopping) = (stays_full, true);
        let has_some = |world: &World| {
            world.snapshots.has_some_to_write(world.runtime.log(), world.end_of_turn())
        };
        assert!(has_some(&world), "the stop waits for it");
        for _ in 0..10 {
            world.turn(&mut |_, _| {});
        }
        assert_eq!(world.counted(), if stays_full { (0, 2) } else { (1, 1) });
        assert!(!has_some(&world));
    }
}

#[test]
fn a_snapshot_is_outdated_although_a_later_one_was_given_up() {
    let mut world = World::new(u64::MAX);
    world.write(&[(1, 1)], &mut |_, _| {});
    let written = world.snapshot().header.from;
    // All records are tombstones. The first 50 have a key that no later record has, so compaction
    // drops them.
    for number in 0..150 {
        world.add(1, if number < 50 { 2 } else { 4 });
        world.turn(&mut |_, _| {});
    }
    world.disk.is_full = true;
    world.write(&[], &mut |_, _| {});
    assert_eq!(world.counted(), (1, 1));
    let given_up = world.runtime.log().progress().accepted();
    world.disk.is_full = false;
    let compaction = CompactionConfig {
        min_dirty_ratio: 0.0,
        delete_retention_ms: 0,
        backoff_ms: 1,
        ..CompactionConfig::default()
    };
    world.runtime.log_mut().set_compaction(Some(compaction));
    while world.runtime.log().dropped_position() <= written {
        world.add(1, 1);
        world.turn(&mut |_, _| {});
        assert!(world.now < 700, "nothing is dropped");
    }
    assert!(world.runtime.log().dropped_position() <= given_up);
    world.now += PAUSE_MS;
    for _ in 0..100 {
        world.turn(&mut |_, _| {});
    }
    assert_eq!(world.counted(), (2, 1));
}

#[test]
fn a_snapshot_is_due_when_the_log_has_grown() {
    let mut world = World::new(2_000);
    let mut written = Vec::new();
    for _ in 0..30 {
        world.add(1, 1);
        world.turn(&mut |_, _| {});
        written.push(world.counted().0);
    }
    let first = written.iter().position(|it| *it == 1).unwrap();
    assert!(first > 1, "{written:?}");
    assert!(written.is_sorted() && written[29] > 2, "{written:?}");
}

/// The snapshot's file, with a change of the last row of its table.
fn changed(world: &World, change: impl FnOnce(&mut SectionRow)) -> SnapshotBytes {
    let (Snapshot { mut header, mut sections, .. }, mut table) = (world.snapshot(), Vec::new());
    change(sections.last_mut().unwrap());
    sections.iter().for_each(|row| row.write(&mut table));
    let mut bytes = (*file(&world.disk).unwrap()).as_ref().to_vec();
    bytes[header.sections.range()].copy_from_slice(&table);
    header.sections = Part::of(header.sections.at, &table);
    bytes[..SNAPSHOT_HEADER_BYTES].copy_from_slice(&header.to_bytes());
    Arc::new(bytes)
}

#[test]
fn sections_that_the_shard_does_not_have_or_that_are_damaged_are_refused() {
    let mut world = World::new(u64::MAX);
    world.add(1, 7);
    world.write(&[], &mut |_, _| {});
    let opened = |change: fn(&mut SectionRow)| {
        Load::with_snapshot(Toys::new(), &changed(&world, change)).map(drop)
    };
    assert_eq!(opened(|_| {}), Ok(()));
    let foreign =
        |what: &str| Err(damaged(format!("it has {what}, which this shard does not have")));
    assert_eq!(opened(|it| it.topic = 9), foreign("section 1 of partition 1 of topic 9"));
    assert_eq!(opened(|it| it.index = 41), foreign("section 1 of partition 41 of topic 1"));
    assert_eq!(opened(|it| it.section = 2), foreign("section 2 of partition 1 of topic 1"));
    let why = "it is damaged: the number of records of partition 1: its checksum does not match";
    assert_eq!(opened(|it| it.part.crc ^= 1), Err(damaged(why)));
}

#[test]
fn a_batch_of_a_partition_that_the_shard_does_not_have_is_refused_after_the_snapshot() {
    let mut world = World::new(u64::MAX);
    world.add(1, 7);
    world.write(&[], &mut |_, _| {});
    let mut builder = BatchBuilder::default();
    builder.append(0, &record(3));
    let batch = Batch::read(builder.seal(0, 0)).unwrap();
    let mut load = Load::with_snapshot(Toys::new(), &file(&world.disk).unwrap()).unwrap();
    let from = load.snapshot().unwrap().from;
    for (topic, index) in [(1, 41), (3, 1)] {
        let partition = LogPartition { topic, index };
        let mut replay = |position| load.replay(RecoveredBatch { partition, batch, position });
        assert_eq!(replay(from), Ok(()));
        assert!(replay(from + 1).is_err());
    }
    assert_eq!(load.replayed().records, 0);
}

#[test]
fn damage_that_only_reads_have_found_is_found_among_the_opened_machines() {
    let mut world = World::new(u64::MAX);
    world.add(1, 7);
    world.write(&[], &mut |_, _| {});
    let mut load = Load::with_snapshot(Toys::new(), &file(&world.disk).unwrap()).unwrap();
    load.topics.sums.of(2).is_found_damaged.set(true);
    assert_eq!(load.refusal(&Recovered::default()), None, "2 was not opened");
    load.topics.sums.of(1).is_found_damaged.set(true);
    let why = Some(damaged("a sum of 7"));
    assert_eq!((load.topics.damage(), load.refusal(&Recovered::default())), (why.clone(), why));
}
