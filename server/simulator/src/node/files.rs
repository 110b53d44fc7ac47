//! The file operations of shards on the simulated disk. Production's `Files` decides when they
//! start.

use super::operation::{Doing, Ended, EndedOperation, OpenFile, Operation, Outcome, Written};
use super::shard::Inbound;
use super::{Fact, FileFact, Node, Write};
use crate::coverage::Seen;
use crate::event::MachineEvent;
use crate::net::LinkId;
use muster_faults::Fault;
use muster_server::files::{Call, CallDone, FileError, FileIo, PartsTo};
use muster_server::reactor::Completion;
use muster_storage::{FileToken, OpenMode};
use std::io;
use std::path::Path;
use std::rc::Rc;

/// The injected fault `EarlyWrite` notifies a shard of a write this time before the write is done.
const EARLY_BY: u64 = 300_000;

/// The disk of the shard whose turn it is.
impl FileIo for Node {
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

    fn write(
        &mut self,
        file: &OpenFile,
        mode: OpenMode,
        offset: u64,
        data: &[u8],
        token: FileToken,
    ) {
        let (inode, len_before) = (file.inode, self.disk.len(file.inode));
        let number = self.disk.write(inode, offset, data);
        let data: Rc<[u8]> = data.into();
        let write = Write { inode, mode, number, offset, data: data.clone(), len_before };
        self.show_turning(Fact::File(FileFact::Writes(write)));
        let fails = self.write_fails(file, offset + data.len() as u64);
        self.begin(file, token, Doing::Write { write: number, offset, data }, fails);
    }

    fn read(&mut self, file: &OpenFile, offset: u64, len: u32, token: FileToken) {
        let chance = self.disk_profile.read_error_chance;
        let fails = self.disk_random.chance(chance).then_some(io::ErrorKind::Other);
        self.begin(file, token, Doing::Read { offset, len }, fails);
    }

    fn sync(&mut self, file: &OpenFile, token: FileToken) {
        let chance = self.disk_profile.write_error_chance;
        let fails = self.disk_random.chance(chance).then_some(io::ErrorKind::Other);
        let covers = self.disk.written_changes(file.inode);
        self.begin(file, token, Doing::Sync { covers }, fails);
    }

    fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.turning().parts.as_mut().into_iter().for_each(|parts| parts.extend(&bytes));
    }

    fn put_file(&mut self, file: &OpenFile, offset: u64, len: u32) {
        self.turning().files_of_parts.push(file.clone());
        match self.read_part(file, offset, len) {
            Some(bytes) => self.put_bytes(bytes),
            None => self.turning().parts = None,
        }
    }

    fn send(&mut self, to: PartsTo<LinkId>) {
        match to {
            PartsTo::Socket(link) => self.send_parts(Some(link)),
            // Listeners of the simulator have no TLS.
            PartsTo::Reactor(_) | PartsTo::Nowhere => self.send_parts(None),
        }
    }
}

impl Node {
    /// Converts the end of an operation to a completion of production's reactor.
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

    /// Notes a failed write or sync. The process will end because of it. The only exception is a
    /// full disk and a file of the kind [`is_aside`](OpenMode::is_aside).
    fn note_failure(&mut self, file: &OpenFile, error: Option<&io::Error>) {
        let Some(error) = error else { return };
        let is_full = error.kind() == io::ErrorKind::StorageFull;
        let (path, mode) = (self.disk.name(file.inode).to_owned(), file.mode);
        self.process.has_failed_write |= !is_full || !mode.is_aside();
        self.show_turning(Fact::File(FileFact::WriteFailed { path, mode, is_full }));
    }

    fn read_part(&mut self, file: &OpenFile, offset: u64, len: u32) -> Option<Vec<u8>> {
        if self.disk_random.chance(self.disk_profile.read_error_chance) {
            return None;
        }
        let bytes = self.disk.read(file.inode, offset, len);
        if bytes.len() < len as usize {
            let (path, has) = (self.disk.name(file.inode).to_owned(), bytes.len());
            self.show_turning(Fact::File(FileFact::ReadShort { path, offset, len, has }));
        }
        Some(bytes)
    }

    fn write_fails(&mut self, file: &OpenFile, end: u64) -> Option<io::ErrorKind> {
        let needs_space = end > self.disk.durable_len(file.inode);
        let chance = self.disk_profile.write_error_chance;
        let is_full = self.process.disk_is_full;
        let fails = is_full && needs_space || self.disk_random.chance(chance);
        let kind = if is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
        fails.then_some(kind)
    }

