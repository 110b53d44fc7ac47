//! Listening sockets, and the accepts that each has in flight: a turn (one pass of the event loop)
//! may complete all of them at once, so their number counts against the connection budget.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use io_uring::{cqueue, opcode, types};

use crate::connection::table_full;
use crate::connection_budget::{ACCEPTS_MAX, ConnectionBudget};
use crate::event::Event;
use crate::ids::ListenerId;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

/// How long a listener accepts no clients after it ran out of file descriptors.
pub(crate) const REST: Duration = Duration::from_secs(1);

/// How often a ring that may accept no more connections checks whether another ring has released
/// some budget.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Listener {
    /// None once the socket is closed.
    socket: Option<TcpListener>,
    /// The number of accepts in flight.
    pub(crate) armed: usize,
    wanted: bool,
    /// Set while the listener accepts no clients because file descriptors ran out: the time when
    /// that happened.
    pub(crate) resting: Option<Instant>,
    /// Whether to close the listener as soon as no accept is in flight.
    closing: bool,
}

impl Listener {
    /// Whether the listener would have more accepts in flight if the budget allowed it.
    pub(crate) fn is_short(&self, accepts_max: usize) -> bool {
        let is_open = self.socket.is_some() && self.wanted && !self.closing;
        is_open && self.resting.is_none() && self.armed < accepts_max
    }
}

impl Ring {
    /// Binds `addr` with SO_REUSEADDR, and accepts from the next turn on. Connections get
    /// TCP_NODELAY, and fail when their peer is dead. The kernel limits `backlog` to
    /// `net.core.somaxconn`.
    ///
    /// # Errors
    /// The errors of bind(2) and listen(2).
    pub fn listen(&mut self, addr: SocketAddr, backlog: u32) -> io::Result<ListenerId> {
        let socket = TcpListener::bind(addr)?;
        configure(&socket, backlog)?;
        let id = ListenerId(self.listeners.len() as u32);
        self.listeners.push(Listener {
            socket: Some(socket),
            armed: 0,
            wanted: true,
            resting: None,
            closing: false,
        });
        self.arm_accepts(id);
        Ok(id)
    }

    /// The bound address. For port 0 it contains the port that the kernel chose.
    ///
    /// # Errors
    /// NotConnected if the listener is closed.
    pub fn local_addr(&self, listener: ListenerId) -> io::Result<SocketAddr> {
        let socket = self.listeners.get(listener.0 as usize).and_then(|l| l.socket.as_ref());
        socket.ok_or(io::ErrorKind::NotConnected)?.local_addr()
    }

    /// Stops accepting; further clients wait in the backlog. A few may still be accepted until the
    /// accepts in flight are cancelled.
    pub fn pause_accept(&mut self, listener: ListenerId) {
        let Some(slot) = self.listeners.get_mut(listener.0 as usize) else { return };
        let was_wanted = std::mem::replace(&mut slot.wanted, false);
        if slot.armed > 0 && was_wanted {
            self.cancel_all_of(Tag::new(Kind::Accept, listener.0, 0));
        }
    }

    /// Accepts again, after `pause_accept` or after descriptors ran out.
    pub fn resume_accept(&mut self, listener: ListenerId) {
        if let Some(slot) = self.listeners.get_mut(listener.0 as usize) {
            (slot.wanted, slot.resting) = (true, None);
            self.arm_accepts(listener);
        }
    }

    /// Closes the listening socket. The kernel refuses clients in its backlog.
    pub fn close_listener(&mut self, listener: ListenerId) {
        self.pause_accept(listener);
        let Some(slot) = self.listeners.get_mut(listener.0 as usize) else { return };
        slot.closing = true;
        if slot.armed == 0 {
            slot.socket = None;
        }
    }

