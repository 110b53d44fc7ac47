//! The running check on a shard with small segments, on a real directory: what it finds, and that it
//! finds nothing where nothing is wrong.

use super::super::{Command, Common, Event, LogSizes, Shard, load, log_directory};
use crate::cluster::Endpoint;
use crate::config::{Config, compaction};
use crate::placement::Placement;
use muster_codec::Uuid;
use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use muster_coordinator::Ids;
use muster_storage::snapshot::{SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME};
use muster_storage::{CompactionConfig, FileDone, FileId, FileOp};
use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const BLOCK_BYTES: u32 = 512;
const GROUPS: u64 = 60;
const PARTITIONS: u64 = 8;

/// More than a round takes.
const LONG_MS: i64 = 20_000;

const CONFIGS: &[&str] = &[
    "offsets.topic.num.partitions=4",
    "log.cleaner.min.cleanable.ratio=0.1",
    "metadata.log.max.record.bytes.between.snapshots=20000",
];

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    for (seed, retention_ms) in [(1, 0), (2, 50), (3, 5_000), (4, 86_400_000)] {
        let retention = format!("log.cleaner.delete.retention.ms={retention_ms}");
        let mut world = World::new(&[&retention]);
        let mut random = Random(seed);
        let mut compared = 0;
        for _ in 0..5 {
            for _ in 0..600 {
                if random.below(50) == 0 {
                    world.set_retention(random.below(3) * retention_ms);
                }
                world.change(&mut random);
                world.pass(random.below(3) as i64);
            }
            world.pass(LONG_MS);
            assert!(!world.is_failed(), "seed {seed}");
            compared += world.shard.inspect().groups_checked();
            world.restart();
        }
        assert!(compared > 2 * GROUPS, "seed {seed}: {compared} groups were compared");
        assert!(world.swaps > 0 && world.cold > 0, "seed {seed} saw too little");
    }
}

#[test]
fn a_group_that_is_changed_without_a_record_is_found() {
    assert_found(|world| {
        let position = world.shard.groups.next_position();
        world.shard.groups.coordinator.replay(&commit(7, 3, Some(4_711)), position);
    });
}

#[test]
fn a_group_that_the_log_knows_nothing_of_is_found() {
    assert_found(|world| world.shard.groups.coordinator.replay(&commit(1_000, 0, Some(1)), 1));
}

#[test]
fn a_group_that_has_lost_what_the_log_has_is_found() {
    assert_found(|world| {
        for partition in 0..PARTITIONS {
            world.shard.groups.coordinator.replay(&commit(7, partition, None), 1);
        }
    });
}

#[test]
fn a_snapshot_that_is_not_what_the_log_makes_is_found() {
    let mut world = World::new(&[]);
    world.fill();
    world.shard.groups.coordinator.replay(&commit(7, 3, Some(4_711)), 1);
    world.shard.log_check.is_broken = true;
    world.pass(10);
    fs::remove_file(world.path(SNAPSHOT_FILE_NAME)).unwrap();
    while !world.path(SNAPSHOT_FILE_NAME).exists() {
        world.append(&commit(1, 1, Some(5)));
        world.pass(1);
    }
    world.pass(10);
    world.restart();
    assert!(world.shard.inspect().is_cold("g7"));
    world.pass(LONG_MS);
    assert!(world.is_failed());
    assert!(world.shard.inspect().is_cold("g8"), "what is compared stays in the cold");
    world.restart();
    assert_eq!(world.committed(7, 3), Some(703));
}

#[test]
fn a_log_that_is_damaged_is_told_of_and_the_server_goes_on() {
    let mut world = World::new(&[]);
    world.fill();
    let name = fs::read_dir(world.path("")).unwrap().map(|entry| entry.unwrap().path());
    let first = name.filter(|path| path.extension().is_some_and(|it| it == "log")).min().unwrap();
    let file = OpenOptions::new().read(true).write(true).open(first).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5_000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 5_000).unwrap();
    world.pass(LONG_MS);
    assert!(world.shard.log_check.is_broken && !world.is_failed());
}

