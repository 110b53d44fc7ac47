//! A disk with a volatile cache. It is a file in a FUSE file system, to which a loop device is
//! attached. A power loss loses a part of the writes since the last flush: each sector afterwards
//! has one of the states that it had since then.

use super::super::Random;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

/// The unit that a disk writes either completely or not at all.
const SECTOR_BYTES: usize = 512;
const FILE: INodeNo = INodeNo(2);
const FILE_NAME: &str = "disk";
/// The kernel may cache the attributes of files for this time. They never change.
const TTL: Duration = Duration::from_secs(3600);

/// The disk as tests see it, with its power switch.
pub struct Disk {
    shared: Arc<Shared>,
    _session: BackgroundSession,
    path: PathBuf,
}

impl Disk {
    /// # Errors
    /// This machine has no FUSE, or does not permit mounts.
    pub fn mount(directory: &Path, bytes: u64) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let file_system = FileOnly { shared: shared.clone(), bytes };
        let session = fuser::spawn_mount(file_system, directory, &Config::default())?;
        Ok(Self { shared, _session: session, path: directory.join(FILE_NAME) })
    }

    /// The file for a loop device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on all reads, writes and flushes fail. Returns how many sectors were unflushed, and
    /// how many of these lost their last state.
    pub fn power_off(&self, random: &mut Random) -> (usize, usize) {
        let mut state = self.state();
        state.is_off = true;
        state.lose(random)
    }

    pub fn power_on(&self) {
        self.state().is_off = false;
    }

    /// Reads, writes and flushes do not end until the returned value is dropped.
    pub fn hang(&self) -> Hang<'_> {
        self.state().hangs = true;
        Hang(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }
}

pub struct Hang<'d>(&'d Disk);

impl Drop for Hang<'_> {
    fn drop(&mut self) {
        self.0.state().hangs = false;
        self.0.shared.resumed.notify_all();
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    resumed: Condvar,
}

type Sector = Box<[u8; SECTOR_BYTES]>;

#[derive(Default)]
struct State {
    durable: HashMap<u64, Sector>,
    /// For each sector, all its states since the last flush, in order.
    cached: HashMap<u64, Vec<Sector>>,
    is_off: bool,
    hangs: bool,
}

impl State {
    fn sector(&self, number: u64) -> Option<&Sector> {
        let cached = self.cached.get(&number).and_then(|written| written.last());
        cached.or_else(|| self.durable.get(&number))
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        let first = offset / SECTOR_BYTES as u64;
        for (number, part) in (first..).zip(bytes.chunks_mut(SECTOR_BYTES)) {
            if let Some(sector) = self.sector(number) {
                part.copy_from_slice(&sector[..part.len()]);
            }
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let first = offset / SECTOR_BYTES as u64;
        for (number, part) in (first..).zip(bytes.chunks(SECTOR_BYTES)) {
            let sector = Box::new(part.try_into().expect("whole sectors are written"));
            self.cached.entry(number).or_default().push(sector);
        }
    }

    fn flush(&mut self) {
        for (number, mut written) in self.cached.drain() {
            self.durable.extend(written.pop().map(|last| (number, last)));
        }
    }

    fn lose(&mut self, random: &mut Random) -> (usize, usize) {
        let mut cached: Vec<_> = self.cached.drain().collect();
        cached.sort_unstable_by_key(|(number, _)| *number);
        let (unflushed, mut lost) = (cached.len(), 0);
        // In two of five cases the disk had written nothing of its cache, or all of it.
        let keeps = random.next() % 5;
        for (number, mut written) in cached {
            let kept = match keeps {
                0 => 0,
                1 => written.len(),
                _ => (random.next() % (written.len() as u64 + 1)) as usize,
            };
            lost += usize::from(kept < written.len());
            written.truncate(kept);
            self.durable.extend(written.pop().map(|last| (number, last)));
        }
        (unflushed, lost)
    }
}

/// A file system that consists of one file.
struct FileOnly {
    shared: Arc<Shared>,
    bytes: u64,
}

impl FileOnly {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let (kind, size) = match ino {
            FILE => (FileType::RegularFile, self.bytes),
            _ => (FileType::Directory, 0),
        };
        FileAttr {
            ino,
            size,
            blocks: size / SECTOR_BYTES as u64,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: SECTOR_BYTES as u32,
            flags: 0,
        }
    }

    fn powered(&self) -> Result<MutexGuard<'_, State>, Errno> {
        let Shared { state, resumed } = &*self.shared;
        let state = resumed.wait_while(state.lock().unwrap(), |state| state.hangs).unwrap();
        if state.is_off { Err(Errno::EIO) } else { Ok(state) }
    }
}

impl Filesystem for FileOnly {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == FILE_NAME {
            reply.entry(&TTL, &self.attributes(FILE), Generation(0))
        } else {
            reply.error(Errno::ENOENT)
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(ino));
    }

    /// Makes the kernel bypass its page cache. A power loss of this disk would not clear that
    /// cache.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size = u64::from(size).min(self.bytes.saturating_sub(offset));
        let mut bytes = vec![0; size as usize];
        match self.powered() {
            Ok(state) => state.read(offset, &mut bytes),
            Err(error) => return reply.error(error),
        }
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.powered() {
            Ok(mut state) => state.write(offset, data),
            Err(error) => return reply.error(error),
        }
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.powered() {
            Ok(mut state) => state.flush(),
            Err(error) => return reply.error(error),
        }
        reply.ok();
    }
}
