//! Receiving: one receive at a time per connection, into buffers that all connections share.
//!
//! - A connection with priority ([`Ring::put_first`]) has a multishot receive.
//! - From any other connection, up to [`ONCE_BYTES`] are received at a time. The next receive
//!   starts when these bytes were taken.
//! - If a receive is as long as permitted, its connection counts as sending much, until it has had
//!   some small receives in a row. Meanwhile it uses the buffers of the bulk group. These limit
//!   what a turn receives from all such connections: they take turns, and the bytes of those that
//!   wait stay in the kernel.
//!
//! All connections that send much share 512 KiB of buffers in a turn.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use io_uring::{cqueue, opcode, squeue, types};

use crate::buffers::Group;
use crate::config::{BUFFERS_AT_ONCE, ONCE_BYTES, SMALL_BYTES, SMALL_MIN};
use crate::connection::State;
use crate::event::Event;
use crate::ids::ConnId;
use crate::ring::Ring;
use crate::tag::{Kind, Tag};

/// The state of a connection's receives.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// The kind of the receive in flight.
    armed: Option<Kind>,
    pub(crate) paused: bool,
    /// Whether the stream has ended or failed, so that there is no further receive.
    pub(crate) ended: bool,
    pub(crate) comes_first: bool,
    /// None if the peer sends little. If it sends much, the number of its last receives in a row
    /// that were small.
    bulk: Option<u8>,
    /// Whether the connection is queued for a receive.
    pub(crate) waits: bool,
}

impl Receiving {
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Marks the connection as queued for a receive. Returns whether the caller has to queue it: a
    /// receive is wanted, and it was not queued.
    pub(crate) fn begins_to_wait(&mut self) -> bool {
        let is_idle = self.armed.is_none() && !self.ended;
        let begins = is_idle && !self.paused && !self.waits;
        self.waits |= begins;
        begins
    }

    /// The kind of the next receive.
    pub(crate) fn kind(&self) -> Kind {
        match (self.bulk, self.comes_first) {
            (Some(_), _) => Kind::RecvBulk,
            (None, true) => Kind::Recv,
            (None, false) => Kind::RecvOnce,
        }
    }

    /// Records the size of a receive. Returns true if the next receive is of another kind.
    pub(crate) fn note(&mut self, bytes: usize, is_full: bool) -> bool {
        let before = self.kind();
        self.bulk = match self.bulk {
            _ if is_full => Some(0),
            Some(small) if bytes < SMALL_BYTES && small + 1 < SMALL_MIN => Some(small + 1),
            Some(_) if bytes < SMALL_BYTES => None,
            Some(_) => Some(0),
            None => None,
        };
        self.kind() != before
    }
}

/// Connections that are queued for a receive, each with the time since which it has been queued.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    little: VecDeque<(ConnId, Instant)>,
    /// Connections that send much: with priority, and without.
    bulk: [VecDeque<(ConnId, Instant)>; 2],
}

impl Waiting {
    fn push(&mut self, conn: ConnId, receiving: &Receiving) {
        let queue = match receiving.bulk {
            Some(_) => &mut self.bulk[usize::from(!receiving.comes_first)],
            None => &mut self.little,
        };
        queue.push_back((conn, Instant::now()));
    }

    /// The next connection that sends much: alternately one with priority and one without.
    fn next_bulk(&mut self, turn: u16) -> Option<ConnId> {
        let [first, others] = &mut self.bulk;
        let (one, other) = if turn.is_multiple_of(2) { (first, others) } else { (others, first) };
        one.pop_front().or_else(|| other.pop_front()).map(|(conn, _)| conn)
    }

    pub(crate) fn has_bulk(&self) -> bool {
        self.bulk.iter().any(|queue| !queue.is_empty())
    }

    fn all(&self) -> impl Iterator<Item = &(ConnId, Instant)> {
        self.little.iter().chain(self.bulk.iter().flatten())
    }
}

