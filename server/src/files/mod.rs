//! A shard's open files. Decides when file operations start, and which syncs wait for which writes.
//! Limits the number of files that are being closed. A [`FileIo`] carries out the operations.

mod caller;
mod calls;
mod counters;
mod driven;
mod freeing;
mod io;
mod lane;
mod missing;
mod order;
mod slices;
#[cfg(test)]
mod tests;

pub use caller::Caller;
pub use counters::{FileCounters, FileGauges};
pub use driven::{DrivenIo, block_bytes};
pub use freeing::Freeing;
pub use io::{Call, CallDone, CallEnd, Descriptor, FileError, FileIo, PartsTo};

use crate::backup::Links;
use crate::net::Part;
use crate::stall::FilesStanding;
use calls::{Calls, Purpose};
use hashbrown::HashMap;
use lane::{Lane, Waiting};
use muster_storage::{FileDone, FileId, FileOp, FileToken, OpenMode};
use order::{Place, SyncOrder};
use std::path::PathBuf;

/// Open files by the ids that the logs assign, and operations under way.
pub struct Files<I: FileIo> {
    now: i64,
    /// If this many files are being closed, opens wait.
    closing_max: usize,
    lanes: HashMap<FileId, Lane<I::File>>,
    /// Files that were closed during operations. They use descriptors until the operations end.
    closing: Vec<I::File>,
    calls: Calls<I::File>,
    /// Lanes with changes that wait for a rename in the same directory.
    held: Vec<FileId>,
    /// Slices that wait for their files to be opened.
    slices: HashMap<u64, WaitingSlice<I::Conn>>,
    next_slice: u64,
    writing: HashMap<FileToken, Writing>,
    syncs: SyncOrder<(I::File, FileToken)>,
    /// Reads under way.
    reading: HashMap<FileToken, Reading>,
    syncing: HashMap<FileToken, Syncing>,
    /// The connections whose slices are being read or sent, with the start time.
    sending: Vec<(I::Conn, i64)>,
    counters: FileCounters,
}

/// A slice that waits for its files to be opened.
#[derive(Debug)]
struct WaitingSlice<C> {
    parts: Vec<Part>,
    to: PartsTo<C>,
    /// The files that are not open yet.
    missing: Vec<FileId>,
}

/// A write under way. `buffer` belongs to the log that requested the write.
#[derive(Debug)]
struct Writing {
    since: i64,
    file: FileId,
    buffer: Vec<u8>,
    mode: OpenMode,
    /// The write's place in the order of syncs. None if it is durable: no sync waits for it.
    place: Option<Place>,
}

/// A read under way.
#[derive(Debug)]
struct Reading {
    since: i64,
    file: FileId,
    offset: u64,
}

