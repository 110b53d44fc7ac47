//! A toy topic goes through all that a shard does with the log of its topics: appends that linger,
//! flushes, snapshots, compaction, the running check, the audit, reloads, and a rewrite after
//! damage. The power may fail at each write, sync and rename. What is opened then must be the state
//! after some operation, and no earlier one than the last that was acknowledged.

#![allow(clippy::unwrap_used)]

mod toys;

use muster_runtime::{
    CheckConfig, CheckNames, Load, LoadedSnapshot, Machine, RewriteConfig, Runtime, SnapshotsDue,
    Turn, Upkeep, UpkeepConfig,
};
use muster_snapshot_index::SnapshotBytes;
use muster_storage::shard_log::recovery::segment_files;
use muster_storage::snapshot::{SNAPSHOT_FILE_NAME, Snapshot, WriterConfig};
use muster_storage::{
    CompactionConfig, Corruption, FileId, FileOp, FileToken, LogConfig, LogPartition, LogSlot,
    Recovered, RecoveredBatch, ShardLog,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use test_disk::Disk;
use toys::{DIRECTORY, HEAD_FILE, HeadFile, Label, Labels, PARTITIONS, Toys, small_log};

/// The partitions that get labels. The first and the last are in the same slot.
const INDEXES: [u32; 4] = [1, 2, 7, 1 + 4 * SLOTS];

const SLOTS: u32 = 5;

/// The number of names in a partition. Each partition gets all of them.
const NAMES: u32 = 13;

/// The labels by partition and name.
type State = BTreeMap<(u32, String), Label>;

/// Looks at the world before an operation of the disk.
type Look<'l> = &'l mut dyn FnMut(&World, &FileOp);

/// A shard with the toy topics, on a disk in memory.
struct World {
    disk: Disk,
    head: HeadFile,
    runtime: Runtime,
    upkeep: Upkeep,
    toys: Toys,
    now: i64,
    reloads: u32,
    /// The number of labels that were put or removed.
    changes: u32,
    /// The state after each operation, by the operation's position in the log.
    history: BTreeMap<u64, State>,
    waiting: Vec<Waiting>,
    /// The position in the log of the last operation that was acknowledged.
    acknowledged: u64,
    damage: LogDamage,
}

/// The answer to an operation, which leaves when its position in its slot is flushed.
struct Waiting {
    slot: LogSlot,
    position: u64,
    /// The operation's position in the log.
    at: u64,
}

/// The damage that the test has done to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogDamage {
    None,
    /// The shard does not know of it. Compaction may make the snapshot unusable, so a startup may
    /// fail.
    Hidden,
    /// The shard has known of it since this position of the log, and rewrites the log. Nothing is
    /// compacted meanwhile.
    Found(u64),
    /// A snapshot of a later position has all operations of the damaged part.
    Covered,
}

impl World {
    /// A shard that is loaded from a disk, or a new one.
    fn start(disk: Disk, now: i64, reloads: u32) -> Self {
        let (load, mut recovered) = opened(&disk).unwrap();
        let damage = recovered.spared().map(Corruption::place);
        let partitions = partitions();
        recovered.skip_offsets(partitions.iter().copied());
        let compaction = CompactionConfig {
            min_dirty_ratio: 0.0,
            delete_retention_ms: 0,
            backoff_ms: 1,
            ..CompactionConfig::default()
        };
        let config =
            LogConfig { slots: SLOTS, linger_ms: 2, compaction: Some(compaction), ..small_log() };
        let (header, behind) = (load.snapshot(), load.replayed().bytes);
        let snapshot = LoadedSnapshot { header, behind };
        let history = [(recovered.position(), state(&load.topics))].into();
        let mut log = ShardLog::new(config, recovered);
        let mut upkeep = Upkeep::new(upkeep(snapshot, damage), &mut log, now);
        upkeep.check_later(now, reloads);
        Self {
            disk,
            head: HeadFile::default(),
            runtime: Runtime::new(log, partitions),
            upkeep,
            toys: load.topics,
            now,
            reloads,
            changes: 0,
            history,
            waiting: Vec::new(),
            acknowledged: 0,
            damage: LogDamage::None,
        }
    }

