//! Nodes that form a cluster: in memory, and with sockets and directories.

mod checks;
mod orders;
mod sockets;

use super::forming::{Action, ClusterIds, Forming, Mismatch};
use super::node::OwnNode;
use crate::config::{Address, ClusterConfig, Config};
use crate::placement::Placement;
use crate::shard::{NodeId, Session};
use muster_codec::Uuid;
use std::collections::BTreeMap;

const IDS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

/// The records of a node: its directory, and the formation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Disk {
    directory: Uuid,
    formation: Option<Recorded>,
    is_formed: bool,
}

type Recorded = (String, BTreeMap<NodeId, Uuid>);

impl Disk {
    fn empty(directory: u8) -> Self {
        Self { directory: Uuid([directory; 16]), formation: None, is_formed: false }
    }

    /// This node as a process sees it that has just started.
    fn own(&self, id: NodeId, session: u64) -> OwnNode {
        let config = Config::default();
        let (own, listen) = (id, Address { host: String::new(), port: 1 });
        let cluster = ClusterConfig { own, voters: Vec::new(), listen };
        let placement = Placement::of_equal(1, 50);
        let mut node = OwnNode::new(&cluster, &config, placement, Session(session));
        node.directory = self.directory;
        if let Some((cluster_id, nodes)) = self.formation.clone() {
            (node.cluster_id, node.directories) = (cluster_id, nodes);
        }
        node
    }

    fn start(&self, id: NodeId, session: u64, proposed: &str) -> Forming {
        let cluster_ids = ClusterIds { wanted: None, proposed: proposed.to_owned() };
        Forming::new(self.own(id, session), IDS.into(), cluster_ids)
    }
}

/// A node says hello to another one, and hears its answer.
fn exchange(own: &mut Forming, other: &Forming, dialled: NodeId) -> Result<(), Mismatch> {
    let (answer, _) = other.answer_to(&own.hello_to(dialled));
    own.answered(dialled, answer)
}

/// Records what is due. Returns what was due.
fn perform(forming: &mut Forming) -> Option<Action> {
    let due = forming.due();
    if let Some(Action::Record { cluster_id, nodes }) = &due {
        forming.recorded(cluster_id.clone(), nodes.clone());
    }
    due
}