    fn begin(
        &mut self,
        file: &OpenFile,
        token: FileToken,
        doing: Doing,
        fails: Option<io::ErrorKind>,
    ) {
        let at = self.ends_at(file, &doing);
        let (shard, file) = (self.process.turning, file.clone());
        let operation = Operation { shard, file, token, doing, fails, at, is_early: false };
        let number = self.process.next_operation;
        self.process.next_operation += 1;
        self.process.operations.insert(number, operation);
        let life = self.process.life;
        self.plan(at, MachineEvent::FileDone { life, operation: number });
    }

    /// The time when an operation ends: not before earlier operations on the same bytes of the
    /// file. A sync may end before or after the writes.
    fn ends_at(&mut self, file: &OpenFile, doing: &Doing) -> u64 {
        let at = self.operation_takes();
        let before = self.process.operations.values();
        let follows = before.filter(|other| other.file.inode == file.inode);
        let follows = follows.filter(|other| other.doing.overlaps(doing));
        follows.map(|other| other.at).max().unwrap_or(0).max(at)
    }

    /// Draws the time when an operation that begins now ends.
    pub(super) fn operation_takes(&mut self) -> u64 {
        let disk = &self.disk_profile;
        let slow = self.disk_random.chance(disk.slow_chance);
        if slow {
            self.coverage.saw(Seen::SlowOperation);
        }
        let high = if slow { disk.slow } else { disk.delay_max };
        self.now + self.disk_random.skewed(disk.delay_min, high.max(disk.delay_min))
    }

    /// Ends an operation: it takes effect now. Returns None if the disk hangs, which delays the
    /// operation, if the shard is notified before the effect, or if the operation's process has
    /// ended.
    pub(crate) fn end_operation(&mut self, life: u32, number: u64) -> Option<EndedOperation> {
        if !self.process.lives(life) {
            return None;
        }
        if let Some(until) = self.hangs_on() {
            self.plan(until, MachineEvent::FileDone { life, operation: number });
            return None;
        }
        let operation = self.process.operations.remove(&number)?;
        let is_early_write = self.setup.injected == Some(Fault::EarlyWrite);
        if is_early_write && !operation.is_early && operation.is_durable_write() {
            self.notify_early(life, number, operation);
            return None;
        }
        let Operation { shard, file, token, doing, fails, is_early, .. } = operation;
        let (outcome, written) = self.take_effect(&file, doing, fails);
        let ended = Ended { file, token, outcome };
        Some(EndedOperation { shard, ended, written, is_early })
    }

    /// Passes the end of an operation to its shard.
    pub(crate) fn notify(&mut self, operation: EndedOperation) {
        let EndedOperation { shard, ended, is_early, .. } = operation;
        if !is_early {
            self.enqueue(shard, Inbound::File(ended));
        }
    }

    /// Applies an operation to the disk. Returns its outcome, and the bytes of a write, even of a
    /// failed one.
    fn take_effect(
        &mut self,
        file: &OpenFile,
        doing: Doing,
        fails: Option<io::ErrorKind>,
    ) -> (Outcome, Option<Written>) {
        let result = fails.map_or(Ok(()), |kind| Err(io::Error::from(kind)));
        match doing {
            Doing::Write { write, offset, data } => {
                if result.is_ok() {
                    self.disk.written(file.inode, write, file.mode);
                }
                (Outcome::Written(result), Some(Written { offset, data }))
            }
            Doing::Read { offset, len } => {
                self.coverage.add(Seen::FailedRead, u64::from(result.is_err()));
                let read = result.map(|()| self.disk.read(file.inode, offset, len));
                (Outcome::Read(read), None)
            }
            Doing::Sync { covers } => {
                if result.is_ok() {
                    self.disk.synced(file.inode, &covers);
                }
                (Outcome::Synced(result), None)
            }
        }
    }

    fn notify_early(&mut self, life: u32, number: u64, mut operation: Operation) {
        let (file, token, shard) = (operation.file.clone(), operation.token, operation.shard);
        operation.is_early = true;
        self.process.operations.insert(number, operation);
        self.plan(self.now + EARLY_BY, MachineEvent::FileDone { life, operation: number });
        let ended = Ended { file, token, outcome: Outcome::Written(Ok(())) };
        self.enqueue(shard, Inbound::File(ended));
    }
}