    /// Loads the shard again, after it has failed.
    fn reload(&mut self) {
        let mut disk = std::mem::take(&mut self.disk);
        disk.close_all();
        self.look_at(&disk);
        let new = Self::start(disk, self.now, self.reloads + 1);
        let position = self.acknowledged.max(*new.history.keys().next().unwrap());
        self.history.retain(|at, _| *at <= position);
        let Self { changes, acknowledged, damage, .. } = *self;
        let history = std::mem::take(&mut self.history);
        *self = Self { changes, acknowledged, damage, history, ..new };
    }

    /// Puts or removes a label of a partition.
    fn change(&mut self) {
        self.changes += 1;
        let (index, name, text) = change(self.changes);
        let Self { runtime, toys, now, .. } = self;
        let record = (name.as_bytes(), text.as_ref().map(String::as_bytes));
        let operations = [&[record][..]];
        let position = runtime.append(&mut toys.labels, index, *now, operations).unwrap();
        let at = runtime.log().progress().accepted();
        let slot = runtime.log().slot_of(LogPartition { topic: Labels::RULE.number, index });
        self.waiting.push(Waiting { slot, position, at });
        let mut state = self.history.last_entry().unwrap().get().clone();
        match text {
            Some(text) => state.insert((index, name), Label { len: text.len(), text }),
            None => state.remove(&(index, name)),
        };
        self.history.insert(at, state);
    }

    /// Ends a turn, and performs its operations one by one. Loads the shard again if it failed.
    fn turn(&mut self, passed: i64, look: Look<'_>) {
        self.now += passed;
        let (turn, mut ops) = (Turn { now: self.now, is_stopping: false }, Vec::new());
        let Self { runtime, upkeep, toys, .. } = self;
        if upkeep.find_faults(turn.now, toys, &mut ops) {
            self.perform(ops, look);
            return self.reload();
        }
        upkeep.turn(runtime, toys, turn, &mut ops);
        self.perform(ops, look);
    }

    fn perform(&mut self, ops: Vec<FileOp>, look: Look<'_>) {
        let mut ops = VecDeque::from(ops);
        while let Some(op) = ops.pop_front() {
            assert!(self.acknowledge().is_empty(), "only the end of an operation flushes");
            look(self, &op);
            let Some(done) = self.head.perform(&mut self.disk, op) else { continue };
            let (Self { runtime, upkeep, now, .. }, mut further) = (&mut *self, Vec::new());
            if let Err(done) = upkeep.done(runtime.log_mut(), *now, done, &mut further) {
                runtime.done(done);
                let moved: BTreeSet<_> = runtime.moved_slots().map(|(slot, _)| slot).collect();
                assert!(self.acknowledge().is_subset(&moved));
            }
            ops.extend(further);
            self.note_repairs();
        }
        self.note_repairs();
    }

    /// Notes whether the damage of the log is found, covered by a snapshot, or gone.
    fn note_repairs(&mut self) {
        let (_, _, rewrites) = self.upkeep.counters();
        let snapshot = || Some(Snapshot::open((*snapshot(&self.disk)?).as_ref()).unwrap());
        self.damage = match self.damage {
            LogDamage::Hidden if rewrites.damage_found > 0 => {
                LogDamage::Found(self.runtime.log().progress().accepted())
            }
            LogDamage::Found(at) if snapshot().is_some_and(|it| it.header.from >= at) => {
                LogDamage::Covered
            }
            LogDamage::Covered if rewrites.rewritten > 0 => LogDamage::None,
            damage => damage,
        };
    }

    /// Sends the answers that wait for positions which are flushed now. Returns their slots.
    fn acknowledge(&mut self) -> BTreeSet<LogSlot> {
        let runtime = &self.runtime;
        let is_flushed = |it: &mut Waiting| it.position <= runtime.flushed(it.slot);
        let sent: Vec<_> = self.waiting.extract_if(.., is_flushed).collect();
        let last = sent.iter().map(|it| it.at).max();
        self.acknowledged = self.acknowledged.max(last.unwrap_or(0));
        sent.into_iter().map(|it| it.slot).collect()
    }

    /// Compares what startup makes of a disk with the history.
    fn look_at(&self, disk: &Disk) -> Startup {
        let startup = match opened(disk) {
            Ok((load, recovered)) => {
                self.compare(&load.topics, recovered.position());
                let is_outdated = load.snapshot().is_none() && snapshot(disk).is_some();
                if is_outdated { Startup::PastSnapshot } else { Startup::Usual }
            }
            Err(why) => {
                let may_fail = matches!(self.damage, LogDamage::Hidden | LogDamage::Found(_));
                assert!(may_fail, "{why}");
                return Startup::Refused;
            }
        };
        if self.damage == LogDamage::None {
            let (load, recovered) = replayed(disk, Load::new(Toys::new())).unwrap();
            self.compare(&load.topics, recovered.position());
        }
        startup
    }

