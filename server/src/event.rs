//! The interface of a shard: it takes events and returns commands. Both are plain enums, which the
//! reactor and the simulator handle in the same way.

use crate::config::{ListenerIndex, ShardTls};
use crate::mailbox::Message;
use crate::net::{ClientCommand, ConnectionId};
use crate::telemetry::Push;
use muster_storage::{FileDone, FileOp};
use std::sync::Arc;

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
    /// The TLS handshake of a connection is done. The principal is from the client's certificate,
    /// or None if the client has not shown one.
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
    /// The socket got `sent` bytes of the slice that is being sent. With TLS, the socket has not
    /// yet accepted the last `unsent` encrypted bytes.
    Streamed {
        connection: ConnectionId,
        sent: usize,
        unsent: usize,
    },
    /// A file could not be read, or is too short. No byte of the slice has been sent.
    StreamFailed {
        connection: ConnectionId,
        reason: String,
    },
    /// The socket accepts output again, as requested by [`ClientCommand::AwaitWritable`].
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
    Client(ClientCommand),
    File(FileOp),
    Mail {
        to: u32,
        message: Message,
    },
    /// For the thread that loads certificates.
    Certificates(CertificateOrder),
    /// For the thread that takes the metrics which clients push; its answer is [`Message::Pushed`].
    Telemetry(Box<Push>),
    /// All accepted requests are durable and answered: the shard may end.
    Stopped,
}

/// An order of a shard to the thread that loads certificates.
#[derive(Debug)]
pub enum CertificateOrder {
    /// Check whether these settings can be used. The controller then gets
    /// [`CertificatesChecked`](crate::mailbox::ToController::CertificatesChecked) with this number.
    Check { number: u64, replacements: Vec<ShardTls> },
    /// Use these TLS settings for these listeners of a shard from now on. For its other listeners,
    /// use the settings of the server's configs.
    Take(ShardTls),
}

impl Command {
    /// A message to a shard.
    pub(crate) fn mail(to: u32, message: impl Into<Message>) -> Self {
        Self::Mail { to, message: message.into() }
    }
}

impl From<ClientCommand> for Command {
    fn from(command: ClientCommand) -> Self {
        Self::Client(command)
    }
}
