//! The ring of a thread: one io_uring. Each turn of the thread's loop needs one system call.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::time::{Duration, Instant};

use io_uring::types::{self, CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};
use std::os::fd::AsRawFd;

use crate::accept::{self, Listener};
use crate::aligned::AlignedBuf;
use crate::buffers::{Group, Pool};
use crate::config::Config;
use crate::connection::Table;
use crate::connection_budget::ConnectionBudget;
use crate::disk::{DiskOp, DiskOps};
use crate::event::Event;
use crate::ids::ConnId;
use crate::probe::{self, SetupError};
use crate::recv::Waiting;
use crate::spare::{SpareBuffers, SpareSlices};
use crate::tag::{Kind, Tag};
use crate::wake::Wake;

/// IORING_ENTER_GETEVENTS: run deferred task work, and wait.
const GETEVENTS: u32 = 1;
/// When a ring is dropped, the longest time to wait until the kernel no longer uses its buffers.
const DROP_PATIENCE: Duration = Duration::from_secs(5);

/// The most workers for file operations. A worker sleeps while its operation waits for the disk,
/// and the kernel starts another one if none is running. Many are needed, because a write of the
/// log must not wait for one of many slow syncs. (The kernel's default limit is four for each
/// core.)
const WORKERS_MAX: u32 = 64;

/// One io_uring for the sockets and files of one thread. See the crate's documentation.
pub struct Ring {
    uring: ManuallyDrop<IoUring>,
    /// Completions that were copied out of the kernel's queue, but not handled yet.
    ready: VecDeque<cqueue::Entry>,
    /// Completions that are handled after all others, each with the time when it was copied.
    pub(crate) later: VecDeque<(cqueue::Entry, Instant)>,
    /// Entries that did not fit into the submission queue, in order.
    backlog: VecDeque<squeue::Entry>,
    /// The number of operations whose last completion was not copied yet.
    in_flight: usize,
    pub(crate) listeners: Vec<Listener>,
    /// The connection budget that this ring shares with other rings.
    pub(crate) budget: Option<ConnectionBudget>,
    /// The part of the budget that this ring holds.
    pub(crate) reserved: usize,
    /// Connections with output to send in the next turn.
    pub(crate) dirty: Vec<ConnId>,
    /// Connections whose descriptors have to be closed, in order.
    pub(crate) closes: VecDeque<ConnId>,
    /// Connections that are queued for a receive.
    pub(crate) waiting: Waiting,
    pub(crate) spare: SpareBuffers,
    pub(crate) spare_slices: SpareSlices,
    /// Connections with a slice to start, in order.
    pub(crate) slices: VecDeque<ConnId>,
    /// The connections whose slice has ended, but whose event is not taken yet, with the number of
    /// bytes that were sent.
    pub(crate) streamed: VecDeque<(ConnId, usize)>,
    // The kernel may use the memory of these fields until all operations have ended: see `drop`.
    pub(crate) pool: ManuallyDrop<Rc<Pool>>,
    /// The buffers of connections that send much.
    pub(crate) bulk: ManuallyDrop<Rc<Pool>>,
    pub(crate) connections: ManuallyDrop<Table>,
    pub(crate) disk: ManuallyDrop<DiskOps>,
    pub(crate) wake: ManuallyDrop<Wake>,
}

impl Ring {
    /// Creates a ring for the calling thread. Only this thread may use it.
    ///
    /// # Errors
    /// The facility that this machine lacks, and how to provide it, in one sentence.
    pub fn new(config: Config) -> Result<Self, SetupError> {
        config.check().map_err(SetupError::config)?;
        let uring = probe::setup(&config)?;
        // A kernel without this call keeps its own limits.
        let _ = uring.submitter().register_iowq_max_workers(&mut [WORKERS_MAX, 0]);
        let register = |group| Pool::register(&uring, &config, group);
        let pool = register(Group::Little).map_err(SetupError::from_buffers)?;
        let bulk = register(Group::Bulk).map_err(SetupError::from_buffers)?;
        let wake = Wake::new().map_err(SetupError::from_eventfd)?;
        let mut ring = Self {
            uring: ManuallyDrop::new(uring),
            ready: VecDeque::with_capacity(config.sq_entries as usize),
            later: VecDeque::new(),
            backlog: VecDeque::new(),
            in_flight: 0,
            listeners: Vec::new(),
            budget: None,
            reserved: 0,
            dirty: Vec::new(),
            closes: VecDeque::new(),
            waiting: Waiting::default(),
            spare: SpareBuffers::default(),
            spare_slices: SpareSlices::default(),
            slices: VecDeque::new(),
            streamed: VecDeque::new(),
            pool: ManuallyDrop::new(pool),
            bulk: ManuallyDrop::new(bulk),
            connections: ManuallyDrop::new(Table::new(config.connections_max)),
            disk: ManuallyDrop::new(DiskOps::default()),
            wake: ManuallyDrop::new(wake),
        };
        ring.arm_wake();
        Ok(ring)
    }

