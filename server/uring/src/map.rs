//! Memory-mapped files, and the SIGBUS handler for a mapped file that can no longer be read.

use memmap2::Mmap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The most files that can be mapped at a time. Each shard may have one.
const MAPS_MAX: usize = 1024;

/// All maps, for the SIGBUS handler, which must neither allocate nor wait for a lock.
static MAPS: [Slot; MAPS_MAX] = [const { Slot::empty() }; MAPS_MAX];

/// A memory-mapped file. The kernel reads its bytes on access.
///
/// muster never changes a mapped file: a complete file gets its name by a rename, and a later
/// rename replaces it by another file. If another process truncates the file, or the device cannot
/// read it, an access to the missing bytes ends the process with status 1 and a message on stderr.
/// The file is renamed before that, so that the next startup does not use it.
#[derive(Debug)]
pub struct MappedFile {
    map: Mmap,
    slot: &'static Slot,
}

impl MappedFile {
    /// Maps a file. If an access finds that the file cannot be read, it is renamed to `aside`, and
    /// the process ends.
    ///
    /// # Errors
    /// The file is missing, is empty, or cannot be mapped.
    pub fn open(path: &Path, aside: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        handle_signal()?;
        let names = Names::new(path, aside)?;
        // SAFETY: muster never modifies a mapped file. If another process does, every byte is still
        // a valid u8; truncation raises SIGBUS, which the handler below handles.
        let map = unsafe { Mmap::map(&file)? };
        let slot = Slot::take(&map, names).ok_or(io::ErrorKind::QuotaExceeded)?;
        Ok(Self { map, slot })
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        self.slot.free();
    }
}

/// A place in `MAPS` for one map. It is taken if `names` is set.
#[derive(Debug)]
struct Slot {
    names: AtomicPtr<Names>,
    /// The address range of the map; both are 0 without a map. `start` is set last.
    start: AtomicUsize,
    end: AtomicUsize,
}

impl Slot {
    const fn empty() -> Self {
        Self {
            names: AtomicPtr::new(ptr::null_mut()),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
        }
    }

    fn take(map: &Mmap, names: Names) -> Option<&'static Self> {
        let names = Box::into_raw(Box::new(names));
        let is_taken = |slot: &&Self| {
            let (order, free) = (Ordering::AcqRel, ptr::null_mut());
            slot.names.compare_exchange(free, names, order, Ordering::Relaxed).is_ok()
        };
        let Some(slot) = MAPS.iter().find(is_taken) else {
            // SAFETY: the box was created here, and no other pointer to it exists.
            drop(unsafe { Box::from_raw(names) });
            return None;
        };
        let start = map.as_ptr().addr();
        slot.end.store(start + map.len(), Ordering::Release);
        slot.start.store(start, Ordering::Release);
        Some(slot)
    }

    fn free(&self) {
        self.start.store(0, Ordering::Release);
        self.end.store(0, Ordering::Release);
        let names = self.names.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: the pointer came from a box. The handler uses it only during an access to the
        // map. There is no such access any more, because the map is being dropped.
        drop(unsafe { Box::from_raw(names) });
    }

    fn has(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        start != 0 && (start..self.end.load(Ordering::Acquire)).contains(&address)
    }
}

/// The arguments of the handler's system calls, prepared in advance.
#[derive(Debug)]
struct Names {
    path: CString,
    aside: CString,
    message: String,
}

impl Names {
    fn new(path: &Path, aside: &Path) -> io::Result<Self> {
        let message = format!(
            "{} can no longer be read: it is now {}, and the next start will not use it\n",
            path.display(),
            aside.display()
        );
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
        Ok(Self { path: text(path)?, aside: text(aside)?, message })
    }
}

/// Installs the SIGBUS handler.
fn handle_signal() -> io::Result<()> {
    static ONCE: Once = Once::new();
    let mut installed = 0;
    ONCE.call_once(|| {
        // SAFETY: the action is fully initialised, and its handler makes only async-signal-safe
        // calls.
        installed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut())
        };
    });
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes the handler a valid siginfo.
    let address = unsafe { (*info).si_addr() }.addr();
    if let Some(slot) = MAPS.iter().find(|slot| slot.has(address)) {
        let names = slot.names.load(Ordering::Acquire);
        // SAFETY: the names live as long as the map, which is being accessed. The calls are
        // async-signal-safe. If they fail, there is nothing else to do.
        unsafe {
            let Names { path, aside, message } = &*names;
            libc::rename(path.as_ptr(), aside.as_ptr());
            if is_writable(libc::STDERR_FILENO) {
                libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
            }
            libc::_exit(1);
        }
    }
    // The address is in no map. After the handler returns, the same access raises the signal again.
    // Its default action then ends the process.
    // SAFETY: the call is async-signal-safe.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

/// Whether a message can be written without blocking. If nothing reads a full pipe, a write to it
/// would keep the process from exiting.
fn is_writable(fd: libc::c_int) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer is to one entry, and the call is async-signal-safe.
    unsafe { libc::poll(&raw mut entry, 1, 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const FILE: &str = "MUSTER_TEST_MAPPED_FILE";

    #[test]
    fn a_map_has_the_bytes_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let (path, aside) = (directory.path().join("file"), directory.path().join("aside"));
        for round in 0..=MAPS_MAX {
            std::fs::write(&path, round.to_string()).unwrap();
            let map = MappedFile::open(&path, &aside).unwrap();
            assert_eq!(map.as_ref(), round.to_string().as_bytes());
        }
        std::fs::write(&path, "").unwrap();
        assert!(MappedFile::open(&path, &aside).is_err());
    }

    /// The test runs itself in a second process, with the file to read in an environment variable.
    #[test]
    fn a_truncated_file_ends_the_process_and_is_renamed() {
        if let Some(path) = std::env::var_os(FILE) {
            read_behind_a_truncation(Path::new(&path));
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, [7; 8192]).unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap());
        let name = "map::tests::a_truncated_file_ends_the_process_and_is_renamed";
        let process = process.args(["--exact", name]);
        let output = process.env(FILE, &path).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("can no longer be read"));
        assert!(!path.exists() && path.with_extension("aside").exists());
    }

    fn read_behind_a_truncation(path: &Path) -> ! {
        let map = MappedFile::open(path, &path.with_extension("aside")).unwrap();
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
        assert_eq!(map.as_ref()[0], 7);
        panic!("{} was read behind the end of the file", map.as_ref()[5000]);
    }
}
