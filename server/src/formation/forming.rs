//! The knowledge of a node during a formation, and its next action. No socket, no disk, no clock.
//!
//! A node counts only what others have answered to its own hello, because an answer also says
//! whether the other node refuses this one. When a connection fails, what the node has said before
//! is forgotten: its disk may have been emptied.

use super::node::OwnNode;
use muster_codec::Uuid;
use muster_peers::{Hello, Identity, Refusal, check};
use muster_runtime::replicas::NodeId;
use std::collections::BTreeMap;
use std::fmt;

/// The cluster ids of a formation.
#[derive(Debug)]
pub(crate) struct ClusterIds {
    /// The id that the operator wants; None if any will do.
    pub(crate) wanted: Option<String>,
    /// The id that this node chooses if it has to choose one.
    pub(crate) proposed: String,
}

pub(super) struct Forming {
    /// This node. It has a cluster id from the moment in which the formation is recorded.
    own: OwnNode,
    /// The ids of all nodes, in order.
    ids: Vec<NodeId>,
    cluster_ids: ClusterIds,
    /// The last answers of the other nodes, or why there is none.
    heard: BTreeMap<NodeId, Result<Heard, String>>,
}

/// The answer of another node, which does not refuse this one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Heard {
    directory: Uuid,
    /// Empty if the node has recorded no formation.
    cluster: String,
    /// Whether a shard has answered: the node is formed.
    is_formed: bool,
}

/// The next action of a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Records the formation durably, and then calls [`Forming::recorded`].
    Record { cluster_id: String, nodes: BTreeMap<NodeId, Uuid> },
    /// All nodes have recorded the formation: this one makes its logs.
    Complete,
}

/// The reason why a node cannot be one of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mismatch {
    Refused(Refusal),
    /// The other node has recorded a cluster, but not the directory of this node.
    LeftOut {
        own: NodeId,
        by: NodeId,
        cluster: String,
    },
    /// The other node has recorded a cluster with another id than the operator wants.
    Unwanted {
        by: NodeId,
        cluster: String,
        wanted: String,
    },
}

impl Forming {
    pub(super) fn new(own: OwnNode, ids: Vec<NodeId>, cluster_ids: ClusterIds) -> Self {
        Self { own, ids, cluster_ids, heard: BTreeMap::new() }
    }

    /// The hello for another node.
    pub(super) fn hello_to(&self, node: NodeId) -> Hello {
        Hello { from: self.identity(), to: (node, 0), refusal: 0 }
    }

    /// The answer to a hello, and the reason if it refuses.
    pub(super) fn answer_to(&self, hello: &Hello) -> (Hello, Result<(), Mismatch>) {
        let checked = self.check(hello, None);
        let refusal = checked.as_ref().err().map_or(0, Mismatch::number);
        let to = (hello.from.node, hello.from.shard);
        (Hello { from: self.identity(), to, refusal }, checked)
    }

    /// The node that was dialled has answered.
    ///
    /// # Errors
    /// It cannot be a node of the same cluster.
    pub(super) fn answered(&mut self, dialled: NodeId, answer: Hello) -> Result<(), Mismatch> {
        let checked = self.check(&answer, Some(dialled));
        let heard = match &checked {
            Ok(()) => Ok(Heard {
                directory: answer.from.directory,
                cluster: answer.from.cluster,
                // A node that forms has no clients, so it names no addresses for them.
                is_formed: !answer.from.clients.is_empty(),
            }),
            Err(mismatch) => Err(mismatch.to_string()),
        };
        self.heard.insert(dialled, heard);
        checked
    }

    /// The node that was dialled has not answered.
    pub(super) fn unheard(&mut self, dialled: NodeId, why: impl fmt::Display) {
        self.heard.insert(dialled, Err(format!("was not heard: {why}")));
    }

    /// The action that is due, if any.
    pub(super) fn due(&self) -> Option<Action> {
        // A node is formed only after all have recorded the formation.
        let mut heard = self.others().filter_map(|node| self.heard(node));
        let is_of_formed = |it: &Heard| it.is_formed && it.cluster == self.own.cluster_id;
        if self.is_recorded() && heard.any(is_of_formed) {
            return Some(Action::Complete);
        }
        let others = self.others().map(|node| Some((node, self.heard(node)?)));
        let others: BTreeMap<NodeId, &Heard> = others.collect::<Option<_>>()?;
        let have_recorded =
            |cluster: &str| others.values().filter(|it| it.cluster == cluster).count();
        if self.is_recorded() {
            let are_all = have_recorded(&self.own.cluster_id) == others.len();
            return are_all.then_some(Action::Complete);
        }
        let cluster_id = match others.get(self.ids.first()?) {
            // This node is the lowest one. No node has recorded a cluster, or the check would have
            // failed.
            None => &self.cluster_ids.proposed,
            Some(lowest) if lowest.cluster.is_empty() => return None,
            Some(lowest) => &lowest.cluster,
        };
        let are_apart = have_recorded(cluster_id) + have_recorded("") < others.len();
        let directories = others.iter().map(|(node, heard)| (*node, heard.directory));
        let nodes = directories.chain([(self.own.id, self.own.directory)]).collect();
        (!are_apart).then(|| Action::Record { cluster_id: cluster_id.clone(), nodes })
    }

