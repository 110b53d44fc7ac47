//! A [`Poller`] replaces a [`Ring`](crate::Ring) where the kernel does not permit one: a seccomp
//! profile forbids it, the kernel is too old, or no memory may be locked. It needs more system
//! calls: one for each receive and each send.
//!
//! - Sockets are non-blocking. Edge-triggered epoll reports a socket only when it becomes readable
//!   or writable. The poller remembers this until a call shows that the socket no longer is. Bytes
//!   are received only when their event is taken. Bytes that this turn does not take stay in the
//!   kernel.
//! - Reads from the page cache are made immediately, as on a ring. Threads carry out all other file
//!   operations (`workers.rs`).

mod buffer;
mod connection;
mod listener;
mod queue;
mod sending;
mod slices;
mod sockets;
mod workers;

pub use buffer::ReadBuf;

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::aligned::AlignedBuf;
use crate::at_once;
use crate::connection_budget::ConnectionBudget;
use crate::event::Event;
use crate::file::File;
use crate::ids::{ConnId, ListenerId};
use crate::slice::{Goes, Slice};
use crate::wake::Waker;
use crate::write::Durability;
use queue::Order;
use slices::Slices;
use sockets::Sockets;
use workers::{Ended, Job, Workers};

/// The most events that one call of epoll reports. If there are more, it is called again.
const EVENTS: usize = 1024;

/// A driver for one thread that uses epoll for sockets and threads for files. See the crate's
/// documentation.
pub struct Poller {
    poll: Poll,
    events: Events,
    /// Whether the last turn has called epoll.
    has_asked: bool,
    /// Completed reads from the page cache. Their events come in the next turn, as on a ring. If
    /// they came at once, each could cause the next read, and the turn would never end.
    read: Vec<Event<ReadBuf>>,
    waker: Waker,
    /// The threads for file operations. They share a waker.
    workers: Workers,
    sockets: Sockets,
    slices: Slices,
}

const WAKER: Token = Token(usize::MAX);
const WORKERS: Token = Token(usize::MAX - 1);

impl Poller {
    /// Creates a poller for the calling thread. Its worker threads inherit that thread's cores.
    ///
    /// # Errors
    /// Descriptors or threads ran out.
    pub fn new() -> io::Result<Self> {
        let (poll, waker, workers) = (Poll::new()?, Waker::new()?, Workers::start()?);
        for (waker, token) in [(&waker, WAKER), (workers.waker(), WORKERS)] {
            let mut source = SourceFd(&waker.raw_fd());
            poll.registry().register(&mut source, token, Interest::READABLE)?;
        }
        Ok(Self {
            sockets: Sockets::new(poll.registry().try_clone()?),
            poll,
            events: Events::with_capacity(EVENTS),
            has_asked: false,
            read: Vec::new(),
            waker,
            workers,
            slices: Slices::default(),
        })
    }

    /// Starts all operations requested since the last turn, and waits at most `timeout` for an
    /// event.
    ///
    /// # Errors
    /// Only errors after which the poller is unusable.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.sockets.start_sends();
        self.read.drain(..).for_each(|event| self.sockets.queue.event(event, Order::First));
        self.slices.start(&mut self.sockets, &self.workers);
        self.sockets.start_closes();
        let longest = self.sockets.queue_accepts();
        // Some events occur without epoll, such as completed sends. A turn that finds such events
        // only reports them. The turn after it then calls epoll in any case.
        if self.sockets.queue.has_first() && mem::take(&mut self.has_asked) {
            return Ok(());
        }
        self.has_asked = true;
        self.sockets.begin_turn();
        let has_events = self.sockets.queue.has_first() || self.sockets.queue.has_others();
        let waits = !has_events && self.slices.is_empty() && !self.sockets.has_closes();
        let timeout = timeout.into_iter().chain(longest).min();
        let mut timeout = if waits { timeout } else { Some(Duration::ZERO) };
        // A full list means that there may be further events. They belong to this turn, too.
        while self.wait(timeout)? == EVENTS {
            timeout = Some(Duration::ZERO);
        }
        // Connections that are accepted now can have their first bytes in the next turn already.
        self.sockets.queue_accepts();
        Ok(())
    }

    /// Waits for events and processes them. Returns their number.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            polled => polled?,
        }
        self.sockets.queue.advance();
        let events = mem::replace(&mut self.events, Events::with_capacity(0));
        let mut count = 0;
        for event in &events {
            count += 1;
            match event.token() {
                WAKER => {
                    self.waker.seen();
                    self.sockets.queue.event(Event::Woken, Order::First);
                }
                WORKERS => self.take_ended(),
                _ => self.sockets.changed(event),
            }
        }
        self.events = events;
        Ok(count)
    }

    pub fn next_first(&mut self) -> Option<Event<ReadBuf>> {
        loop {
            let entry = self.sockets.queue.next_first()?;
            if let Some(event) = self.sockets.take(entry).and_then(|event| self.news(event)) {
                return Some(event);
            }
        }
    }

    pub fn next_other(&mut self) -> Option<Event<ReadBuf>> {
        loop {
            let entry = self.sockets.queue.next_other()?;
            if let Some(event) = self.sockets.take(entry).and_then(|event| self.news(event)) {
                return Some(event);
            }
        }
    }

    pub fn has_others(&self) -> bool {
        self.sockets.queue.has_others()
    }

    pub fn unread_since(&self) -> Option<Instant> {
        let queue = &self.sockets.queue;
        // If the last turn did not call epoll, bytes may have arrived at any time since the last
        // call.
        let unasked = (!self.has_asked).then(|| queue.asked_at());
        queue.since().into_iter().chain(unasked).min()
    }

    /// A handle with which any thread can end a turn of this poller.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Returns the event. None if its connection was closed or finished after the event occurred.
    fn news(&mut self, event: Event<ReadBuf>) -> Option<Event<ReadBuf>> {
        let conn = event.conn().filter(|_| !matches!(event, Event::Closed { .. }));
        if conn.is_none_or(|conn| self.sockets.open(conn).is_some()) {
            return Some(event);
        }
        if let Event::SliceRead { slice, .. } = event {
            self.slices.keep(slice);
        }
        None
    }

    /// Processes the operations that worker threads have completed.
    fn take_ended(&mut self) {
        self.workers.waker().seen();
        while let Some(ended) = self.workers.next_ended() {
            let event = match ended {
                Ended::Written { token, result, buf } => Event::Written { token, result, buf },
                Ended::Read { token, result, buf } => Event::Read { token, result, buf },
                Ended::Synced { token, result } => Event::Synced { token, result },
                Ended::Slice { conn, slice, result } => {
                    self.slices.read(&mut self.sockets, conn, slice, result);
                    continue;
                }
            };
            self.sockets.queue.event(event, Order::First);
        }
    }
}

