//! This node of a cluster, as other nodes see it.

use crate::config::{ClusterConfig, Config};
use crate::data_dir::{DataDir, Formation};
use crate::placement::{NodePlace, Placement};
use crate::shard::{NodeId, Nodes, Session};
use bytes::Bytes;
use muster_codec::Uuid;
use muster_peers::Identity;
use std::collections::BTreeMap;

/// The level of this release: its records, and its messages between nodes.
const FEATURES: u32 = 1;

/// This node of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct OwnNode {
    pub(crate) id: NodeId,
    pub(crate) directory: Uuid,
    /// A random number of this process.
    pub(crate) session: Session,
    /// Empty before the formation.
    pub(crate) cluster_id: String,
    /// All nodes with their directories. Empty before the formation.
    pub(crate) directories: BTreeMap<NodeId, Uuid>,
    pub(crate) placement: Placement,
    /// `controller.quorum.election.timeout.ms`
    pub(crate) election_timeout_ms: u32,
}

impl OwnNode {
    /// This node before the formation.
    pub(crate) fn new(
        cluster: &ClusterConfig,
        config: &Config,
        placement: Placement,
        session: Session,
    ) -> Self {
        Self {
            id: cluster.own,
            directory: Uuid::ZERO,
            session,
            cluster_id: String::new(),
            directories: BTreeMap::new(),
            placement,
            election_timeout_ms: config.controller_quorum_election_timeout_ms.unsigned_abs(),
        }
    }

    /// The same node with what its data directory has recorded.
    pub(crate) fn of_directory(mut self, directory: &DataDir) -> Self {
        let Some(stamp) = &directory.meta.node else { return self };
        self.directory = stamp.directory;
        if let Some(Formation { nodes, .. }) = &stamp.formation {
            self.cluster_id.clone_from(&directory.meta.cluster_id);
            self.directories.clone_from(nodes);
        }
        self
    }

    /// The properties of a shard of this node, for other nodes.
    pub(crate) fn identity(&self, shard: u32) -> Identity {
        Identity {
            cluster: self.cluster_id.clone(),
            node: self.id,
            session: self.session,
            directory: self.directory,
            shard: shard as u16,
            shards: self.placement.shards as u16,
            slots: self.placement.offsets_partitions,
            transactions_partitions: self.placement.transactions_partitions,
            election_timeout_ms: self.election_timeout_ms,
            features: FEATURES,
            clients: Bytes::new(),
        }
    }

    /// The place of this node among all nodes, once the cluster is formed.
    pub(crate) fn place(&self) -> NodePlace {
        let before = self.directories.range(..self.id).count();
        NodePlace { place: before as u32, nodes: self.directories.len() as u32 }
    }

    /// The ids of all nodes, once the cluster is formed.
    pub(crate) fn nodes(&self) -> Nodes {
        Nodes { own: self.id, ids: self.directories.keys().copied().collect(), others: [].into() }
    }
}