/// Has something done to a shard that is as its log says; the check finds it, and a start has what
/// the log says.
fn assert_found(plant: impl FnOnce(&mut World)) {
    let mut world = World::new(&[]);
    world.fill();
    world.pass(LONG_MS);
    assert!(!world.is_failed() && world.shard.inspect().groups_checked() >= GROUPS);
    let had_snapshot = world.path(SNAPSHOT_FILE_NAME).exists();
    plant(&mut world);
    world.pass(LONG_MS);
    assert!(world.is_failed());
    assert!(!world.path(SNAPSHOT_FILE_NAME).exists());
    assert_eq!(world.path(SNAPSHOT_DAMAGED_FILE_NAME).exists(), had_snapshot);
    world.restart();
    assert_eq!((world.committed(7, 3), world.committed(1_000, 0)), (Some(703), None));
    world.pass(LONG_MS);
    assert!(!world.is_failed());
}

fn commit(group: u64, partition: u64, offset: Option<i64>) -> GroupRecord<'static> {
    let group = format!("g{group}").into();
    let key = OffsetCommitKey { group, topic: "t".into(), partition: partition as i32 };
    let value = |offset| OffsetCommitValue { offset, ..Default::default() };
    GroupRecord::OffsetCommit(key, offset.map(value))
}

/// A shard and what is around it: a directory, and a clock.
struct World {
    directory: TempDir,
    common: Common,
    shard: Shard,
    now: i64,
    open: HashMap<FileId, File>,
    done: VecDeque<FileDone>,
    commands: Vec<Command>,
    deadline: Option<i64>,
    /// Segments that were compacted, and groups that starts left in the cold.
    swaps: u64,
    cold: usize,
}

impl World {
    fn new(configs: &[&str]) -> Self {
        let configs = CONFIGS.iter().chain(configs).map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let common = Common {
            config: Arc::new(Config::load("", &configs).unwrap()),
            placement: Placement { shards: 1, offsets_partitions: 4 },
            endpoints: Arc::new([Endpoint { host: "localhost".to_owned(), port: 9092 }]),
            cluster_id: "test".into(),
            log_sizes: LogSizes {
                segment_bytes: Some(32 << 10),
                operation_bytes_max: 8 << 10,
                open_bytes_max: 8 << 10,
            },
        };
        let directory = tempfile::tempdir().unwrap();
        let (shard, ops) = start(directory.path(), &common, 1_000);
        let mut world = Self {
            directory,
            common,
            shard,
            now: 1_000,
            open: HashMap::new(),
            done: VecDeque::new(),
            commands: Vec::new(),
            deadline: None,
            swaps: 0,
            cold: 0,
        };
        ops.into_iter().for_each(|op| world.perform(op));
        world.turn();
        world
    }

    /// Ends without a word, and starts from what is in the directory.
    fn restart(&mut self) {
        self.swaps += self.shard.groups.log.swaps();
        self.open.clear();
        self.done.clear();
        let (shard, ops) = start(self.directory.path(), &self.common, self.now);
        self.shard = shard;
        self.cold += self.shard.groups.coordinator.cold_groups();
        ops.into_iter().for_each(|op| self.perform(op));
        self.turn();
    }

    /// Each group commits on each partition what tells both.
    fn fill(&mut self) {
        for partition in 0..PARTITIONS {
            for group in 0..GROUPS {
                let offset = (group * 100 + partition) as i64;
                self.append(&commit(group, partition, Some(offset)));
                self.pass(1);
            }
        }
    }

    /// Commits an offset somewhere, or deletes one.
    fn change(&mut self, random: &mut Random) {
        let (group, partition) = (random.below(GROUPS), random.below(PARTITIONS));
        let offset = (random.below(3) > 0).then(|| random.below(1_000) as i64);
        self.append(&commit(group, partition, offset));
    }

