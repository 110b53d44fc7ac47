//! The shard of a node in a cluster.

use super::disk::Files;
use super::{BLOCK_BYTES, World, endpoints};
use crate::shard::{
    Common, KnownLog, LoadError, Node, Nodes, PeerEvent, form, load, log_directory,
};
use muster_runtime::replicas::NodeId;
use muster_storage::LogConfig;
use std::path::Path;

impl World {
    /// Shard 0 of a node in a new cluster. Mail to the node's other shards does not arrive.
    pub(crate) fn of_node(shards: u32, nodes: Nodes) -> Self {
        Self::of_nodes(shards, &[], Some(nodes))
    }

    /// The same node for the others in the cluster.
    pub(crate) fn node(id: NodeId, shards: u32) -> Node {
        Node { id, shards, endpoints: endpoints(Some(id), shards) }
    }

    /// Loads the log of the shard as that of a stamp.
    pub(crate) fn load_as(&self, known: KnownLog) -> Result<(), LoadError> {
        let common = Common { known_logs: [known].into(), ..self.common.clone() };
        load(self.directory.path(), &common, 0).map(|_| ())
    }

    /// Passes an event of the connections with other nodes to the shard.
    pub(crate) fn peer(&mut self, event: PeerEvent) {
        let taken = self.shard.peer(self.times(), event, &mut self.commands);
        assert_eq!(taken, Ok(()));
        self.turn();
    }
}

/// Writes the log of a node in a new cluster.
pub(super) fn form_log(data: &Path, common: &Common) {
    let nodes = common.nodes.as_ref().unwrap();
    let mut log = form(nodes, common.placement, 0, log_config(common));
    let mut disk = Files::default();
    loop {
        let mut ops = Vec::new();
        log.poll(0, &mut ops);
        if ops.is_empty() {
            return;
        }
        let done: Vec<_> = ops.into_iter().filter_map(|op| disk.perform(data, op)).collect();
        done.into_iter().for_each(|done| log.done(done));
    }
}

fn log_config(common: &Common) -> LogConfig {
    LogConfig {
        dir: log_directory(common.placement.shards, 0),
        log_id: 1,
        block_bytes: BLOCK_BYTES,
        operation_bytes_max: common.log_sizes.operation_bytes_max,
        open_bytes_max: common.log_sizes.open_bytes_max,
        ..LogConfig::with_segments(common.log_sizes.segment_bytes.unwrap())
    }
}
