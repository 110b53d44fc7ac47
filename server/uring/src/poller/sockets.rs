//! The sockets of a poller: listeners and connections.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::buffer::{BUFFER_BYTES, Buffer, ReadBuf};
use super::connection::{Connection, Table};
use super::listener::Listener;
use super::queue::{Entry, Order, Queue};
use crate::accept::POLL_EVERY;
use crate::config::{CLOSES_PER_TURN, CONNECTIONS_LIMIT, Config, ONCE_BYTES};
use crate::connection::table_full;
use crate::connection_budget::{ACCEPTS_MAX, ConnectionBudget};
use crate::event::Event;
use crate::ids::{ConnId, ListenerId};
use crate::spare::SpareBuffers;
use crate::tag::Kind;

/// The most bytes received at once from a connection with priority that sends little.
const FIRST_BYTES: usize = 4096;

/// The sockets, and their pending input, output and events.
pub(super) struct Sockets {
    registry: Registry,
    pub(super) queue: Queue,
    listeners: Vec<Listener>,
    budget: Option<ConnectionBudget>,
    connections: Table,
    /// Connections with output to send in the next turn.
    dirty: Vec<ConnId>,
    /// Connections whose descriptors have to be closed, in order.
    closes: VecDeque<(ConnId, Connection)>,
    buffer: Buffer,
    spare: SpareBuffers,
}

/// The socket that an epoll event is about.
enum Source {
    Listener(usize),
    Connection(ConnId),
}

/// Tokens from this number on belong to listeners.
const LISTENERS: usize = CONNECTIONS_LIMIT as usize;

impl Source {
    fn of(token: Token) -> Self {
        let (index, generation) = (token.0 as u32, (token.0 >> 32) as u32);
        match (index as usize).checked_sub(LISTENERS) {
            Some(listener) => Self::Listener(listener),
            None => Self::Connection(ConnId { index, generation }),
        }
    }
}

fn token(conn: ConnId) -> Token {
    Token(conn.index as usize | (conn.generation as usize) << 32)
}

impl Sockets {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            registry,
            queue: Queue::new(),
            listeners: Vec::new(),
            budget: None,
            connections: Table::new(Config::default().connections_max as usize),
            dirty: Vec::new(),
            closes: VecDeque::new(),
            buffer: Buffer::default(),
            spare: SpareBuffers::default(),
        }
    }

    /// Processes an epoll event.
    pub(super) fn changed(&mut self, event: &mio::event::Event) {
        match Source::of(event.token()) {
            Source::Connection(conn) => self.connection_changed(conn, event),
            Source::Listener(index) => {
                if let Some(listener) = self.listeners.get_mut(index) {
                    listener.is_ready = true;
                }
            }
        }
    }

    /// Takes an entry of the queue and returns its event.
    pub(super) fn take(&mut self, entry: Entry) -> Option<Event<ReadBuf>> {
        match entry {
            Entry::Event(event) => Some(event),
            Entry::Receive(conn) => self.receive(conn),
            Entry::Accept(listener) => self.accept(listener),
        }
    }

    /// Queues the connections that the last turn deferred.
    pub(super) fn begin_turn(&mut self) {
        (0..self.queue.left()).for_each(|_| self.queue_left());
    }

    /// Notes what epoll reports about a connection. Errors are not handled here, nor is the end of
    /// the peer's stream: the next receive or send finds them.
    fn connection_changed(&mut self, conn: ConnId, event: &mio::event::Event) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        let is_ended = event.is_read_closed() || event.is_error();
        slot.is_ended |= is_ended;
        let has_room = event.is_writable() || event.is_write_closed() || event.is_error();
        slot.is_writable |= has_room;
        if has_room && mem::take(&mut slot.awaits_room) {
            self.queue.event(Event::Writable { conn }, Order::First);
        }
        if has_room && slot.sending.unsent() > 0 && !mem::replace(&mut slot.is_dirty, true) {
            self.dirty.push(conn);
        }
        if is_ended || event.is_readable() {
            slot.is_readable = true;
            self.queue_receive(conn);
        }
    }
}

/// Connections.
impl Sockets {
    /// Takes over a connected stream socket. It receives from now on, like an accepted one.
    ///
    /// # Errors
    /// The limit of connections is reached, or the stream cannot be registered with epoll; the
    /// stream is closed.
    pub(super) fn adopt(&mut self, stream: OwnedFd) -> io::Result<ConnId> {
        let stream = std::net::TcpStream::from(stream);
        stream.set_nonblocking(true)?;
        let has_place = self.budget.as_ref().is_some_and(|budget| budget.take(1) == 1);
        self.insert(TcpStream::from_std(stream), has_place)
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.len() + self.closes.len()
    }

    pub(super) fn peer_addr(&self, conn: ConnId) -> io::Result<SocketAddr> {
        let slot = self.connections.get(conn);
        slot.ok_or(io::ErrorKind::NotConnected)?.stream.peer_addr()
    }

