//! The table of a poller's connections.

use mio::net::TcpStream;
use slab::Slab;

use super::sending::Sending;
use crate::ids::ConnId;
use crate::recv::Receiving;

pub(super) struct Connection {
    generation: u32,
    pub(super) stream: TcpStream,
    /// Whether the connection closes once its output is sent.
    pub(super) is_finishing: bool,
    pub(super) receiving: Receiving,
    /// Whether a receive may return bytes of the connection, or the end of its stream.
    pub(super) is_readable: bool,
    /// Whether the peer has ended its stream. The kernel reports nothing further then.
    pub(super) is_ended: bool,
    pub(super) sending: Sending,
    /// Whether the socket may accept output.
    pub(super) is_writable: bool,
    /// Whether the connection is in the list of connections with output to send.
    pub(super) is_dirty: bool,
    pub(super) awaits_room: bool,
    /// Whether the connection counts against the shared connection budget.
    pub(super) has_place: bool,
}

/// Connections by slot. Connections are numbered in the order in which they were inserted; the
/// generation of a connection is this number.
pub(super) struct Table {
    slots: Slab<Connection>,
    max: usize,
    serial: u32,
}

impl Table {
    pub(super) fn new(max: usize) -> Self {
        Self { slots: Slab::new(), max, serial: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= self.max
    }

    /// The id of the next connection.
    pub(super) fn next_id(&self) -> ConnId {
        ConnId { index: self.slots.vacant_key() as u32, generation: self.serial }
    }

    pub(super) fn insert(&mut self, stream: TcpStream, has_place: bool) -> ConnId {
        let id = self.next_id();
        self.serial = self.serial.wrapping_add(1);
        self.slots.insert(Connection {
            generation: id.generation,
            stream,
            is_finishing: false,
            receiving: Receiving::default(),
            is_readable: false,
            is_ended: false,
            sending: Sending::default(),
            is_writable: true,
            is_dirty: false,
            awaits_room: false,
            has_place,
        });
        id
    }

    pub(super) fn remove(&mut self, conn: ConnId) -> Option<Connection> {
        self.get(conn)?;
        self.slots.try_remove(conn.index())
    }

    pub(super) fn get(&self, conn: ConnId) -> Option<&Connection> {
        self.slots.get(conn.index()).filter(|slot| slot.generation == conn.generation)
    }

    pub(super) fn get_mut(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.slots.get_mut(conn.index()).filter(|slot| slot.generation == conn.generation)
    }

    /// The connection, unless it is finishing.
    pub(super) fn get_open(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.get_mut(conn).filter(|slot| !slot.is_finishing)
    }
}
