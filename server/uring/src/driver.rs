//! The interface between a shard and the driver that carries out its operations: a [`Ring`], or a
//! [`Poller`] if the kernel does not permit a ring. The driver is a generic parameter, so there are
//! no dynamic calls.
//!
//! Both drivers must pass the same tests (`tests/`).

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::aligned::AlignedBuf;
use crate::buffers::RecvBuf;
use crate::connection_budget::ConnectionBudget;
use crate::event::Event;
use crate::file::File;
use crate::ids::{ConnId, ListenerId};
use crate::poller::{Poller, ReadBuf};
use crate::ring::Ring;
use crate::slice::Slice;
use crate::wake::Waker;
use crate::write::Durability;

/// Carries out the operations of one thread on sockets and files. [`Ring`] documents the methods of
/// the same names.
pub trait Driver {
    /// The type of received bytes.
    type Data: Deref<Target = [u8]>;

    /// Starts all operations requested since the last turn, and waits at most `timeout` for an
    /// event.
    ///
    /// # Errors
    /// Only errors after which the driver is unusable.
    fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// The next of the events that are taken before all others.
    fn next_first(&mut self) -> Option<Event<Self::Data>>;

    /// The next of the other events, without the priority of those that [`Self::next_first`]
    /// returns. Events that are not taken remain for the next turn.
    fn next_other(&mut self) -> Option<Event<Self::Data>>;

    /// Whether [`Self::next_other`] may have an event.
    fn has_others(&self) -> bool;

    /// The time since which received or receivable bytes may have waited without an event.
    fn unread_since(&self) -> Option<Instant>;

    /// A handle with which any thread can end a turn.
    fn waker(&self) -> Waker;

    /// # Errors
    /// The errors of bind(2) and listen(2).
    fn listen(&mut self, addr: SocketAddr, backlog: u32) -> io::Result<ListenerId>;

    /// # Errors
    /// NotConnected if the listener is closed.
    fn local_addr(&self, listener: ListenerId) -> io::Result<SocketAddr>;

    fn close_listener(&mut self, listener: ListenerId);

    fn share_budget(&mut self, budget: ConnectionBudget);

    /// Whether no more connections can be accepted, so that further clients wait in the backlog.
    fn is_full(&self) -> bool;

    fn connections_max(&self) -> Option<usize>;

    /// The number of connections without a `Closed` event so far.
    fn connections(&self) -> usize;

    /// Takes over a connected stream socket. It receives from now on, like an accepted one.
    ///
    /// # Errors
    /// The limit of connections is reached, or the driver cannot register the stream; the stream is
    /// closed.
    fn adopt(&mut self, stream: OwnedFd) -> io::Result<ConnId>;

    /// # Errors
    /// NotConnected if the peer has disconnected or the id is no longer valid.
    fn peer_addr(&self, conn: ConnId) -> io::Result<SocketAddr>;

    fn put_first(&mut self, conn: ConnId, comes_first: bool);

    fn pause_recv(&mut self, conn: ConnId);

    fn resume_recv(&mut self, conn: ConnId);

    fn output(&mut self, conn: ConnId) -> Option<&mut Vec<u8>>;

    fn send(&mut self, conn: ConnId, bytes: Vec<u8>) -> bool;

    fn unsent(&self, conn: ConnId) -> usize;

    fn slice(&mut self) -> Slice;

    fn drop_slice(&mut self, slice: Slice);

    fn stream(&mut self, conn: ConnId, slice: Slice) -> bool;

    fn read_slice(&mut self, conn: ConnId, slice: Slice) -> bool;

    fn await_writable(&mut self, conn: ConnId);

    fn finish(&mut self, conn: ConnId);

    fn close(&mut self, conn: ConnId);

    fn write(
        &mut self,
        file: &File,
        offset: u64,
        buf: AlignedBuf,
        durability: Durability,
        token: u64,
    );

    fn read(&mut self, file: &File, offset: u64, len: usize, buf: AlignedBuf, token: u64);

    fn sync(&mut self, file: &File, token: u64);

    /// The next event. None when another turn is due.
    fn next_event(&mut self) -> Option<Event<Self::Data>> {
        self.next_first().or_else(|| self.next_other())
    }
}

/// Implements methods of [`Driver`] by the type's methods of the same names.
macro_rules! delegate {
    ($($name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            Self::$name(self $(, $argument)*)
        })*
    };
    ($($name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        $(fn $name(&self $(, $argument: $type)*) -> $result {
            Self::$name(self $(, $argument)*)
        })*
    };
}

macro_rules! driver {
    ($driver:ty, $data:ty) => {
        impl Driver for $driver {
            type Data = $data;

            delegate! {
                turn(&mut self, timeout: Option<Duration>) -> io::Result<()>;
                next_first(&mut self) -> Option<Event<$data>>;
                next_other(&mut self) -> Option<Event<$data>>;
                listen(&mut self, addr: SocketAddr, backlog: u32) -> io::Result<ListenerId>;
                close_listener(&mut self, listener: ListenerId);
                share_budget(&mut self, budget: ConnectionBudget);
                adopt(&mut self, stream: OwnedFd) -> io::Result<ConnId>;
                put_first(&mut self, conn: ConnId, comes_first: bool);
                pause_recv(&mut self, conn: ConnId);
                resume_recv(&mut self, conn: ConnId);
                output(&mut self, conn: ConnId) -> Option<&mut Vec<u8>>;
                send(&mut self, conn: ConnId, bytes: Vec<u8>) -> bool;
                slice(&mut self) -> Slice;
                drop_slice(&mut self, slice: Slice);
                stream(&mut self, conn: ConnId, slice: Slice) -> bool;
                read_slice(&mut self, conn: ConnId, slice: Slice) -> bool;
                await_writable(&mut self, conn: ConnId);
                finish(&mut self, conn: ConnId);
                close(&mut self, conn: ConnId);
                write(
                    &mut self,
                    file: &File,
                    offset: u64,
                    buf: AlignedBuf,
                    durability: Durability,
                    token: u64
                );
                read(
                    &mut self,
                    file: &File,
                    offset: u64,
                    len: usize,
                    buf: AlignedBuf,
                    token: u64
                );
                sync(&mut self, file: &File, token: u64);
            }

            delegate! {
                has_others(&self) -> bool;
                unread_since(&self) -> Option<Instant>;
                waker(&self) -> Waker;
                local_addr(&self, listener: ListenerId) -> io::Result<SocketAddr>;
                is_full(&self) -> bool;
                connections_max(&self) -> Option<usize>;
                connections(&self) -> usize;
                peer_addr(&self, conn: ConnId) -> io::Result<SocketAddr>;
                unsent(&self, conn: ConnId) -> usize;
            }
        }
    };
}

driver!(Ring, RecvBuf);
driver!(Poller, ReadBuf);
