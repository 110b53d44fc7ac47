//! The consequences of a call, for the caller.

use crate::frame::FrameError;
use crate::refusal::Refusal;
use bytes::Bytes;
use muster_replication::{Group, NodeId, PeerMessage, Session, Tick};
use std::fmt;

/// The number of a connection of this shard. A number is not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u64);

/// The nodes that may be at the other end of an accepted connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MayBe {
    /// Any node: there is no certificate that would say more.
    Any,
    /// The nodes for whose host names in `controller.quorum.voters` the certificate is valid.
    Only(Vec<NodeId>),
}

impl MayBe {
    pub(crate) fn has(&self, node: NodeId) -> bool {
        match self {
            Self::Any => true,
            Self::Only(nodes) => nodes.contains(&node),
        }
    }
}

/// The consequences of calls. The caller carries out all of them, and then empties the output.
#[derive(Debug, Default)]
pub struct Output {
    pub dial: Vec<Dial>,
    /// Connections to close, also such as are still being opened. Their numbers are forgotten: what
    /// still arrives on them is ignored.
    pub close: Vec<Connection>,
    /// For raft, in this order.
    pub events: Vec<PeerEvent>,
    /// For the log, with the connection: the caller adds its address, before it closes it.
    pub notices: Vec<(Connection, Notice)>,
}

/// A connection to open. The dialler resolves the name again, and gives up after some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dial {
    pub connection: Connection,
    pub node: NodeId,
    pub shard: u16,
}

/// The reason why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialError {
    /// The port refuses connections. So the node has no process, unless another of its shards is
    /// connected: a shard that is still loaded has no port yet.
    Refused,
    /// It took too long.
    TimedOut,
    /// The text of the error, such as that of a name that does not resolve.
    Other(String),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "its port refuses connections",
            Self::TimedOut => "no connection was opened within seconds",
            Self::Other(error) => error,
        })
    }
}

/// An event for raft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerEvent {
    /// There is a connection with this process of a node.
    Connected { node: NodeId, session: Session },
    /// The connection to a node has ended. `refused`: the node's port refuses connections, and none
    /// of its shards is connected, so its process is gone. This comes with each attempt.
    Lost { node: NodeId, refused: bool },
    /// The number of the node's shards, and its addresses for clients, as its hello says. This
    /// comes if they are new, and not if there are no addresses.
    Described { node: NodeId, shards: u16, clients: Bytes },
    /// The newest tick of a shard of a process: of the shard with this number, of this number of
    /// shards. It comes before the messages of the same frame.
    Heard { from: (NodeId, Session), shard: (u16, u16), tick: Tick },
    /// A message. It is not fresh if its sender had heard nothing of this node for an election
    /// timeout when it made the message.
    Said { from: (NodeId, Session), is_fresh: bool, message: PeerMessage },
    /// Messages of these groups to the node did not fit into the output, and were dropped.
    Dropped { node: NodeId, groups: Vec<Group> },
}

/// A line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// There is a connection with this process of a node.
    Connected(NodeId, Session),
    /// A connection to the node could not be opened.
    Unreachable(NodeId, DialError),
    /// The connection is refused. The node is known if it was dialled or has said hello.
    Refused(Option<NodeId>, Refusal),
    /// The bytes after the hello are wrong. The connection is closed.
    Wrong(NodeId, FrameError),
    /// Raft has refused a message of the node. The connection is closed.
    Lied(NodeId, &'static str),
    /// The node has closed the connection before it has answered.
    NoAnswer(NodeId),
    /// The node that has accepted the connection says more than its answer.
    Talks(NodeId),
    /// Nothing came when it was due. The connection is closed.
    Silent(Option<NodeId>),
    /// Nothing could be sent for some seconds. The connection is closed.
    Stuck(NodeId),
}

/// The importance of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
}

impl Notice {
    pub fn level(&self) -> Level {
        match self {
            // This happens when a node is started again.
            Self::Refused(_, Refusal::Process(_)) => Level::Debug,
            Self::Connected(..) => Level::Info,
            Self::Unreachable(..)
            | Self::Refused(..)
            | Self::Wrong(..)
            | Self::Lied(..)
            | Self::NoAnswer(_)
            | Self::Talks(_)
            | Self::Silent(_)
            | Self::Stuck(_) => Level::Warn,
        }
    }

    /// The other node, if it is known.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Refused(node, _) | Self::Silent(node) => *node,
            Self::Connected(node, _)
            | Self::Unreachable(node, _)
            | Self::Wrong(node, _)
            | Self::Lied(node, _)
            | Self::NoAnswer(node)
            | Self::Talks(node)
            | Self::Stuck(node) => Some(*node),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node() {
            Some(_) if matches!(self, Self::Connected(..) | Self::Unreachable(..)) => {}
            Some(node) => write!(f, "connection with node {} closed: ", node.0)?,
            None => f.write_str("connection of an unknown process closed: ")?,
        }
        match self {
            Self::Connected(node, _) => write!(f, "node {} is connected", node.0),
            Self::Unreachable(node, why) => write!(
                f,
                "node {} cannot be reached: {why}. Check that it runs, and its address in \
                 controller.quorum.voters",
                node.0
            ),
            Self::Refused(_, refusal) => refusal.fmt(f),
            Self::Wrong(_, error) => {
                write!(f, "it has sent {error}. Check that all nodes have the same release")
            }
            Self::Lied(_, why) => write!(
                f,
                "it has sent a message that no node may send ({why}): restart it, and report this"
            ),
            Self::NoAnswer(_) => f.write_str(
                "it has closed it without an answer: check the ports in controller.quorum.voters, \
                 and listener.security.protocol.map, on both nodes",
            ),
            Self::Talks(_) => f.write_str(
                "it sends on a connection that it may only receive on: check that all nodes have \
                 the same release",
            ),
            Self::Silent(_) => f.write_str(
                "it has sent nothing for seconds: check whether it stands still, and the network",
            ),
            Self::Stuck(_) => f.write_str(
                "it has received nothing for seconds: check whether it stands still, and the \
                 network",
            ),
        }
    }
}
