//! The messages that shards of different nodes send each other.

use muster_server::shard::{NodeId, PeerMessage, Session};

/// An event of the connections with other nodes, on its way to a shard.
#[derive(Debug)]
pub(crate) enum FromPeer {
    Connected { node: NodeId, session: Session },
    Lost { node: NodeId, refused: bool },
    Said { from: (NodeId, Session), letter: PeerLetter },
}

/// A message to another node, as it is sent.
#[derive(Debug)]
pub(crate) struct PeerLetter {
    /// When the sender sent it, and when the newest message that it had of the receiver was sent.
    pub(super) sent: u64,
    pub(super) echo: Option<u64>,
    pub(crate) message: PeerMessage,
}

/// A message that a shard of a node sends to the same shard of another node.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) shard: u32,
    pub(crate) to: NodeId,
    pub(crate) letter: PeerLetter,
}