    pub(super) fn put_first(&mut self, conn: ConnId, comes_first: bool) {
        if let Some(slot) = self.connections.get_open(conn) {
            slot.receiving.comes_first = comes_first;
        }
    }

    pub(super) fn pause_recv(&mut self, conn: ConnId) {
        if let Some(slot) = self.connections.get_open(conn) {
            slot.receiving.paused = true;
        }
    }

    pub(super) fn resume_recv(&mut self, conn: ConnId) {
        if let Some(slot) = self.connections.get_open(conn) {
            slot.receiving.paused = false;
            self.leave(conn);
        }
    }

    pub(super) fn finish(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        slot.is_finishing = true;
        if slot.sending.unsent() == 0 {
            self.close(conn);
        }
    }

    pub(super) fn close(&mut self, conn: ConnId) {
        let slot = self.connections.remove(conn);
        self.closes.extend(slot.map(|slot| (conn, slot)));
    }

    fn insert(&mut self, mut stream: TcpStream, has_place: bool) -> io::Result<ConnId> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let id = token(self.connections.next_id());
        let registered = if self.connections.is_full() {
            Err(table_full())
        } else {
            self.registry.register(&mut stream, id, both)
        };
        match registered {
            Ok(()) => Ok(self.connections.insert(stream, has_place)),
            Err(error) => {
                self.release(has_place);
                Err(error)
            }
        }
    }

    pub(super) fn has_closes(&self) -> bool {
        !self.closes.is_empty()
    }

    /// The connection; None if it is closed or finishing.
    pub(super) fn open(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.connections.get_open(conn)
    }

    /// Closes descriptors, up to the limit for one turn.
    pub(super) fn start_closes(&mut self) {
        for _ in 0..CLOSES_PER_TURN {
            let Some((conn, slot)) = self.closes.pop_front() else { return };
            self.release(slot.has_place);
            drop(slot);
            self.listeners.iter_mut().for_each(Listener::rest_no_longer);
            self.queue.event(Event::Closed { conn }, Order::First);
        }
    }

    fn release(&self, has_place: bool) {
        if let Some(budget) = self.budget.as_ref().filter(|_| has_place) {
            budget.release(1);
        }
    }
}

/// Listeners.
impl Sockets {
    pub(super) fn listen(&mut self, addr: SocketAddr, backlog: u32) -> io::Result<ListenerId> {
        let mut listener = Listener::bind(addr, backlog)?;
        let index = self.listeners.len();
        if let Some(socket) = &mut listener.socket {
            self.registry.register(socket, Token(LISTENERS + index), Interest::READABLE)?;
        }
        self.listeners.push(listener);
        Ok(ListenerId(index as u32))
    }

    pub(super) fn local_addr(&self, listener: ListenerId) -> io::Result<SocketAddr> {
        let socket = self.listeners.get(listener.0 as usize).and_then(|it| it.socket.as_ref());
        socket.ok_or(io::ErrorKind::NotConnected)?.local_addr()
    }

    pub(super) fn close_listener(&mut self, listener: ListenerId) {
        if let Some(slot) = self.listeners.get_mut(listener.0 as usize) {
            slot.socket = None;
        }
    }

    pub(super) fn share_budget(&mut self, budget: ConnectionBudget) {
        self.budget = Some(budget);
    }

    pub(super) fn is_full(&self) -> bool {
        let has_place = self.budget.as_ref().is_none_or(ConnectionBudget::is_left);
        let is_full = self.connections.is_full() || !has_place;
        is_full && self.listeners.iter().any(Listener::is_open)
    }

    pub(super) fn connections_max(&self) -> Option<usize> {
        self.budget.as_ref().map(|budget| budget.max)
    }

    /// Queues accepts for all listeners whose clients may be waiting. Returns how long this turn
    /// may wait at most: listeners that pause, or that lack budget, must be tried again by then.
    pub(super) fn queue_accepts(&mut self) -> Option<Duration> {
        let is_full = self.is_full();
        let mut longest = None;
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            longest = longest.into_iter().chain(listener.rests_for()).min();
            if !listener.is_due() {
                continue;
            }
            if is_full {
                // Pollers do not notify each other when budget becomes free.
                longest = longest.into_iter().chain([POLL_EVERY]).min();
                continue;
            }
            for _ in mem::replace(&mut listener.queued, ACCEPTS_MAX)..ACCEPTS_MAX {
                self.queue.push(Entry::Accept(ListenerId(index as u32)), Order::Other);
            }
        }
        longest
    }

    fn accept(&mut self, id: ListenerId) -> Option<Event<ReadBuf>> {
        let is_full = self.connections.is_full();
        let listener = self.listeners.get_mut(id.0 as usize)?;
        listener.queued -= 1;
        if !listener.is_due() || is_full {
            return None;
        }
        let has_place = self.budget.as_ref().map(|budget| budget.take(1) == 1);
        if has_place == Some(false) {
            return None;
        }
        let has_place = has_place.is_some();
        let accepted = match listener.accept().transpose() {
            Some(Ok(stream)) => self.insert(stream, has_place),
            none => {
                self.release(has_place);
                Err(none?.err()?)
            }
        };
        Some(match accepted {
            Ok(conn) => Event::Accepted { listener: id, conn },
            Err(error) => Event::AcceptFailed { listener: id, error },
        })
    }
}

