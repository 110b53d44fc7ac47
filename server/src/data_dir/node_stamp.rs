//! The lines of a stamp that only the directory of a node in a cluster has.

use super::stamp_text::value;
use muster_codec::Uuid;
use muster_runtime::replicas::NodeId;
use std::collections::BTreeMap;

const NODE: &str = "cluster.node";
const DIRECTORY: &str = "cluster.directory";
const NODES: &str = "cluster.nodes";
const STATE: &str = "cluster.state";
const FORMING: &str = "forming";
const FORMED: &str = "formed";

/// The place of a directory in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStamp {
    /// The node that the directory belongs to.
    pub id: NodeId,
    /// A random id of the directory. By it the other nodes recognise a node with another disk.
    pub directory: Uuid,
    /// None while the node waits for the others.
    pub formation: Option<Formation>,
}

/// The formation of a cluster from three empty directories. The stamp then has the cluster id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formation {
    /// All nodes with their directories.
    pub nodes: BTreeMap<NodeId, Uuid>,
    /// Whether this node knows that all others have recorded the formation, and has made its logs.
    pub is_complete: bool,
}

impl NodeStamp {
    /// The lines of the stamp.
    pub(super) fn lines(&self) -> String {
        let Self { id: NodeId(id), directory, formation } = self;
        let mut lines = format!("{NODE}={id}\n{DIRECTORY}={directory}\n");
        if let Some(Formation { nodes, is_complete }) = formation {
            let nodes: Vec<String> =
                nodes.iter().map(|(NodeId(id), directory)| format!("{id}:{directory}")).collect();
            let state = if *is_complete { FORMED } else { FORMING };
            lines += &format!("{NODES}={}\n{STATE}={state}\n", nodes.join(","));
        }
        lines
    }

    /// Reads the lines of a stamp.
    ///
    /// # Errors
    /// The line that is missing or wrong.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let id = value(text, NODE)?;
        let id = NodeId(id.parse().map_err(|_| format!("{NODE}={id}"))?);
        let directory = value(text, DIRECTORY)?;
        let directory =
            directory_id(directory).ok_or_else(|| format!("{DIRECTORY}={directory}"))?;
        let formation = match (value(text, NODES), value(text, STATE)) {
            (Err(_), Err(_)) => None,
            (nodes, state) => Some(Formation::parse(nodes?, state?)?),
        };
        let is_own = |it: &Formation| it.nodes.get(&id) == Some(&directory);
        if formation.as_ref().is_some_and(|it| !is_own(it)) {
            return Err(format!("{NODES} lacks node {} with the directory {directory}", id.0));
        }
        Ok(Self { id, directory, formation })
    }
}

impl Formation {
    fn parse(nodes: &str, state: &str) -> Result<Self, String> {
        let node = |text: &str| {
            let (id, directory) = text.split_once(':')?;
            Some((NodeId(id.parse().ok()?), directory_id(directory)?))
        };
        let parsed: Option<BTreeMap<_, _>> = nodes.split(',').map(node).collect();
        let is_complete = match state {
            FORMING => false,
            FORMED => true,
            other => return Err(format!("{STATE}={other}")),
        };
        let nodes = parsed.ok_or_else(|| format!("{NODES}={nodes}"))?;
        Ok(Self { nodes, is_complete })
    }
}

/// Whether a stamp, which may be damaged, is that of a node in a cluster.
pub fn is_of_node(text: &str) -> bool {
    [NODE, DIRECTORY, NODES, STATE].iter().any(|key| value(text, key).is_ok())
}

/// Parses the id of a directory, which is never zero.
fn directory_id(text: &str) -> Option<Uuid> {
    Uuid::parse(text).filter(|it| !it.is_zero())
}
