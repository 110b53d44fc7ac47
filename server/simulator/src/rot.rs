//! A disk that damages files while the server runs: a bit of a shard's log changes, or a file is
//! cut short or loses its name. Everything that was acknowledged is also in memory, so nothing of
//! it may be lost: the shard has to find the damage, write a snapshot, and rewrite its log. Until
//! then the process is not killed, because after a kill the damage can no longer be repaired from
//! memory.
//!
//! A bit of a batch of a user topic changes, too. Some time later readers must be refused the
//! batch, in this process or in the next one.
//!
//! A new segment that a compaction is writing loses its name. It is not in use yet: so no record
//! may be lost because of this, and the process must not end.
//!
//! A segment of a user topic loses its name. Its records are lost once the file is closed. The
//! shard has to notice this, must not create another file with this name, and must not leave a gap
//! in the file. A whole directory is moved away, too, and must not be created again.

use crate::disk::Inode;
use crate::profile::{MS, SECOND};
use crate::random::Random;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::{SNAPSHOT_ASIDE_FILE_NAME, SNAPSHOT_FILE_NAME};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The share of runs whose disk damages files.
const ROTTING_CHANCE: f64 = 0.25;

/// The share of damages that remove the names of the files that compaction writes.
pub(crate) const NEW_SEGMENT_CHANCE: f64 = 0.2;

/// The other damages hit a user topic or a shard's log. This is the share that hits a user topic.
pub(crate) const BATCH_CHANCE: f64 = 0.5;

/// A damage of a user topic removes names of segments, or flips a bit of a batch. The first share
/// is that of removals; the second is that of the segments that lose their names in a removal.
pub(crate) const NAME_CHANCE: f64 = 0.3;
pub(crate) const NAME_LOST_CHANCE: f64 = 0.5;

/// The share of removals of names in which a partition's whole directory is moved away instead.
pub(crate) const DIRECTORY_CHANCE: f64 = 0.3;

/// The bytes of a block's header that nothing reads: the version, and two zeros. The checksum does
/// not cover them, so a flip in these bytes damages nothing.
const UNREAD: Range<usize> = 4..8;

/// The place in a batch after its base offset, length, leader epoch and magic. A reader needs these
/// fields to find the next batch, so they are not damaged.
pub(crate) const FRAMED_FROM: usize = 17;

/// The maximum time until damage is found. After that, the snapshot must be written and the log be
/// rewritten within the longer one of the next two times. If the disk was full or has hung, there
/// is at least [`FOUND_MAX`] again for the next step.
pub(crate) const FOUND_MAX: u64 = 300 * SECOND;
const SAVED_MAX: u64 = 60 * SECOND;
const REWRITTEN_MAX: u64 = 120 * SECOND;

/// The damages of a run.
pub(crate) struct Rot {
    pub(crate) random: Random,
    /// The average time between two damages; 0 if the run has none.
    pub(crate) every: u64,
    /// The damaged logs, by shard.
    pub(crate) logs: BTreeMap<u32, DamagedLog>,
    /// The damaged batches of user topics that no shard has refused yet.
    pub(crate) batches: Vec<DamagedBatch>,
    /// The segments of user topics that lost their names while this process runs, until a shard
    /// notices the loss.
    pub(crate) names: Vec<LostName>,
    /// The directories of partitions that were moved away while this process runs.
    pub(crate) directories: Vec<PathBuf>,
}

/// A segment of a user topic that has lost its name.
pub(crate) struct LostName {
    pub(crate) path: PathBuf,
    /// The time by which the shard must have noticed.
    pub(crate) until: u64,
}

/// A damaged batch of a user topic.
pub(crate) struct DamagedBatch {
    pub(crate) path: PathBuf,
    pub(crate) inode: Inode,
    /// `start` is the byte position of the batch in the file, and `at` that of the damaged byte in
    /// the file. `bytes` is the batch after the damage.
    pub(crate) start: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: usize,
    /// The time by which the batch must be refused.
    pub(crate) until: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    Flip,
    Cut,
    LostName,
}

/// A damaged log, and the progress of its repair.
pub(crate) struct DamagedLog {
    pub(crate) damage: Damage,
    /// The damaged file, and its name before the damage.
    pub(crate) inode: Inode,
    pub(crate) path: PathBuf,
    /// How often the shard had found damage and had rewritten its log before this damage.
    pub(crate) before: (u64, u64),
    pub(crate) is_found: bool,
    pub(crate) snapshot: Snapshot,
    pub(crate) is_rewritten: bool,
    /// Whether the name of the damaged file is now the name of another file, or of none. Then no
    /// startup reads the damaged file.
    pub(crate) is_gone: bool,
    /// Whether a compaction has replaced files since the damage. It may have replaced the damaged
    /// file, too.
    pub(crate) is_compacted: bool,
    /// The time by which the next step of the repair must be done.
    pub(crate) until: u64,
}

