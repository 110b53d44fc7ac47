//! Calls that change names and lengths of files: production makes them on a thread, so they take as
//! long as the disk takes, and the shard continues. They take effect in order.

use super::files::OpenFile;
use super::{Calling, Inbound};
use crate::coverage::Seen;
use crate::event::TimedEvent;
use crate::world::World;
use muster::files::{Call, CallDone};
use muster_storage::OpenMode;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::SNAPSHOT_FILE_NAME;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

/// The chance that a file that exists is opened at once.
const AT_ONCE_CHANCE: f64 = 0.5;

impl World {
    pub(super) fn begin_call(&mut self, call: Call<OpenFile>) {
        let shard = self.process.turning;
        let before = self.process.calls.values().filter(|other| other.shard == shard);
        let last = before.map(|other| other.at).max().unwrap_or(0);
        let at = self.operation_takes().max(last);
        let number = self.process.next_operation;
        self.process.next_operation += 1;
        if self.injects_blocking_call() && !matches!(call, Call::Close { .. }) {
            let hangs_until = self.process.hangs_until;
            self.process.blocked_until = self.process.blocked_until.max(at).max(hangs_until);
        }
        self.process.calls.insert(number, Calling { shard, call, at });
        let life = self.process.life;
        self.sim.at(at, TimedEvent::CallDone { life, call: number });
    }

    pub(crate) fn call_done(&mut self, life: u32, number: u64) {
        if !self.process.lives(life) {
            return;
        }
        if let Some(until) = self.hangs_on() {
            return self.sim.at(until, TimedEvent::CallDone { life, call: number });
        }
        let Some(Calling { shard, call, .. }) = self.process.calls.remove(&number) else { return };
        let done = self.make(shard, call);
        if let Some(sim) = self.process.shard(shard) {
            sim.called.push_back(done);
        }
        self.enqueue(shard, Inbound::Called);
    }

    pub(super) fn open_existing(&mut self, path: &Path, mode: OpenMode) -> Option<OpenFile> {
        let is_there = mode.is_cached() && self.disk.has(path);
        let opens = is_there && self.disk_random.chance(AT_ONCE_CHANCE);
        opens.then(|| self.open(self.process.turning, path, mode))
    }

    /// The call takes effect.
    fn make(&mut self, shard: u32, call: Call<OpenFile>) -> CallDone<OpenFile> {
        match call {
            Call::Open { path, mode: OpenMode::Existing } if !self.disk.has(&path) => {
                self.sim.note(format_args!("shard {shard} misses {}", path.display()));
                self.sim.saw(Seen::FileMissed);
                return CallDone::NotOpened(ErrorKind::NotFound.into());
            }
            Call::Open { path, mode } => return CallDone::Opened(self.open(shard, &path, mode)),
            Call::Truncate { file, len } => {
                let path = self.path_of(&file);
                self.sim.note(format_args!("shard {shard} truncates {}", path.display()));
                self.disk.truncate(file.inode, len);
                self.judge_images(shard, &path, Seen::ImageOfNames, None);
            }
            Call::Rename { from, to } => self.rename(shard, &from, &to),
            Call::RemoveFile { path } => {
                self.sim.note(format_args!("shard {shard} removes {}", path.display()));
                self.judge_images(shard, &path, Seen::ImageOfNames, None);
                self.disk.remove_file(&path);
                self.judge_images(shard, &path, Seen::ImageOfNames, None);
            }
            Call::RemoveDir { path } => {
                self.sim.note(format_args!("shard {shard} removes {}", path.display()));
                self.disk.remove_dir(&path);
            }
            // No check reads the trash.
            Call::MoveDir { from, to } => {
                let (old, new) = (from.display(), to.display());
                self.sim.note(format_args!("shard {shard} moves {old} to {new}"));
                self.disk.remove_dir(&from);
            }
            Call::Keep { path, .. } => {
                self.sim.note(format_args!("shard {shard} keeps {}", path.display()));
            }
            Call::Look { path, file } => {
                self.sim.note(format_args!("shard {shard} looks at {}", path.display()));
                let found = self
                    .disk
                    .look(&path)
                    .filter(|(inode, _)| file.is_none_or(|file| file.inode == *inode));
                return CallDone::Looked(Ok(found.map(|(_, len)| len)));
            }
            Call::Link(_) => unreachable!("nothing asks for a backup"),
            Call::Close { file } => drop(file),
        }
        CallDone::Done
    }

    fn open(&mut self, shard: u32, path: &Path, mode: OpenMode) -> OpenFile {
        self.sim.note(format_args!("shard {shard} opens {}", path.display()));
        let is_new = !self.disk.has(path);
        self.rot.opened(shard, path);
        let inode = self.disk.open(path, mode);
        if is_new {
            self.judge_new_file(path);
            self.judge_images(shard, path, Seen::ImageOfNames, None);
        }
        OpenFile { inode, mode, descriptor: Rc::default() }
    }

    fn rename(&mut self, shard: u32, from: &Path, to: &Path) {
        self.sim.note(format_args!("shard {shard} renames {} {}", from.display(), to.display()));
        self.sim.saw(match () {
            () if from.ends_with(ASIDE_FILE_NAME) => Seen::Compacted,
            () if to.ends_with(SNAPSHOT_FILE_NAME) => Seen::Snapshot,
            () if from.ends_with(SNAPSHOT_FILE_NAME) => Seen::SnapshotFailed,
            () => Seen::Recycled,
        });
        self.rot.renamed(shard, from, to);
        self.judge_images(shard, from, Seen::ImageOfNames, None);
        self.disk.rename(from, to);
        self.judge_images(shard, to, Seen::ImageOfNames, None);
    }
}
