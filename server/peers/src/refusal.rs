//! The differences between two nodes that must not work together, each with a sentence for an
//! operator.

use muster_codec::Uuid;
use muster_replication::NodeId;
use std::fmt;

/// The reason why a connection is refused. `Display` writes a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The first bytes are not those of a hello.
    NotMuster,
    /// A hello with a wrong checksum, or with a field that is out of range.
    Damaged,
    Version {
        theirs: u16,
        own: u16,
    },
    /// This process has dialled itself, at the address of another node.
    OwnAddress(NodeId),
    /// The other node has the id of this one.
    OwnId(NodeId),
    /// The other node, `from`, means another node or another shard than this one.
    Address {
        from: NodeId,
        meant: (NodeId, u16),
    },
    /// Another node, or another shard, than the one that was dialled has answered.
    Answer {
        dialled: (NodeId, u16),
        theirs: (NodeId, u16),
    },
    Unknown(NodeId),
    /// The certificate of the other end is not that of the node which it claims to be.
    Certificate(NodeId),
    /// Only one of the nodes is part of a cluster.
    NotFormed {
        node: NodeId,
        cluster: String,
    },
    Cluster {
        node: NodeId,
        theirs: String,
        own: String,
    },
    Directory {
        node: NodeId,
        theirs: Uuid,
        known: Uuid,
    },
    Slots {
        node: NodeId,
        theirs: u32,
        own: u32,
    },
    TransactionsPartitions {
        node: NodeId,
        theirs: u32,
        own: u32,
    },
    ElectionTimeout {
        node: NodeId,
        theirs: u32,
        own: u32,
    },
    Features {
        node: NodeId,
        theirs: u32,
        own: u32,
    },
    /// The two shards have no slot in common. The other node may have another number of shards than
    /// before.
    NothingShared {
        node: NodeId,
        theirs: (u16, u16),
        own: (u16, u16),
    },
    /// The other process is neither the known one nor certainly a later one. Its next connection
    /// decides.
    Process(NodeId),
    /// Two processes of a node run at the same time.
    TwoProcesses(NodeId),
    /// The other node, `by`, refuses this one.
    ByPeer {
        by: NodeId,
        own: NodeId,
        number: u8,
    },
}

/// The numbers of the reasons that an answer names. Both sides see most differences by themselves.
mod number {
    pub(super) const OTHER: u8 = 1;
    pub(super) const UNKNOWN: u8 = 2;
    pub(super) const DIRECTORY: u8 = 3;
    pub(super) const NOTHING_SHARED: u8 = 4;
    pub(super) const CERTIFICATE: u8 = 5;
}

impl Refusal {
    /// The number of the reason, for the answer to the other node.
    pub fn number(&self) -> u8 {
        match self {
            Self::Unknown(_) => number::UNKNOWN,
            Self::Directory { .. } => number::DIRECTORY,
            Self::NothingShared { .. } => number::NOTHING_SHARED,
            Self::Certificate(_) => number::CERTIFICATE,
            Self::NotMuster
            | Self::Damaged
            | Self::Version { .. }
            | Self::OwnAddress(_)
            | Self::OwnId(_)
            | Self::Address { .. }
            | Self::Answer { .. }
            | Self::NotFormed { .. }
            | Self::Cluster { .. }
            | Self::Slots { .. }
            | Self::TransactionsPartitions { .. }
            | Self::ElectionTimeout { .. }
            | Self::Features { .. }
            | Self::Process(_)
            | Self::TwoProcesses(_)
            | Self::ByPeer { .. } => number::OTHER,
        }
    }
}

/// The text for a difference of numbers that have to be the same on all nodes.
fn differs(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    (node, theirs): (NodeId, u32),
    own: u32,
) -> fmt::Result {
    write!(
        f,
        "{key} is {theirs} on node {} and {own} on this node: all nodes of a cluster need the \
         same number",
        node.0
    )
}