/// The snapshot that follows the damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Snapshot {
    Due,
    UnderWay,
    Written,
    /// The disk was full.
    GivenUp,
}

/// The byte of a block to damage: `at`, or another byte if nothing reads the byte at `at`.
pub(crate) fn read_byte(at: usize) -> usize {
    if UNREAD.contains(&at) { at + UNREAD.len() } else { at }
}

impl Rot {
    pub(crate) fn new(mut random: Random, is_crowd: bool) -> Self {
        let rots = random.chance(ROTTING_CHANCE) && !is_crowd;
        let every = random.pick(&[100 * MS, SECOND]);
        let every = if rots { every } else { 0 };
        Self {
            random,
            every,
            logs: BTreeMap::new(),
            batches: Vec::new(),
            names: Vec::new(),
            directories: Vec::new(),
        }
    }

    /// Whether the log of a shard is damaged, and the damage is not repaired yet.
    pub(crate) fn is_outstanding(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Whether no damage is left that the shards have to find or repair.
    pub(crate) fn is_over(&self) -> bool {
        self.logs.is_empty() && self.batches.is_empty() && self.names.is_empty()
    }

    /// Whether some acknowledged state may be only in memory.
    pub(crate) fn forbids_kill(&self) -> bool {
        self.logs.values().any(|log| !log.survives_kill())
    }

    /// Notes that a shard opens a file.
    pub(crate) fn opened(&mut self, shard: u32, path: &Path) {
        let log = self.logs.get_mut(&shard).filter(|log| log.is_found);
        if let Some(log) = log.filter(|_| path.ends_with(SNAPSHOT_ASIDE_FILE_NAME)) {
            log.snapshot.begins();
        }
    }

    /// Notes that a shard renames a file.
    pub(crate) fn renamed(&mut self, shard: u32, from: &Path, to: &Path) {
        let Some(log) = self.logs.get_mut(&shard) else { return };
        log.is_compacted |= from.ends_with(ASIDE_FILE_NAME);
        if to.ends_with(SNAPSHOT_FILE_NAME) && log.snapshot == Snapshot::UnderWay {
            log.snapshot = Snapshot::Written;
        }
    }

    /// Notes that the disk had no space for a snapshot.
    pub(crate) fn no_space_for_snapshot(&mut self) {
        for log in self.logs.values_mut().filter(|log| log.is_found) {
            log.snapshot.gives_up();
        }
    }

    /// Notes that the process has ended. A damaged log that it has not rewritten stays damaged.
    pub(crate) fn process_ended(&mut self) {
        self.names.clear();
        self.directories.clear();
        self.logs.retain(|_, log| !log.is_mended());
    }

    /// Notes that the next process has read the logs.
    pub(crate) fn process_began(&mut self, now: u64) {
        for log in self.logs.values_mut() {
            (log.before, log.until) = ((0, 0), now + FOUND_MAX + REWRITTEN_MAX);
        }
        self.batches.iter_mut().for_each(|batch| batch.until = now + FOUND_MAX);
    }
}

impl DamagedLog {
    /// Whether a startup would find everything that was acknowledged. This requires a rewritten
    /// log. If the damage is a flipped bit, a snapshot is enough, too. It is not enough for a lost
    /// or cut file, which may have lost blocks that were written after the snapshot.
    fn survives_kill(&self) -> bool {
        let is_saved = self.snapshot == Snapshot::Written && self.damage == Damage::Flip;
        self.is_mended() || is_saved
    }

    /// Whether the log is complete again, without the damaged file.
    fn is_mended(&self) -> bool {
        self.is_rewritten && (self.is_gone || self.damage == Damage::LostName)
    }

    /// Notes how often the shard has found damage, and how often it has rewritten its log.
    pub(crate) fn observe(&mut self, (found, rewritten): (u64, u64), now: u64) {
        if !self.is_found && found > self.before.0 {
            (self.is_found, self.until) = (true, now + SAVED_MAX.max(REWRITTEN_MAX));
        }
        self.is_rewritten |= rewritten > self.before.1;
    }

    pub(crate) fn is_over(&self) -> bool {
        let is_saved = matches!(self.snapshot, Snapshot::Written | Snapshot::GivenUp);
        self.is_mended() && is_saved
    }

    /// The step of the repair that is late.
    pub(crate) fn lacks(&self) -> &'static str {
        match (self.is_found, self.is_mended()) {
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
