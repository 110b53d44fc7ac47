//! The I/O driver of the servers under test (`io.driver`).

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::cell::Cell;

thread_local! {
    static POLLS: Cell<bool> = const { Cell::new(false) };
}

/// The `io.driver` of servers whose own configs do not have it. It is `poll` within [`polled`], and
/// otherwise the value of `MUSTER_IO_DRIVER`. `None` means the default.
pub fn config() -> Option<String> {
    let of_story = POLLS.get().then(|| "poll".into());
    let driver = of_story.or_else(|| std::env::var("MUSTER_IO_DRIVER").ok())?;
    Some(format!("io.driver={driver}"))
}

/// Runs a test whose servers use the poller instead of io_uring.
pub fn polled(story: fn()) {
    POLLS.set(true);
    story();
}

/// Makes the kernel answer the three system calls of io_uring with this error, for the calling
/// thread and the processes that it starts.
pub fn refuse_io_uring(errno: u32) {
    // io_uring_setup, io_uring_enter and io_uring_register have the same numbers on all machines.
    let rules = [425, 426, 427].map(|call| (call, Vec::new())).into();
    let here = std::env::consts::ARCH.try_into().unwrap();
    let refuse = SeccompAction::Errno(errno);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, here).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

pub const EPERM: u32 = 1;
pub const ENOSYS: u32 = 38;
