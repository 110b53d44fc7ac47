//! Checks that the machine meets the requirements. If it does not, the error is a sentence for the
//! operator: what is missing, and how to provide it.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use io_uring::{IoUring, Probe, opcode};

use crate::config::Config;

/// The first kernel version with DEFER_TASKRUN.
const KERNEL_MIN: (u32, u32) = (6, 1);

/// The reason why a ring could not be created, as one sentence: what is missing, and how to provide
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupError {
    sentence: String,
    is_memory: bool,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for SetupError {}

/// Creates a ring of this size and drops it again.
///
/// # Errors
/// The facility that this machine lacks, and how to provide it, in one sentence.
pub fn probe(config: Config) -> Result<(), SetupError> {
    crate::Ring::new(config).map(drop)
}

/// The limits on open files of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// The current limit.
    pub soft: u64,
    /// The limit to which the process may raise the current one.
    pub hard: u64,
}

impl OpenFiles {
    /// Checks that the process may open `needed` files.
    ///
    /// # Errors
    /// It may not. The message says how to raise the limit, and names the alternative `or` if there
    /// is one.
    pub fn require(&self, needed: u64, or: Option<&str>) -> Result<(), SetupError> {
        if self.soft >= needed {
            return Ok(());
        }
        let or = or.map_or(String::new(), |other| format!(", or {other}"));
        Err(SetupError::new(format!(
            "RLIMIT_NOFILE allows {} open files and {needed} are needed: raise the hard limit \
             (`ulimit -Hn {needed}`, or LimitNOFILE={needed} in the systemd unit){or}.",
            self.soft
        )))
    }
}

/// The number of CAP_IPC_LOCK, which exempts a process from the limit on locked memory.
const CAP_IPC_LOCK: u32 = 14;

/// The largest sizes with which `rings` rings fit into the memory that this process may lock.
///
/// # Errors
/// Not even the smallest rings fit. The error is one sentence with the remedy. It also has the
/// alternative that `or` returns for the number of rings that would fit.
pub fn fit_rings(
    config: Config,
    rings: u32,
    or: impl FnOnce(u64) -> Option<String>,
) -> Result<Config, SetupError> {
    let limit = limit(libc::RLIMIT_MEMLOCK).map_or(libc::RLIM_INFINITY, |limit| limit.rlim_cur);
    if limit == libc::RLIM_INFINITY || may_lock_all() {
        return Ok(config);
    }
    // One ring is subtracted, because the kernel may not have released the memory of the probe's
    // ring yet.
    let least = config.smallest().locked_bytes();
    let left = limit.saturating_sub(least);
    config.fit(rings, left).ok_or_else(|| {
        let or = or(left / least).map_or(String::new(), |other| format!(", or {other}"));
        let needed = (u64::from(rings) + 1) * least / 1024;
        SetupError::new(format!(
            "RLIMIT_MEMLOCK allows {} KiB, and the smallest rings take {needed} KiB (shards: \
             {rings}): raise it (`ulimit -l unlimited`, or LimitMEMLOCK=infinity in the systemd \
             unit){or}.",
            limit / 1024
        ))
    })
}

/// Whether this process is exempt from the limit on locked memory.
fn may_lock_all() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & 1 << CAP_IPC_LOCK != 0)
}

/// The process's descriptor table is grown at startup so that it has at most this many entries.
const ROOM_FOR_FILES: u64 = 1 << 16;

