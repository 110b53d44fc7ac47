//! Messages about the state of the cluster.

use crate::cluster::{ClusterImage, Node, OfflineList};
use muster_runtime::replicas::Leading;
use std::sync::Arc;

/// A message to the part of a shard that answers requests about the cluster, as a Kafka broker
/// does.
#[derive(Debug)]
pub enum ToBroker {
    /// From the controller: the new image of the cluster.
    Image(Arc<ClusterImage>),
    /// All offline partitions of shard `from`.
    Offline { from: u32, partitions: OfflineList },
    /// In a cluster: another node has these addresses for clients.
    Node(Node),
    /// In a cluster: the leaders of slots that another shard of this node has.
    Leading(Arc<[Leading]>),
}
