//! The file operations of shards on the simulated disk. `muster`'s `Files` decides when they start;
//! a write or sync that must not fail and does ends the process.

use super::{Inbound, Seat};
use crate::coverage::Seen;
use crate::disk::Inode;
use crate::event::{Crash, TimedEvent};
use crate::net::LinkId;
use crate::world::World;
use muster::files::{Descriptor, FileError, FileIo, Files};
use muster::shard::Part;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::{SNAPSHOT_ASIDE_FILE_NAME, SNAPSHOT_FILE_NAME};
use muster_storage::{FileDone, FileOp, FileToken, OpenMode};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub(crate) type ShardFiles = Files<OpenFile, LinkId>;

/// Closing files before the next open waits: few, so that some do.
pub(super) const CLOSING_MAX: usize = 1;

#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    pub(crate) inode: Inode,
    pub(crate) mode: OpenMode,
    descriptor: Rc<()>,
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
    /// The error with which it ends.
    fails: Option<io::ErrorKind>,
    /// When it ends.
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
    inode: Inode,
    token: FileToken,
    outcome: Outcome,
}

enum Outcome {
    Written(io::Result<()>),
    Read(io::Result<Vec<u8>>),
    Synced(io::Result<()>),
}

/// How long after its notification an early write is done.
const EARLY_BY: u64 = 300_000;

/// A shard's side of the disk.
struct DiskIo<'a> {
    world: &'a mut World,
    shard: u32,
}

impl FileIo for DiskIo<'_> {
    type File = OpenFile;
    type Conn = LinkId;

    fn open(&mut self, path: &Path, mode: OpenMode) -> Result<OpenFile, FileError> {
        let Self { world, shard } = self;
        world.note(format_args!("shard {shard} opens {}", path.display()));
        let is_new = !world.disk.has(path);
        let inode = world.disk.open(path, mode);
        if is_new {
            world.judge_images(*shard, path, Seen::ImageOfNames, None);
        }
        Ok(OpenFile { inode, mode, descriptor: Rc::default() })
    }

    fn write(&mut self, file: &OpenFile, _: OpenMode, offset: u64, data: &[u8], token: FileToken) {
        let Self { world, shard } = self;
        world.judge_write(*shard, file, offset, data);
        let write = world.disk.write(file.inode, offset, data);
        let path = world.path_of(file);
        world.judge_images(*shard, &path, Seen::ImageInWrite, Some(write));
        let fails = world.write_fails(file, offset + data.len() as u64);
        let doing = Doing::Write { write, offset, data: data.to_vec() };
        world.begin(*shard, file, token, doing, fails);
    }

    fn read(&mut self, file: &OpenFile, offset: u64, len: u32, token: FileToken) {
        let chance = self.world.disk_profile().read_error_chance;
        let fails = self.world.disk_random.chance(chance).then_some(io::ErrorKind::Other);
        self.world.begin(self.shard, file, token, Doing::Read { offset, len }, fails);
    }

    fn sync(&mut self, file: &OpenFile, token: FileToken) {
        let chance = self.world.disk_profile().write_error_chance;
        let fails = self.world.disk_random.chance(chance).then_some(io::ErrorKind::Other);
        let covers = self.world.disk.written_changes(file.inode);
        self.world.begin(self.shard, file, token, Doing::Sync { covers }, fails);
    }

    fn truncate(&mut self, file: &OpenFile, len: u64) -> Result<(), FileError> {
        let Self { world, shard } = self;
        let path = world.path_of(file);
        world.note(format_args!("shard {shard} truncates {}", path.display()));
        world.disk.truncate(file.inode, len);
        world.judge_images(*shard, &path, Seen::ImageOfNames, None);
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), FileError> {
        let Self { world, shard } = self;
        world.note(format_args!("shard {shard} renames {} {}", from.display(), to.display()));
        world.coverage.saw(match () {
            () if from.ends_with(ASIDE_FILE_NAME) => Seen::Compacted,
            () if to.ends_with(SNAPSHOT_FILE_NAME) => Seen::Snapshot,
            () if from.ends_with(SNAPSHOT_FILE_NAME) => Seen::SnapshotFailed,
            () => Seen::Recycled,
        });
        world.judge_images(*shard, from, Seen::ImageOfNames, None);
        world.disk.rename(from, to);
        world.judge_images(*shard, to, Seen::ImageOfNames, None);
        Ok(())
    }

    fn remove_file(&mut self, path: &Path) -> Result<(), FileError> {
        let Self { world, shard } = self;
        world.note(format_args!("shard {shard} removes {}", path.display()));
        world.judge_images(*shard, path, Seen::ImageOfNames, None);
        world.disk.remove_file(path);
        world.judge_images(*shard, path, Seen::ImageOfNames, None);
        Ok(())
    }

    fn remove_dir(&mut self, path: &Path) -> Result<(), FileError> {
        let Self { world, shard } = self;
        world.note(format_args!("shard {shard} removes {}", path.display()));
        world.disk.remove_dir(path);
        Ok(())
    }

    /// Nothing reads files in the trash.
    fn move_dir(&mut self, from: &Path, to: &Path) {
        let Self { world, shard } = self;
        world.note(format_args!("shard {shard} moves {} to {}", from.display(), to.display()));
        world.disk.remove_dir(from);
    }

    fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.seat().parts.as_mut().into_iter().for_each(|parts| parts.extend(&bytes));
    }

    fn put_file(&mut self, file: &OpenFile, offset: u64, len: u32) {
        match self.world.read_part(self.shard, file, offset, len) {
            Some(bytes) => self.put_bytes(bytes),
            None => self.seat().parts = None,
        }
    }

    fn send(&mut self, link: Option<LinkId>) {
        self.world.send_parts(self.shard, link);
    }
}

