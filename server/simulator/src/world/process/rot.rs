//! A disk that rots while the server runs: a bit of a shard's log changes, a file is cut short, or
//! loses its name. What was acknowledged is in memory, so that nothing of it may be lost: the shard
//! has to find the damage, to write a snapshot, and to rewrite its log. Until then the process is
//! not killed, as damage that nobody has seen yet is not to be mended after that.

use super::Process;
use crate::coverage::Seen;
use crate::disk::Inode;
use crate::event::TimedEvent;
use crate::profile::{MS, SECOND};
use crate::random::Random;
use crate::world::World;
use muster::shard::log_directory;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::{SNAPSHOT_ASIDE_FILE_NAME, SNAPSHOT_FILE_NAME};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The share of runs whose disk rots.
const ROTTING_CHANCE: f64 = 0.25;

/// The longest times until damage is found, until a snapshot is written after it, and until the log
/// is rewritten; without times in which the disk hangs or is full, or the process stands still.
const FOUND_MAX: u64 = 300 * SECOND;
const SAVED_MAX: u64 = 60 * SECOND;
const REWRITTEN_MAX: u64 = 120 * SECOND;

/// The rot of a run.
pub(crate) struct Rot {
    random: Random,
    /// The average time between two damages; 0 in a run without.
    every: u64,
    /// The damaged logs, by shard.
    logs: BTreeMap<u32, DamagedLog>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Flip,
    Cut,
    LostName,
}

/// A damaged log, and what became of it.
struct DamagedLog {
    damage: Damage,
    /// The damaged file, and the name that it had.
    inode: Inode,
    path: PathBuf,
    /// The shard's counts of damage found and of rewrites before.
    before: (u64, u64),
    is_found: bool,
    snapshot: Snapshot,
    is_rewritten: bool,
    /// A compaction has replaced files since, perhaps this one.
    is_compacted: bool,
    /// The time by which the next of these has to be so.
    until: u64,
}

/// The snapshot that follows the damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Snapshot {
    Due,
    UnderWay,
    Written,
    /// The disk was full.
    GivenUp,
}

impl Rot {
    pub(crate) fn new(mut random: Random, is_crowd: bool) -> Self {
        let rots = random.chance(ROTTING_CHANCE) && !is_crowd;
        let every = random.pick(&[100 * MS, SECOND]);
        Self { random, every: if rots { every } else { 0 }, logs: BTreeMap::new() }
    }

    /// Whether a log is damaged, and not rewritten.
    pub(crate) fn is_outstanding(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Whether something acknowledged may be in memory only.
    pub(crate) fn forbids_kill(&self) -> bool {
        self.logs.values().any(|log| !log.survives_kill())
    }

    /// A shard opens a file.
    pub(super) fn opened(&mut self, shard: u32, path: &Path) {
        let log = self.logs.get_mut(&shard).filter(|log| log.is_found);
        if let Some(log) = log.filter(|_| path.ends_with(SNAPSHOT_ASIDE_FILE_NAME)) {
            log.snapshot.begins();
        }
    }

    /// A shard renames a file.
    pub(super) fn renamed(&mut self, shard: u32, from: &Path, to: &Path) {
        let Some(log) = self.logs.get_mut(&shard) else { return };
        log.is_compacted |= from.ends_with(ASIDE_FILE_NAME);
        if to.ends_with(SNAPSHOT_FILE_NAME) && log.snapshot == Snapshot::UnderWay {
            log.snapshot = Snapshot::Written;
        }
    }

    /// A snapshot had no space.
    pub(super) fn no_space_for_snapshot(&mut self) {
        for log in self.logs.values_mut().filter(|log| log.is_found) {
            log.snapshot.gives_up();
        }
    }

    /// The process has ended: the damage of logs that it has not rewritten stays.
    pub(super) fn process_ended(&mut self) {
        self.logs.retain(|_, log| !log.is_rewritten);
    }

    /// The next process has read the logs.
    pub(super) fn process_began(&mut self, now: u64) {
        for log in self.logs.values_mut() {
            (log.before, log.until) = ((0, 0), now + FOUND_MAX + REWRITTEN_MAX);
        }
    }
}

impl DamagedLog {
    /// Whether a start has all that was acknowledged. (Blocks may follow the snapshot in a file
    /// that is lost or cut.)
    fn survives_kill(&self) -> bool {
        let is_saved = self.snapshot == Snapshot::Written && self.damage == Damage::Flip;
        self.is_rewritten || is_saved
    }

    /// Takes the counts of its shard.
    fn observe(&mut self, (found, rewritten): (u64, u64), now: u64) {
        if !self.is_found && found > self.before.0 {
            (self.is_found, self.until) = (true, now + SAVED_MAX.max(REWRITTEN_MAX));
        }
        self.is_rewritten |= rewritten > self.before.1;
    }

