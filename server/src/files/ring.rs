//! Files on a ring: what its kernel calls need beside them, and those that are made at once.

use super::{Descriptor, FileError, FileIo, Files, Freeing};
use crate::directories;
use crate::shard::Part;
use muster_storage::limits::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN};
use muster_storage::{FileDone, FileOp, FileToken, OpenMode};
use muster_uring::{AlignedBuf, ConnId, Durability, File, Ring, Slice};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use tracing::warn;

/// The most closing files before another one is opened: a part of the descriptors reserved for the
/// shard ([`Descriptors`](crate::descriptors::Descriptors)).
const CLOSING_MAX: usize = 64;

const SPARE_BUFFERS_MAX: usize = 8;
const SPARE_BUFFER_BYTES_MAX: usize = 1 << 20;

/// The files of a shard that runs on a ring.
#[derive(Debug)]
pub struct RingFiles {
    files: Files<File, ConnId>,
    directory: Directory,
}

/// The data directory, and buffers.
#[derive(Debug)]
struct Directory {
    /// All paths are relative to it.
    data: PathBuf,
    freeing: Freeing,
    /// The parts of the next slice to send.
    slice: Option<Slice>,
    reading: HashMap<u64, Wanted>,
    spare: Vec<AlignedBuf>,
}

/// The requested part of an aligned read.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    skip: usize,
    len: usize,
}

/// Carries out operations in the directory.
struct RingIo<'a> {
    ring: &'a mut Ring,
    directory: &'a mut Directory,
}

impl RingFiles {
    pub fn new(data: PathBuf, freeing: Freeing) -> Self {
        let (reading, spare) = (HashMap::new(), Vec::new());
        let directory = Directory { data, freeing, slice: None, reading, spare };
        Self { files: Files::new(CLOSING_MAX), directory }
    }

    /// As [`Files::perform`].
    ///
    /// # Errors
    /// As there.
    pub fn perform(&mut self, ring: &mut Ring, op: FileOp) -> Result<(), FileError> {
        self.files.perform(&mut RingIo { ring, directory: &mut self.directory }, op)
    }

    /// As [`Files::add_part`].
    ///
    /// # Errors
    /// As there.
    pub fn add_part(&mut self, ring: &mut Ring, part: Part) -> Result<(), FileError> {
        self.files.add_part(&mut RingIo { ring, directory: &mut self.directory }, part)
    }

    /// As [`Files::send_parts`].
    ///
    /// # Errors
    /// As there.
    pub fn send_parts(&mut self, ring: &mut Ring, conn: Option<ConnId>) -> Result<(), FileError> {
        self.files.send_parts(&mut RingIo { ring, directory: &mut self.directory }, conn)
    }

    /// As [`Files::resume`].
    ///
    /// # Errors
    /// As there.
    pub fn resume(&mut self, ring: &mut Ring) -> Result<(), FileError> {
        self.files.resume(&mut RingIo { ring, directory: &mut self.directory })
    }

    /// A write ended: as [`Files::written`].
    ///
    /// # Errors
    /// As there.
    pub fn written(
        &mut self,
        ring: &mut Ring,
        token: u64,
        result: io::Result<()>,
        aligned: AlignedBuf,
    ) -> Result<Option<FileDone>, FileError> {
        self.directory.recycle(aligned);
        let mut io = RingIo { ring, directory: &mut self.directory };
        let written = self.files.written(&mut io, FileToken(token), result);
        written.map_err(|error| failed("write to a log in", &self.directory.data, &error))
    }

    /// A read ended; None for an unknown token.
    pub fn read(
        &mut self,
        token: u64,
        result: io::Result<()>,
        aligned: AlignedBuf,
    ) -> Option<FileDone> {
        let Wanted { skip, len } = self.directory.reading.remove(&token)?;
        let end = (skip + len).min(aligned.len());
        let data = result.map(|()| aligned.get(skip..end).unwrap_or_default().to_vec());
        self.directory.recycle(aligned);
        Some(self.files.read(FileToken(token), data))
    }

    /// A sync ended: as [`Files::synced`].
    ///
    /// # Errors
    /// As there.
    pub fn synced(&mut self, token: u64, result: io::Result<()>) -> Result<FileDone, FileError> {
        let synced = self.files.synced(FileToken(token), result);
        synced.map_err(|error| failed("sync a log in", &self.directory.data, &error))
    }

    /// As [`Files::is_busy`].
    pub fn is_busy(&self) -> bool {
        self.files.is_busy()
    }

