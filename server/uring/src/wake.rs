//! Wakes a ring or a poller from another thread. This uses an eventfd: a ring always has a read of
//! it in flight, and a poller watches it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::{opcode, types};

use crate::event::Event;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

/// Wakes the ring or poller that created it: its turn ends with [`Event::Woken`]. If it is called
/// several times before the turn notices, there is only one event. A waker may outlive its ring or
/// poller.
#[derive(Debug, Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

impl Waker {
    /// Wakes the ring or poller. Memory written before the call is visible to it when it takes the
    /// event.
    pub fn wake(&self) {
        if !self.shared.pending.swap(true, Ordering::AcqRel) {
            // A write to an eventfd fails only if its counter is full. The ring then has a wake-up
            // to read anyway.
            let _ = (&self.shared.eventfd).write(&1u64.to_ne_bytes());
        }
    }
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers, and its result is checked.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let eventfd = unsafe { File::from_raw_fd(fd) };
        Ok(Self { shared: Arc::new(Shared { eventfd, pending: AtomicBool::new(false) }) })
    }

    /// The descriptor. It becomes readable with each wake-up, even if earlier ones were not read.
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.shared.eventfd.as_raw_fd()
    }

    /// Notes that a wake-up was seen. A later call of `wake` causes another one.
    pub(crate) fn seen(&self) {
        self.shared.pending.swap(false, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct Shared {
    eventfd: File,
    pending: AtomicBool,
}

/// The ring's side of its wakers.
pub(crate) struct Wake {
    waker: Waker,
    /// The counter that the kernel writes. Boxed, so that its address is stable.
    counter: Box<u64>,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { waker: Waker::new()?, counter: Box::new(0) })
    }
}

impl Ring {
    /// A handle with which any thread can end a turn of this ring.
    pub fn waker(&self) -> Waker {
        self.wake.waker.clone()
    }

    pub(crate) fn arm_wake(&mut self) {
        let fd = types::Fd(self.wake.waker.raw_fd());
        let counter: *mut u64 = &mut *self.wake.counter;
        let read = opcode::Read::new(fd, counter.cast(), size_of::<u64>() as u32).build();
        self.push(read, Tag::new(Kind::Wake, 0, 0));
    }

    pub(crate) fn woken(&mut self, result: i32) -> Option<Event> {
        if result == -libc::ECANCELED {
            return None;
        }
        self.wake.waker.seen();
        self.arm_wake();
        Some(Event::Woken)
    }
}