    /// The formation is on the disk.
    pub(super) fn recorded(&mut self, cluster_id: String, nodes: BTreeMap<NodeId, Uuid>) {
        // Others may have come with other directories meanwhile.
        self.heard.retain(|node, heard| match heard {
            Ok(heard) => nodes.get(node) == Some(&heard.directory),
            Err(_) => true,
        });
        (self.own.cluster_id, self.own.directories) = (cluster_id, nodes);
    }

    /// The nodes for which this one waits, each with the reason.
    pub(super) fn waits_for(&self) -> Vec<(NodeId, String)> {
        let why = |node: NodeId| match self.heard.get(&node) {
            None => Some("was not heard".to_owned()),
            Some(Err(why)) => Some(why.clone()),
            Some(Ok(heard)) if heard.cluster.is_empty() => {
                Some("has not recorded the cluster yet".to_owned())
            }
            Some(Ok(heard)) => {
                (!self.is_recorded()).then(|| format!("has recorded the cluster {}", heard.cluster))
            }
        };
        self.others().filter_map(|node| Some((node, why(node)?))).collect()
    }

    fn is_recorded(&self) -> bool {
        !self.own.cluster_id.is_empty()
    }

    fn others(&self) -> impl Iterator<Item = NodeId> {
        self.ids.iter().copied().filter(|it| *it != self.own.id)
    }

    fn heard(&self, node: NodeId) -> Option<&Heard> {
        self.heard.get(&node)?.as_ref().ok()
    }

    fn identity(&self) -> Identity {
        self.own.identity(0)
    }

    fn check(&self, hello: &Hello, dialled: Option<NodeId>) -> Result<(), Mismatch> {
        let node = hello.from.node;
        if dialled.is_none() && !self.ids.contains(&node) {
            return Err(Mismatch::Refused(Refusal::Unknown(node)));
        }
        // The ids of the clusters may differ for a while, and are checked below. A refusal says
        // least, so it comes last.
        let cluster = hello.from.cluster.clone();
        let own = Identity { cluster, ..self.identity() };
        let unrefused = Hello { refusal: 0, ..hello.clone() };
        let directory = self.own.directories.get(&node).copied();
        check(&own, &unrefused, dialled.map(|node| (node, 0)), directory)
            .map_err(Mismatch::Refused)?;
        self.check_cluster(hello)?;
        let (by, own, number) = (node, self.own.id, hello.refusal);
        if number == 0 { Ok(()) } else { Err(Refusal::ByPeer { by, own, number }.into()) }
    }

    fn check_cluster(&self, hello: &Hello) -> Result<(), Mismatch> {
        let (theirs, own) = (&hello.from.cluster, &self.own.cluster_id);
        let (node, theirs_is_known) = (hello.from.node, own == theirs);
        if theirs.is_empty() || theirs_is_known {
            return Ok(());
        }
        if self.is_recorded() {
            let (theirs, own) = (theirs.clone(), own.clone());
            return Err(Refusal::Cluster { node, theirs, own }.into());
        }
        // The lowest node chooses the id, and records it before another node can.
        let is_lowest = self.ids.first() == Some(&self.own.id);
        if is_lowest || hello.refusal != 0 {
            let (own, cluster) = (self.own.id, theirs.clone());
            return Err(Mismatch::LeftOut { own, by: node, cluster });
        }
        match &self.cluster_ids.wanted {
            Some(wanted) if wanted != theirs => {
                let (cluster, wanted) = (theirs.clone(), wanted.clone());
                Err(Mismatch::Unwanted { by: node, cluster, wanted })
            }
            _ => Ok(()),
        }
    }
}

impl Mismatch {
    /// The number of the reason, for an answer.
    fn number(&self) -> u8 {
        match self {
            Self::Refused(refusal) => refusal.number(),
            Self::LeftOut { own, cluster, .. } | Self::Unwanted { by: own, cluster, .. } => {
                Refusal::NotFormed { node: *own, cluster: cluster.clone() }.number()
            }
        }
    }
}

impl From<Refusal> for Mismatch {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::LeftOut { own, by, cluster } => write!(
                f,
                "node {} is part of the cluster {cluster}, which does not have this directory of \
                 node {}: start node {} with the directory that it had, or, if the cluster has \
                 never served clients, all nodes with empty directories",
                by.0, own.0, own.0
            ),
            Self::Unwanted { by, cluster, wanted } => write!(
                f,
                "node {} has recorded the cluster {cluster}, but CLUSTER_ID is {wanted} here: all \
                 nodes need the same",
                by.0
            ),
        }
    }
}
