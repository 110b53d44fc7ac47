//! The boundary of a shard: what happens to it, and what it wants done. Both are closed enums, so
//! that the reactor and the simulator are two readers of the same words.

use super::mailbox::Message;
use crate::net::ConnectionId;
use muster_storage::{FileDone, FileId, FileOp};
use std::sync::Arc;

/// Something that happened.
#[derive(Debug)]
pub enum Event<'e> {
    /// A client connected; `host` is its address as Kafka prints it: `/127.0.0.1`.
    Opened {
        connection: ConnectionId,
        host: Arc<str>,
    },
    Received {
        connection: ConnectionId,
        data: &'e [u8],
    },
    /// The socket took output; this much is left.
    Sent {
        connection: ConnectionId,
        unsent: usize,
    },
    /// The parts that were to be sent have left, as far as the socket took them: this number of bytes.
    Streamed {
        connection: ConnectionId,
        sent: usize,
    },
    /// A file could not be read, or ends too early: of the parts that were to be sent none has left.
    StreamFailed {
        connection: ConnectionId,
        reason: String,
    },
    /// The socket has room, as was asked for.
    Room {
        connection: ConnectionId,
    },
    /// The client sends nothing more. It may be gone, or it may still read.
    InputEnded {
        connection: ConnectionId,
    },
    /// The client is gone: its connection broke.
    Ended {
        connection: ConnectionId,
    },
    File(FileDone),
    Mail(Message),
}

/// Something to do.
#[derive(Debug)]
pub enum Command {
    /// Send these last bytes and close. A reason is logged; none stands for an orderly end.
    Close {
        connection: ConnectionId,
        reason: Option<String>,
        last: Vec<u8>,
    },
    PauseReceive {
        connection: ConnectionId,
    },
    ResumeReceive {
        connection: ConnectionId,
    },
    File(FileOp),
    /// The next part of what [`Command::SendParts`] sends.
    Part(Part),
    /// Send the parts since the last one of these, as far as the socket takes them at once. Nothing
    /// else of the connection is on its way meanwhile.
    SendParts {
        connection: ConnectionId,
    },
    /// Tell when the socket has room again.
    AwaitRoom {
        connection: ConnectionId,
    },
    Mail {
        to: u32,
        message: Message,
    },
    /// All is durable and answered: the shard may end.
    Stopped,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Bytes(Vec<u8>),
    /// A range of an open file.
    File {
        file: FileId,
        offset: u64,
        len: u32,
    },
}
