//! The interface of the reactor to what carries out its operations: a ring, or the simulator.

use super::Share;
use crate::clock::Times;
use crate::files::FileIo;
use crate::shard::{CertificateOrder, Command, Event, ListenerIndex, Message, Shard};
use crate::telemetry::Push;
use muster_storage::FileToken;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;

/// Sockets, files and clocks of a shard, and the way to other shards. Calls with a connection that
/// is closed do nothing.
pub trait Io {
    /// A connection, never named twice.
    type Conn: Copy + Eq;
    /// Received bytes.
    type Data: Deref<Target = [u8]>;
    /// The bytes of a slice that is to be encrypted.
    type Parts: Deref<Target = [u8]>;
    type Files: FileIo<Conn = Self::Conn>;

    fn files(&mut self) -> &mut Self::Files;

    fn times(&self) -> Times;

    /// The next completion that has come, of those that come before all others.
    fn next_completion(&mut self) -> Option<Completion<Self::Conn, Self::Data, Self::Parts>>;

    /// The next completion that does not come first: new connections, bytes of connections that do
    /// not come first or send much, and ends of slices. Completions that are not taken stay for the
    /// next turn.
    fn next_other(&mut self) -> Option<Completion<Self::Conn, Self::Data, Self::Parts>>;

    /// Whether [`Self::next_other`] has something.
    fn has_others(&self) -> bool;

    /// The time since when received bytes may have waited without a completion, if completions come
    /// in the order of receipt; None without such bytes.
    fn unread_since(&self) -> Option<i64>;

    /// Whether the turn whose events came at `since` has used its time.
    fn is_late(&mut self, since: i64) -> bool;

    /// Begins a share of time.
    fn begin(&mut self, share: Share);

    /// Whether the share that was begun last has used its time.
    fn is_over(&mut self) -> bool;

    /// Handles waiting input of one connection, for the time of a slice.
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

    /// The number of a connection among the open ones. Small numbers come first, and are used
    /// again.
    fn slot(&self, conn: Self::Conn) -> usize;

    /// The client's address; None if it has disconnected.
    fn peer(&self, conn: Self::Conn) -> Option<SocketAddr>;

    /// Whether no more connections can be accepted: further clients wait.
    fn is_full(&self) -> bool;

    /// The most connections of all shards together, if there is a limit.
    fn connections_max(&self) -> Option<usize>;

    /// Sends output after that which was sent before; leaves the buffer empty.
    fn send(&mut self, conn: Self::Conn, output: &mut Vec<u8>);

    /// Bytes of output that the socket has not accepted yet.
    fn unsent(&self, conn: Self::Conn) -> usize;

    /// Takes back the bytes of [`Completion::PartsRead`].
    fn recycle(&mut self, parts: Self::Parts);

    /// Sets whether completions of a connection come before those of others.
    fn put_first(&mut self, conn: Self::Conn, comes_first: bool);

    /// Receives no more, so that the client has to wait.
    fn pause_receive(&mut self, conn: Self::Conn);

    fn resume_receive(&mut self, conn: Self::Conn);

    /// Requests [`Completion::Writable`].
    fn await_writable(&mut self, conn: Self::Conn);

    /// Closes the connection when its output has left.
    fn finish(&mut self, conn: Self::Conn);

    /// Closes the connection now; output that has not left is dropped.
    fn close(&mut self, conn: Self::Conn);

    /// Sends a message to a shard, perhaps the same.
    fn mail(&mut self, to: u32, message: Message);

    /// Passes an order to the thread that loads certificates.
    fn order_certificates(&mut self, order: CertificateOrder);

    /// Passes a push to the thread that takes what clients push.
    fn pass_push(&mut self, push: Push);
}

/// A completion. Those of one connection come in the order in which they occurred.
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
    /// The socket accepted output; `unsent` bytes are left.
    Sent {
        conn: C,
        unsent: usize,
    },
    /// The socket accepted the first `sent` bytes of a slice.
    Streamed {
        conn: C,
        sent: usize,
    },
    /// A slice was read, to be encrypted.
    PartsRead {
        conn: C,
        parts: P,
    },
    /// A slice was not sent, or read: a file could not be read, or ends too early.
    StreamFailed {
        conn: C,
        error: io::Error,
    },
    Writable {
        conn: C,
    },
    /// The client has ended its side of the connection; it may still read.
    InputEnded {
        conn: C,
    },
    /// The connection broke.
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
    /// A call of the file system has ended.
    Called,
    Mail(Message),
}
