//! Files that a ring reads and writes. They are opened with O_DIRECT if the file system supports
//! it.

use std::ffi::CString;
use std::fs::{File as StdFile, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::aligned::ALIGNMENT;
use crate::config::READ_AHEAD_BYTES;
use crate::page_cache::PageCache;

/// An open file. Clones share one descriptor, which is closed when the last clone is dropped. Each
/// operation in flight holds a clone.
#[derive(Debug, Clone)]
pub struct File {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: StdFile,
    block_bytes: Option<usize>,
    page_cache: Mutex<PageCache>,
}

impl File {
    /// Opens a file for reading and writing. Bypasses the page cache (O_DIRECT) if the file system
    /// supports that. `creates` says whether a missing file is created. This call blocks.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn open_direct(path: &Path, creates: bool) -> io::Result<Self> {
        match open(path, creates, libc::O_DIRECT) {
            // The file system has no direct I/O (tmpfs before Linux 6.6, for example).
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Self::open_buffered(path, creates)
            }
            Err(error) => Err(error),
            Ok(file) => Ok(Self::new(direct_block_bytes(&file)?, file)),
        }
    }

    /// Like [`Self::open_direct`], but through the page cache.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn open_buffered(path: &Path, creates: bool) -> io::Result<Self> {
        Ok(Self::buffered(open(path, creates, 0)?))
    }

    /// Opens an existing file like [`Self::open_buffered`], but never waits. None if the kernel
    /// would have to read from the disk to open the file, or does not permit O_NOATIME.
    pub fn open_cached(path: &Path) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: all zeros is a valid open_how.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = (libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOATIME) as u64;
        how.resolve = libc::RESOLVE_CACHED;
        // SAFETY: the path ends with a zero, and the size is that of the struct.
        let fd = unsafe {
            let (at, size) = (libc::AT_FDCWD, size_of::<libc::open_how>());
            libc::syscall(libc::SYS_openat2, at, path.as_ptr(), &raw const how, size)
        };
        let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the kernel has just created this descriptor for us.
        Some(Self::buffered(unsafe { StdFile::from_raw_fd(fd) }))
    }

    /// Wraps a file opened elsewhere. It is treated as buffered, so it must not have O_DIRECT.
    pub fn from_std(file: StdFile) -> Self {
        Self::new(None, file)
    }

    /// Whether another clone keeps the file open, such as that of an operation in flight.
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.inner) > 1
    }

    /// The block size in bytes of a direct file: offset and length of each read and write must be
    /// multiples of it. None for a buffered file, which permits any offset and length.
    pub fn block_bytes(&self) -> Option<usize> {
        self.inner.block_bytes
    }

    /// The underlying file, for infrequent blocking calls: metadata, set_len, locks.
    pub fn std(&self) -> &StdFile {
        &self.inner.file
    }

    /// Whether all of this part of the file was in the page cache a moment ago. Pages that are
    /// still being read from the disk do not count. False if this is unknown.
    pub(crate) fn is_cached(&self, offset: u64, len: u32) -> bool {
        let page_cache = self.inner.page_cache.lock();
        page_cache.unwrap_or_else(PoisonError::into_inner).holds(self.std(), offset, len)
    }

    /// Reads until the buffer is full or the file ends. Waits for the disk.
    ///
    /// # Errors
    /// The errors of pread(2).
    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.std().read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Advises the kernel to read ahead from `offset`.
    pub(crate) fn read_ahead(&self, offset: u64) {
        let (offset, len) = (offset as libc::off_t, READ_AHEAD_BYTES as libc::off_t);
        // SAFETY: the call takes a descriptor and numbers.
        unsafe {
            libc::posix_fadvise(self.std().as_raw_fd(), offset, len, libc::POSIX_FADV_WILLNEED)
        };
    }

    /// Wraps a buffered file and switches off the kernel's read-ahead (POSIX_FADV_RANDOM); the ring
    /// reads ahead itself. With the kernel's read-ahead, a read of a cached page may wait: if the
    /// page is marked as the place to read ahead, the kernel starts to do so, and waits if the
    /// disk's queue is full.
    fn buffered(file: StdFile) -> Self {
        // SAFETY: the call takes a descriptor and numbers. It is advice: if it fails, nothing
        // changes.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
        Self::new(None, file)
    }

    fn new(block_bytes: Option<usize>, file: StdFile) -> Self {
        Self { inner: Arc::new(Inner { file, block_bytes, page_cache: Mutex::default() }) }
    }
}

/// From the kernel's `fcntl.h`; the libc crate lacks it.
const F_SETSIG: libc::c_int = 10;

/// Whether no other descriptor or mapping of the file exists. False if the file system cannot say.
/// `file` must be open for writing.
pub fn is_open_only_here(file: &StdFile) -> bool {
    let fd = file.as_raw_fd();
    // A write lease is granted only if no other process or descriptor has the file open. If a
    // process opens the file between the last two calls, it has to wait for the last one. The
    // kernel then sends SIGURG to this process, which is ignored by default.
    // SAFETY: all three calls take an open descriptor and a number.
    unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) == 0
    }
}

/// Opens a file, with O_NOATIME if possible. Without it, the first read after a write sets the
/// access time, and for that ext4 waits for its journal, even if the bytes are in the page cache.
/// The kernel permits O_NOATIME only to the owner of the file; other users open it without.
fn open(path: &Path, creates: bool, flags: libc::c_int) -> io::Result<StdFile> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(creates).truncate(false);
    match options.custom_flags(flags | libc::O_NOATIME).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            options.custom_flags(flags).open(path)
        }
        opened => opened,
    }
}

/// The block size that the file system reports for direct I/O on this file; a page if it reports
/// nothing.
fn direct_block_bytes(file: &StdFile) -> io::Result<Option<usize>> {
    // SAFETY: all zeros is a valid statx; the empty path with AT_EMPTY_PATH names the descriptor
    // itself.
    let stat = unsafe {
        let mut stat: libc::statx = std::mem::zeroed();
        let path = c"".as_ptr();
        let mask = libc::STATX_DIOALIGN;
        if libc::statx(file.as_raw_fd(), path, libc::AT_EMPTY_PATH, mask, &mut stat) < 0 {
            return Err(io::Error::last_os_error());
        }
        stat
    };
    let is_reported = stat.stx_mask & libc::STATX_DIOALIGN != 0;
    let block = stat.stx_dio_offset_align as usize;
    let fits = (stat.stx_dio_mem_align as usize) <= ALIGNMENT;
    if is_reported && block > 0 && fits { Ok(Some(block)) } else { Ok(Some(ALIGNMENT)) }
}