impl DiskIo<'_> {
    fn seat(&mut self) -> &mut Seat {
        &mut self.world.process.seats[self.shard as usize]
    }
}

impl World {
    pub(super) fn perform(&mut self, shard: u32, op: FileOp) {
        self.with_files(shard, |files, io| files.perform(io, op));
    }

    /// A part of an answer is gathered.
    pub(super) fn add_part(&mut self, shard: u32, part: Part) {
        self.with_files(shard, |files, io| files.add_part(io, part));
    }

    /// The gathered parts are sent; dropped if the connection is gone.
    pub(super) fn send_slice(&mut self, shard: u32, link: Option<LinkId>) {
        self.with_files(shard, |files, io| files.send_parts(io, link));
    }

    /// An event may have ended an operation: what waited for it starts.
    pub(super) fn resume_files(&mut self, shard: u32) {
        self.with_files(shard, |files, io| files.resume(io));
    }

    fn with_files(
        &mut self,
        shard: u32,
        act: impl FnOnce(&mut ShardFiles, &mut DiskIo<'_>) -> Result<(), FileError>,
    ) {
        let Some(mut files) = self.take_files(shard) else { return };
        let (was_deferring, waited) = (files.is_deferring(), files.waiting_syncs());
        let acted = act(&mut files, &mut DiskIo { world: self, shard });
        let defers = files.is_deferring() && !was_deferring;
        self.coverage.add(Seen::OpenDeferred, u64::from(defers));
        self.coverage.add(Seen::SyncWaited, u64::from(files.waiting_syncs() > waited));
        self.process.seats[shard as usize].files = files;
        if let Err(error) = acted {
            self.violate(format_args!("shard {shard}: {error}"));
        }
    }

    fn take_files(&mut self, shard: u32) -> Option<ShardFiles> {
        let seat = self.process.seat(shard)?;
        Some(std::mem::replace(&mut seat.files, Files::new(CLOSING_MAX)))
    }

    /// Passes the end of an operation to the shard's files; None if that ends the process.
    pub(super) fn operation_ended(&mut self, shard: u32, ended: Ended) -> Option<FileDone> {
        let Ended { inode, token, outcome } = ended;
        let mut files = self.take_files(shard)?;
        let done = match outcome {
            Outcome::Written(result) => {
                files.written(&mut DiskIo { world: self, shard }, token, result)
            }
            Outcome::Read(result) => Ok(Some(files.read(token, result))),
            Outcome::Synced(result) => files.synced(token, result).map(Some),
        };
        self.process.seats[shard as usize].files = files;
        match done {
            Ok(Some(FileDone::NoSpace { token })) => {
                let is_snapshot = self.disk.name(inode).ends_with(SNAPSHOT_ASIDE_FILE_NAME);
                let seen =
                    if is_snapshot { Seen::NoSpaceSnapshot } else { Seen::NoSpaceCompaction };
                self.coverage.saw(seen);
                Some(FileDone::NoSpace { token })
            }
            Ok(done) => done,
            Err(error) => {
                self.write_failed(shard, inode, error.kind());
                None
            }
        }
    }

    /// The reactor ends the process; what became of the write only the disk knows.
    fn write_failed(&mut self, shard: u32, inode: Inode, error: io::ErrorKind) {
        let is_full = error == io::ErrorKind::StorageFull;
        self.coverage.saw(if is_full { Seen::NoSpaceWrite } else { Seen::FailedWrite });
        let path = self.disk.name(inode).display().to_string();
        self.note(format_args!("shard {shard} fails to write {path}"));
        self.crash(Crash::Kill);
    }

    fn read_part(&mut self, shard: u32, file: &OpenFile, offset: u64, len: u32) -> Option<Vec<u8>> {
        if self.disk_random.chance(self.disk_profile().read_error_chance) {
            return None;
        }
        let bytes = self.disk.read(file.inode, offset, len);
        if bytes.len() < len as usize {
            self.violate(format_args!("shard {shard}: a file is shorter than a part of it"));
        }
        Some(bytes)
    }

    /// The file's name, or the last one that it had.
    pub(crate) fn path_of(&self, file: &OpenFile) -> PathBuf {
        self.disk.name(file.inode).to_owned()
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
        self.queue.at(at, TimedEvent::FileDone { life, operation: number });
    }

    /// When an operation ends: not before those of the same file that it overlaps. A sync and
    /// writes end in any order.
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
        let follows = follows.filter(|other| other.doing.overlaps(doing));
        follows.map(|other| other.at).max().unwrap_or(0).max(at)
    }

    pub(crate) fn file_done(&mut self, life: u32, number: u64) {
        if !self.process.lives(life) {
            return;
        }
        let Some(operation) = self.process.operations.remove(&number) else { return };
        if self.plants_early_ack() && !operation.is_early && operation.is_durable_write() {
            return self.notify_early(life, number, operation);
        }
        let Operation { shard, file, token, doing, fails, is_early, .. } = operation;
        let outcome = self.take_effect(shard, &file, doing, fails);
        if !is_early {
            let ended = Ended { inode: file.inode, token, outcome };
            self.enqueue(shard, Inbound::File(ended));
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
                }
                Outcome::Written(result)
            }
            Doing::Read { offset, len } => {
                self.coverage.add(Seen::FailedRead, u64::from(result.is_err()));
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
        let (inode, token, shard) = (operation.file.inode, operation.token, operation.shard);
        operation.is_early = true;
        self.process.operations.insert(number, operation);
        self.queue.after(EARLY_BY, TimedEvent::FileDone { life, operation: number });
        let ended = Ended { inode, token, outcome: Outcome::Written(Ok(())) };
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
