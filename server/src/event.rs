//! The interface of a shard: events in, commands out. Both are closed enums, which the reactor and
//! the simulator handle alike.

pub use crate::config::ListenerIndex;
use crate::config::ShardTls;
use crate::mailbox::Message;
use crate::telemetry::Push;
use muster_storage::{FileDone, FileId, FileOp};
use std::sync::Arc;

/// The id of a connection; never used twice. The lower half is its index ([`Self::slot`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    pub fn new(slot: u32, serial: u32) -> Self {
        Self(u64::from(serial) << 32 | u64::from(slot))
    }

    /// The index of the connection in tables of connections: a small number, which no other open
    /// connection has.
    pub fn slot(self) -> usize {
        self.0 as u32 as usize
    }
}

/// An input of a shard.
#[derive(Debug)]
pub enum Event<'e> {
    /// A client connected; `host` is its address in Kafka's form: `/127.0.0.1`.
    Opened {
        connection: ConnectionId,
        listener: ListenerIndex,
        host: Arc<str>,
        port: u16,
    },
    /// The handshake of a connection with TLS is done. The principal is from the client's
    /// certificate; None if the client has shown no certificate.
    Secured {
        connection: ConnectionId,
        principal: Option<Arc<str>>,
    },
    Received {
        connection: ConnectionId,
        data: &'e [u8],
    },
    /// The socket accepted output; `unsent` bytes are left.
    Sent {
        connection: ConnectionId,
        unsent: usize,
    },
    /// `sent` bytes of the slice under way were passed to the socket. With TLS, the socket has yet
    /// to accept `unsent` encrypted bytes.
    Streamed {
        connection: ConnectionId,
        sent: usize,
        unsent: usize,
    },
    /// A file could not be read, or is too short: no part of the slice has left.
    StreamFailed {
        connection: ConnectionId,
        reason: String,
    },
    /// The socket accepts output again, as requested by [`Command::AwaitWritable`].
    Writable {
        connection: ConnectionId,
    },
    /// The client has ended its side of the connection. It may be gone, or may still read.
    InputEnded {
        connection: ConnectionId,
    },
    /// The connection broke: the client is gone.
    Ended {
        connection: ConnectionId,
    },
    File(FileDone),
    Mail(Message),
}

/// An output of a shard.
#[derive(Debug)]
pub enum Command {
    /// Send these last bytes and close. The reason is logged; None stands for an orderly end.
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
    /// Gives events of the connection priority over those of other connections, or ends the
    /// priority.
    PutFirst {
        connection: ConnectionId,
        comes_first: bool,
    },
    File(FileOp),
    /// Send as much of these parts as the socket accepts at once. Their files are open. No other
    /// output of the connection is under way meanwhile.
    SendParts {
        connection: ConnectionId,
        parts: Vec<Part>,
    },
    /// Request [`Event::Writable`].
    AwaitWritable {
        connection: ConnectionId,
    },
    Mail {
        to: u32,
        message: Message,
    },
    /// For the thread that loads certificates.
    Certificates(CertificateOrder),
    /// For the thread that takes what clients push; its answer is [`Message::Pushed`].
    Telemetry(Box<Push>),
    /// All accepted requests are durable and answered: the shard may end.
    Stopped,
}

/// An order of a shard to the thread that loads certificates.
#[derive(Debug)]
pub enum CertificateOrder {
    /// Check whether these replacements can be used. The controller gets the answer:
    /// [`Message::CertificatesChecked`] with this number.
    Check { number: u64, replacements: Vec<ShardTls> },
    /// From now on these listeners of a shard use these TLS settings, and its other listeners use
    /// the settings of the server's configs.
    Take(ShardTls),
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

impl Part {
    /// The file of a range; None for bytes.
    pub(crate) fn file(&self) -> Option<FileId> {
        match self {
            Self::Bytes(_) => None,
            Self::File { file, .. } => Some(*file),
        }
    }
}
