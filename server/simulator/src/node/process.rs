//! The server's process. Some of its state ends with it; the rest is left for the next process.

use super::operation::{Calling, Operation};
use super::shard::SimShard;
use super::sockets::Sockets;
use crate::records::RecordBytes;
use muster_server::data_dir::Meta;
use muster_server::disk_space::DiskSpace;
use muster_server::reactor::Share;
use muster_server::volume::Volume;
use std::collections::BTreeMap;
use tempfile::TempDir;

#[derive(Default)]
pub(super) struct Process {
    /// Counts the incarnations of the process.
    pub(super) life: u32,
    /// Whether the machine has lost power before, so that writes may be lost. From then on each
    /// startup aborts the open transactions that it finds.
    pub(super) has_lost_power: bool,
    /// The shards; none while the process is down.
    pub(super) shards: Vec<SimShard>,
    /// When each shard was loaded last, at startup or after a failure.
    pub(super) loaded_at: BTreeMap<u32, u64>,
    /// The time from which connections are accepted.
    pub(super) listens_at: u64,
    /// The end of the pause of the process.
    pub(super) paused_until: u64,
    /// Until this time the disk ends no operation.
    pub(super) hangs_until: u64,
    /// Until this time the shards have no turns, because a call of the file system blocks them: an
    /// injected fault.
    pub(super) blocked_until: u64,
    /// How far faults have set the machine's wall clock ahead; negative if they have set it back.
    pub(super) wall_ahead_ms: i64,
    /// The directories with the files that the shards were loaded from. They are kept, because the
    /// running shards may have mapped these files.
    pub(super) directories: Vec<TempDir>,
    /// The connections that the process has accepted.
    pub(super) sockets: Sockets,
    pub(super) operations: BTreeMap<u64, Operation>,
    pub(super) calls: BTreeMap<u64, Calling>,
    pub(super) next_operation: u64,
    /// The shard whose turn it is, or was.
    pub(super) turning: u32,
    /// The number of slices that are left in this turn.
    pub(super) slices_left: u64,
    /// The share of the shard's time ([`Share`]) that the present work of the turn counts against.
    pub(super) share: Share,
    /// Whether a write or sync has failed, of the kind that must not fail. Then the process has to
    /// end.
    pub(super) has_failed_write: bool,
    /// Whether a clean stop was requested.
    pub(super) is_stopping: bool,
    /// Whether the disk is full: writes that need new space fail.
    pub(super) disk_is_full: bool,
    /// The space on the disk, as the server last saw it.
    pub(super) space: DiskSpace,
    /// The stamp of the data directory, once there is one.
    pub(super) meta: Option<Meta>,
    /// Whether the last stop was clean. Then the stamp says where the logs end.
    pub(super) ends_are_known: bool,
    /// All records of groups that the last startup recovered.
    pub(super) found: Vec<RecordBytes>,
    /// Whether one of the snapshots that the shards read at startup may have flipped bits.
    pub(super) has_rotten_snapshot: bool,
    /// Whether a crash since the last startup has misdirected a write (to a wrong place). Then the
    /// next startup may refuse the log.
    pub(super) wrote_astray: bool,
}

impl Process {
    /// Fills the disk, or frees space on it. The server notices at once.
    pub(super) fn set_disk_full(&mut self, is_full: bool) {
        self.disk_is_full = is_full;
        let (usable, room) = if is_full { (0, 0) } else { (1 << 39, u64::MAX) };
        self.space.set(Volume { total: 1 << 40, usable }, is_full, room);
    }

    pub(super) fn is_up(&self) -> bool {
        !self.shards.is_empty()
    }

    /// Whether this incarnation of the process still runs.
    pub(super) fn lives(&self, life: u32) -> bool {
        self.is_up() && self.life == life
    }

    pub(super) fn shard(&mut self, number: u32) -> Option<&mut SimShard> {
        self.shards.get_mut(number as usize)
    }

    /// When a shard was last loaded, in microseconds; zero if it never was.
    pub(super) fn loaded_at(&self, number: u32) -> u64 {
        self.loaded_at.get(&number).copied().unwrap_or(0)
    }
}
