//! A shard's open files: performs the file operations of its logs.

mod freeing;
mod order;

pub use freeing::Freeing;

use crate::directories;
use crate::shard::Part;
use muster_storage::limits::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN};
use muster_storage::{FileDone, FileId, FileOp, FileToken, OpenMode};
use muster_uring::{AlignedBuf, ConnId, Durability, File, Ring, Slice};
use order::{Place, SyncOrder};
use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use tracing::warn;

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

/// Open files by the ids that the logs assign, and the buffers of writes under way.
#[derive(Debug)]
pub struct Files {
    /// The directory to which all paths are relative.
    data: PathBuf,
    freeing: Freeing,
    open: HashMap<FileId, OpenFile>,
    /// Files that were closed during operations: they take descriptors until those end.
    closing: Vec<File>,
    /// Work that waits until fewer files are closing, in order.
    deferred: VecDeque<Work>,
    /// The parts of the next slice to send.
    slice: Option<Slice>,
    writing: HashMap<u64, Writing>,
    reading: HashMap<u64, Wanted>,
    syncs: SyncOrder<(File, FileToken)>,
    /// Syncs under way.
    syncing: usize,
    spare: Vec<AlignedBuf>,
}

/// Work that is done in the order of the requests.
#[derive(Debug)]
enum Work {
    Op(FileOp),
    Part(Part),
    /// None if the connection is gone.
    SendParts(Option<ConnId>),
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    mode: OpenMode,
}

/// A write under way: the log's own buffer, and the mode of the file.
#[derive(Debug)]
struct Writing {
    buffer: Vec<u8>,
    mode: OpenMode,
    /// None for a durable write: no sync has to wait for it.
    place: Option<Place>,
}

/// The requested part of an aligned read.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    skip: usize,
    len: usize,
}

/// The most closing files before another one is opened: a part of the descriptors reserved for the
/// shard ([`Descriptors`](crate::descriptors::Descriptors)).
const CLOSING_MAX: usize = 64;

const SPARE_BUFFERS_MAX: usize = 8;
const SPARE_BUFFER_BYTES_MAX: usize = 1 << 20;

impl Files {
    pub fn new(data: PathBuf, freeing: Freeing) -> Self {
        Self {
            data,
            freeing,
            open: HashMap::new(),
            closing: Vec::new(),
            deferred: VecDeque::new(),
            slice: None,
            writing: HashMap::new(),
            reading: HashMap::new(),
            syncs: SyncOrder::default(),
            syncing: 0,
            spare: Vec::new(),
        }
    }

    /// Starts an operation, or performs it at once if it is rare and short.
    ///
    /// # Errors
    /// An operation failed that must not fail; the process has to end.
    pub fn perform(&mut self, ring: &mut Ring, op: FileOp) -> Result<(), FileError> {
        self.perform_work(ring, Work::Op(op))
    }

    /// Adds a part to the slice that [`Files::send_parts`] sends.
    ///
    /// # Errors
    /// As for [`Self::perform`].
    pub fn add_part(&mut self, ring: &mut Ring, part: Part) -> Result<(), FileError> {
        self.perform_work(ring, Work::Part(part))
    }

    /// Sends the slice of added parts; drops it if there is no connection.
    ///
    /// # Errors
    /// As for [`Self::perform`].
    pub fn send_parts(&mut self, ring: &mut Ring, conn: Option<ConnId>) -> Result<(), FileError> {
        self.perform_work(ring, Work::SendParts(conn))
    }

    fn perform_work(&mut self, ring: &mut Ring, work: Work) -> Result<(), FileError> {
        self.deferred.push_back(work);
        if self.deferred.len() == 1 { self.resume(ring) } else { Ok(()) }
    }

    /// Starts deferred work as far as possible. To be called when an operation has ended.
    ///
    /// # Errors
    /// As for [`Self::perform`].
    pub fn resume(&mut self, ring: &mut Ring) -> Result<(), FileError> {
        self.closing.retain(File::is_in_use);
        while let Some(work) = self.deferred.pop_front() {
            let is_open = matches!(work, Work::Op(FileOp::Open { .. }));
            if is_open && self.closing.len() >= CLOSING_MAX {
                self.deferred.push_front(work);
                break;
            }
            match work {
                Work::Op(op) => self.start(ring, op)?,
                Work::Part(part) => self.put_part(ring, part)?,
                Work::SendParts(conn) => self.stream(ring, conn),
            }
        }
        Ok(())
    }

