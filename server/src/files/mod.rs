//! A shard's open files: decides when the file operations of its logs start and which syncs wait
//! for which writes, and limits the files that are being closed. [`FileIo`] carries them out: on a
//! ring, or on a disk of the simulator.

mod counters;
mod freeing;
mod io;
mod order;
mod ring;
#[cfg(test)]
mod tests;

pub use counters::{FileCounters, FileGauges};
pub use freeing::Freeing;
pub use io::{Descriptor, FileError, FileIo, PartsTo};
pub use ring::{RingIo, block_bytes};

use crate::shard::Part;
use crate::stall::FilesStanding;
use hashbrown::HashMap;
use muster_storage::{FileDone, FileId, FileOp, FileToken, OpenMode};
use order::{Place, SyncOrder};
use std::collections::VecDeque;
use std::path::PathBuf;

/// Open files by the ids that the logs assign, and the operations under way.
pub struct Files<I: FileIo> {
    now: i64,
    /// The most closing files before another one is opened.
    closing_max: usize,
    open: HashMap<FileId, OpenFile<I::File>>,
    /// Files that were closed during operations: they take descriptors until those end.
    closing: Vec<I::File>,
    /// Work that waits until fewer files are closing, in order.
    deferred: VecDeque<Work<I::Conn>>,
    /// The time since which the first of it has been the first.
    deferred_since: i64,
    writing: HashMap<FileToken, Writing>,
    syncs: SyncOrder<(I::File, FileToken)>,
    /// When the reads under way were started.
    reading: HashMap<FileToken, i64>,
    syncing: HashMap<FileToken, Syncing>,
    /// The connections whose slices are read or sent, and since when.
    slices: Vec<(I::Conn, i64)>,
    counters: FileCounters,
}

/// Work that is done in the order of the requests, each piece as a whole: what waits holds no file
/// open.
#[derive(Debug)]
enum Work<C> {
    Op(FileOp),
    SendParts(Vec<Part>, PartsTo<C>),
}

#[derive(Debug)]
struct OpenFile<F> {
    file: F,
    mode: OpenMode,
    /// For errors.
    path: PathBuf,
}

/// A write under way: the log's own buffer, and the mode of the file.
#[derive(Debug)]
struct Writing {
    since: i64,
    file: FileId,
    buffer: Vec<u8>,
    mode: OpenMode,
    /// None for a durable write: no sync has to wait for it.
    place: Option<Place>,
}

/// A sync that was requested; it may wait for writes.
#[derive(Debug)]
struct Syncing {
    since: i64,
    file: FileId,
}

impl<I: FileIo> Files<I> {
    pub fn new(closing_max: usize, now: i64) -> Self {
        Self {
            now,
            closing_max,
            open: HashMap::new(),
            closing: Vec::new(),
            deferred: VecDeque::new(),
            deferred_since: now,
            writing: HashMap::new(),
            syncs: SyncOrder::default(),
            reading: HashMap::new(),
            syncing: HashMap::new(),
            slices: Vec::new(),
            counters: FileCounters::default(),
        }
    }

    /// Sets the time of the operations that are requested next.
    pub fn advance(&mut self, now: i64) {
        self.now = now;
    }

    /// Starts an operation, or performs it at once if it is rare and short.
    ///
    /// # Errors
    /// An operation failed that must not fail; the process has to end.
    pub fn perform(&mut self, io: &mut I, op: FileOp) -> Result<(), FileError> {
        self.perform_work(io, Work::Op(op))
    }

    /// Sends or reads a slice of parts of open files, or drops it.
    ///
    /// # Errors
    /// As for [`Self::perform`].
    pub fn send_parts(
        &mut self,
        io: &mut I,
        parts: Vec<Part>,
        to: PartsTo<I::Conn>,
    ) -> Result<(), FileError> {
        self.perform_work(io, Work::SendParts(parts, to))
    }

