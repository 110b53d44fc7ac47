//! Commands to the reactor about connections.

use super::ConnectionId;
use muster_storage::FileId;

/// A command of [`Clients`](super::Clients) to the reactor.
#[derive(Debug)]
pub enum ClientCommand {
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
    /// Send as much of these parts as the socket accepts at once. Their files are open. No other
    /// output of the connection is under way meanwhile.
    SendParts {
        connection: ConnectionId,
        parts: Vec<Part>,
    },
    /// Request [`Event::Writable`](crate::shard::Event::Writable).
    AwaitWritable {
        connection: ConnectionId,
    },
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