    /// As [`Files::close_all`].
    pub fn close_all(&mut self) {
        self.files.close_all();
    }
}

impl Directory {
    /// Keeps a buffer for the next read or write.
    fn recycle(&mut self, mut aligned: AlignedBuf) {
        if self.spare.len() < SPARE_BUFFERS_MAX && aligned.capacity() <= SPARE_BUFFER_BYTES_MAX {
            aligned.clear();
            self.spare.push(aligned);
        }
    }
}

impl RingIo<'_> {
    fn slice(&mut self) -> &mut Slice {
        self.directory.slice.get_or_insert_with(|| self.ring.slice())
    }
}

impl FileIo for RingIo<'_> {
    type File = File;
    type Conn = ConnId;

    fn open(&mut self, path: &Path, mode: OpenMode) -> Result<File, FileError> {
        let data = &self.directory.data;
        let path = data.join(path);
        // If the data directory is gone, opening a new file must not begin a log of its own.
        let opened = std::fs::metadata(data).and_then(|_| open(data, &path, mode));
        opened.map_err(|error| failed("open", &path, &error))
    }

    fn write(&mut self, file: &File, mode: OpenMode, offset: u64, data: &[u8], token: FileToken) {
        let mut aligned = self.directory.spare.pop().unwrap_or_default();
        aligned.extend_from_slice(data);
        let durability = match mode {
            OpenMode::Durable | OpenMode::Aside => Durability::Durable,
            OpenMode::Cached => Durability::Cached,
        };
        self.ring.write(file, offset, aligned, durability, token.0);
    }

    fn read(&mut self, file: &File, offset: u64, len: u32, token: FileToken) {
        let block = file.block_bytes().unwrap_or(1) as u64;
        let start = offset - offset % block;
        let end = (offset + u64::from(len)).next_multiple_of(block);
        let wanted = Wanted { skip: (offset - start) as usize, len: len as usize };
        let buf = self.directory.spare.pop().unwrap_or_default();
        self.ring.read(file, start, (end - start) as usize, buf, token.0);
        self.directory.reading.insert(token.0, wanted);
    }

    fn sync(&mut self, file: &File, token: FileToken) {
        self.ring.sync(file, token.0);
    }

    fn truncate(&mut self, file: &File, len: u64) -> Result<(), FileError> {
        let truncated = file.std().set_len(len);
        truncated.map_err(|error| failed("truncate a log", Path::new(""), &error))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), FileError> {
        let Directory { data, freeing, .. } = &self.directory;
        let (from, to) = (data.join(from), data.join(to));
        let replaced = freeing.hold(&to);
        let renamed = std::fs::rename(&from, &to).and_then(|()| directories::sync_name(&to));
        renamed.map_err(|error| failed("rename", &from, &error))?;
        freeing.free(replaced);
        Ok(())
    }

    fn remove_file(&mut self, path: &Path) -> Result<(), FileError> {
        let Directory { data, freeing, .. } = &self.directory;
        let path = data.join(path);
        let removed = freeing.hold(&path);
        let result = absent_is_fine(std::fs::remove_file(&path));
        result.map_err(|error| failed("remove", &path, &error))?;
        freeing.free(removed);
        Ok(())
    }

    fn remove_dir(&mut self, path: &Path) -> Result<(), FileError> {
        let path = self.directory.data.join(path);
        absent_is_fine(self.directory.freeing.remove_directory(path.clone()))
            .map_err(|error| failed("remove", &path, &error))
    }

    fn move_dir(&mut self, from: &Path, to: &Path) {
        let (from, to) = (self.directory.data.join(from), self.directory.data.join(to));
        if let Err(error) = directories::move_to(&from, &to) {
            warn!("could not move {} to {}: {error}", from.display(), to.display());
        }
    }

    fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.slice().put(&bytes);
    }

    fn put_file(&mut self, file: &File, offset: u64, len: u32) {
        self.slice().put_file(file, offset, len);
    }

    fn send(&mut self, conn: Option<ConnId>) {
        match (self.directory.slice.take(), conn) {
            (Some(slice), Some(conn)) => drop(self.ring.stream(conn, slice)),
            (Some(slice), None) => self.ring.drop_slice(slice),
            (None, _) => {}
        }
    }
}

impl Descriptor for File {
    fn is_in_use(&self) -> bool {
        Self::is_in_use(self)
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

fn open(data: &Path, path: &Path, mode: OpenMode) -> io::Result<File> {
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
    Ok(file)
}

pub(super) fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> FileError {
    FileError(format!("could not {what} {}: {error}", path.display()))
}
