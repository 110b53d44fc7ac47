//! The file operations of shards on the simulated disk. `muster`'s `Files` decides when they start.

use super::Inbound;
use crate::coverage::Seen;
use crate::disk::Inode;
use crate::event::TimedEvent;
use crate::net::LinkId;
use crate::world::World;
use muster::files::{Call, CallDone, Descriptor, FileError, FileIo, PartsTo};
use muster::partitions::layout::TOPICS;
use muster::reactor::Completion;
use muster_storage::snapshot::SNAPSHOT_ASIDE_FILE_NAME;
use muster_storage::{FileToken, OpenMode};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The number of files being closed at which further opens wait: few, so that some do.
pub(crate) const CLOSING_MAX: usize = 1;

#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    pub(crate) inode: Inode,
    pub(crate) mode: OpenMode,
    pub(super) descriptor: Rc<()>,
}

impl Descriptor for OpenFile {
    fn is_in_use(&self) -> bool {
        Rc::strong_count(&self.descriptor) > 1
    }
}

/// An operation under way.
pub(super) struct Operation {
    shard: u32,
    file: OpenFile,
    token: FileToken,
    doing: Doing,
    /// The error of the operation, if it fails.
    fails: Option<io::ErrorKind>,
    /// The time when it ends.
    at: u64,
    /// The shard was notified before it was done: an injected fault.
    is_early: bool,
}

enum Doing {
    Write {
        write: u64,
        offset: u64,
        data: Vec<u8>,
    },
    Read {
        offset: u64,
        len: u32,
    },
    /// The changes of the file that it covers.
    Sync {
        covers: Vec<u64>,
    },
}

/// An operation that has ended, and waits for its shard's turn.
pub(super) struct Ended {
    file: OpenFile,
    token: FileToken,
    outcome: Outcome,
}

enum Outcome {
    Written(io::Result<()>),
    Read(io::Result<Vec<u8>>),
    Synced(io::Result<()>),
}

/// The time from the notification of an early write to its completion.
const EARLY_BY: u64 = 300_000;

/// The disk of the shard whose turn it is.
impl FileIo for World {
    type File = OpenFile;
    type Conn = LinkId;

    fn open_at_once(&mut self, path: &Path, mode: OpenMode) -> Option<OpenFile> {
        self.open_existing(path, mode)
    }

    fn call(&mut self, call: Call<OpenFile>) {
        self.begin_call(call);
    }

    fn ended(&mut self) -> Option<Result<CallDone<OpenFile>, FileError>> {
        self.turning().called.pop_front().map(Ok)
    }

    fn write(&mut self, file: &OpenFile, _: OpenMode, offset: u64, data: &[u8], token: FileToken) {
        let shard = self.process.turning;
        self.judge_write(shard, file, offset, data);
        self.judge_gap(file, offset);
        let write = self.disk.write(file.inode, offset, data);
        let path = self.path_of(file);
        self.judge_images(shard, &path, Seen::ImageInWrite, Some(write));
        let fails = self.write_fails(file, offset + data.len() as u64);
        let doing = Doing::Write { write, offset, data: data.to_vec() };
        self.begin(shard, file, token, doing, fails);
    }

    fn read(&mut self, file: &OpenFile, offset: u64, len: u32, token: FileToken) {
        let chance = self.disk_profile().read_error_chance;
        let fails = self.disk_random.chance(chance).then_some(io::ErrorKind::Other);
        self.begin(self.process.turning, file, token, Doing::Read { offset, len }, fails);
    }

    fn sync(&mut self, file: &OpenFile, token: FileToken) {
        let chance = self.disk_profile().write_error_chance;
        let fails = self.disk_random.chance(chance).then_some(io::ErrorKind::Other);
        let covers = self.disk.written_changes(file.inode);
        self.begin(self.process.turning, file, token, Doing::Sync { covers }, fails);
    }

    fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.turning().parts.as_mut().into_iter().for_each(|parts| parts.extend(&bytes));
    }

    fn put_file(&mut self, file: &OpenFile, offset: u64, len: u32) {
        self.turning().files_of_parts.push(file.clone());
        match self.read_part(self.process.turning, file, offset, len) {
            Some(bytes) => self.put_bytes(bytes),
            None => self.turning().parts = None,
        }
    }

    fn send(&mut self, to: PartsTo<LinkId>) {
        match to {
            PartsTo::Socket(link) => self.send_parts(Some(link)),
            // Its listeners have no TLS.
            PartsTo::Reactor(_) | PartsTo::Nowhere => self.send_parts(None),
        }
    }
}

impl World {
    /// The end of an operation, as production's reactor has it.
    pub(super) fn operation_ended<C, D, P>(&mut self, ended: Ended) -> Completion<C, D, P> {
        let token = ended.token;
        match ended.outcome {
            Outcome::Written(result) => {
                self.note_failure(&ended.file, result.as_ref().err());
                Completion::Written { token, result }
            }
            Outcome::Read(result) => Completion::Read { token, result },
            Outcome::Synced(result) => {
                self.note_failure(&ended.file, result.as_ref().err());
                Completion::Synced { token, result }
            }
        }
    }

    /// A write or sync has failed: if it is not one that may, the process ends.
    fn note_failure(&mut self, file: &OpenFile, error: Option<&io::Error>) {
        let Some(error) = error else { return };
        let is_full = error.kind() == io::ErrorKind::StorageFull;
        let name = self.path_of(file);
        if is_full && file.mode == OpenMode::Aside {
            let is_snapshot = name.ends_with(SNAPSHOT_ASIDE_FILE_NAME);
            if is_snapshot {
                self.rot.no_space_for_snapshot();
                return self.sim.saw(Seen::NoSpaceSnapshot);
            }
            return self.sim.saw(Seen::NoSpaceCompaction);
        }
        self.sim.saw(if is_full { Seen::NoSpaceWrite } else { Seen::FailedWrite });
        self.sim.note(format_args!("a write to {} fails", name.display()));
        self.process.has_failed_write = true;
    }

    fn read_part(&mut self, shard: u32, file: &OpenFile, offset: u64, len: u32) -> Option<Vec<u8>> {
        if self.disk_random.chance(self.disk_profile().read_error_chance) {
            return None;
        }
        let bytes = self.disk.read(file.inode, offset, len);
        if bytes.len() < len as usize {
            let (path, has) = (self.path_of(file), bytes.len());
            let part = format!("{len} bytes at {offset} of {}, which has {has}", path.display());
            self.sim.violate(format_args!(
                "shard {shard}: a file is shorter than a part of it: {part}"
            ));
        }
        Some(bytes)
    }

    /// The file's name, or the last one that it had.
    pub(crate) fn path_of(&self, file: &OpenFile) -> PathBuf {
        self.disk.name(file.inode).to_owned()
    }

    /// A segment of a partition has no gap.
    fn judge_gap(&mut self, file: &OpenFile, offset: u64) {
        let (path, len) = (self.path_of(file), self.disk.len(file.inode));
        let is_segment = path.starts_with(TOPICS) && path.extension().is_some_and(|it| it == "log");
        if is_segment && offset > len {
            let path = path.display();
            self.sim.violate(format_args!("a batch at {offset} of {path}, which has {len} bytes"));
        }
    }

    fn write_fails(&mut self, file: &OpenFile, end: u64) -> Option<io::ErrorKind> {
        let needs_space = end > self.disk.durable_len(file.inode);
        let chance = self.disk_profile().write_error_chance;
        let is_full = self.process.disk_is_full;
        let fails = is_full && needs_space || self.disk_random.chance(chance);
        let kind = if is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
        fails.then_some(kind)
    }

    fn begin(
        &mut self,
        shard: u32,
        file: &OpenFile,
        token: FileToken,
        doing: Doing,
        fails: Option<io::ErrorKind>,
    ) {
        let at = self.ends_at(file, &doing);
        let file = file.clone();
        let operation = Operation { shard, file, token, doing, fails, at, is_early: false };
        let number = self.process.next_operation;
        self.process.next_operation += 1;
        self.process.operations.insert(number, operation);
        let life = self.process.life;
        self.sim.at(at, TimedEvent::FileDone { life, operation: number });
    }