    pub(crate) fn accepted(&mut self, tag: Tag, result: i32) -> Option<Event> {
        let listener = ListenerId(tag.index);
        let slot = self.listeners.get_mut(listener.0 as usize)?;
        slot.armed -= 1;
        if result < 0 {
            let is_news = result != -libc::ECANCELED && slot.resting.is_none();
            slot.resting = slot.resting.or_else(|| is_scarce(-result).then(Instant::now));
            self.accept_ended(listener);
            self.release_unused();
            let error = io::Error::from_raw_os_error(-result);
            return is_news.then_some(Event::AcceptFailed { listener, error });
        }
        slot.resting = None;
        // SAFETY: the kernel has just created this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(result) };
        let event = match self.connections.insert(fd) {
            Ok(conn) => {
                self.arm_recv(conn);
                Event::Accepted { listener, conn }
            }
            Err(_closed) => Event::AcceptFailed { listener, error: table_full() },
        };
        self.accept_ended(listener);
        Some(event)
    }

    /// Tries again to accept clients, because a connection was closed: that has freed a descriptor
    /// and a part of the budget.
    pub(crate) fn retry_accepts(&mut self) {
        self.listeners.iter_mut().for_each(|listener| listener.resting = None);
        self.arm_all();
        self.release_unused();
    }

    pub(crate) fn arm_all(&mut self) {
        (0..self.listeners.len()).for_each(|index| self.arm_accepts(ListenerId(index as u32)));
    }

    fn accept_ended(&mut self, listener: ListenerId) {
        let Some(slot) = self.listeners.get_mut(listener.0 as usize) else { return };
        if slot.closing && slot.armed == 0 {
            slot.socket = None;
        }
        self.arm_accepts(listener);
    }

    fn arm_accepts(&mut self, listener: ListenerId) {
        let max = self.accepts_max();
        let slot = self.listeners.get(listener.0 as usize).filter(|slot| slot.is_short(max));
        let Some(slot) = slot else { return };
        let Some(fd) = slot.socket.as_ref().map(AsRawFd::as_raw_fd) else { return };
        let more = self.reserve(max - slot.armed);
        self.listeners[listener.0 as usize].armed += more;
        for _ in 0..more {
            let none = std::ptr::null_mut();
            let accept = opcode::Accept::new(types::Fd(fd), none, none.cast());
            let accept = accept.flags(libc::SOCK_CLOEXEC).build();
            self.push(accept, Tag::new(Kind::Accept, listener.0, 0));
        }
    }
}

impl Ring {
    /// Limits connections by a budget that this ring shares with others.
    pub fn share_budget(&mut self, budget: ConnectionBudget) {
        self.budget = Some(budget);
    }

    /// Whether a listener cannot accept any client for lack of budget. Its clients wait in the
    /// backlog.
    pub fn is_full(&self) -> bool {
        let max = self.accepts_max();
        self.listeners.iter().any(|listener| listener.is_short(max) && listener.armed == 0)
    }

    /// The most connections of all rings that share the budget.
    pub fn connections_max(&self) -> Option<usize> {
        self.budget.as_ref().map(|budget| budget.max)
    }

    /// The most accepts in flight on one listener.
    pub(crate) fn accepts_max(&self) -> usize {
        self.budget.as_ref().map_or(ACCEPTS_MAX, |budget| budget.accepts_max)
    }

    /// Reserves budget for up to `most` more accepts. Returns the number reserved.
    pub(crate) fn reserve(&mut self, most: usize) -> usize {
        let held = self.held();
        let most = most.min(self.connections.max().saturating_sub(held));
        let Some(budget) = &self.budget else { return most };
        let missing = (held + most).saturating_sub(self.reserved);
        self.reserved += if missing > 0 { budget.take(missing) } else { 0 };
        most.min(self.reserved.saturating_sub(held))
    }

    /// Releases budget that closed connections no longer need.
    pub(crate) fn release_unused(&mut self) {
        let unused = self.reserved.saturating_sub(self.held());
        if let Some(budget) = self.budget.as_ref().filter(|_| unused > 0) {
            budget.release(unused);
            self.reserved -= unused;
        }
    }

