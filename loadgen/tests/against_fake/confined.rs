//! Runs with the default limits of containers: io_uring is forbidden, and no memory may be locked.

use std::io::ErrorKind;
use std::process::Command;

use io_uring::IoUring;
use libc::{SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::fake::Config;
use crate::run::{PROGRAM, TOO_LONG, play_by, scenario};

/// Forbids io_uring for the calling thread, and for the processes that it starts.
fn forbid_io_uring() {
    let calls = [SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register];
    let rules = calls.map(|call| (call, Vec::new())).into();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let here = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, here).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
    let refused = IoUring::new(2).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
}

/// The program without permission to lock memory (`ulimit -l 0`).
fn without_locked_memory() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -l 0 && exec \"$@\"", "sh", "timeout", TOO_LONG, PROGRAM]);
    shell
}

#[test]
fn a_run_needs_neither_io_uring_nor_locked_memory() {
    let confined = || {
        forbid_io_uring();
        for protocol in ["cooperative-sticky", "consumer"] {
            let scenario = scenario(protocol, "", "");
            let outcome = play_by(without_locked_memory(), Config::default(), &scenario, &[]);
            assert_eq!(outcome.status, Some(0), "{outcome}");
        }
    };
    std::thread::spawn(confined).join().unwrap();
}