    /// The time when an operation ends: not before those of the same file that it overlaps. A sync
    /// and writes end in any order.
    fn ends_at(&mut self, file: &OpenFile, doing: &Doing) -> u64 {
        let at = self.operation_takes();
        let before = self.process.operations.values();
        let follows = before.filter(|other| other.file.inode == file.inode);
        let follows = follows.filter(|other| other.doing.overlaps(doing));
        follows.map(|other| other.at).max().unwrap_or(0).max(at)
    }

    /// Draws the time when an operation that begins now ends.
    pub(super) fn operation_takes(&mut self) -> u64 {
        let disk = &self.profile.disk;
        let slow = self.disk_random.chance(disk.slow_chance);
        if slow {
            self.sim.saw(Seen::SlowOperation);
        }
        let high = if slow { disk.slow } else { disk.delay_max };
        self.sim.now() + self.disk_random.skewed(disk.delay_min, high.max(disk.delay_min))
    }

    pub(crate) fn file_done(&mut self, life: u32, number: u64) {
        if !self.process.lives(life) {
            return;
        }
        if let Some(until) = self.hangs_on() {
            return self.sim.at(until, TimedEvent::FileDone { life, operation: number });
        }
        let Some(operation) = self.process.operations.remove(&number) else { return };
        if self.injects_early_write() && !operation.is_early && operation.is_durable_write() {
            return self.notify_early(life, number, operation);
        }
        let Operation { shard, file, token, doing, fails, is_early, .. } = operation;
        let outcome = self.take_effect(shard, &file, doing, fails);
        if !is_early {
            self.enqueue(shard, Inbound::File(Ended { file, token, outcome }));
        }
    }

    fn take_effect(
        &mut self,
        shard: u32,
        file: &OpenFile,
        doing: Doing,
        fails: Option<io::ErrorKind>,
    ) -> Outcome {
        let result = fails.map_or(Ok(()), |kind| Err(io::Error::from(kind)));
        match doing {
            Doing::Write { write, offset, data } => {
                if result.is_ok() {
                    self.disk.written(file.inode, write, file.mode);
                    self.judge_written(shard, file, offset, &data);
                    self.judge_images(shard, &self.path_of(file), Seen::ImageWritten, None);
                    self.crash_between_blocks(shard);
                }
                Outcome::Written(result)
            }
            Doing::Read { offset, len } => {
                self.sim.add(Seen::FailedRead, u64::from(result.is_err()));
                Outcome::Read(result.map(|()| self.disk.read(file.inode, offset, len)))
            }
            Doing::Sync { covers } => {
                if result.is_ok() {
                    self.disk.synced(file.inode, &covers);
                    self.judge_synced(shard, file);
                    self.judge_images(shard, &self.path_of(file), Seen::ImageSynced, None);
                }
                Outcome::Synced(result)
            }
        }
    }

    fn notify_early(&mut self, life: u32, number: u64, mut operation: Operation) {
        let (file, token, shard) = (operation.file.clone(), operation.token, operation.shard);
        operation.is_early = true;
        self.process.operations.insert(number, operation);
        self.sim.after(EARLY_BY, TimedEvent::FileDone { life, operation: number });
        let ended = Ended { file, token, outcome: Outcome::Written(Ok(())) };
        self.enqueue(shard, Inbound::File(ended));
    }
}

impl Operation {
    fn is_durable_write(&self) -> bool {
        let is_write = matches!(self.doing, Doing::Write { .. });
        is_write && self.fails.is_none() && self.file.mode == OpenMode::Durable
    }
}

impl Doing {
    /// Whether the other takes effect after this one.
    fn overlaps(&self, other: &Self) -> bool {
        let (Some((start, end)), Some((from, to))) = (self.range(), other.range()) else {
            return false;
        };
        start < to && from < end
    }

    fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Write { offset, data, .. } => Some((*offset, offset + data.len() as u64)),
            Self::Read { offset, len } => Some((*offset, offset + u64::from(*len))),
            Self::Sync { .. } => None,
        }
    }
}
