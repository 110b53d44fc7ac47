//! The driver of the servers under test (`io.driver`).

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::cell::Cell;

thread_local! {
    static POLLS: Cell<bool> = const { Cell::new(false) };
}

/// The driver of servers that name none: the one of the story, or that of `MUSTER_IO_DRIVER`. None
/// for the default.
pub fn config() -> Option<String> {
    let of_story = POLLS.get().then(|| "poll".into());
    let driver = of_story.or_else(|| std::env::var("MUSTER_IO_DRIVER").ok())?;
    Some(format!("io.driver={driver}"))
}

/// A story with servers that poll.
pub fn polled(story: fn()) {
    POLLS.set(true);
    story();
}

/// Has the kernel answer this to the three system calls of io_uring, to the calling thread and to
/// the processes that it starts.
pub fn refuse_io_uring(errno: u32) {
    // io_uring_setup, io_uring_enter and io_uring_register, the same numbers on all machines.
    let rules = [425, 426, 427].map(|call| (call, Vec::new())).into();
    let here = std::env::consts::ARCH.try_into().unwrap();
    let refuse = SeccompAction::Errno(errno);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, here).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

pub const EPERM: u32 = 1;
pub const ENOSYS: u32 = 38;