    /// Sets how long tombstones have, in milliseconds.
    fn set_retention(&mut self, retention_ms: u64) {
        let delete_retention_ms = retention_ms as i64;
        let log = &mut self.shard.groups.log;
        let config = compaction(&self.shard.config, &self.shard.image, 1);
        log.set_compaction(config.map(|it| CompactionConfig { delete_retention_ms, ..it }));
    }

    fn append(&mut self, record: &GroupRecord<'_>) {
        if !self.shard.groups.is_closed() {
            self.shard.groups.append(self.now, std::slice::from_ref(record)).unwrap();
        }
        self.turn();
    }

    /// Time passes, as far as the shard lives; what was asked of the disk is done.
    fn pass(&mut self, ms: i64) {
        let until = self.now + ms;
        while !self.is_failed() {
            if let Some(done) = self.done.pop_front() {
                self.shard.step(self.now, Event::File(done), &mut self.commands);
                self.turn();
                continue;
            }
            match self.deadline.filter(|at| *at <= until) {
                Some(at) => self.now = at.max(self.now + 1),
                None => break,
            }
            self.turn();
        }
        self.now = self.now.max(until);
    }

    fn turn(&mut self) {
        if self.is_failed() {
            return;
        }
        self.deadline = self.shard.end_turn(self.now, &mut self.commands);
        for command in std::mem::take(&mut self.commands) {
            match command {
                Command::File(op) => self.perform(op),
                Command::Mail { message, .. } => {
                    self.shard.step(self.now, Event::Mail(message), &mut self.commands);
                }
                other => unreachable!("{other:?}"),
            }
        }
    }

    fn is_failed(&self) -> bool {
        self.shard.inspect().is_failed()
    }

    fn committed(&mut self, group: u64, partition: u64) -> Option<i64> {
        self.shard.groups.coordinator.touch_all();
        let found = commit(group, partition, Some(0));
        let records = self.shard.inspect().durable_records();
        records.iter().find_map(|record| match (record, &found) {
            (GroupRecord::OffsetCommit(key, Some(value)), GroupRecord::OffsetCommit(wanted, _)) => {
                (key == wanted).then_some(value.offset)
            }
            _ => None,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(log_directory(1, 0)).join(name)
    }

    fn perform(&mut self, op: FileOp) {
        let data = self.directory.path();
        let done = match op {
            FileOp::Open { file, path, .. } => {
                let path = data.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let mut options = OpenOptions::new();
                let opened = options.read(true).write(true).create(true).truncate(false).open(path);
                assert!(self.open.insert(file, opened.unwrap()).is_none());
                return;
            }
            FileOp::Close { file } => return drop(self.open.remove(&file).unwrap()),
            FileOp::Write { token, file, offset, data } => {
                self.open[&file].write_all_at(&data, offset).unwrap();
                FileDone::Written { token, buffer: data }
            }
            FileOp::Read { token, file, offset, len } => {
                let mut data = vec![0; len as usize];
                let read = self.open[&file].read_at(&mut data, offset).unwrap();
                data.truncate(read);
                FileDone::Read { token, data }
            }
            FileOp::Sync { token, .. } => FileDone::Synced { token },
            FileOp::Truncate { file, len } => return self.open[&file].set_len(len).unwrap(),
            FileOp::Rename { from, to } => {
                return fs::rename(data.join(from), data.join(to)).unwrap();
            }
            FileOp::RemoveFile { path } => return drop(fs::remove_file(data.join(path))),
            FileOp::RemoveDir { path } => return drop(fs::remove_dir_all(data.join(path))),
        };
        self.done.push_back(done);
    }
}

fn start(data: &Path, common: &Common, now: i64) -> (Shard, Vec<FileOp>) {
    let loaded = load(data, common, 0, now).unwrap();
    let image = loaded.image().unwrap().clone();
    loaded.into_shard(data, BLOCK_BYTES, image, Box::new(CountedIds(0)), now).unwrap()
}

struct CountedIds(u128);

impl Ids for CountedIds {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid(self.0.to_be_bytes())
    }
}

/// Numbers that are the same for each seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
