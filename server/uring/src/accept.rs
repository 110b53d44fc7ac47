//! Listening sockets and the accepts on each: no more than the connection budget allows, as one
//! turn may complete all of them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use io_uring::{cqueue, opcode, types};

use crate::connection::table_full;
use crate::event::Event;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

/// Names a listening socket of one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerId(pub(crate) u32);

/// The time after which a listener that found no free descriptors tries again.
pub(crate) const REST: Duration = Duration::from_secs(1);

pub(crate) struct Listener {
    /// None once closed.
    socket: Option<TcpListener>,
    /// Accepts under way.
    pub(crate) armed: usize,
    wanted: bool,
    /// When there were no free descriptors; the listener waits until one may have become free.
    pub(crate) resting: Option<Instant>,
    /// To be closed as soon as no accept is under way.
    closing: bool,
}

impl Listener {
    /// Whether more accepts would be under way if the budget allowed it.
    pub(crate) fn is_short(&self, accepts_max: usize) -> bool {
        let is_open = self.socket.is_some() && self.wanted && !self.closing;
        is_open && self.resting.is_none() && self.armed < accepts_max
    }
}

impl Ring {
    /// Binds `addr` with SO_REUSEADDR, and accepts from the next turn on. Connections get
    /// TCP_NODELAY, and end with an error when their peer is dead. The kernel limits `backlog` to
    /// `net.core.somaxconn`.
    ///
    /// # Errors
    /// Those of bind(2) and listen(2).
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

    /// The address that was bound, with the port that the kernel chose for port 0.
    ///
    /// # Errors
    /// NotConnected if the listener is closed.
    pub fn local_addr(&self, listener: ListenerId) -> io::Result<SocketAddr> {
        let socket = self.listeners.get(listener.0 as usize).and_then(|l| l.socket.as_ref());
        socket.ok_or(io::ErrorKind::NotConnected)?.local_addr()
    }

    /// Leaves further clients in the backlog. A few may be accepted until the accepts are
    /// cancelled.
    pub fn pause_accept(&mut self, listener: ListenerId) {
        let Some(slot) = self.listeners.get_mut(listener.0 as usize) else { return };
        let was_wanted = std::mem::replace(&mut slot.wanted, false);
        if slot.armed > 0 && was_wanted {
            self.cancel_all_of(Tag::new(Kind::Accept, listener.0, 0));
        }
    }

    /// Accepts again after `pause_accept` or a lack of descriptors.
    pub fn resume_accept(&mut self, listener: ListenerId) {
        if let Some(slot) = self.listeners.get_mut(listener.0 as usize) {
            (slot.wanted, slot.resting) = (true, None);
            self.arm_accepts(listener);
        }
    }

    /// Closes the listening socket: clients in its backlog are refused.
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
            slot.resting = slot.resting.or_else(|| scarce(-result).then(Instant::now));
            self.accept_ended(listener);
            self.release_unused();
            let error = io::Error::from_raw_os_error(-result);
            return is_news.then_some(Event::AcceptFailed { listener, error });
        }
        slot.resting = None;
        // SAFETY: the kernel just made this descriptor for us.
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

    /// Retries accepts after a connection was closed, which freed a descriptor and a part of the
    /// budget.
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

/// Closes the connection of an accept that completed while the ring was being dropped.
pub(crate) fn discard(completion: &cqueue::Entry) {
    let accept = Tag::decode(completion.user_data()).is_some_and(|tag| tag.kind == Kind::Accept);
    if accept && completion.result() >= 0 {
        // SAFETY: the kernel made this descriptor for us, and it has no owner yet.
        drop(unsafe { OwnedFd::from_raw_fd(completion.result()) });
    }
}

/// Whether an error lasts until resources are freed: accepting again at once would spin.
fn scarce(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
}

/// After a minute without data keep-alive probes are sent, at most six in the next minute. A
/// connection whose peer acknowledges no output for as long breaks, too.
const KEEPALIVE_IDLE_S: libc::c_int = 60;
const KEEPALIVE_INTERVAL_S: libc::c_int = 10;
const KEEPALIVE_PROBES: libc::c_int = 6;
const USER_TIMEOUT_MS: libc::c_int =
    (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_PROBES) * 1_000;

/// Options that accepted sockets inherit from the listening one.
const OPTIONS: [(libc::c_int, libc::c_int, libc::c_int); 6] = [
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_IDLE_S),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_PROBES),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, USER_TIMEOUT_MS),
];

/// The standard library sets SO_REUSEADDR, but neither these options nor the backlog.
fn configure(socket: &TcpListener, backlog: u32) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    for (level, name, value) in OPTIONS {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: a valid descriptor, and a pointer to an int with the size of an int.
        if unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let backlog = backlog.min(i32::MAX as u32) as libc::c_int;
    // SAFETY: a valid descriptor.
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
            // SAFETY: a valid descriptor, and pointers to an int and to its size.
            let status = unsafe {
                libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut size)
            };
            assert_eq!((status, value), (0, expected), "option {name}");
        }
    }
}
