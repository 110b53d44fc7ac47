//! The file operations of shards, performed on the simulated disk as `muster`'s `files.rs` performs
//! them on the ring. One that must not fail and does ends the process.

use super::note_file;
use crate::coverage::Seen;
use crate::disk::Inode;
use crate::happening::{Crash, Happening};
use crate::world::World;
use muster::shard::Part;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::{SNAPSHOT_ASIDE_FILE_NAME, SNAPSHOT_FILE_NAME};
use muster_storage::{FileDone, FileId, FileOp, FileToken, OpenMode};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    pub(crate) inode: Inode,
    pub(crate) path: PathBuf,
    pub(crate) mode: OpenMode,
}

/// An operation under way.
pub(super) struct Operation {
    shard: u32,
    file: OpenFile,
    token: FileToken,
    doing: Doing,
    fails: bool,
    /// When it ends.
    at: u64,
    /// The shard was told before it was done: an injected fault.
    told: bool,
}

enum Doing {
    Write { write: u64, offset: u64, buffer: Vec<u8> },
    Read { offset: u64, len: u32 },
    Sync { point: u64 },
}

/// How late a write is done that was told to be done before.
const PLANTED_DELAY: u64 = 300_000;

impl World {
    pub(super) fn perform(&mut self, shard: u32, op: FileOp) {
        match op {
            FileOp::Open { file, path, mode } => self.open_file(shard, file, path, mode),
            FileOp::Close { file } => {
                self.process.seats[shard as usize].files.remove(&file);
            }
            FileOp::Write { token, file, offset, data } => {
                let Some(file) = self.file(shard, file) else { return };
                self.judge_write(shard, &file, offset, &data);
                let write = self.disk.write(file.inode, offset, &data);
                self.judge_images(shard, &file.path, Seen::ImageInWrite, Some(write));
                let fails = self.write_fails(&file, offset + data.len() as u64);
                let doing = Doing::Write { write, offset, buffer: data };
                self.begin(shard, file, token, doing, fails);
            }
            FileOp::Read { token, file, offset, len } => {
                let Some(file) = self.file(shard, file) else { return };
                let fails = self.disk_random.chance(self.disk_profile().read_error_chance);
                self.begin(shard, file, token, Doing::Read { offset, len }, fails);
            }
            FileOp::Sync { token, file } => {
                let Some(file) = self.file(shard, file) else { return };
                let fails = self.disk_random.chance(self.disk_profile().write_error_chance);
                let point = self.disk.sync_point();
                self.begin(shard, file, token, Doing::Sync { point }, fails);
            }
            FileOp::Truncate { file, len } => {
                if let Some(file) = self.file(shard, file) {
                    note_file(&mut self.trace, self.queue.now(), shard, "truncates", &file);
                    self.disk.truncate(file.inode, len);
                    self.judge_images(shard, &file.path, Seen::ImageOfNames, None);
                }
            }
            FileOp::Rename { from, to } => self.rename(shard, &from, &to),
            FileOp::RemoveFile { path } => {
                self.note(format_args!("shard {shard} removes {}", path.display()));
                self.judge_images(shard, &path, Seen::ImageOfNames, None);
                self.disk.remove_file(&path);
                self.judge_images(shard, &path, Seen::ImageOfNames, None);
            }
            FileOp::RemoveDir { path } => {
                self.note(format_args!("shard {shard} removes {}", path.display()));
                self.disk.remove_dir(&path);
            }
            // Nothing reads what is in the trash.
            FileOp::MoveDir { from, to } => {
                let (dir, place) = (from.display(), to.display());
                self.note(format_args!("shard {shard} moves {dir} to {place}"));
                self.disk.remove_dir(&from);
            }
        }
    }

    /// A part of an answer is gathered.
    pub(super) fn add_part(&mut self, shard: u32, part: Part) {
        let bytes = match part {
            Part::Bytes(bytes) => Some(bytes),
            Part::File { file, offset, len } => self.read_part(shard, file, offset, len),
        };
        let parts = &mut self.process.seats[shard as usize].parts;
        match (parts.as_mut(), bytes) {
            (Some(parts), Some(bytes)) => parts.extend(bytes),
            _ => *parts = None,
        }
    }

    fn read_part(&mut self, shard: u32, file: FileId, offset: u64, len: u32) -> Option<Vec<u8>> {
        let file = self.file(shard, file)?;
        if self.disk_random.chance(self.disk_profile().read_error_chance) {
            return None;
        }
        let bytes = self.disk.read(file.inode, offset, len);
        if bytes.len() < len as usize {
            self.violate(format_args!("shard {shard}: a file has less than was promised of it"));
        }
        Some(bytes)
    }

    fn open_file(&mut self, shard: u32, id: FileId, path: PathBuf, mode: OpenMode) {
        self.note(format_args!("shard {shard} opens {}", path.display()));
        let is_new = !self.disk.has(&path);
        let inode = self.disk.open(&path, mode);
        if is_new {
            self.judge_images(shard, &path, Seen::ImageOfNames, None);
        }
        let file = OpenFile { inode, path, mode };
        let before = self.process.seats[shard as usize].files.insert(id, file);
        if before.is_some() {
            self.violate(format_args!("shard {shard}: {id:?} is open already"));
        }
    }