    fn is_over(&self) -> bool {
        let is_saved = matches!(self.snapshot, Snapshot::Written | Snapshot::GivenUp);
        self.is_rewritten && is_saved
    }

    /// What has not come in time.
    fn lacks(&self) -> &'static str {
        match (self.is_found, self.is_rewritten) {
            (false, _) => "is not found",
            (true, false) => "is not mended",
            (true, true) => "is followed by no snapshot",
        }
    }
}

impl Snapshot {
    fn begins(&mut self) {
        if *self == Self::Due {
            *self = Self::UnderWay;
        }
    }

    fn gives_up(&mut self) {
        if *self != Self::Written {
            *self = Self::GivenUp;
        }
    }
}

impl World {
    pub(crate) fn plan_rot(&mut self) {
        let every = self.rot.every;
        if every > 0 {
            let pause = self.rot.random.between(0, 2 * every);
            self.queue.after(pause, TimedEvent::Rot);
        }
    }

    /// Damages a log, unless its memory may have less than was acknowledged.
    pub(crate) fn rot(&mut self) {
        if !self.is_chaos() {
            return;
        }
        self.plan_rot();
        let Process { stopping, has_rotten_snapshot, .. } = self.process;
        if !self.process.is_up() || stopping || has_rotten_snapshot {
            return;
        }
        let number = self.rot.random.below(u64::from(self.process.shard_count())) as u32;
        let shard = &self.process.shards[number as usize];
        let is_whole = shard.inspect().progress().flushed() > 0;
        let leaves = shard.fails.is_some() || shard.is_leaving || shard.is_loading;
        if !is_whole || leaves || self.rot.logs.contains_key(&number) {
            return;
        }
        let before = shard.inspect().log_damage();
        let Some((damage, path, inode)) = self.damage_log(number) else { return };
        let until = self.queue.now() + FOUND_MAX;
        let log = DamagedLog {
            damage,
            inode,
            path,
            before,
            is_found: false,
            snapshot: Snapshot::Due,
            is_rewritten: false,
            is_compacted: false,
            until,
        };
        self.rot.logs.insert(number, log);
    }

    /// The process ends. If something acknowledged was in memory only, nothing more is judged.
    pub(super) fn end_rot(&mut self) {
        if self.rot.forbids_kill() {
            self.note(format_args!("a write has failed while a log was damaged"));
            self.coverage.saw(Seen::DiedWithDamage);
            self.refused = true;
        }
        self.rot.process_ended();
    }

    /// Damages a file of the log of a shard, where it has a block.
    fn damage_log(&mut self, number: u32) -> Option<(Damage, PathBuf, Inode)> {
        let random = &mut self.rot.random;
        let segments = self.disk.segments(&log_directory(self.process_shards, number));
        let newest = segments.len().checked_sub(1)?;
        let any = random.below(segments.len() as u64) as usize;
        let (path, inode, blocks) = segments.into_iter().nth(random.pick(&[newest, any]))?;
        let block = blocks.get(random.below(blocks.len() as u64) as usize)?.clone();
        let at = random.between(block.start as u64, block.end as u64 - 1) as usize;
        let damage = random.pick(&[Damage::Flip, Damage::Flip, Damage::Cut, Damage::LostName]);
        match damage {
            Damage::Flip => self.disk.flip(inode, at, random.below(8)),
            Damage::Cut => self.disk.cut(inode, at),
            Damage::LostName => self.disk.lose(&path),
        }
        self.coverage.saw(match damage {
            Damage::Flip => Seen::LogFlipped,
            Damage::Cut => Seen::LogCut,
            Damage::LostName => Seen::LogNameLost,
        });
        self.note(format_args!("{damage:?} at byte {at} of {}", path.display()));
        Some((damage, path, inode))
    }

    /// After a turn: whether the shard does what it has to about the damage of its log.
    pub(crate) fn judge_rot(&mut self, number: u32) {
        let Some(log) = self.rot.logs.get_mut(&number) else { return };
        let now = self.queue.now();
        log.observe(self.process.shards[number as usize].inspect().log_damage(), now);
        let is_in_place = self.disk.look(&log.path).is_some_and(|(inode, _)| inode == log.inode);
        // Compaction had no use for it.
        let is_replaced = log.damage != Damage::LostName && !is_in_place && !log.is_found;
        if log.is_over() || is_replaced {
            self.coverage.add(Seen::LogRewritten, u64::from(log.is_rewritten));
            self.rot.logs.remove(&number);
        } else if self.process.disk_is_full || now < self.process.hangs_until {
            log.until = log.until.max(now + FOUND_MAX);
        } else if now > log.until && log.is_compacted && !log.is_found {
            self.rot.logs.remove(&number);
        } else if now > log.until {
            let (path, what) = (log.path.display(), log.lacks());
            let what = format!("shard {number}: damage of {path} {what}");
            self.violate(format_args!("{what}"));
        }
    }
}
