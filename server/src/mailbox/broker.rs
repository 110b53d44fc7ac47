//! Messages about the state of the cluster.

use crate::cluster::{ClusterImage, OfflineList};
use std::sync::Arc;

/// A message to the part of a shard that answers requests about the cluster, as a Kafka broker
/// does.
#[derive(Debug)]
pub enum ToBroker {
    /// From the controller: the new image of the cluster.
    Image(Arc<ClusterImage>),
    /// All offline partitions of shard `from`.
    Offline { from: u32, partitions: OfflineList },
}
