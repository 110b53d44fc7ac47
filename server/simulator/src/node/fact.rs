//! The facts that a shard shows the judge.

use crate::disk::Inode;
use muster_server::cluster::ClusterImage;
use muster_server::net::ConnectionId;
use muster_server::shard::Inspection;
use muster_storage::OpenMode;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// An action of a shard, or a state that it was in.
#[derive(Debug)]
pub(crate) enum Fact {
    /// The shard decides on this image of the cluster.
    Image(Arc<ClusterImage>),
    /// The shard received bytes of a connection. They arrived at the socket at `came_at`.
    Received { connection: ConnectionId, bytes: usize, came_at: i64 },
    /// The shard was notified that a connection has ended.
    Ended(ConnectionId),
    /// The connections with unhandled input before a slice.
    SliceBegins(RunQueues),
    /// The connections with unhandled input after a slice. The slice consisted of `things` parts:
    /// after each part the shard asked whether the slice is over.
    SliceEnds { queues: RunQueues, things: u64, has_long_request: bool },
    /// The shard has handled its input. These connections wait for the next turn.
    InputEnds(RunQueues),
    /// The shard has used a file.
    File(FileFact),
}

/// A use of a file by a shard.
#[derive(Debug)]
pub(crate) enum FileFact {
    /// The shard has opened a file, which may be new.
    Opened { path: PathBuf, is_new: bool },
    /// A file that the shard wanted to open is missing.
    Missed { path: PathBuf },
    /// The shard has requested a write.
    Writes(Write),
    /// The shard was notified that a write or sync has failed.
    WriteFailed { path: PathBuf, mode: OpenMode, is_full: bool },
    /// The shard sends a part of a file, and the file ends before the part does.
    ReadShort { path: PathBuf, offset: u64, len: u32, has: usize },
}

/// A write that was requested.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) inode: Inode,
    pub(crate) mode: OpenMode,
    /// The number of the write among the changes of the disk.
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) data: Rc<[u8]>,
    /// The length of the file before the write.
    pub(crate) len_before: u64,
}

/// The connections of a shard that wait for a turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunQueues {
    /// The connections that have priority, and all others, each in the order of their turns.
    pub(crate) queues: [Vec<ConnectionId>; 2],
    /// The number of requests that the shard has handled.
    pub(crate) handled: u64,
}

impl RunQueues {
    pub(crate) fn of(shard: Inspection<'_>) -> Self {
        Self { queues: shard.run_queues(), handled: shard.requests_handled() }
    }
}
