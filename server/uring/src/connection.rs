//! The table of connections. Each reuse of a slot has a new generation, so an id (slot and
//! generation) is never reused.

use std::io;
use std::mem::ManuallyDrop;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::ids::ConnId;
use crate::recv::Receiving;
use crate::ring::Ring;
use crate::send::Sending;
use crate::stream::Streaming;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    /// Is closed once its output is sent.
    Finishing,
    /// The connection waits until its operations have ended, and then until its descriptor is
    /// closed.
    Closing,
}

pub(crate) struct Connection {
    pub(crate) generation: u32,
    pub(crate) state: State,
    /// None once the close is submitted to the kernel. A free slot has none, either.
    pub(crate) fd: Option<OwnedFd>,
    /// Whether the descriptor is being closed, or queued to be.
    pub(crate) closes: bool,
    pub(crate) receiving: Receiving,
    pub(crate) sending: Sending,
    pub(crate) streaming: Streaming,
}

impl Connection {
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }
}

/// Slots of connections, and the indexes of the free slots.
pub(crate) struct Table {
    slots: Vec<Connection>,
    free: Vec<u32>,
    max: u32,
}

impl Table {
    pub(crate) fn new(max: u32) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), max }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The most connections that the table can hold.
    pub(crate) fn max(&self) -> usize {
        self.max as usize
    }

    /// Adds a connection. If the table is full, returns the descriptor.
    pub(crate) fn insert(&mut self, fd: OwnedFd) -> Result<ConnId, OwnedFd> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.max as usize => self.grow(),
            None => return Err(fd),
        };
        let slot = &mut self.slots[index as usize];
        slot.state = State::Open;
        slot.fd = Some(fd);
        Ok(ConnId { index, generation: slot.generation })
    }

    pub(crate) fn remove(&mut self, conn: ConnId) {
        let Some(slot) = self.get_mut(conn) else { return };
        slot.generation = slot.generation.wrapping_add(1);
        slot.closes = false;
        slot.receiving = Receiving::default();
        slot.sending = Sending::default();
        slot.streaming = Streaming::default();
        self.free.push(conn.index);
    }

    /// The connection in any state. None if the slot has another generation by now.
    pub(crate) fn get_mut(&mut self, conn: ConnId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(conn.index as usize)?;
        (slot.generation == conn.generation).then_some(slot)
    }

    pub(crate) fn get(&self, conn: ConnId) -> Option<&Connection> {
        let slot = self.slots.get(conn.index as usize)?;
        (slot.generation == conn.generation).then_some(slot)
    }

    /// The connection if it is open: neither finishing nor closing.
    pub(crate) fn get_open(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.get_mut(conn).filter(|slot| slot.state == State::Open && slot.fd.is_some())
    }

    fn grow(&mut self) -> u32 {
        self.slots.push(Connection {
            generation: 0,
            state: State::Closing,
            fd: None,
            closes: false,
            receiving: Receiving::default(),
            sending: Sending::default(),
            streaming: Streaming::default(),
        });
        (self.slots.len() - 1) as u32
    }
}

impl Ring {
    /// Takes over a connected stream socket. It receives from now on, like an accepted one.
    ///
    /// # Errors
    /// All slots are in use; the stream is closed.
    pub fn adopt(&mut self, stream: impl Into<OwnedFd>) -> io::Result<ConnId> {
        match self.connections.insert(stream.into()) {
            Ok(conn) => {
                self.arm_recv(conn);
                Ok(conn)
            }
            Err(_full) => Err(table_full()),
        }
    }

    /// The number of connections whose `Closed` event was not returned yet.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// NotConnected if the peer has disconnected or the id is no longer valid.
    pub fn peer_addr(&self, conn: ConnId) -> io::Result<SocketAddr> {
        let Some(fd) = self.connections.get(conn).and_then(|slot| slot.fd.as_ref()) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // SAFETY: the descriptor stays open during the call, and ManuallyDrop never closes it.
        let stream = unsafe { ManuallyDrop::new(TcpStream::from_raw_fd(fd.as_raw_fd())) };
        stream.peer_addr()
    }
}

pub(crate) fn table_full() -> io::Error {
    io::Error::other("all connection slots are in use")
}
