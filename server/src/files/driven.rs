//! Implements [`FileIo`] with a driver (a ring or a poller) and the thread of a [`Caller`], which
//! makes the calls that the driver cannot make. Keeps what operations need until they end.

use super::caller::{Ended, open_at_once};
use super::{Call, Caller, Descriptor, FileIo, Files, PartsTo};
use hashbrown::HashMap;
use muster_storage::limits::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN};
use muster_storage::{FileToken, OpenMode, Writes};
use muster_uring::{AlignedBuf, ConnId, Driver, Durability, File, Slice};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

/// If this many files are being closed, opens wait. Files that are being closed use descriptors
/// that are reserved for the shard ([`Descriptors`](crate::descriptors::Descriptors)).
const CLOSING_MAX: usize = 64;

const SPARE_BUFFERS_MAX: usize = 8;
const SPARE_BUFFER_BYTES_MAX: usize = 1 << 20;

/// A driver with the data directory and buffers for file operations.
pub struct DrivenIo<D> {
    pub driver: D,
    /// The directory that all paths are relative to.
    data: PathBuf,
    caller: Caller,
    /// The results of ended calls, until they are taken.
    ended: VecDeque<Ended>,
    /// The parts of the next slice.
    slice: Option<Slice>,
    reading: HashMap<u64, Wanted>,
    spare: Vec<AlignedBuf>,
}

/// An aligned read reads whole blocks. This is the part of its bytes that was requested.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    skip: usize,
    len: usize,
}

impl<D: Driver> DrivenIo<D> {
    pub fn new(driver: D, data: PathBuf, caller: Caller) -> Self {
        Self {
            driver,
            data,
            caller,
            ended: VecDeque::new(),
            slice: None,
            reading: HashMap::new(),
            spare: Vec::new(),
        }
    }

    /// Makes an empty [`Files`] for a shard on this driver.
    pub fn files(now: i64) -> Files<Self> {
        Files::new(CLOSING_MAX, now)
    }

    /// Takes a result from the calling thread, if there is one. Returns whether there was one.
    pub(crate) fn has_ended(&mut self) -> bool {
        let ended = self.caller.ended();
        let has_ended = ended.is_some();
        self.ended.extend(ended);
        has_ended
    }

    /// The requested bytes of a read that has finished. None if no read has this token.
    pub(crate) fn take_read(
        &mut self,
        token: u64,
        result: io::Result<()>,
        aligned: AlignedBuf,
    ) -> Option<io::Result<Vec<u8>>> {
        let Wanted { skip, len } = self.reading.remove(&token)?;
        let end = (skip + len).min(aligned.len());
        let data = result.map(|()| aligned.get(skip..end).unwrap_or_default().to_vec());
        self.recycle(aligned);
        Some(data)
    }

    /// Keeps a buffer for reuse by a later read or write.
    pub(crate) fn recycle(&mut self, mut aligned: AlignedBuf) {
        if self.spare.len() < SPARE_BUFFERS_MAX && aligned.capacity() <= SPARE_BUFFER_BYTES_MAX {
            aligned.clear();
            self.spare.push(aligned);
        }
    }

    fn slice(&mut self) -> &mut Slice {
        self.slice.get_or_insert_with(|| self.driver.slice())
    }
}

impl<D: Driver> FileIo for DrivenIo<D> {
    type File = File;
    type Conn = ConnId;

    fn open_at_once(&mut self, path: &Path, mode: OpenMode) -> Option<File> {
        open_at_once(&self.data, path, mode)
    }

    fn call(&mut self, call: Call<File>) {
        self.caller.call(call, self.driver.waker());
    }

    fn ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    fn write(&mut self, file: &File, mode: OpenMode, offset: u64, data: &[u8], token: FileToken) {
        let mut aligned = self.spare.pop().unwrap_or_default();
        aligned.extend_from_slice(data);
        let durability = match mode.writes {
            Writes::Durable | Writes::Aside => Durability::Durable,
            Writes::Cached => Durability::Cached,
        };
        self.driver.write(file, offset, aligned, durability, token.0);
    }

    fn read(&mut self, file: &File, offset: u64, len: u32, token: FileToken) {
        let block = file.block_bytes().unwrap_or(1) as u64;
        let start = offset - offset % block;
        let end = (offset + u64::from(len)).next_multiple_of(block);
        let wanted = Wanted { skip: (offset - start) as usize, len: len as usize };
        let buf = self.spare.pop().unwrap_or_default();
        self.driver.read(file, start, (end - start) as usize, buf, token.0);
        self.reading.insert(token.0, wanted);
    }

    fn sync(&mut self, file: &File, token: FileToken) {
        self.driver.sync(file, token.0);
    }

    fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.slice().put(&bytes);
    }

    fn put_file(&mut self, file: &File, offset: u64, len: u32) {
        self.slice().put_file(file, offset, len);
    }

    fn send(&mut self, to: PartsTo<ConnId>) {
        let Some(slice) = self.slice.take() else { return };
        match to {
            PartsTo::Socket(conn) => drop(self.driver.stream(conn, slice)),
            PartsTo::Reactor(conn) => drop(self.driver.read_slice(conn, slice)),
            PartsTo::Nowhere => self.driver.drop_slice(slice),
        }
    }
}

impl Descriptor for File {
    fn is_in_use(&self) -> bool {
        Self::is_in_use(self)
    }
}

/// The block size in bytes of durable writes to files in a directory.
///
/// # Errors
/// No file can be created in the directory.
pub fn block_bytes(directory: &Path) -> io::Result<u32> {
    let path = directory.join(format!(".block-size-{:?}", std::thread::current().id()));
    let block_bytes = File::open_direct(&path, true)?.block_bytes();
    std::fs::remove_file(&path)?;
    let (least, most) = (BLOCK_BYTES_MIN as usize, BLOCK_BYTES_MAX as usize);
    Ok(block_bytes.unwrap_or(most).clamp(least, most) as u32)
}