/// A requested sync, which may still wait for writes.
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
            lanes: HashMap::new(),
            closing: Vec::new(),
            calls: Calls::new(),
            held: Vec::new(),
            slices: HashMap::new(),
            next_slice: 0,
            writing: HashMap::new(),
            syncs: SyncOrder::default(),
            reading: HashMap::new(),
            syncing: HashMap::new(),
            sending: Vec::new(),
            counters: FileCounters::default(),
        }
    }

    /// Sets the current time, as the start time of operations that are requested next.
    pub fn advance(&mut self, now: i64) {
        self.now = now;
    }

    /// Starts an operation, or queues it until the operations on which it depends have ended.
    ///
    /// # Errors
    /// The failure of an operation that must not fail; the process must end.
    pub fn perform(&mut self, io: &mut I, op: FileOp) -> Result<(), FileError> {
        match op {
            FileOp::Open { file, path, mode } => self.open(io, file, path, mode),
            FileOp::Close { file }
            | FileOp::Truncate { file, .. }
            | FileOp::Write { file, .. }
            | FileOp::Read { file, .. }
            | FileOp::Sync { file, .. } => self.perform_on(io, file, op)?,
            FileOp::Rename { token, from, to } => {
                self.push_call(io, Purpose::Rename(token), Call::Rename { from, to });
            }
            FileOp::RemoveFile { path } => self.change_name(io, Call::RemoveFile { path }),
            FileOp::RemoveDir { path } => self.change_name(io, Call::RemoveDir { path }),
            FileOp::MoveDir { from, to } => self.change_name(io, Call::MoveDir { from, to }),
            FileOp::Keep { path, name, may_move } => {
                self.change_name(io, Call::Keep { path, name, may_move });
            }
            FileOp::Look { token, path, file } => {
                self.push_call(io, Purpose::Look { token, file }, Call::Look { path, file: None });
            }
        }
        Ok(())
    }

    /// Makes hard links, after all earlier changes of names.
    pub(crate) fn link(&mut self, io: &mut I, links: Links) {
        self.change_name(io, Call::Link(Box::new(links)));
    }

    /// Call this after an operation has ended. Closes files that were closed during operations
    /// which have ended by now, and starts calls that need not wait any longer.
    ///
    /// A deadlock is impossible: only the opening of a file waits for files that are being closed.
    /// These wait only for operations and calls that are under way, which end by themselves.
    pub fn resume(&mut self, io: &mut I) {
        if !self.closing.is_empty() {
            let Self { closing, calls, now, .. } = self;
            closing
                .extract_if(.., |file| !file.is_in_use())
                .for_each(|it| calls.close(io, it, *now));
        }
        self.begin_calls(io);
    }

    /// Handles the end of the next call, and starts the operations that waited for it. Returns the
    /// completion of a look or a rename, or those of the operations whose file could not be opened.
    ///
    /// # Errors
    /// The call, or an operation that waited for it, failed; the process must end.
    pub fn called(&mut self, io: &mut I) -> Result<Vec<CallEnd<I::Conn>>, FileError> {
        let Some(done) = io.ended().transpose()? else { return Ok(Vec::new()) };
        let mut ends = Vec::new();
        match self.calls.ended(self.now) {
            Some(Purpose::Open(file)) => match done {
                CallDone::NotOpened(error) => self.not_opened(io, file, &error, &mut ends)?,
                CallDone::Opened(opened) => {
                    self.counters.opens += 1;
                    self.lane_mut(file)?.opened(opened);
                    self.start_waiting(io, vec![file])?;
                }
                CallDone::Looked(_) | CallDone::NotRenamed { .. } | CallDone::Done => {}
            },
            Some(Purpose::Truncate(file)) => {
                self.lane_mut(file)?.truncated();
                self.start_waiting(io, vec![file])?;
            }
            Some(Purpose::Rename(token)) => {
                ends.extend(Self::renamed(token, done)?.map(CallEnd::Done));
                let held = std::mem::take(&mut self.held);
                self.start_waiting(io, held)?;
            }
            Some(Purpose::Look { token, .. }) => {
                if let CallDone::Looked(found) = done {
                    let failed = |error: std::io::Error| error.to_string();
                    ends.push(CallEnd::Done(match found.map_err(failed) {
                        Ok(len) => FileDone::Looked { token, len },
                        Err(reason) => FileDone::ReadFailed { token, reason },
                    }));
                }
            }
            Some(Purpose::Name | Purpose::Close) | None => {}
        }
        self.begin_calls(io);
        Ok(ends)
    }

    /// Handles the end of a write, and starts the syncs that waited for it. None for an unknown
    /// token. If the file was opened with [`OpenMode::is_aside`], a full disk is not an error.
    ///
    /// # Errors
    /// The write failed, so its bytes may or may not be on the disk; the process must end.
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
            Err(error) if mode.is_some_and(OpenMode::is_aside) && is_no_space(&error) => {
                Ok(Some(FileDone::NoSpace { token }))
            }
            Err(error) => Err(self.failed("write to", file, &error)),
        }
    }

    /// Handles the end of a read. A failure names the file if it is still open.
    pub fn read(&mut self, token: FileToken, result: std::io::Result<Vec<u8>>) -> FileDone {
        let reading = self.reading.remove(&token);
        match result {
            Ok(data) => FileDone::Read { token, data },
            Err(error) => {
                let place = reading.and_then(|Reading { file, offset, .. }| {
                    let path = self.lanes.get(&file)?.path().display();
                    Some(format!("{path}, at byte {offset}: "))
                });
                let reason = format!("{}{error}", place.unwrap_or_default());
                FileDone::ReadFailed { token, reason }
            }
        }
    }

    /// Handles the end of a sync.
    ///
    /// # Errors
    /// The sync failed, so earlier writes may or may not be on the disk; the process must end.
    pub fn synced(
        &mut self,
        token: FileToken,
        result: std::io::Result<()>,
    ) -> Result<FileDone, FileError> {
        let file = self.syncing.remove(&token).map(|it| it.file);
        result.map_err(|error| self.failed("sync", file, &error))?;
        Ok(FileDone::Synced { token })
    }

    /// Handles the end of a connection's slice, if it had one.
    pub fn slice_ended(&mut self, conn: I::Conn) {
        self.sending.retain(|(other, _)| *other != conn);
    }

    /// Whether any operation is unfinished, apart from closes.
    pub fn is_busy(&self) -> bool {
        let is_under_way =
            !self.writing.is_empty() || !self.reading.is_empty() || !self.syncing.is_empty();
        is_under_way || self.has_calls() || !self.slices.is_empty()
    }

    /// Whether a file system call other than a close is unfinished.
    pub fn has_calls(&self) -> bool {
        self.calls.others() > 0
    }

    /// Closes all files. No operation may be under way.
    pub fn close_all(&mut self, io: &mut I) {
        assert!(!self.is_busy(), "an operation is under way");
        let open = self.lanes.drain().filter_map(|(_, mut lane)| lane.close());
        open.chain(self.closing.drain(..)).for_each(|file| self.calls.close(io, file, self.now));
        self.held.clear();
        self.sending.clear();
        self.syncs = SyncOrder::default();
    }

    /// The counters of the operations.
    pub fn counters(&self) -> FileCounters {
        self.counters
    }

    /// The gauges at this time.
    pub fn gauges(&self, now: i64) -> FileGauges {
        let oldest = self.oldest_operation().map_or(0, |since| now - since);
        let oldest_operation_micros = oldest.max(0).unsigned_abs().saturating_mul(1_000);
        FileGauges { descriptors: self.descriptors() as u64, oldest_operation_micros }
    }

    /// When the oldest unfinished operation, call or slice was started. This searches all of them.
    pub fn oldest_operation(&self) -> Option<i64> {
        let writes = self.writing.values().map(|it| it.since);
        let syncs = self.syncing.values().map(|it| it.since);
        let slices = self.sending.iter().map(|(_, since)| *since);
        let reads = self.reading.values().map(|it| it.since);
        writes.chain(syncs).chain(slices).chain(reads).chain(self.calls.since()).min()
    }

    /// The time at which the oldest unfinished operation started, and the time since which the
    /// first waiting call has been the first.
    pub fn standing(&self) -> FilesStanding {
        FilesStanding {
            operation_since: self.oldest_operation(),
            deferred_since: self.calls.waits_since(),
        }
    }

    /// The descriptors that the files use.
    pub fn descriptors(&self) -> usize {
        let open = self.lanes.values().filter(|lane| lane.has_descriptor()).count();
        open + self.files_closing()
    }

    /// The number of files that are closed but still use descriptors.
    fn files_closing(&self) -> usize {
        self.closing.len() + self.calls.closes()
    }

    fn open(&mut self, io: &mut I, file: FileId, path: PathBuf, mode: OpenMode) {
        if let Some(lane) = self.lanes.get_mut(&file) {
            // The id still belongs to another file, which is closed when no operation needs it.
            let (path, op) = (path.clone(), FileOp::Open { file, path, mode });
            lane.wait(Waiting::Op { op, last_rename: self.calls.last_rename() });
            return self.push_call(io, Purpose::Open(file), Call::Open { path, mode });
        }
        let may_open = self.files_closing() < self.closing_max && !self.calls.concern(&path);
        let opened = may_open.then(|| io.open_at_once(&path, mode)).flatten();
        let mut lane = Lane::new(path.clone(), mode);
        let is_open = opened.is_some();
        self.counters.opens += u64::from(is_open);
        opened.into_iter().for_each(|it| lane.opened(it));
        self.lanes.insert(file, lane);
        if !is_open {
            let must_wait = self.files_closing() >= self.closing_max;
            self.counters.opens_delayed += u64::from(must_wait);
            self.push_call(io, Purpose::Open(file), Call::Open { path, mode });
        }
    }

    fn change_name(&mut self, io: &mut I, call: Call<I::File>) {
        self.push_call(io, Purpose::Name, call);
    }

    fn push_call(&mut self, io: &mut I, purpose: Purpose, call: Call<I::File>) {
        self.counters.calls += 1;
        self.calls.push(purpose, call, self.now);
        self.begin_calls(io);
    }

    fn begin_calls(&mut self, io: &mut I) {
        while let Some(purpose) = self.calls.next() {
            if let Purpose::Open(file) = purpose {
                let is_full = self.files_closing() >= self.closing_max;
                let lane = self.lanes.get_mut(&file).filter(|it| !is_full && it.is_wanted());
                let Some(lane) = lane else { return };
                lane.begin_to_open();
            } else if let Purpose::Look { file: Some(file), .. } = purpose {
                let lane = self.lanes.get(&file);
                self.calls.look_at(|path| lane.filter(|it| it.path() == path)?.file().cloned());
            }
            self.calls.begin_next(io, self.now);
        }
    }

    /// Performs an operation on a file that is open or being opened.
    fn perform_on(&mut self, io: &mut I, file: FileId, op: FileOp) -> Result<(), FileError> {
        let Self { lanes, calls, .. } = self;
        let lane = lanes.get_mut(&file).ok_or_else(|| not_open(file))?;
        let held = calls.rename_beside(lane.path()).is_some();
        if lane.starts(&op, held) {
            return self.start(io, file, op);
        }
        lane.wait(Waiting::Op { op, last_rename: calls.last_rename() });
        if held {
            self.held.push(file);
        }
        self.open_if_missing(io, file);
        Ok(())
    }

    /// Starts those operations of these lanes that need not wait any longer.
    fn start_waiting(&mut self, io: &mut I, mut lanes: Vec<FileId>) -> Result<(), FileError> {
        while let Some(file) = lanes.pop() {
            let Some(lane) = self.lanes.get_mut(&file) else { continue };
            let rename = self.calls.rename_beside(lane.path());
            match lane.next(rename) {
                Some(Waiting::Op { op, .. }) => self.start(io, file, op)?,
                Some(Waiting::Slice(number)) => {
                    lanes.extend(self.start_if_whole(io, number, file)?);
                }
                None => {
                    let held = rename.is_some() && lane.has_waiting();
                    self.held.extend(held.then_some(file));
                    continue;
                }
            }
            lanes.push(file);
        }
        self.begin_calls(io);
        Ok(())
    }

    fn start(&mut self, io: &mut I, file: FileId, op: FileOp) -> Result<(), FileError> {
        let lane = self.lanes.get_mut(&file).ok_or_else(|| not_open(file))?;
        match op {
            FileOp::Open { path, mode, .. } => lane.open_next(path, mode),
            FileOp::Close { .. } => {
                let is_missing = lane.is_missing();
                let closed = lane.close();
                if !lane.has_waiting() {
                    self.lanes.remove(&file);
                }
                match closed {
                    Some(closed) if closed.is_in_use() => self.closing.push(closed),
                    Some(closed) => self.calls.close(io, closed, self.now),
                    None if is_missing => {}
                    None => return Err(not_open(file)),
                }
            }
            FileOp::Truncate { len, .. } => {
                let Some(open) = lane.truncate() else { return Err(not_open(file)) };
                let call = Call::Truncate { file: open, len };
                self.counters.calls += 1;
                self.calls.truncate(io, file, call, self.now);
            }
            FileOp::Write { token, offset, data, .. } => {
                self.counters.writes += 1;
                self.counters.written_bytes += data.len() as u64;
                let mode = lane.mode();
                io.write(open_file(file, lane)?, mode, offset, &data, token);
                let place = mode.is_cached().then(|| self.syncs.write(file));
                let since = self.now;
                self.writing.insert(token, Writing { since, file, buffer: data, mode, place });
            }
            FileOp::Read { token, offset, len, .. } => {
                io.read(open_file(file, lane)?, offset, len, token);
                self.reading.insert(token, Reading { since: self.now, file, offset });
                self.counters.reads += 1;
            }
            FileOp::Sync { token, .. } => {
                self.counters.syncs += 1;
                let sync = (open_file(file, lane)?.clone(), token);
                self.syncing.insert(token, Syncing { since: self.now, file });
                match self.syncs.sync(file, sync) {
                    Some((file, token)) => io.sync(&file, token),
                    None => self.counters.syncs_delayed += 1,
                }
            }
            FileOp::Rename { .. }
            | FileOp::RemoveFile { .. }
            | FileOp::RemoveDir { .. }
            | FileOp::MoveDir { .. }
            | FileOp::Keep { .. }
            | FileOp::Look { .. } => unreachable!("it has no file id"),
        }
        Ok(())
    }

    /// The error of a failed write or sync of a log. The error names the file if it is still open.
    fn failed(&self, what: &str, file: Option<FileId>, error: &std::io::Error) -> FileError {
        let path = file.and_then(|file| self.lanes.get(&file)).map(|it| it.path().display());
        let path = path.map(|path| format!(" ({path})")).unwrap_or_default();
        FileError(format!("could not {what} a log{path}: {error}"))
    }

    fn lane(&self, id: FileId) -> Result<&Lane<I::File>, FileError> {
        self.lanes.get(&id).ok_or_else(|| not_open(id))
    }

    fn lane_mut(&mut self, id: FileId) -> Result<&mut Lane<I::File>, FileError> {
        self.lanes.get_mut(&id).ok_or_else(|| not_open(id))
    }
}

fn open_file<F: Clone>(id: FileId, lane: &Lane<F>) -> Result<&F, FileError> {
    lane.file().ok_or_else(|| not_open(id))
}

fn not_open(id: FileId) -> FileError {
    FileError(format!("{id:?} is not open"))
}

/// Whether the disk is full, or a quota or the maximum size of a file is reached. (Short writes are
/// reported as `WriteZero`, and have the same causes.)
fn is_no_space(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | WriteZero)
}