    /// Starts deferred work that need not wait any more. To be called when an operation has ended.
    ///
    /// Only an open waits, and only for work that was started: that holds the files that are
    /// closing, and ends by itself.
    ///
    /// # Errors
    /// As for [`Self::perform`].
    pub fn resume(&mut self, io: &mut I) -> Result<(), FileError> {
        self.closing.retain(Descriptor::is_in_use);
        while let Some(work) = self.deferred.pop_front() {
            let is_open = matches!(work, Work::Op(FileOp::Open { .. }));
            if is_open && self.closing.len() >= self.closing_max {
                self.deferred.push_front(work);
                break;
            }
            self.deferred_since = self.now;
            match work {
                Work::Op(op) => self.start(io, op)?,
                Work::SendParts(parts, to) => self.start_slice(io, parts, to)?,
            }
        }
        Ok(())
    }

    /// A write ended; None for an unknown token. Starts the syncs that waited for it.
    ///
    /// # Errors
    /// The write failed: its bytes may or may not be on the disk. The process has to end.
    pub fn written(
        &mut self,
        io: &mut I,
        token: FileToken,
        result: std::io::Result<()>,
    ) -> Result<Option<FileDone>, FileError> {
        let writing = self.writing.remove(&token);
        let (mode, file) = writing.as_ref().map(|it| (it.mode, it.file)).unzip();
        if let (Ok(()), Some(place)) = (&result, writing.as_ref().and_then(|it| it.place)) {
            self.syncs.written(place, |(file, token)| io.sync(&file, token));
        }
        match result {
            Ok(()) => Ok(writing.map(|it| FileDone::Written { token, buffer: it.buffer })),
            Err(error) if mode == Some(OpenMode::Aside) && is_no_space(&error) => {
                Ok(Some(FileDone::NoSpace { token }))
            }
            Err(error) => Err(self.failed("write to", file, &error)),
        }
    }

    /// A read ended.
    pub fn read(&mut self, token: FileToken, result: std::io::Result<Vec<u8>>) -> FileDone {
        self.reading.remove(&token);
        match result {
            Ok(data) => FileDone::Read { token, data },
            Err(error) => FileDone::ReadFailed { token, reason: error.to_string() },
        }
    }

    /// A sync ended.
    ///
    /// # Errors
    /// The sync failed: earlier writes may or may not be on the disk. The process has to end.
    pub fn synced(
        &mut self,
        token: FileToken,
        result: std::io::Result<()>,
    ) -> Result<FileDone, FileError> {
        let file = self.syncing.remove(&token).map(|it| it.file);
        result.map_err(|error| self.failed("sync", file, &error))?;
        Ok(FileDone::Synced { token })
    }

    /// The slice of a connection was sent, read or dropped, if it had one.
    pub fn slice_ended(&mut self, conn: I::Conn) {
        self.slices.retain(|(other, _)| *other != conn);
    }

    /// Whether any operation has not ended yet.
    pub fn is_busy(&self) -> bool {
        let is_under_way =
            !self.writing.is_empty() || !self.reading.is_empty() || !self.syncing.is_empty();
        is_under_way || !self.deferred.is_empty()
    }

    /// Closes all files. No operation may be under way.
    pub fn close_all(&mut self) {
        assert!(!self.is_busy(), "an operation is under way");
        self.open.clear();
        self.closing.clear();
        self.slices.clear();
        self.syncs = SyncOrder::default();
    }

    /// The numbers of its operations.
    pub fn counters(&self) -> FileCounters {
        self.counters
    }

    /// The numbers as they are now.
    pub fn gauges(&self, now: i64) -> FileGauges {
        let oldest = self.oldest_operation().map_or(0, |since| now - since);
        let oldest_operation_micros = oldest.max(0).unsigned_abs().saturating_mul(1_000);
        FileGauges { descriptors: self.descriptors() as u64, oldest_operation_micros }
    }

    /// When the oldest operation or slice that the disk has not finished was started. It is looked
    /// for among all of them.
    pub fn oldest_operation(&self) -> Option<i64> {
        let writes = self.writing.values().map(|it| it.since);
        let syncs = self.syncing.values().map(|it| it.since);
        let slices = self.slices.iter().map(|(_, since)| *since);
        writes.chain(syncs).chain(slices).chain(self.reading.values().copied()).min()
    }

