//! Files that a ring reads and writes, opened with O_DIRECT where the file system supports it.

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

/// An open file. Clones share the descriptor, and operations under way hold one: it is closed when
/// the last clone is dropped.
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
    /// Opens for reading and writing past the page cache (O_DIRECT), creating the file if
    /// necessary; where the file system does not support that, through the page cache. Blocks.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn open_direct(path: &Path) -> io::Result<Self> {
        let direct = open(path, true, libc::O_DIRECT);
        match direct {
            // tmpfs before Linux 6.6, and other file systems without direct I/O.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Self::open_buffered(path),
            Err(error) => Err(error),
            Ok(file) => Ok(Self::new(direct_block_bytes(&file)?, file)),
        }
    }

    /// Opens for reading and writing through the page cache, creating the file if necessary.
    /// Blocks.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn open_buffered(path: &Path) -> io::Result<Self> {
        Ok(Self::buffered(open(path, true, 0)?))
    }

    /// Opens a file that exists for reading and writing through the page cache. Blocks.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open_existing(path: &Path) -> io::Result<Self> {
        Ok(Self::buffered(open(path, false, 0)?))
    }

    /// Opens a file as [`Self::open_existing`] does, if the kernel finds its name without a disk.
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
        // SAFETY: the kernel just made this descriptor for us.
        Some(Self::buffered(unsafe { StdFile::from_raw_fd(fd) }))
    }

    /// A file opened by other means, treated as buffered: it must not have O_DIRECT.
    pub fn from_std(file: StdFile) -> Self {
        Self::new(None, file)
    }

    /// Whether an operation under way or another clone keeps it open.
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.inner) > 1
    }

    /// The block size in bytes: offset and length of every read and write of a direct file must be
    /// multiples of it. None for a file in the page cache: any offset and length.
    pub fn block_bytes(&self) -> Option<usize> {
        self.inner.block_bytes
    }

    /// The file itself, for rare calls that block: metadata, set_len, locks.
    pub fn std(&self) -> &StdFile {
        &self.inner.file
    }

    /// Whether all of this part was in the page cache, read in whole, a moment ago. False if that
    /// is not known.
    pub(crate) fn is_cached(&self, offset: u64, len: u32) -> bool {
        let page_cache = self.inner.page_cache.lock();
        page_cache.unwrap_or_else(PoisonError::into_inner).holds(self.std(), offset, len)
    }

    /// Reads up to the end of the buffer or of the file; waits for the disk.
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

    /// Advises the kernel to read the bytes from `offset` on.
    pub(crate) fn read_ahead(&self, offset: u64) {
        let (offset, len) = (offset as libc::off_t, READ_AHEAD_BYTES as libc::off_t);
        // SAFETY: it takes a descriptor and numbers.
        unsafe {
            libc::posix_fadvise(self.std().as_raw_fd(), offset, len, libc::POSIX_FADV_WILLNEED)
        };
    }

    /// The kernel may mark a cached part as a place at which it reads ahead. Such a read waits if
    /// the queue of the disk is full. With POSIX_FADV_RANDOM it marks no part, and the ring reads
    /// ahead itself.
    fn buffered(file: StdFile) -> Self {
        // SAFETY: it takes a descriptor and numbers. It is advice: a refusal changes nothing.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
        Self::new(None, file)
    }

    fn new(block_bytes: Option<usize>, file: StdFile) -> Self {
        Self { inner: Arc::new(Inner { file, block_bytes, page_cache: Mutex::default() }) }
    }
}

/// From the kernel's `fcntl.h`; the C library's bindings do not have it.
const F_SETSIG: libc::c_int = 10;

/// Whether no other descriptor or mapping of the file exists; false if the file system cannot know.
/// `file` must be open for writing.
pub fn is_open_only_here(file: &StdFile) -> bool {
    let fd = file.as_raw_fd();
    // A process that opens the file between the last two calls waits for the second, and the kernel
    // sends this process a signal: SIGURG, which is ignored by default.
    // SAFETY: all three take a descriptor, which is open, and a number.
    unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) == 0
    }
}

/// A read of a file that was written since the last one would set its access time, and ext4 waits
/// for its journal to do so, even if the bytes are in the page cache: O_NOATIME. The kernel permits
/// it to the owner of the file; anyone else opens it without.
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
/// none.
fn direct_block_bytes(file: &StdFile) -> io::Result<Option<usize>> {
    // SAFETY: all zeros is a valid statx, and the empty path with AT_EMPTY_PATH names the
    // descriptor itself.
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