    /// Called in each turn: rings do not notify each other when they release shared budget. Ends
    /// the pauses of listeners whose time is over, and accepts again if budget is left. Returns the
    /// longest time that this turn may wait.
    pub(crate) fn poll_budget(&mut self) -> Option<Duration> {
        for listener in &mut self.listeners {
            listener.resting = listener.resting.filter(|since| since.elapsed() < REST);
        }
        let max = self.accepts_max();
        let is_short = self.listeners.iter().any(|listener| listener.is_short(max));
        if is_short && self.budget.as_ref().is_none_or(ConnectionBudget::is_left) {
            self.arm_all();
        }
        let rests = self.listeners.iter().any(|listener| listener.resting.is_some());
        if self.is_full() { Some(POLL_EVERY) } else { rests.then_some(REST) }
    }

    /// The number of connections, plus the accepts in flight, which may become connections.
    fn held(&self) -> usize {
        let armed: usize = self.listeners.iter().map(|listener| listener.armed).sum();
        self.connections.len() + armed
    }
}

/// Closes an accepted connection that no caller knows: the ring was dropped before the event of the
/// completed accept was taken.
pub(crate) fn discard(completion: &cqueue::Entry) {
    let accept = Tag::decode(completion.user_data()).is_some_and(|tag| tag.kind == Kind::Accept);
    if accept && completion.result() >= 0 {
        // SAFETY: the kernel created this descriptor for us, and it has no owner yet.
        drop(unsafe { OwnedFd::from_raw_fd(completion.result()) });
    }
}

/// Whether this error lasts until resources are freed. After such an error, a listener pauses: it
/// would only fail again at once.
pub(crate) fn is_scarce(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
}

/// After a minute without data the kernel sends keep-alive probes, at most six in the next minute.
/// A connection also fails if its peer does not acknowledge output for two minutes.
const KEEPALIVE_IDLE_S: libc::c_int = 60;
const KEEPALIVE_INTERVAL_S: libc::c_int = 10;
const KEEPALIVE_PROBES: libc::c_int = 6;
const USER_TIMEOUT_MS: libc::c_int =
    (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_PROBES) * 1_000;

/// Socket options that accepted sockets inherit from the listening socket.
const OPTIONS: [(libc::c_int, libc::c_int, libc::c_int); 6] = [
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_IDLE_S),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_PROBES),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, USER_TIMEOUT_MS),
];

/// Sets these options and the backlog. (The standard library has already set SO_REUSEADDR.)
pub(crate) fn configure(socket: &TcpListener, backlog: u32) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    for (level, name, value) in OPTIONS {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the descriptor is valid; the pointer is to an int, and the size is that of an
        // int.
        if unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let backlog = backlog.min(i32::MAX as u32) as libc::c_int;
    // SAFETY: the descriptor is valid.
    if unsafe { libc::listen(fd, backlog) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::net::TcpStream;

    #[test]
    fn accepted_connections_have_keepalive_and_user_timeout() {
        let mut ring = Ring::new(Config::default()).unwrap();
        let listener = ring.listen(([127, 0, 0, 1], 0).into(), 16).unwrap();
        let _client = TcpStream::connect(ring.local_addr(listener).unwrap()).unwrap();
        let conn = loop {
            ring.turn(None).unwrap();
            if let Some(Event::Accepted { conn, .. }) = ring.next_event() {
                break conn;
            }
        };
        let fd = ring.connections.get(conn).unwrap().raw_fd();
        for (level, name, expected) in OPTIONS {
            let (mut value, mut size): (libc::c_int, _) = (0, size_of::<libc::c_int>() as u32);
            // SAFETY: the descriptor is valid; the pointers are to an int and to its size.
            let status = unsafe {
                libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut size)
            };
            assert_eq!((status, value), (0, expected), "option {name}");
        }
    }
}