    /// Like [`Self::new`], but if the kernel lacks memory for a ring of these sizes, tries smaller
    /// ones. (How much memory other processes lock is not known before.)
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn new_or_smaller(config: Config) -> Result<Self, SetupError> {
        match (Self::new(config), config.smaller()) {
            (Err(error), Some(smaller)) if error.is_memory() => Self::new_or_smaller(smaller),
            (made, _) => made,
        }
    }

    /// Submits all operations requested since the last turn, and waits at most `timeout` for an
    /// event; without limit if that is None. Takes one system call, plus some for each slice of a
    /// stream. Does not wait if there are events to take with [`Ring::next_event`], or bytes to
    /// receive.
    ///
    /// # Errors
    /// Only errors after which the ring is unusable.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.feed_waiting();
        let longest = self.poll_budget();
        let timeout = timeout.into_iter().chain(longest).min();
        self.start_sends();
        self.start_slices();
        self.start_closes();
        self.drain_backlog()?;
        let wait = !self.has_ready() && self.backlog.is_empty() && !self.has_slices();
        self.enter(if wait { timeout } else { Some(Duration::ZERO) })?;
        self.reap();
        Ok(())
    }

    /// The next event. None when another turn is due.
    pub fn next_event(&mut self) -> Option<Event> {
        self.next_first().or_else(|| self.next_other())
    }

    /// The next event with priority, which is taken before all others. Only these events have no
    /// priority: those of accepts, of receives from connections that send much or were given no
    /// priority ([`Ring::put_first`]), and of slices that needed no operation in the kernel's
    /// queue.
    pub fn next_first(&mut self) -> Option<Event> {
        loop {
            let completion = self.ready.pop_front()?;
            if let Some(event) = self.complete(&completion) {
                return Some(event);
            }
        }
    }

    /// The next event without priority, which [`Self::next_first`] does not return. Events that are
    /// not taken remain for the next turn.
    pub fn next_other(&mut self) -> Option<Event> {
        loop {
            let Some((completion, _)) = self.later.pop_front() else {
                return self.next_streamed();
            };
            if let Some(event) = self.complete(&completion) {
                return Some(event);
            }
        }
    }

    /// Whether [`Ring::next_other`] may have an event.
    pub fn has_others(&self) -> bool {
        !self.later.is_empty() || !self.streamed.is_empty()
    }

    /// Whether the next turn can proceed without waiting for the kernel.
    fn has_ready(&self) -> bool {
        let has_bulk = self.waiting.has_bulk() && self.bulk.free() > 0;
        let has_closes = !self.closes.is_empty();
        has_bulk || has_closes || !self.ready.is_empty() || !self.later.is_empty()
    }

    /// Queues an operation. Never fails: if the submission queue is full, the operation waits in
    /// the backlog.
    pub(crate) fn push(&mut self, entry: squeue::Entry, tag: Tag) {
        let entry = entry.user_data(tag.encode());
        self.in_flight += 1;
        if !self.backlog.is_empty() || !self.push_now(&entry) {
            self.backlog.push_back(entry);
        }
    }

    /// Queues a file operation, and keeps its file and buffer until the completion. `entry` builds
    /// the queue entry from the file's descriptor and the buffer.
    pub(crate) fn start_disk(
        &mut self,
        kind: Kind,
        mut op: DiskOp,
        entry: impl FnOnce(types::Fd, &mut AlignedBuf) -> squeue::Entry,
    ) {
        let entry = entry(types::Fd(op.file.std().as_raw_fd()), &mut op.buf);
        let index = self.disk.insert(op);
        self.push(entry, Tag::new(kind, index, 0));
    }

    fn complete(&mut self, completion: &cqueue::Entry) -> Option<Event> {
        let (result, flags) = (completion.result(), completion.flags());
        let tag = Tag::decode(completion.user_data())?;
        match tag.kind {
            Kind::Accept => self.accepted(tag, result),
            Kind::Recv | Kind::RecvOnce | Kind::RecvBulk => self.received(tag, result, flags),
            Kind::Send => self.sent(tag, result),
            Kind::Close => self.closed(tag),
            Kind::Cancel => None,
            Kind::Wake => self.woken(result),
            Kind::Write => self.written(tag, result),
            Kind::Read => self.read_done(tag, result),
            Kind::Sync => self.synced(tag, result),
            Kind::SliceRead => self.slice_read(tag, result),
            Kind::ReadAhead => {
                self.disk.take(tag.index);
                None
            }
            Kind::SliceSend => self.slice_sent(tag, result),
            Kind::Writable => self.writable(tag),
        }
    }

    /// Returns false if the submission queue is full.
    fn push_now(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the memory that an entry points to lives until its completion. It is in the
        // tables of connections and of disk operations, in the pools, or in the wake-up counter.
        // None of these is freed before (see `drop`).
        unsafe { self.uring.submission().push(entry).is_ok() }
    }

    /// Moves the backlog into the submission queue, and submits as often as needed. Entries that
    /// the kernel does not accept now remain for the next turn.
    fn drain_backlog(&mut self) -> io::Result<()> {
        while let Some(entry) = self.backlog.pop_front() {
            if self.push_now(&entry) {
                continue;
            }
            self.backlog.push_front(entry);
            self.enter(Some(Duration::ZERO))?;
            self.reap();
            if self.uring.submission().is_full() {
                break;
            }
        }
        Ok(())
    }

    fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let submitter = self.uring.submitter();
        let entered = match timeout {
            None => submitter.submit_and_wait(1),
            Some(Duration::ZERO) => {
                let queued = self.uring.submission().len() as u32;
                // SAFETY: no argument is passed, and the queued entries are valid.
                unsafe { self.uring.submitter().enter::<()>(queued, 0, GETEVENTS, None) }
            }
            Some(timeout) => {
                let time = Timespec::from(timeout);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match entered {
            Err(error) if !transient(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Copies the completions out of the kernel's queue. They are handled after that, because
    /// handling one may queue further operations.
    fn reap(&mut self) {
        let mut now = None;
        for entry in self.uring.completion() {
            self.in_flight -= usize::from(!cqueue::more(entry.flags()));
            if is_for_later(&entry) {
                self.later.push_back((entry, *now.get_or_insert_with(Instant::now)));
            } else {
                self.ready.push_back(entry);
            }
        }
    }

    /// Cancels all operations and waits for their completions. Returns false if some are missing.
    fn quiesce(&mut self) -> bool {
        let deadline = Instant::now() + DROP_PATIENCE;
        while self.in_flight > 0 && Instant::now() < deadline {
            if self.drain_backlog().is_err() || self.enter(Some(Duration::ZERO)).is_err() {
                return false;
            }
            let soon = Some(Timespec::new().nsec(10_000_000));
            // An error that says there is nothing to cancel is ignored.
            let _ = self.uring.submitter().register_sync_cancel(soon, CancelBuilder::any());
            self.reap();
        }
        self.in_flight == 0
    }
}

impl Drop for Ring {
    /// If operations do not end in time, their buffers are leaked: the kernel may still write to
    /// them, so they must not be freed.
    fn drop(&mut self) {
        let quiet = self.quiesce();
        self.later.drain(..).for_each(|(completion, _)| accept::discard(&completion));
        // SAFETY: nothing of `self` is used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.uring);
            if quiet {
                ManuallyDrop::drop(&mut self.connections);
                ManuallyDrop::drop(&mut self.disk);
                ManuallyDrop::drop(&mut self.pool);
                ManuallyDrop::drop(&mut self.bulk);
                ManuallyDrop::drop(&mut self.wake);
            }
        }
    }
}

/// Whether a completion has lower priority than all others.
fn is_for_later(completion: &cqueue::Entry) -> bool {
    Tag::decode(completion.user_data()).is_some_and(|tag| match tag.kind {
        Kind::Accept | Kind::RecvOnce | Kind::RecvBulk => true,
        Kind::Recv
        | Kind::Send
        | Kind::Close
        | Kind::Cancel
        | Kind::Wake
        | Kind::Write
        | Kind::Read
        | Kind::Sync
        | Kind::SliceRead
        | Kind::ReadAhead
        | Kind::SliceSend
        | Kind::Writable => false,
    })
}

/// Whether a later turn may succeed: the error was a timeout, a signal, a full completion queue, or
/// a lack of memory.
fn transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
}
