//! The facts that a shard shows the judge.

use crate::disk::Inode;
use muster::cluster::ClusterImage;
use muster::net::ConnectionId;
use muster::shard::Inspection;
use muster_storage::OpenMode;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// A deed of a shard, or a state that it was in.
#[derive(Debug)]
pub(crate) enum Fact {
    /// It decides on this image of the cluster.
    Image(Arc<ClusterImage>),
    /// Bytes of a connection were passed to it, which arrived at a time.
    Received { connection: ConnectionId, bytes: usize, came_at: i64 },
    /// It was notified that a connection has ended.
    Ended(ConnectionId),
    /// It has this input before a slice.
    SliceBegins(RunQueues),
    /// It has this input after a slice that was to do a number of things.
    SliceEnds { queues: RunQueues, things: u64, has_long_request: bool },
    /// It has handled its input, and these connections wait for the next turn.
    InputEnds(RunQueues),
    /// It has done something with a file.
    File(FileFact),
}

/// A deed of a shard with a file.
#[derive(Debug)]
pub(crate) enum FileFact {
    /// It has opened a file, perhaps a new one.
    Opened { path: PathBuf, is_new: bool },
    /// A file that it wanted to open is missing.
    Missed { path: PathBuf },
    /// It has requested a write.
    Writes(Write),
    /// It was notified that a write or sync has failed.
    WriteFailed { path: PathBuf, mode: OpenMode, is_full: bool },
    /// It sends a part of a file that is shorter than the part.
    ReadShort { path: PathBuf, offset: u64, len: u32, has: usize },
}

/// A write that was requested.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) inode: Inode,
    pub(crate) mode: OpenMode,
    /// Its number among the changes of the disk.
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) data: Rc<[u8]>,
    /// The length of the file before it.
    pub(crate) len_before: u64,
}

/// The connections of a shard that wait for a turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunQueues {
    /// The connections that come first, and the others, in their order.
    pub(crate) queues: [Vec<ConnectionId>; 2],
    /// The number of requests that the shard has handled.
    pub(crate) handled: u64,
}

impl RunQueues {
    pub(crate) fn of(shard: Inspection<'_>) -> Self {
        Self { queues: shard.run_queues(), handled: shard.requests_handled() }
    }
}
