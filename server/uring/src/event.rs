//! The events of a ring or a poller.

use std::io;

use crate::aligned::AlignedBuf;
use crate::buffers::RecvBuf;
use crate::ids::{ConnId, ListenerId};
use crate::slice::Slice;

/// An event. Those of one connection come in the order in which they occurred.
#[derive(Debug)]
pub enum Event<D = RecvBuf> {
    /// A connection was accepted; it already receives.
    Accepted { listener: ListenerId, conn: ConnId },
    /// A connection could not be accepted: out of descriptors, or the client has disconnected. The
    /// listener continues by itself; if short of descriptors, as soon as a connection is closed,
    /// [`Ring::resume_accept`](crate::Ring::resume_accept) is called, or a second has passed.
    AcceptFailed { listener: ListenerId, error: io::Error },
    /// Bytes from the peer: never empty, in order.
    Received { conn: ConnId, data: D },
    /// Nothing more will be received: the peer ended its stream (no error) or the connection
    /// broke. After an orderly end sending may still work. The caller has to close the connection,
    /// or to send its remaining output and finish it.
    Ended { conn: ConnId, error: Option<io::Error> },
    /// The socket took output; `unsent` bytes are still queued.
    Sent { conn: ConnId, unsent: usize },
    /// The connection broke while sending; its queued output is dropped. The caller has to close
    /// it.
    SendFailed { conn: ConnId, error: io::Error },
    /// The socket took the first `sent` bytes of a slice; the others are dropped.
    Streamed { conn: ConnId, sent: usize },
    /// All parts of a slice were read, after [`Ring::read_slice`](crate::Ring::read_slice).
    SliceRead { conn: ConnId, slice: Slice },
    /// A slice was not sent, or read: a file could not be read, or ends too early.
    StreamFailed { conn: ConnId, error: io::Error },
    /// The socket can take output, after [`Ring::await_writable`](crate::Ring::await_writable).
    Writable { conn: ConnId },
    /// The connection's descriptor is closed. The last event of this id, and the only one after
    /// `close`.
    Closed { conn: ConnId },
    /// A write ended: all of `buf` is in the file (durably, if requested), or an error.
    Written { token: u64, result: io::Result<()>, buf: AlignedBuf },
    /// A read ended; `buf` holds the bytes, fewer than requested at the end of the file.
    Read { token: u64, result: io::Result<()>, buf: AlignedBuf },
    /// A sync ended.
    Synced { token: u64, result: io::Result<()> },
    /// A [`Waker`](crate::Waker) was used.
    Woken,
}

impl<D> Event<D> {
    /// The connection of the event.
    pub(crate) fn conn(&self) -> Option<ConnId> {
        match self {
            Self::Accepted { conn, .. }
            | Self::Received { conn, .. }
            | Self::Ended { conn, .. }
            | Self::Sent { conn, .. }
            | Self::SendFailed { conn, .. }
            | Self::Streamed { conn, .. }
            | Self::SliceRead { conn, .. }
            | Self::StreamFailed { conn, .. }
            | Self::Writable { conn }
            | Self::Closed { conn } => Some(*conn),
            Self::AcceptFailed { .. }
            | Self::Written { .. }
            | Self::Read { .. }
            | Self::Synced { .. }
            | Self::Woken => None,
        }
    }
}
