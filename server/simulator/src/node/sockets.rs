//! The server's ends of connections.

use crate::net::LinkId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The connections that the shards of this process have accepted, including closed ones.
#[derive(Default)]
pub(super) struct Sockets {
    all: BTreeMap<LinkId, Socket>,
    /// The open connections of each shard, by slot.
    slots: BTreeMap<u32, Vec<Option<LinkId>>>,
}

struct Socket {
    shard: u32,
    principal: Option<Arc<str>>,
    state: State,
    /// The socket's number among the open sockets of the shard.
    slot: usize,
    /// The shard has paused receiving. `held` has the bytes that arrived meanwhile.
    is_paused: bool,
    held: VecDeque<Vec<u8>>,
    /// The number of output bytes that the socket has not accepted yet.
    unsent: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The connection is closed, or was accepted after the shard's last turn: the next one opens
    /// it.
    Absent,
    Open,
    /// The connection closes when its output has left.
    Finishing,
}

impl Sockets {
    /// Accepts a connection, which the shard gets in its next turn. The client has shown this
    /// principal in its certificate, if any.
    pub(super) fn accept(&mut self, link: LinkId, shard: u32, principal: Option<Arc<str>>) {
        let socket = Socket {
            shard,
            principal,
            state: State::Absent,
            slot: 0,
            is_paused: false,
            held: VecDeque::new(),
            unsent: 0,
        };
        self.all.insert(link, socket);
    }

    /// Opens an accepted connection. It gets the lowest free slot, as in production's io_uring
    /// driver.
    pub(super) fn open(&mut self, link: LinkId) {
        let Some(socket) = self.all.get_mut(&link) else { return };
        let slots = self.slots.entry(socket.shard).or_default();
        let free = slots.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        slots[slot] = Some(link);
        (socket.slot, socket.state) = (slot, State::Open);
    }

    /// The shard that accepted the connection; None if no shard of this process did.
    pub(super) fn shard(&self, link: LinkId) -> Option<u32> {
        self.all.get(&link).map(|socket| socket.shard)
    }

    /// The last slot of the connection.
    pub(super) fn slot(&self, link: LinkId) -> usize {
        self.all.get(&link).map_or(0, |socket| socket.slot)
    }

    /// The connection that a slot of a shard contains.
    pub(super) fn in_slot(&self, shard: u32, slot: usize) -> Option<LinkId> {
        self.slots.get(&shard)?.get(slot).copied().flatten()
    }

    /// The principal that the connection's client has shown.
    pub(super) fn principal(&self, link: LinkId) -> Option<Arc<str>> {
        self.all.get(&link)?.principal.clone()
    }

    pub(super) fn is_open(&self, link: LinkId) -> bool {
        self.all.get(&link).is_some_and(|socket| socket.state == State::Open)
    }

    /// The number of bytes of output that the socket has not accepted yet.
    pub(super) fn unsent(&self, link: LinkId) -> usize {
        self.all.get(&link).map_or(0, |socket| socket.unsent)
    }

    /// Notes that the shard has passed output to an open connection.
    pub(super) fn sent(&mut self, link: LinkId, bytes: usize) {
        if let Some(socket) = self.all.get_mut(&link) {
            socket.unsent += bytes;
        }
    }

    /// Notes that the socket has accepted bytes of output. Returns the connection's shard if the
    /// connection is open.
    pub(super) fn taken(&mut self, link: LinkId, bytes: usize) -> Option<u32> {
        let socket = self.all.get_mut(&link)?;
        socket.unsent = socket.unsent.saturating_sub(bytes);
        (socket.state == State::Open).then_some(socket.shard)
    }

    /// Takes bytes that arrive. Returns the bytes with the shard that receives them, unless the
    /// shard has paused receiving.
    pub(super) fn receive(&mut self, link: LinkId, bytes: Vec<u8>) -> Option<(u32, Vec<u8>)> {
        let socket = self.all.get_mut(&link)?;
        if socket.is_paused {
            socket.held.push_back(bytes);
            return None;
        }
        Some((socket.shard, bytes))
    }

    /// Pauses receiving: holds the bytes that arrive from now on.
    pub(super) fn pause(&mut self, link: LinkId) {
        if let Some(socket) = self.all.get_mut(&link) {
            socket.is_paused = true;
        }
    }

    /// Ends a pause; returns the bytes that arrived meanwhile.
    pub(super) fn resume(&mut self, link: LinkId) -> VecDeque<Vec<u8>> {
        let Some(socket) = self.all.get_mut(&link) else { return VecDeque::new() };
        socket.is_paused = false;
        std::mem::take(&mut socket.held)
    }

    /// Closes an open connection when its output has left. Returns whether all output has left;
    /// None if the connection is not open.
    pub(super) fn finish(&mut self, link: LinkId) -> Option<bool> {
        if !self.is_open(link) {
            return None;
        }
        self.free_slot(link);
        let socket = self.all.get_mut(&link)?;
        socket.state = State::Finishing;
        Some(socket.unsent == 0)
    }

    /// Closes a connection now, and drops output that has not left. Returns whether the connection
    /// was open or finishing.
    pub(super) fn close(&mut self, link: LinkId) -> bool {
        if self.is_open(link) {
            self.free_slot(link);
        }
        let Some(socket) = self.all.get_mut(&link) else { return false };
        let was_there = socket.state != State::Absent;
        (socket.state, socket.unsent) = (State::Absent, 0);
        socket.held.clear();
        was_there
    }

    /// Closes all connections, because the process has ended. Returns all connections that the
    /// process had accepted.
    pub(super) fn clear(&mut self) -> BTreeSet<LinkId> {
        self.slots.clear();
        std::mem::take(&mut self.all).into_keys().collect()
    }

    fn free_slot(&mut self, link: LinkId) {
        let Some(socket) = self.all.get(&link) else { return };
        if let Some(slots) = self.slots.get_mut(&socket.shard) {
            slots[socket.slot] = None;
        }
    }
}
