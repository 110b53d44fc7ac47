//! The boundary of a shard: what happens to it, and what it wants done. Both are closed enums, so
//! that the reactor and the simulator are two readers of the same words.

use super::mailbox::Message;
use crate::net::ConnectionId;
use muster_storage::{FileDone, FileOp};
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
    Mail {
        to: u32,
        message: Message,
    },
    /// All is durable and answered: the shard may end.
    Stopped,
}