    fn rename(&mut self, shard: u32, from: &Path, to: &Path) {
        self.note(format_args!("shard {shard} renames {} {}", from.display(), to.display()));
        self.coverage.saw(match () {
            () if from.ends_with(ASIDE_FILE_NAME) => Seen::Compacted,
            () if to.ends_with(SNAPSHOT_FILE_NAME) => Seen::Snapshot,
            () if from.ends_with(SNAPSHOT_FILE_NAME) => Seen::SnapshotFailed,
            () => Seen::Recycled,
        });
        self.judge_images(shard, from, Seen::ImageOfNames, None);
        self.disk.rename(from, to);
        self.judge_images(shard, to, Seen::ImageOfNames, None);
        for seat in &mut self.process.seats {
            let renamed = seat.files.values_mut().filter(|file| file.path == from);
            renamed.for_each(|file| to.clone_into(&mut file.path));
        }
    }

    fn file(&mut self, shard: u32, id: FileId) -> Option<OpenFile> {
        let file = self.process.seats[shard as usize].files.get(&id).cloned();
        if file.is_none() {
            self.violate(format_args!("shard {shard}: {id:?} is not open"));
        }
        file
    }

    fn write_fails(&mut self, file: &OpenFile, end: u64) -> bool {
        let needs_room = end > self.disk.durable_len(file.inode);
        let chance = self.disk_profile().write_error_chance;
        self.process.disk_is_full && needs_room || self.disk_random.chance(chance)
    }

    fn begin(&mut self, shard: u32, file: OpenFile, token: FileToken, doing: Doing, fails: bool) {
        let at = self.ends_at(&file, &doing);
        let operation = Operation { shard, file, token, doing, fails, at, told: false };
        let number = self.process.next_operation;
        self.process.next_operation += 1;
        self.process.operations.insert(number, operation);
        let life = self.process.life;
        self.queue.at(at, Happening::FileDone { life, operation: number });
    }

    /// When an operation ends: not before those of the same file that it has to follow.
    fn ends_at(&mut self, file: &OpenFile, doing: &Doing) -> u64 {
        let disk = &self.profile.disk;
        let slow = self.disk_random.chance(disk.slow_chance);
        if slow {
            self.coverage.saw(Seen::SlowOperation);
        }
        let high = if slow { disk.slow } else { disk.delay_max };
        let at =
            self.queue.now() + self.disk_random.skewed(disk.delay_min, high.max(disk.delay_min));
        let before = self.process.operations.values();
        let follows = before.filter(|other| other.file.inode == file.inode);
        let follows = follows.filter(|other| other.doing.precedes(doing));
        follows.map(|other| other.at).max().unwrap_or(0).max(at)
    }

    pub(crate) fn file_done(&mut self, life: u32, number: u64) {
        if !self.process.lives(life) {
            return;
        }
        let Some(operation) = self.process.operations.remove(&number) else { return };
        if operation.fails && !matches!(operation.doing, Doing::Read { .. }) {
            if operation.file.mode != OpenMode::Aside || !self.process.disk_is_full {
                return self.write_failed(&operation);
            }
            let is_snapshot = operation.file.path.ends_with(SNAPSHOT_ASIDE_FILE_NAME);
            let seen = if is_snapshot { Seen::NoSpaceSnapshot } else { Seen::NoSpaceCompaction };
            self.coverage.saw(seen);
            let done = FileDone::NoSpace { token: operation.token };
            return self.file_told(operation.shard, done);
        }
        if self.plants_early_ack() && !operation.told && operation.is_durable_write() {
            return self.tell_early(life, number, operation);
        }
        let Operation { shard, file, token, doing, fails, told, .. } = operation;
        let done = match doing {
            Doing::Write { write, offset, buffer } => {
                self.disk.written(file.inode, write, file.mode);
                self.judge_written(shard, &file, offset, &buffer);
                self.judge_images(shard, &file.path, Seen::ImageWritten, None);
                FileDone::Written { token, buffer }
            }
            Doing::Read { .. } if fails => {
                self.coverage.saw(Seen::FailedRead);
                FileDone::ReadFailed { token, reason: "simulated".into() }
            }
            Doing::Read { offset, len } => {
                FileDone::Read { token, data: self.disk.read(file.inode, offset, len) }
            }
            Doing::Sync { point } => {
                self.disk.synced(file.inode, point);
                self.judge_synced(shard, &file);
                self.judge_images(shard, &file.path, Seen::ImageSynced, None);
                FileDone::Synced { token }
            }
        };
        if !told {
            self.file_told(shard, done);
        }
    }

    /// The reactor ends the process; what became of the write only the disk knows.
    fn write_failed(&mut self, operation: &Operation) {
        let Operation { shard, file, .. } = operation;
        let full = self.process.disk_is_full;
        self.coverage.saw(if full { Seen::NoSpaceWrite } else { Seen::FailedWrite });
        note_file(&mut self.trace, self.queue.now(), *shard, "fails to write", file);
        self.crash(Crash::Kill);
    }

    fn tell_early(&mut self, life: u32, number: u64, mut operation: Operation) {
        let Doing::Write { buffer, .. } = &operation.doing else { return };
        let done = FileDone::Written { token: operation.token, buffer: buffer.clone() };
        operation.told = true;
        let shard = operation.shard;
        self.process.operations.insert(number, operation);
        self.queue.after(PLANTED_DELAY, Happening::FileDone { life, operation: number });
        self.file_told(shard, done);
    }
}

impl Operation {
    fn is_durable_write(&self) -> bool {
        self.file.mode == OpenMode::Durable && matches!(self.doing, Doing::Write { .. })
    }
}

impl Doing {
    /// Whether the other takes effect after this one.
    fn precedes(&self, other: &Self) -> bool {
        let (Some((start, end)), Some((from, to))) = (self.range(), other.range()) else {
            return true;
        };
        start < to && from < end
    }

    fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Write { offset, buffer, .. } => Some((*offset, offset + buffer.len() as u64)),
            Self::Read { offset, len } => Some((*offset, offset + u64::from(*len))),
            Self::Sync { .. } => None,
        }
    }
}
