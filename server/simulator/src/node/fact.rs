//! The facts that a turn of a shard shows the judge.

use muster::cluster::ClusterImage;
use muster::net::ConnectionId;
use muster::shard::Inspection;
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
