//! The events of a ring or a poller.

use std::io;

use crate::aligned::AlignedBuf;
use crate::buffers::RecvBuf;
use crate::ids::{ConnId, ListenerId};
use crate::slice::Slice;

/// An event. `Received` and `Ended` of one connection come in the order in which they occurred. Any
/// other event of this connection may come before them even if it occurred later.
#[derive(Debug)]
pub enum Event<D = RecvBuf> {
    /// A connection was accepted. It receives already.
    Accepted { listener: ListenerId, conn: ConnId },
    /// A connection could not be accepted: for example, descriptors ran out, all slots are in use,
    /// or the client has disconnected. The listener continues by itself. If descriptors ran out, it
    /// continues when a connection is closed, when
    /// [`Ring::resume_accept`](crate::Ring::resume_accept) is called, or after a second.
    AcceptFailed { listener: ListenerId, error: io::Error },
    /// Bytes from the peer, in order; never empty.
    Received { conn: ConnId, data: D },
    /// Nothing more will be received. Without `error`, the peer ended its stream, and sending may
    /// still work; else the connection failed. The caller has to close the connection. It may also
    /// send its remaining output and then finish the connection.
    Ended { conn: ConnId, error: Option<io::Error> },
    /// The socket accepted output; `unsent` bytes are still queued.
    Sent { conn: ConnId, unsent: usize },
    /// The connection failed while sending, and its queued output was dropped. The caller has to
    /// close it.
    SendFailed { conn: ConnId, error: io::Error },
    /// The socket accepted the first `sent` bytes of a slice. The rest of the slice was dropped.
    Streamed { conn: ConnId, sent: usize },
    /// All parts of a slice were read; answers [`Ring::read_slice`](crate::Ring::read_slice).
    SliceRead { conn: ConnId, slice: Slice },
    /// A slice was not sent completely, or not read, because a file could not be read or is too
    /// short.
    StreamFailed { conn: ConnId, error: io::Error },
    /// The socket can accept output; answers [`Ring::await_writable`](crate::Ring::await_writable).
    Writable { conn: ConnId },
    /// The connection's descriptor is closed. This is the last event with this id, and the only one
    /// after `close`.
    Closed { conn: ConnId },
    /// A write ended. If `result` is Ok, all of `buf` is in the file, and on stable storage if that
    /// was requested.
    Written { token: u64, result: io::Result<()>, buf: AlignedBuf },
    /// A read ended. `buf` has the bytes; it is shorter than requested at the end of the file.
    Read { token: u64, result: io::Result<()>, buf: AlignedBuf },
    /// A sync ended.
    Synced { token: u64, result: io::Result<()> },
    /// A [`Waker`](crate::Waker) was called.
    Woken,
}

impl<D> Event<D> {
    /// The connection that the event is about.
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
