//! The interface of a shard: events in, commands out. Both are closed enums, which the reactor and
//! the simulator handle alike.

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
    /// For the thread that takes what clients push; its answer is [`Message::Pushed`].
    Telemetry(Box<Push>),
    /// All accepted requests are durable and answered: the shard may end.
    Stopped,
}

/// An order of a shard to the thread that loads certificates.
#[derive(Debug)]
pub enum CertificateOrder {
    /// Check whether these replacements can be used. The controller gets the answer:
    /// [`CertificatesChecked`](crate::mailbox::ToController::CertificatesChecked) with this number.
    Check { number: u64, replacements: Vec<ShardTls> },
    /// From now on these listeners of a shard use these TLS settings, and its other listeners use
    /// the settings of the server's configs.
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