/// Raises the soft limit of open files to the hard limit, and grows the process's descriptor table.
/// Call it before starting threads: once there are several threads, the kernel makes the thread
/// that doubles the table wait for some milliseconds.
///
/// # Errors
/// The errors of getrlimit(2) and setrlimit(2).
pub fn raise_open_files() -> io::Result<OpenFiles> {
    let mut limit = limit(libc::RLIMIT_NOFILE)?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the pointer is to a valid limit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    make_room_for_files(limit.rlim_cur.min(ROOM_FOR_FILES));
    Ok(OpenFiles { soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// Grows the descriptor table now, by opening its last descriptor for a moment.
fn make_room_for_files(count: u64) {
    let Ok(any) = std::fs::File::open("/dev/null") else { return };
    let last = count.saturating_sub(1) as libc::c_int;
    // SAFETY: the call takes a descriptor and numbers.
    let copy = unsafe { libc::fcntl(any.as_raw_fd(), libc::F_DUPFD_CLOEXEC, last) };
    if copy >= 0 {
        // SAFETY: the kernel has just created this descriptor for us.
        drop(unsafe { OwnedFd::from_raw_fd(copy) });
    }
}

/// Creates the io_uring, or returns the reason why that fails.
pub(crate) fn setup(config: &Config) -> Result<IoUring, SetupError> {
    let built = IoUring::builder()
        .setup_cqsize(config.cq_entries)
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .dontfork()
        .build(config.sq_entries);
    let uring = built.map_err(|error| refused(&error))?;
    missing_operations(&uring)?;
    Ok(uring)
}

/// The facts when the kernel refuses a ring. [`Facts::sentence`] depends only on these.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    errno: i32,
    kernel: Option<(u32, u32)>,
    /// The value of kernel.io_uring_disabled. None if the kernel lacks it.
    disabled: Option<u32>,
    memlock_bytes: u64,
    open_files: u64,
}

impl SetupError {
    fn new(sentence: String) -> Self {
        Self { sentence, is_memory: false }
    }

    pub(crate) fn config(sentence: &'static str) -> Self {
        Self::new(format!("The ring's configuration is invalid: {sentence}."))
    }

    /// Whether memory is missing, so that a smaller ring may be possible.
    pub fn is_memory(&self) -> bool {
        self.is_memory
    }

    pub(crate) fn from_buffers(error: io::Error) -> Self {
        refused(&error)
    }

    pub(crate) fn from_eventfd(error: io::Error) -> Self {
        refused(&error)
    }
}

fn refused(error: &io::Error) -> SetupError {
    let facts = Facts {
        errno: error.raw_os_error().unwrap_or(0),
        kernel: proc_value("osrelease").and_then(|text| version(&text)),
        disabled: proc_value("io_uring_disabled").and_then(|text| text.trim().parse().ok()),
        memlock_bytes: limit(libc::RLIMIT_MEMLOCK).map_or(0, |limit| limit.rlim_cur),
        open_files: limit(libc::RLIMIT_NOFILE).map_or(0, |limit| limit.rlim_cur),
    };
    SetupError { sentence: facts.sentence(), is_memory: facts.errno == libc::ENOMEM }
}

impl Facts {
    fn sentence(&self) -> String {
        let (major, minor) = KERNEL_MIN;
        if let Some((a, b)) = self.kernel.filter(|kernel| *kernel < KERNEL_MIN) {
            return format!(
                "Linux {a}.{b} is too old: io_uring with deferred task work needs {major}.{minor} \
                 or newer, so upgrade the kernel."
            );
        }
        match (self.errno, self.disabled) {
            (libc::EPERM, Some(level @ 1..)) => format!(
                "io_uring is disabled by kernel.io_uring_disabled={level}: run \
                 `sysctl -w kernel.io_uring_disabled=0` as root."
            ),
            (libc::EPERM | libc::EACCES, _) => "io_uring is forbidden, most likely by a seccomp \
                profile: let io_uring_setup, io_uring_enter and io_uring_register through it (for \
                a container, --security-opt seccomp=PROFILE)."
                .to_owned(),
            (libc::ENOSYS, _) => "This kernel has no io_uring, or a seccomp profile hides it: use \
                a kernel built with CONFIG_IO_URING, or let io_uring_setup, io_uring_enter and \
                io_uring_register through."
                .to_owned(),
            (libc::ENOMEM, _) => format!(
                "The kernel has no memory for a ring, most likely because RLIMIT_MEMLOCK allows \
                 only {} KiB: raise it (`ulimit -l unlimited`, or LimitMEMLOCK=infinity in the \
                 systemd unit) or start fewer shards (--shards). Memory that other processes of \
                 this user lock counts, too.",
                self.memlock_bytes / 1024
            ),
            (libc::EMFILE, _) => format!(
                "RLIMIT_NOFILE allows only {} open files: raise it (`ulimit -n 65536`, or \
                 LimitNOFILE=65536 in the systemd unit).",
                self.open_files
            ),
            (errno, _) => format!(
                "The kernel refused to set up a ring ({}): Linux {major}.{minor} or newer with \
                 io_uring enabled is needed.",
                io::Error::from_raw_os_error(errno)
            ),
        }
    }
}

/// Fails if the kernel does not support an operation. It may be a vendor's kernel, or a filter such
/// as seccomp may forbid the operation.
fn missing_operations(uring: &IoUring) -> Result<(), SetupError> {
    let needed = [
        ("accept", opcode::Accept::CODE),
        ("receive", opcode::RecvMulti::CODE),
        ("send", opcode::Send::CODE),
        ("sendmsg", opcode::SendMsg::CODE),
        ("cancel", opcode::AsyncCancel::CODE),
        ("close", opcode::Close::CODE),
        ("read", opcode::Read::CODE),
        ("write", opcode::Write::CODE),
        ("fsync", opcode::Fsync::CODE),
        ("fadvise", opcode::Fadvise::CODE),
    ];
    let mut probe = Probe::new();
    uring.submitter().register_probe(&mut probe).map_err(|error| refused(&error))?;
    match needed.iter().find(|(_, code)| !probe.is_supported(*code)) {
        None => Ok(()),
        Some((name, _)) => Err(SetupError::new(format!(
            "This kernel's io_uring lacks the operation {name}: use an unmodified Linux {}.{} or \
             newer.",
            KERNEL_MIN.0, KERNEL_MIN.1
        ))),
    }
}

fn proc_value(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()
}

/// The major and minor version in a release string such as "6.18.44-generic".
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The limit on the size of a file, in bytes. None if there is no limit.
pub fn file_size_limit() -> Option<u64> {
    let limit = limit(libc::RLIMIT_FSIZE).ok()?.rlim_cur;
    (limit != libc::RLIM_INFINITY).then_some(limit)
}

/// The type of a resource's number, which depends on the C library.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

fn limit(resource: Resource) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is valid.
    if unsafe { libc::getrlimit(resource, &mut limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(errno: i32) -> Facts {
        Facts {
            errno,
            kernel: Some((6, 18)),
            disabled: Some(0),
            memlock_bytes: 64 << 10,
            open_files: 256,
        }
    }

    #[test]
    fn the_sentence_names_the_cause_and_the_remedy() {
        let old = Facts { kernel: Some((5, 15)), ..facts(libc::EINVAL) };
        let off = Facts { disabled: Some(2), ..facts(libc::EPERM) };
        let unprivileged = Facts { disabled: Some(1), ..facts(libc::EPERM) };
        let cases = [
            (old, "Linux 5.15 is too old", "upgrade the kernel"),
            (off, "kernel.io_uring_disabled=2", "sysctl -w kernel.io_uring_disabled=0"),
            (unprivileged, "kernel.io_uring_disabled=1", "sysctl -w"),
            (facts(libc::EPERM), "seccomp", "let io_uring_setup"),
            (facts(libc::ENOSYS), "no io_uring", "CONFIG_IO_URING"),
            (facts(libc::ENOMEM), "only 64 KiB", "ulimit -l"),
            (facts(libc::EMFILE), "only 256 open files", "ulimit -n"),
            (facts(libc::EINVAL), "Invalid argument", "6.1 or newer"),
        ];
        for (facts, missing, remedy) in cases {
            let sentence = facts.sentence();
            assert!(sentence.contains(missing), "{sentence}");
            assert!(sentence.contains(remedy), "{sentence}");
            assert!(sentence.ends_with('.') && !sentence.contains('\n'), "{sentence}");
            assert!(!sentence.contains("  "), "{sentence}");
        }
    }

    #[test]
    fn too_few_open_files_has_a_sentence_too() {
        let files = OpenFiles { soft: 1024, hard: 4096 };
        assert_eq!(files.require(1024, None), Ok(()));
        let sentence = files.require(5000, None).unwrap_err().to_string();
        assert!(sentence.contains("allows 1024") && sentence.contains("LimitNOFILE=5000"));
        let sentence = files.require(5000, Some("wait")).unwrap_err().to_string();
        assert!(sentence.ends_with("systemd unit), or wait."), "{sentence}");
    }

    #[test]
    fn kernel_releases_of_all_forms_are_read() {
        for (release, expected) in [
            ("6.18.44-fc-v595\n", Some((6, 18))),
            ("5.4.0", Some((5, 4))),
            ("6.1-rc3", Some((6, 1))),
            ("linux", None),
            ("6", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }

    #[test]
    fn an_invalid_configuration_is_named() {
        let config = Config { recv_buffers: 1000, ..Config::default() };
        let sentence = probe(config).unwrap_err().to_string();
        assert!(sentence.contains("power of two"), "{sentence}");
    }
}