/// Receiving.
impl Sockets {
    /// Queues the connection for a receive, if the kernel may have bytes of it.
    fn queue_receive(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        if slot.is_readable && slot.receiving.begins_to_wait() {
            let order = match (slot.receiving.kind(), slot.receiving.comes_first) {
                (Kind::Recv, _) => Order::First,
                (_, true) => Order::Much,
                (_, false) => Order::Other,
            };
            self.queue.push(Entry::Receive(conn), order);
        }
    }

    /// Defers a connection, for which the kernel may have more bytes, to the next turn.
    fn leave(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        if slot.is_readable && slot.receiving.begins_to_wait() {
            self.queue.leave(conn);
        }
    }

    fn queue_left(&mut self) {
        let Some(conn) = self.queue.next_left() else { return };
        if let Some(slot) = self.connections.get_mut(conn) {
            slot.receiving.waits = false;
            self.queue_receive(conn);
        }
    }

    fn receive(&mut self, conn: ConnId) -> Option<Event<ReadBuf>> {
        let slot = self.connections.get_open(conn)?;
        slot.receiving.waits = false;
        if slot.receiving.paused {
            return None;
        }
        let kind = slot.receiving.kind();
        let most = if kind == Kind::RecvBulk {
            BUFFER_BYTES
        } else if slot.receiving.comes_first {
            FIRST_BYTES
        } else {
            ONCE_BYTES as usize
        };
        let stream = &mut slot.stream;
        match self.buffer.fill(most, |bytes| stream.read(bytes)) {
            Ok(data) if data.is_empty() => {
                slot.receiving.ended = true;
                Some(Event::Ended { conn, error: None })
            }
            Ok(data) => {
                let is_full = data.len() == most;
                slot.receiving.note(data.len(), is_full);
                slot.is_readable = is_full || slot.is_ended;
                self.leave(conn);
                Some(Event::Received { conn, data })
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                slot.is_readable = false;
                None
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.leave(conn);
                None
            }
            Err(error) => {
                slot.receiving.ended = true;
                Some(Event::Ended { conn, error: Some(error) })
            }
        }
    }
}

/// Sending.
impl Sockets {
    pub(super) fn output(&mut self, conn: ConnId) -> Option<&mut Vec<u8>> {
        let slot = self.connections.get_open(conn)?;
        if !mem::replace(&mut slot.is_dirty, true) {
            self.dirty.push(conn);
        }
        Some(slot.sending.output(&mut self.spare))
    }

    pub(super) fn send(&mut self, conn: ConnId, bytes: Vec<u8>) -> bool {
        let Some(slot) = self.connections.get_open(conn) else {
            self.spare.keep(bytes);
            return false;
        };
        if !mem::replace(&mut slot.is_dirty, true) {
            self.dirty.push(conn);
        }
        slot.sending.put(bytes, &mut self.spare);
        true
    }

    pub(super) fn unsent(&self, conn: ConnId) -> usize {
        self.connections.get(conn).map_or(0, |slot| slot.sending.unsent())
    }

    /// Requests the event [`Event::Writable`], which comes when the socket can accept output again.
    /// To register the socket again makes epoll report its present state. That is necessary: the
    /// last send accepted fewer bytes than it was given, but the socket may not be full, and then
    /// epoll would report no change.
    pub(super) fn await_writable(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        if mem::replace(&mut slot.awaits_room, true) {
            return;
        }
        let both = Interest::READABLE | Interest::WRITABLE;
        if self.registry.reregister(&mut slot.stream, token(conn), both).is_err() {
            // The event comes at once, although the socket may be full. The next send finds that
            // out or fails.
            slot.awaits_room = false;
            self.queue.event(Event::Writable { conn }, Order::First);
        }
    }

    pub(super) fn start_sends(&mut self) {
        let mut dirty = mem::take(&mut self.dirty);
        dirty.drain(..).for_each(|conn| self.start_send(conn));
        self.dirty = dirty;
    }

    fn start_send(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        slot.is_dirty = false;
        if !slot.is_writable {
            return;
        }
        let flushed = slot.sending.flush(&mut slot.stream, &mut self.spare);
        let (unsent, is_finishing) = (slot.sending.unsent(), slot.is_finishing);
        match flushed {
            Ok(has_room) => slot.is_writable = has_room,
            Err(error) => {
                slot.sending = Default::default();
                let failed = Event::SendFailed { conn, error };
                return if is_finishing {
                    self.close(conn)
                } else {
                    self.queue.event(failed, Order::First)
                };
            }
        }
        if !is_finishing {
            self.queue.event(Event::Sent { conn, unsent }, Order::First);
        } else if unsent == 0 {
            self.close(conn);
        }
    }
}