    fn put_part(&mut self, ring: &mut Ring, part: Part) -> Result<(), FileError> {
        let mut slice = self.slice.take().unwrap_or_else(|| ring.slice());
        match part {
            Part::Bytes(bytes) => slice.put(&bytes),
            Part::File { file, offset, len } => {
                slice.put_file(&self.file(file)?.file, offset, len);
            }
        }
        self.slice = Some(slice);
        Ok(())
    }

    fn stream(&mut self, ring: &mut Ring, conn: Option<ConnId>) {
        match (self.slice.take(), conn) {
            (Some(slice), Some(conn)) => drop(ring.stream(conn, slice)),
            (Some(slice), None) => ring.drop_slice(slice),
            (None, _) => {}
        }
    }

    fn start(&mut self, ring: &mut Ring, op: FileOp) -> Result<(), FileError> {
        match op {
            FileOp::Open { file, path, mode } => self.open_file(file, &path, mode)?,
            FileOp::Close { file } => {
                let closed = self.open.remove(&file).map(|open| open.file);
                self.closing.extend(closed.filter(File::is_in_use));
            }
            FileOp::Write { token, file, offset, data } => {
                self.write(ring, token, file, offset, data)?;
            }
            FileOp::Read { token, file, offset, len } => {
                self.start_read(ring, token, file, offset, len)?;
            }
            FileOp::Sync { token, file } => {
                let sync = (self.file(file)?.file.clone(), token);
                self.syncing += 1;
                if let Some((file, token)) = self.syncs.sync(file, sync) {
                    ring.sync(&file, token.0);
                }
            }
            FileOp::Truncate { file, len } => {
                let truncated = self.file(file)?.file.std().set_len(len);
                truncated.map_err(|error| failed("truncate a log", Path::new(""), &error))?;
            }
            FileOp::Rename { from, to } => {
                let (from, to) = (self.data.join(from), self.data.join(to));
                let replaced = self.freeing.hold(&to);
                let renamed =
                    std::fs::rename(&from, &to).and_then(|()| directories::sync_name(&to));
                renamed.map_err(|error| failed("rename", &from, &error))?;
                self.freeing.free(replaced);
            }
            FileOp::RemoveFile { path } => self.remove_file(&path)?,
            FileOp::RemoveDir { path } => {
                let path = self.data.join(path);
                absent_is_fine(self.freeing.remove_directory(path.clone()))
                    .map_err(|error| failed("remove", &path, &error))?;
            }
            FileOp::MoveDir { from, to } => {
                let (from, to) = (self.data.join(from), self.data.join(to));
                if let Err(error) = directories::move_to(&from, &to) {
                    warn!("could not move {} to {}: {error}", from.display(), to.display());
                }
            }
        }
        Ok(())
    }

    /// A write ended; None for an unknown token. Starts the syncs that waited for it.
    ///
    /// # Errors
    /// The write failed: its bytes may or may not be on the disk.
    pub fn written(
        &mut self,
        ring: &mut Ring,
        token: u64,
        result: io::Result<()>,
        aligned: AlignedBuf,
    ) -> Result<Option<FileDone>, FileError> {
        self.recycle(aligned);
        let writing = self.writing.remove(&token);
        let mode = writing.as_ref().map(|writing| writing.mode);
        let token = FileToken(token);
        if let (Ok(()), Some(place)) = (&result, writing.as_ref().and_then(|it| it.place)) {
            self.syncs.written(place, |(file, token)| ring.sync(&file, token.0));
        }
        match result {
            Ok(()) => Ok(writing.map(|it| FileDone::Written { token, buffer: it.buffer })),
            Err(error) if mode == Some(OpenMode::Aside) && is_no_space(&error) => {
                Ok(Some(FileDone::NoSpace { token }))
            }
            Err(error) => Err(failed("write to a log in", &self.data, &error)),
        }
    }

    /// A read ended; None for an unknown token.
    pub fn read(
        &mut self,
        token: u64,
        result: io::Result<()>,
        aligned: AlignedBuf,
    ) -> Option<FileDone> {
        let wanted = self.reading.remove(&token);
        let token = FileToken(token);
        let done = wanted.map(|Wanted { skip, len }| match result {
            Ok(()) => {
                let end = (skip + len).min(aligned.len());
                let data = aligned.get(skip..end).unwrap_or_default().to_vec();
                FileDone::Read { token, data }
            }
            Err(error) => FileDone::ReadFailed { token, reason: error.to_string() },
        });
        self.recycle(aligned);
        done
    }

    /// Keeps a buffer for the next read or write.
    fn recycle(&mut self, mut aligned: AlignedBuf) {
        if self.spare.len() < SPARE_BUFFERS_MAX && aligned.capacity() <= SPARE_BUFFER_BYTES_MAX {
            aligned.clear();
            self.spare.push(aligned);
        }
    }