impl Ring {
    /// Sets whether a connection has priority: its events are taken before those of others, and its
    /// bytes are received as soon as they arrive. But if it sends much, its bytes have to wait.
    pub fn put_first(&mut self, conn: ConnId, comes_first: bool) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        slot.receiving.comes_first = comes_first;
        if slot.receiving.armed == Some(Kind::Recv) && !comes_first {
            self.cancel_recv(conn);
        }
    }

    /// Stops receiving. The peer then fills the kernel's buffers, and has to wait. Some events may
    /// follow with bytes that were received before.
    pub fn pause_recv(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        if !std::mem::replace(&mut slot.receiving.paused, true) {
            self.cancel_recv(conn);
        }
    }

    /// Receives again after `pause_recv`.
    pub fn resume_recv(&mut self, conn: ConnId) {
        if let Some(slot) = self.connections.get_open(conn) {
            slot.receiving.paused = false;
            self.arm_recv(conn);
        }
    }

    pub(crate) fn cancel_recv(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        if let Some(kind) = slot.receiving.armed {
            self.cancel(Tag::new(kind, conn.index, conn.generation));
        }
    }

    /// Queues a receive. It starts in the next turn or, if the connection sends much, in one of the
    /// next turns.
    pub(crate) fn arm_recv(&mut self, conn: ConnId) {
        let Some(slot) = self.connections.get_open(conn) else { return };
        if slot.receiving.begins_to_wait() {
            self.waiting.push(conn, &slot.receiving);
        }
    }

    /// Starts the receives of queued connections, as long as there are buffers.
    pub(crate) fn feed_waiting(&mut self) {
        let bulk = self.bulk.free();
        let room = (bulk / BUFFERS_AT_ONCE).max(u16::from(bulk > 0));
        for turn in 0..room {
            let Some(conn) = self.waiting.next_bulk(turn) else { break };
            self.start_waiting(conn, Kind::RecvBulk);
        }
        if self.pool.free() > 0 {
            for _ in 0..self.waiting.little.len() {
                let Some((conn, _)) = self.waiting.little.pop_front() else { break };
                self.start_waiting(conn, Kind::Recv);
            }
        }
    }

    /// Starts the receive of a connection that was queued for a buffer of the kind that `kind`
    /// uses: bulk or not. If the connection needs the other kind of buffer by now, queues it for
    /// that one instead.
    fn start_waiting(&mut self, conn: ConnId, kind: Kind) {
        let Some(slot) = self.connections.get_mut(conn) else { return };
        slot.receiving.waits = false;
        let next = slot.receiving.kind();
        if (next == Kind::RecvBulk) != (kind == Kind::RecvBulk) {
            return self.arm_recv(conn);
        }
        if slot.state == State::Open && !slot.receiving.paused {
            self.start_recv(conn, next);
        }
    }

    fn start_recv(&mut self, conn: ConnId, kind: Kind) {
        let once_bytes = self.once_bytes();
        let Some(slot) = self.connections.get_open(conn) else { return };
        slot.receiving.armed = Some(kind);
        let fd = types::Fd(slot.raw_fd());
        let entry = if kind == Kind::RecvOnce {
            let recv = opcode::Recv::new(fd, std::ptr::null_mut(), once_bytes);
            let recv = recv.buf_group(Group::Little as u16).build();
            recv.flags(squeue::Flags::BUFFER_SELECT)
        } else {
            let group = if kind == Kind::RecvBulk { Group::Bulk } else { Group::Little };
            opcode::RecvMulti::new(fd, group as u16).build()
        };
        self.push(entry, Tag::new(kind, conn.index, conn.generation));
    }

    /// The most bytes of a single-shot receive.
    fn once_bytes(&self) -> u32 {
        ONCE_BYTES.min(self.pool.size())
    }

    /// The time since which bytes of a connection may have been waiting: in the kernel, or in an
    /// event that was not taken. If a connection sends much, each receive from it counts as the end
    /// of its wait, even if bytes are left. None if no bytes wait.
    pub fn unread_since(&self) -> Option<Instant> {
        let waits =
            |conn: &ConnId| self.connections.get(*conn).is_some_and(|slot| !slot.receiving.paused);
        let unread = self.waiting.all().filter(|(conn, _)| waits(conn)).map(|(_, since)| *since);
        unread.chain(self.later.front().map(|(_, since)| *since)).min()
    }

    pub(crate) fn received(&mut self, tag: Tag, result: i32, flags: u32) -> Option<Event> {
        let conn = ConnId { index: tag.index, generation: tag.generation };
        let pool = if tag.kind == Kind::RecvBulk { &self.bulk } else { &self.pool };
        let most = if tag.kind == Kind::RecvOnce { self.once_bytes() } else { pool.size() };
        // Lend the buffer in any case: dropping `data` returns it, even if its bytes are not used.
        let data = pool.lend(flags, result.max(0) as u32);
        let slot = self.connections.get_mut(conn)?;
        let ended = !cqueue::more(flags);
        if ended {
            slot.receiving.armed = None;
        }
        if slot.state != State::Open {
            self.advance_close(conn);
            return None;
        }
        match data {
            Some(data) if result > 0 => {
                let is_full = data.len() == most as usize;
                let changes = slot.receiving.note(data.len(), is_full);
                if ended {
                    self.arm_recv(conn);
                } else if changes {
                    self.cancel_recv(conn);
                }
                Some(Event::Received { conn, data })
            }
            _ => self.recv_stopped(conn, result),
        }
    }

    fn recv_stopped(&mut self, conn: ConnId, result: i32) -> Option<Event> {
        match -result {
            libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => self.arm_recv(conn),
            errno => {
                let slot = self.connections.get_mut(conn)?;
                slot.receiving.ended = true;
                let error = (errno != 0).then(|| io::Error::from_raw_os_error(errno));
                return Some(Event::Ended { conn, error });
            }
        }
        None
    }
}