impl Refusal {
    /// The sentence for an address or an id that the settings of one of the nodes have wrong.
    fn address_differs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnAddress(node) => write!(
                f,
                "the address of node {} in controller.quorum.voters is that of this node: correct \
                 one of the two",
                node.0
            ),
            Self::OwnId(node) => write!(
                f,
                "another node has the id of this one, {}: each node of a cluster needs its own \
                 node.id",
                node.0
            ),
            Self::Address { from, meant: (node, shard) } => write!(
                f,
                "node {} has this address for shard {shard} of node {}: check \
                 controller.quorum.voters there",
                from.0, node.0
            ),
            Self::Answer { dialled: (node, shard), theirs: (by, their) } => write!(
                f,
                "shard {their} of node {} has answered at the address of shard {shard} of node \
                 {}: check controller.quorum.voters",
                by.0, node.0
            ),
            Self::Unknown(node) => write!(
                f,
                "node {} is none of the nodes that this one knows: check controller.quorum.voters",
                node.0
            ),
            Self::NotMuster
            | Self::Damaged
            | Self::Version { .. }
            | Self::Certificate(_)
            | Self::NotFormed { .. }
            | Self::Cluster { .. }
            | Self::Directory { .. }
            | Self::Slots { .. }
            | Self::TransactionsPartitions { .. }
            | Self::ElectionTimeout { .. }
            | Self::Features { .. }
            | Self::NothingShared { .. }
            | Self::Process(_)
            | Self::TwoProcesses(_)
            | Self::ByPeer { .. } => Ok(()),
        }
    }

    /// The sentence for a difference in what all nodes of a cluster have in common.
    fn cluster_differs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFormed { node, cluster } => write!(
                f,
                "node {} is not part of the cluster {cluster} yet: if it has been, start it with \
                 the directory that it had",
                node.0
            ),
            Self::Cluster { node, theirs, own } => write!(
                f,
                "node {} is part of the cluster {theirs}, and this one of {own}: check \
                 controller.quorum.voters",
                node.0
            ),
            Self::Directory { node, theirs, known } => write!(
                f,
                "node {} has the directory {theirs}, and is known with the directory {known}: \
                 start it with that one. This release cannot replace a node that has lost its \
                 directory",
                node.0
            ),
            Self::Slots { node, theirs, own } => {
                differs(f, "offsets.topic.num.partitions", (*node, *theirs), *own)
            }
            Self::TransactionsPartitions { node, theirs, own } => {
                differs(f, "transaction.state.log.num.partitions", (*node, *theirs), *own)
            }
            Self::ElectionTimeout { node, theirs, own } => {
                differs(f, "controller.quorum.election.timeout.ms", (*node, *theirs), *own)
            }
            Self::Features { node, theirs, own } => write!(
                f,
                "node {} has the feature level {theirs}, and this one {own}: all nodes of a \
                 cluster need the same release",
                node.0
            ),
            Self::NotMuster
            | Self::Damaged
            | Self::Version { .. }
            | Self::OwnAddress(_)
            | Self::OwnId(_)
            | Self::Address { .. }
            | Self::Answer { .. }
            | Self::Unknown(_)
            | Self::Certificate(_)
            | Self::NothingShared { .. }
            | Self::Process(_)
            | Self::TwoProcesses(_)
            | Self::ByPeer { .. } => Ok(()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMuster => f.write_str(
                "the other end does not speak the protocol between nodes: check the ports in \
                 controller.quorum.voters, and listener.security.protocol.map, on both nodes",
            ),
            Self::Damaged => f.write_str(
                "the first message of the other node is damaged: check that all nodes have the \
                 same release, and the network between them",
            ),
            Self::Version { theirs, own } => write!(
                f,
                "the other node has version {theirs} of the protocol between nodes, and this one \
                 version {own}: all nodes of a cluster need the same release"
            ),
            Self::OwnAddress(_)
            | Self::OwnId(_)
            | Self::Address { .. }
            | Self::Answer { .. }
            | Self::Unknown(_) => self.address_differs(f),
            Self::Certificate(node) => write!(
                f,
                "the certificate is not valid for the host of node {} in controller.quorum.voters: \
                 check its subject alternative names",
                node.0
            ),
            Self::NotFormed { .. }
            | Self::Cluster { .. }
            | Self::Directory { .. }
            | Self::Slots { .. }
            | Self::TransactionsPartitions { .. }
            | Self::ElectionTimeout { .. }
            | Self::Features { .. } => self.cluster_differs(f),
            Self::NothingShared { node, theirs: (their, of_theirs), own: (own, of_own) } => write!(
                f,
                "shard {their} of {of_theirs} of node {} has no slot of shard {own} of {of_own} of \
                 this node",
                node.0
            ),
            Self::Process(node) => write!(
                f,
                "it is not certain which process of node {} is the newer one: a new connection \
                 will decide",
                node.0
            ),
            Self::TwoProcesses(node) => write!(
                f,
                "two processes run as node {} with the same directory: stop the one that is a copy",
                node.0
            ),
            Self::ByPeer { by, own, number } => by_peer(f, *by, *own, *number),
        }
    }
}

fn by_peer(f: &mut fmt::Formatter<'_>, by: NodeId, own: NodeId, number: u8) -> fmt::Result {
    let (by, own) = (by.0, own.0);
    match number {
        number::UNKNOWN => write!(
            f,
            "node {by} refuses this node, because it does not know a node {own}: check \
             controller.quorum.voters there"
        ),
        number::DIRECTORY => write!(
            f,
            "node {by} refuses this node, because it knows node {own} with another directory: \
             start this node with that one. This release cannot replace a node that has lost its \
             directory"
        ),
        number::CERTIFICATE => write!(
            f,
            "node {by} refuses this node, because its certificate is not valid for the host of \
             node {own} in controller.quorum.voters there: check its subject alternative names"
        ),
        _ => write!(f, "node {by} refuses this node: the log of node {by} has the reason"),
    }
}