    /// A sync ended.
    ///
    /// # Errors
    /// The sync failed: earlier writes may or may not be on the disk.
    pub fn synced(
        &mut self,
        token: u64,
        result: io::Result<()>,
    ) -> Result<Option<FileDone>, FileError> {
        result.map_err(|error| failed("sync a log in", &self.data, &error))?;
        self.syncing -= 1;
        Ok(Some(FileDone::Synced { token: FileToken(token) }))
    }

    /// Whether any operation has not ended yet.
    pub fn is_busy(&self) -> bool {
        let is_under_way = !self.writing.is_empty() || !self.reading.is_empty() || self.syncing > 0;
        is_under_way || !self.deferred.is_empty()
    }

    /// Closes all files. No operation may be under way.
    pub fn close_all(&mut self) {
        assert!(!self.is_busy(), "an operation is under way");
        self.open.clear();
        self.closing.clear();
        self.syncs = SyncOrder::default();
    }

    fn open_file(&mut self, id: FileId, path: &Path, mode: OpenMode) -> Result<(), FileError> {
        let path = self.data.join(path);
        // If the data directory is gone, opening a new file must not begin a log of its own.
        let opened = std::fs::metadata(&self.data).and_then(|_| open(&self.data, &path, mode));
        let opened = opened.map_err(|error| failed("open", &path, &error))?;
        let taken = self.open.insert(id, opened);
        assert!(taken.is_none(), "{id:?} is open already");
        Ok(())
    }

    fn write(
        &mut self,
        ring: &mut Ring,
        token: FileToken,
        file: FileId,
        offset: u64,
        data: Vec<u8>,
    ) -> Result<(), FileError> {
        let mut aligned = self.spare.pop().unwrap_or_default();
        aligned.extend_from_slice(&data);
        let open = self.file(file)?;
        let mode = open.mode;
        let durability = match mode {
            OpenMode::Durable | OpenMode::Aside => Durability::Durable,
            OpenMode::Cached => Durability::Cached,
        };
        ring.write(&open.file, offset, aligned, durability, token.0);
        let place = (mode == OpenMode::Cached).then(|| self.syncs.write(file));
        self.writing.insert(token.0, Writing { buffer: data, mode, place });
        Ok(())
    }

    fn start_read(
        &mut self,
        ring: &mut Ring,
        token: FileToken,
        file: FileId,
        offset: u64,
        len: u32,
    ) -> Result<(), FileError> {
        let open = self.file(file)?;
        let block = open.file.block_bytes().unwrap_or(1) as u64;
        let start = offset - offset % block;
        let end = (offset + u64::from(len)).next_multiple_of(block);
        let wanted = Wanted { skip: (offset - start) as usize, len: len as usize };
        let file = open.file.clone();
        let buf = self.spare.pop().unwrap_or_default();
        ring.read(&file, start, (end - start) as usize, buf, token.0);
        self.reading.insert(token.0, wanted);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> Result<(), FileError> {
        let path = self.data.join(path);
        let removed = self.freeing.hold(&path);
        let result = absent_is_fine(std::fs::remove_file(&path));
        result.map_err(|error| failed("remove", &path, &error))?;
        self.freeing.free(removed);
        Ok(())
    }

    fn file(&self, id: FileId) -> Result<&OpenFile, FileError> {
        self.open.get(&id).ok_or_else(|| FileError(format!("{id:?} is not open")))
    }
}

/// The unit of durable writes to files in a directory, in bytes.
///
/// # Errors
/// No file can be created in the directory.
pub fn block_bytes(directory: &Path) -> io::Result<u32> {
    let path = directory.join(format!(".block-size-{:?}", std::thread::current().id()));
    let block_bytes = File::open_direct(&path)?.block_bytes();
    std::fs::remove_file(&path)?;
    let (least, most) = (BLOCK_BYTES_MIN as usize, BLOCK_BYTES_MAX as usize);
    Ok(block_bytes.unwrap_or(most).clamp(least, most) as u32)
}

fn open(data: &Path, path: &Path, mode: OpenMode) -> io::Result<OpenFile> {
    let existed = path.exists();
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let file = match mode {
        OpenMode::Durable | OpenMode::Aside => File::open_direct(path)?,
        OpenMode::Cached => File::open_buffered(path)?,
    };
    if mode == OpenMode::Durable && !existed {
        directories::sync_names(data, path)?;
    }
    Ok(OpenFile { file, mode })
}

/// Whether the disk, the quota or the limit of a file's size is exhausted. (A short write means
/// this, too.)
fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | WriteZero)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> FileError {
    FileError(format!("could not {what} {}: {error}", path.display()))
}
