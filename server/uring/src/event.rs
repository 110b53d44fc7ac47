//! What a turn of the ring can bring.

use std::io;

use crate::accept::ListenerId;
use crate::aligned::AlignedBuf;
use crate::buffers::RecvBuf;
use crate::connection::ConnId;

/// One thing that happened. Events of one connection come in the order in which they happened.
#[derive(Debug)]
pub enum Event {
    /// A connection was accepted; it is receiving already.
    Accepted { listener: ListenerId, conn: ConnId },
    /// A connection could not be accepted: out of descriptors, or the client was gone already. The
    /// listener goes on by itself, when short of descriptors as soon as a connection closes,
    /// [`Ring::resume_accept`](crate::Ring::resume_accept) is called, or a second has passed.
    AcceptFailed { listener: ListenerId, error: io::Error },
    /// Bytes from the peer: never empty, in order.
    Received { conn: ConnId, data: RecvBuf },
    /// Nothing more will be received: the peer ended its stream (no error) or the connection
    /// broke. After an orderly end sending may still work: the caller is to close it then, or to
    /// send what it has and finish.
    Ended { conn: ConnId, error: Option<io::Error> },
    /// Output left for the socket; `unsent` bytes are still queued here.
    Sent { conn: ConnId, unsent: usize },
    /// The connection broke while sending; its queued output is dropped. Close it.
    SendFailed { conn: ConnId, error: io::Error },
    /// A slice left as far as the socket took it: `sent` bytes of it.
    Streamed { conn: ConnId, sent: usize },
    /// A slice was not sent: a file could not be read, or ends too early.
    StreamFailed { conn: ConnId, error: io::Error },
    /// The socket has room for output, as was asked for.
    Room { conn: ConnId },
    /// The connection is gone, its descriptor closed. Last event of this id, and the only one
    /// after `close`.
    Closed { conn: ConnId },
    /// A write ended; all of `buf` is in the file (durably, if that was asked), or an error.
    Written { token: u64, result: io::Result<()>, buf: AlignedBuf },
    /// A read ended; `buf` holds what was read, shorter than asked at the end of the file.
    Read { token: u64, result: io::Result<()>, buf: AlignedBuf },
    /// A sync ended.
    Synced { token: u64, result: io::Result<()> },
    /// A [`Waker`](crate::Waker) was used.
    Woken,
}