    fn compare(&self, toys: &Toys, position: u64) {
        assert!(self.acknowledged <= position, "{} of {}", position, self.acknowledged);
        let (_, expected) = self.history.range(..=position).next_back().unwrap();
        assert_eq!(&state(toys), expected, "at operation {position}");
    }

    /// Inverts a bit of the text of the first label in the log's first segment.
    fn damage_log(&mut self) {
        let names = self.disk.dir(Path::new(DIRECTORY)).into_keys();
        let (_, first) = segment_files(names).remove(0);
        self.damage_file(&first);
        self.damage = LogDamage::Hidden;
    }

    fn damage_file(&mut self, name: &str) {
        let path = Path::new(DIRECTORY).join(name);
        for files in [&mut self.disk.live, &mut self.disk.durable] {
            let bytes = files.get_mut(&path).unwrap();
            let at = bytes.windows(5).position(|bytes| bytes == b"text ").unwrap();
            bytes[at] ^= 1;
        }
    }
}

/// The partition, the name and the text of a change. Some labels are put once and removed later;
/// the others are put again and again.
fn change(number: u32) -> (u32, String, Option<String>) {
    let text = || format!("text {number}");
    match number % 20 {
        7 => (INDEXES[0], format!("once {number}"), Some(text())),
        17 => (INDEXES[0], format!("once {}", number.saturating_sub(210)), None),
        of_20 => {
            let (index, name) = (INDEXES[(number % 4) as usize], number * 7 % NAMES);
            (index, format!("name {name}"), (of_20 % 5 > 0).then(text))
        }
    }
}

fn partitions() -> Vec<LogPartition> {
    let topic = Labels::RULE.number;
    (1..=PARTITIONS).map(|index| LogPartition { topic, index }).collect()
}

fn upkeep(snapshot: LoadedSnapshot, damage: Option<String>) -> UpkeepConfig {
    let check = CheckConfig {
        shard: 0,
        names: CheckNames {
            token: FileToken(4 << 56),
            file: HEAD_FILE,
            file_token: FileToken(5 << 56),
        },
        bytes_per_second: 1 << 20,
        partitions: partitions(),
        name_of: |LogPartition { topic, index }| format!("partition {index} of topic {topic}"),
    };
    let rewrite = RewriteConfig {
        shard: 0,
        place_of: |path, now| Path::new("trash").join(format!("{now}")).join(path),
    };
    let snapshot_writer =
        WriterConfig { dir: DIRECTORY.into(), file: FileId(2 << 20), token: FileToken(0x55 << 56) };
    UpkeepConfig {
        due: SnapshotsDue { growth_bytes_min: 120_000, interval_ms: 0 },
        snapshot_writer,
        snapshot,
        check,
        audits: true,
        rewrite,
        damage,
    }
}

fn state(toys: &Toys) -> State {
    let of = |(index, machine): (u32, &Labels)| {
        let all = machine.all.clone().into_iter();
        all.map(move |(name, label)| ((index, name), label))
    };
    toys.labels.from(0).flat_map(of).collect()
}

/// The file of the snapshot.
fn snapshot(disk: &Disk) -> Option<SnapshotBytes> {
    let bytes = disk.live.get(&Path::new(DIRECTORY).join(SNAPSHOT_FILE_NAME))?;
    Some(Arc::new(bytes.clone()))
}

/// The machines that startup makes: with the snapshot, unless it cannot be used.
fn opened(disk: &Disk) -> Result<(Load<Toys>, Recovered), String> {
    if let Some(file) = snapshot(disk)
        && let Ok(load) = Load::with_snapshot(Toys::new(), &file)
    {
        let (mut load, recovered) = replayed(disk, load)?;
        let newest = load.snapshot().unwrap().newest;
        assert!(newest <= recovered.position(), "the log has all that the snapshot has");
        if load.refusal(&recovered).is_none() {
            return Ok((load, recovered));
        }
    }
    replayed(disk, Load::new(Toys::new()))
}

fn replayed(disk: &Disk, mut load: Load<Toys>) -> Result<(Load<Toys>, Recovered), String> {
    let (mut recovery, files) = (load.recovery(), disk.dir(Path::new(DIRECTORY)));
    for (sequence, name) in segment_files(files.keys().cloned()) {
        let replay = |found: RecoveredBatch<'_>| load.replay(found).unwrap();
        recovery.segment(sequence, files[&name], replay).map_err(|error| error.to_string())?;
    }
    Ok((load, recovery.finish()))
}

