//! The interface between the reactor and its I/O: a driver, or the simulator.

use super::Share;
use crate::clock::Times;
use crate::files::FileIo;
use crate::shard::{CertificateOrder, Command, Event, ListenerIndex, Message, Shard};
use crate::telemetry::Push;
use muster_peers::Dial;
use muster_storage::FileToken;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::OwnedFd;

/// The sockets, files and clocks of a shard, and the channels to other shards. Calls for a closed
/// connection do nothing.
pub trait Io {
    /// A connection. A value is never reused.
    type Conn: Copy + Eq;
    /// Received bytes.
    type Data: Deref<Target = [u8]>;
    /// The bytes of a slice that must be encrypted.
    type Parts: Deref<Target = [u8]>;
    type Files: FileIo<Conn = Self::Conn>;

    fn files(&mut self) -> &mut Self::Files;

    fn times(&self) -> Times;

    /// The next completion that comes first (see `shares.rs`): a message, the completion of a file
    /// operation, or one of a connection that comes first.
    fn next_completion(&mut self) -> Option<Completion<Self::Conn, Self::Data, Self::Parts>>;

    /// The next other completion: a new connection, bytes of a connection that does not come first
    /// or sends much, or the end of a slice. Completions that are not taken stay for the next turn.
    fn next_other(&mut self) -> Option<Completion<Self::Conn, Self::Data, Self::Parts>>;

    /// Whether [`Self::next_other`] would return a completion.
    fn has_others(&self) -> bool;

    /// Some received bytes may wait without a completion. If completions come in the order of
    /// receipt, no such bytes arrived before this time. None if no bytes wait.
    fn unread_since(&self) -> Option<i64>;

    /// Whether the turn has used up its time. Its events came at `since`.
    fn is_late(&mut self, since: i64) -> bool;

    /// Begins a share of the time.
    fn begin(&mut self, share: Share);

    /// Whether the current share has used up its time.
    fn is_over(&mut self) -> bool;

    /// Handles the waiting input of one connection, within a slice of time.
    fn work(&mut self, shard: &mut Shard, times: Times, commands: &mut Vec<Command>);

    /// Passes an event to the shard.
    fn step(
        &mut self,
        shard: &mut Shard,
        times: Times,
        event: Event<'_>,
        commands: &mut Vec<Command>,
    ) {
        shard.step(times, event, commands);
    }

    /// The index of a connection in the table of open connections. Of the free indexes, the lowest
    /// one is reused first.
    fn slot(&self, conn: Self::Conn) -> usize;

    /// The client's address; None if it has disconnected.
    fn peer(&self, conn: Self::Conn) -> Option<SocketAddr>;

    /// Takes over a connection to another node. It receives from now on.
    ///
    /// # Errors
    /// The limit of connections is reached, or the socket cannot be used; it is closed. By default,
    /// no socket can be taken over.
    fn adopt(&mut self, _socket: OwnedFd) -> io::Result<Self::Conn> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens a connection to a shard of another node. The result comes as a message. By default,
    /// nothing is opened: without [`Reactor::connect`](super::Reactor::connect) nothing is dialled.
    fn dial(&mut self, _dial: Dial) {}

    /// Whether no further connection can be accepted. Then new clients have to wait.
    fn is_full(&self) -> bool;

    /// The maximum number of connections of all shards together, if limited.
    fn connections_max(&self) -> Option<usize>;

    /// Sends output after all earlier output. The buffer is empty afterwards.
    fn send(&mut self, conn: Self::Conn, output: &mut Vec<u8>);

    /// The number of output bytes that the socket has not accepted yet.
    fn unsent(&self, conn: Self::Conn) -> usize;

    /// Takes the bytes of [`Completion::PartsRead`] back for reuse.
    fn recycle(&mut self, parts: Self::Parts);

    /// Sets whether the completions of a connection come first.
    fn put_first(&mut self, conn: Self::Conn, comes_first: bool);

    /// Stops receiving from a connection. Its client has to wait when the socket's buffers are
    /// full.
    fn pause_receive(&mut self, conn: Self::Conn);

    fn resume_receive(&mut self, conn: Self::Conn);

    /// Requests [`Completion::Writable`].
    fn await_writable(&mut self, conn: Self::Conn);

    /// Closes the connection after its last output.
    fn finish(&mut self, conn: Self::Conn);

    /// Closes the connection now, and drops unsent output.
    fn close(&mut self, conn: Self::Conn);

    /// Sends a message to a shard, possibly this one.
    fn mail(&mut self, to: u32, message: Message);

    /// Sends an order to the thread that loads certificates.
    fn order_certificates(&mut self, order: CertificateOrder);

    /// Passes metrics, which a client has pushed, to the telemetry thread.
    fn pass_push(&mut self, push: Push);
}

/// A completion: an operation has ended, or something has happened to a connection. The completions
/// of one connection come in the order of their events.
#[derive(Debug)]
pub enum Completion<C, D, P> {
    Accepted {
        conn: C,
        listener: ListenerIndex,
    },
    NotAccepted {
        error: io::Error,
    },
    Received {
        conn: C,
        data: D,
    },
    /// The socket has accepted output, except for the last `unsent` bytes.
    Sent {
        conn: C,
        unsent: usize,
    },
    /// The socket has accepted the first `sent` bytes of a slice.
    Streamed {
        conn: C,
        sent: usize,
    },
    /// A slice was read, and must be encrypted.
    PartsRead {
        conn: C,
        parts: P,
    },
    /// A slice could not be sent, or could not be read: a file failed to be read, or is too short.
    StreamFailed {
        conn: C,
        error: io::Error,
    },
    Writable {
        conn: C,
    },
    /// The client has closed its sending side, but may still read.
    InputEnded {
        conn: C,
    },
    /// The connection failed.
    Broken {
        conn: C,
    },
    Written {
        token: FileToken,
        result: io::Result<()>,
    },
    Read {
        token: FileToken,
        result: io::Result<Vec<u8>>,
    },
    Synced {
        token: FileToken,
        result: io::Result<()>,
    },
    /// A file system call has ended.
    Called,
    Mail(Message),
}

impl<C: Copy, D, P> Completion<C, D, P> {
    /// The open connection that the completion is of.
    pub(super) fn conn(&self) -> Option<C> {
        match self {
            Self::Received { conn, .. }
            | Self::Sent { conn, .. }
            | Self::Streamed { conn, .. }
            | Self::PartsRead { conn, .. }
            | Self::StreamFailed { conn, .. }
            | Self::Writable { conn }
            | Self::InputEnded { conn }
            | Self::Broken { conn } => Some(*conn),
            Self::Accepted { .. }
            | Self::NotAccepted { .. }
            | Self::Written { .. }
            | Self::Read { .. }
            | Self::Synced { .. }
            | Self::Called
            | Self::Mail(_) => None,
        }
    }
}