    /// How its operations stand.
    pub fn standing(&self) -> FilesStanding {
        FilesStanding {
            operation_since: self.oldest_operation(),
            deferred_since: (!self.deferred.is_empty()).then_some(self.deferred_since),
        }
    }

    /// The descriptors that its files take.
    pub fn descriptors(&self) -> usize {
        self.open.len() + self.closing.len()
    }

    fn perform_work(&mut self, io: &mut I, work: Work<I::Conn>) -> Result<(), FileError> {
        self.deferred.push_back(work);
        if self.deferred.len() > 1 {
            return Ok(());
        }
        self.deferred_since = self.now;
        self.resume(io)?;
        self.counters.opens_delayed += u64::from(!self.deferred.is_empty());
        Ok(())
    }

    fn start(&mut self, io: &mut I, op: FileOp) -> Result<(), FileError> {
        match op {
            FileOp::Open { file, path, mode } => {
                let opened = OpenFile { file: io.open(&path, mode)?, mode, path };
                self.counters.opens += 1;
                let before = self.open.insert(file, opened);
                assert!(before.is_none(), "{file:?} is open already");
            }
            FileOp::Close { file } => {
                let closed = self.open.remove(&file).map(|open| open.file);
                self.closing.extend(closed.filter(Descriptor::is_in_use));
            }
            FileOp::Write { token, file, offset, data } => {
                self.counters.writes += 1;
                self.counters.written_bytes += data.len() as u64;
                let OpenFile { file: open, mode, .. } = self.file(file)?;
                let mode = *mode;
                io.write(open, mode, offset, &data, token);
                let place = (mode == OpenMode::Cached).then(|| self.syncs.write(file));
                let since = self.now;
                self.writing.insert(token, Writing { since, file, buffer: data, mode, place });
            }
            FileOp::Read { token, file, offset, len } => {
                io.read(&self.file(file)?.file, offset, len, token);
                self.reading.insert(token, self.now);
                self.counters.reads += 1;
            }
            FileOp::Sync { token, file } => {
                self.counters.syncs += 1;
                let sync = (self.file(file)?.file.clone(), token);
                self.syncing.insert(token, Syncing { since: self.now, file });
                match self.syncs.sync(file, sync) {
                    Some((file, token)) => io.sync(&file, token),
                    None => self.counters.syncs_delayed += 1,
                }
            }
            FileOp::Truncate { file, len } => io.truncate(&self.file(file)?.file, len)?,
            FileOp::Rename { from, to } => io.rename(&from, &to)?,
            FileOp::RemoveFile { path } => io.remove_file(&path)?,
            FileOp::RemoveDir { path } => io.remove_dir(&path)?,
            FileOp::MoveDir { from, to } => io.move_dir(&from, &to),
        }
        Ok(())
    }

    fn start_slice(
        &mut self,
        io: &mut I,
        parts: Vec<Part>,
        to: PartsTo<I::Conn>,
    ) -> Result<(), FileError> {
        for part in parts {
            match part {
                Part::Bytes(bytes) => io.put_bytes(bytes),
                Part::File { file, offset, len } => {
                    io.put_file(&self.file(file)?.file, offset, len);
                }
            }
        }
        if let PartsTo::Socket(conn) | PartsTo::Reactor(conn) = to {
            self.slices.push((conn, self.now));
        }
        io.send(to);
        Ok(())
    }

    /// A log could not be written or synced: the file is named if it is open still.
    fn failed(&self, what: &str, file: Option<FileId>, error: &std::io::Error) -> FileError {
        let path = file.and_then(|file| self.open.get(&file)).map(|open| open.path.display());
        let path = path.map(|path| format!(" ({path})")).unwrap_or_default();
        FileError(format!("could not {what} a log{path}: {error}"))
    }

    fn file(&self, id: FileId) -> Result<&OpenFile<I::File>, FileError> {
        self.open.get(&id).ok_or_else(|| FileError(format!("{id:?} is not open")))
    }
}

/// Whether the disk, the quota or the limit of a file's size is exhausted. (A short write means
/// this, too.)
fn is_no_space(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | WriteZero)
}