/// A startup from a disk.
#[derive(Debug, PartialEq, Eq)]
enum Startup {
    Usual,
    /// The snapshot is not used, but the log has everything.
    PastSnapshot,
    /// The log is damaged, and no snapshot contains the damaged part.
    Refused,
}

/// The numbers of startups, each from a state in which a power loss may leave the disk.
#[derive(Debug, Default)]
struct Images {
    usual: u32,
    past_snapshot: u32,
    refused: u32,
    continued: u32,
}

impl Images {
    /// Opens each state in which a power loss may leave the disk before and during an operation.
    fn look(&mut self, world: &World, op: &FileOp) {
        let changes_nothing = matches!(
            op,
            FileOp::Read { .. } | FileOp::Look { .. } | FileOp::Open { .. } | FileOp::Close { .. }
        );
        if changes_nothing {
            return;
        }
        let tears: [fn(usize) -> bool; 4] =
            [|_| false, |block| block % 2 == 0, |block| block % 2 == 1, |_| true];
        let is_write = matches!(op, FileOp::Write { .. });
        for keeps in &tears[..if is_write { tears.len() } else { 1 }] {
            let mut crashed = world.disk.clone();
            crashed.tear(op, 512, keeps);
            crashed.crash();
            match world.look_at(&crashed) {
                Startup::Usual => self.usual += 1,
                Startup::PastSnapshot => self.past_snapshot += 1,
                Startup::Refused => {
                    self.refused += 1;
                    continue;
                }
            }
            if (self.usual + self.past_snapshot).is_multiple_of(11) {
                self.continued += 1;
                continue_on(crashed, world);
            }
        }
    }
}

/// Starts a shard after a power loss, which loses power again after further changes.
fn continue_on(crashed: Disk, before: &World) {
    let mut world = World::start(crashed, before.now, 0);
    world.changes = before.changes;
    for _ in 0..12 {
        world.change();
        world.turn(1, &mut |_, _| {});
    }
    assert!(world.acknowledged > 0);
    let mut crashed = world.disk.clone();
    crashed.crash();
    let (load, recovered) = opened(&crashed).unwrap();
    world.compare(&load.topics, recovered.position());
}

/// Ends turns with a change in each, and then further ones until `is_over`.
fn turns(
    world: &mut World,
    (count, changes): (u32, u32),
    images: &mut Images,
    is_over: impl Fn(&World) -> bool,
) {
    for number in 0..count {
        if number < changes {
            world.change();
        }
        let passed = if number < changes { 1 } else { 20 };
        world.turn(passed, &mut |world, op| images.look(world, op));
        if number >= changes && is_over(world) {
            return;
        }
    }
    panic!("not over after {count} turns");
}

#[test]
fn after_a_power_loss_at_any_point_all_is_there_that_was_acknowledged() {
    let (mut world, mut images) = (World::start(Disk::default(), 0, 0), Images::default());
    let world = &mut world;
    let images = &mut images;
    turns(world, (2_000, 1_200), images, |it| it.upkeep.counters().1.compared > 100);
    assert!(world.upkeep.counters().0.written >= 2);
    assert!(world.runtime.counters().compactions > 0);

    // A label that no record made is found by the check, one that contradicts itself by the audit.
    for (text, len) in [("wrong", 5), ("wrong", 4)] {
        let reloads = world.reloads;
        let label = Label { text: text.to_owned(), len };
        world.toys.labels.on(1, |it, _| it.all.insert("name 0".to_owned(), label));
        turns(world, (2_000, 0), images, |it| it.reloads > reloads);
        assert_eq!(Some(&state(&world.toys)), world.history.values().next_back());
    }

    world.damage_log();
    turns(world, (5_000, 100), images, |it| it.upkeep.counters().2.rewritten == 1);
    assert_eq!(world.damage, LogDamage::None);
    world.damage_file(SNAPSHOT_FILE_NAME);
    world.disk.crash();
    assert_eq!(world.look_at(&world.disk), Startup::PastSnapshot);
    let Images { usual, past_snapshot, refused, continued } = images;
    let has_all = *usual > 1_000 && *past_snapshot > 0 && *refused > 0 && *continued > 50;
    assert!(has_all, "{images:?}");
}
