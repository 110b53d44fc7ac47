//! A shard's open files: decides when the file operations of its logs start and which syncs wait
//! for which writes, and limits the files that are being closed. [`FileIo`] carries them out: on a
//! ring, or on a disk of the simulator.

mod freeing;
mod order;
mod ring;
#[cfg(test)]
mod tests;

pub use freeing::Freeing;
pub use ring::{RingIo, block_bytes};

use crate::shard::Part;
use crate::stall::FilesStanding;
use hashbrown::HashMap;
use muster_counters::counters;
use muster_storage::{FileDone, FileId, FileOp, FileToken, OpenMode};
use order::{Place, SyncOrder};
use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Carries out operations. Only writes, reads and syncs take time: their ends are passed to
/// [`Files::written`], [`Files::read`] and [`Files::synced`].
pub trait FileIo {
    type File: Descriptor;
    /// A connection to which parts of files are sent.
    type Conn: Copy + Eq;

    /// Opens a file for reading and writing, and creates it if it is missing.
    ///
    /// # Errors
    /// The open failed: like a failed operation, it ends the process.
    fn open(&mut self, path: &Path, mode: OpenMode) -> Result<Self::File, FileError>;

    /// Starts a write in the mode in which the file was opened.
    fn write(
        &mut self,
        file: &Self::File,
        mode: OpenMode,
        offset: u64,
        data: &[u8],
        token: FileToken,
    );

    /// Starts a read.
    fn read(&mut self, file: &Self::File, offset: u64, len: u32, token: FileToken);

    /// Starts a sync, which covers the writes that have ended.
    fn sync(&mut self, file: &Self::File, token: FileToken);

    /// # Errors
    /// The file system refuses.
    fn truncate(&mut self, file: &Self::File, len: u64) -> Result<(), FileError>;

    /// # Errors
    /// The file system refuses.
    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), FileError>;

    /// # Errors
    /// The file is there and cannot be removed.
    fn remove_file(&mut self, path: &Path) -> Result<(), FileError>;

    /// # Errors
    /// The directory is there and cannot be removed.
    fn remove_dir(&mut self, path: &Path) -> Result<(), FileError>;

    /// Moves a directory; one that cannot be moved stays.
    fn move_dir(&mut self, from: &Path, to: &Path);

    /// Adds a part to the slice that [`Self::send`] sends.
    fn put_bytes(&mut self, bytes: Vec<u8>);

    /// Like [`Self::put_bytes`], with a part of a file.
    fn put_file(&mut self, file: &Self::File, offset: u64, len: u32);

    /// Sends or reads the slice of added parts, or drops it.
    fn send(&mut self, to: PartsTo<Self::Conn>);
}

/// An open file. Clones share the descriptor.
pub trait Descriptor: Clone {
    /// Whether an operation under way or another clone keeps it open.
    fn is_in_use(&self) -> bool;
}

/// A file operation that must not fail did: what was being done, and why it failed. The process is
/// to end.
#[derive(Debug)]
pub struct FileError(String);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for FileError {}

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

counters! {
    /// Operations since the shard's start.
    #[derive(Copy)]
    pub struct FileCounters in "files" {
        /// Files that were opened.
        opens: u64 = Counter of Count,
        /// Times that an open waited until fewer files were closing.
        opens_delayed: u64 = Counter of Count,
        /// Writes that were started.
        writes: u64 = Counter of Count,
        /// Bytes of these writes.
        written_bytes: u64 = Counter of Bytes,
        /// Reads that were started.
        reads: u64 = Counter of Count,
        /// Syncs that were requested.
        syncs: u64 = Counter of Count,
        /// Syncs that waited for writes.
        syncs_delayed: u64 = Counter of Count,
    }
}

counters! {
    /// The files of a shard as they are now.
    #[derive(Copy)]
    pub struct FileGauges in "files" {
        /// Descriptors of files of the shard: open, or being closed.
        descriptors: u64 = Gauge of Count,
        /// How long the oldest operation that the disk has not finished has been under way.
        oldest_operation_micros: u64 = Gauge of Microseconds,
    }
}

/// Work that is done in the order of the requests, each piece as a whole: what waits holds no file
/// open.
#[derive(Debug)]
enum Work<C> {
    Op(FileOp),
    SendParts(Vec<Part>, PartsTo<C>),
}

/// The destination of the parts of a slice.
#[derive(Debug, Clone, Copy)]
pub enum PartsTo<C> {
    /// The socket of a connection.
    Socket(C),
    /// The reactor, which encrypts them for the connection.
    Reactor(C),
    /// The connection is gone.
    Nowhere,
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
        result: io::Result<()>,
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
    pub fn read(&mut self, token: FileToken, result: io::Result<Vec<u8>>) -> FileDone {
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
        result: io::Result<()>,
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
    fn failed(&self, what: &str, file: Option<FileId>, error: &io::Error) -> FileError {
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
fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | WriteZero)
}