/// Sockets.
impl Poller {
    pub fn listen(&mut self, addr: SocketAddr, backlog: u32) -> io::Result<ListenerId> {
        self.sockets.listen(addr, backlog)
    }

    pub fn local_addr(&self, listener: ListenerId) -> io::Result<SocketAddr> {
        self.sockets.local_addr(listener)
    }

    pub fn close_listener(&mut self, listener: ListenerId) {
        self.sockets.close_listener(listener);
    }

    pub fn share_budget(&mut self, budget: ConnectionBudget) {
        self.sockets.share_budget(budget);
    }

    pub fn is_full(&self) -> bool {
        self.sockets.is_full()
    }

    pub fn connections_max(&self) -> Option<usize> {
        self.sockets.connections_max()
    }

    pub fn adopt(&mut self, stream: impl Into<OwnedFd>) -> io::Result<ConnId> {
        self.sockets.adopt(stream.into())
    }

    pub fn connections(&self) -> usize {
        self.sockets.connections()
    }

    pub fn peer_addr(&self, conn: ConnId) -> io::Result<SocketAddr> {
        self.sockets.peer_addr(conn)
    }

    pub fn put_first(&mut self, conn: ConnId, comes_first: bool) {
        self.sockets.put_first(conn, comes_first);
    }

    pub fn pause_recv(&mut self, conn: ConnId) {
        self.sockets.pause_recv(conn);
    }

    pub fn resume_recv(&mut self, conn: ConnId) {
        self.sockets.resume_recv(conn);
    }

    pub fn output(&mut self, conn: ConnId) -> Option<&mut Vec<u8>> {
        self.sockets.output(conn)
    }

    pub fn send(&mut self, conn: ConnId, bytes: Vec<u8>) -> bool {
        self.sockets.send(conn, bytes)
    }

    pub fn unsent(&self, conn: ConnId) -> usize {
        self.sockets.unsent(conn)
    }

    pub fn await_writable(&mut self, conn: ConnId) {
        self.sockets.await_writable(conn);
    }

    pub fn finish(&mut self, conn: ConnId) {
        self.sockets.finish(conn);
    }

    pub fn close(&mut self, conn: ConnId) {
        self.sockets.close(conn);
    }
}

/// Slices.
impl Poller {
    pub fn slice(&mut self) -> Slice {
        self.slices.new_slice()
    }

    pub fn drop_slice(&mut self, slice: Slice) {
        self.slices.keep(slice);
    }

    pub fn stream(&mut self, conn: ConnId, slice: Slice) -> bool {
        debug_assert!(self.unsent(conn) == 0);
        self.slices.put(&mut self.sockets, conn, slice)
    }

    pub fn read_slice(&mut self, conn: ConnId, mut slice: Slice) -> bool {
        slice.goes = Goes::ToCaller;
        self.slices.put(&mut self.sockets, conn, slice)
    }
}

/// Files.
impl Poller {
    pub fn write(
        &mut self,
        file: &File,
        offset: u64,
        buf: AlignedBuf,
        durability: Durability,
        token: u64,
    ) {
        self.workers.begin(Job::Write { file: file.clone(), offset, buf, durability, token });
    }

    pub fn read(&mut self, file: &File, offset: u64, len: usize, mut buf: AlignedBuf, token: u64) {
        buf.expose(len);
        if file.block_bytes().is_none() && at_once::read(file, offset, &mut buf) {
            return self.read.push(Event::Read { token, result: Ok(()), buf });
        }
        self.workers.begin(Job::Read { file: file.clone(), offset, buf, token });
    }

    pub fn sync(&mut self, file: &File, token: u64) {
        self.workers.begin(Job::Sync { file: file.clone(), token });
    }
}
