//! What a decision or an answer about the cluster is made from.

use super::{ClusterImage, OfflinePartitions, Topic};
use crate::config::Config;
use crate::placement::Placement;

/// Where a shard can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

/// A shard's view of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub image: &'a ClusterImage,
    pub offline: &'a OfflinePartitions,
    /// As the file and the command line gave it, without what was altered since.
    pub config: &'a Config,
    pub placement: Placement,
    /// By shard number, which is the node id.
    pub endpoints: &'a [Endpoint],
    /// The shard that looks.
    pub shard: u32,
    pub cluster_id: &'a str,
}

/// The shard that leads a partition of a topic, internal or not: the one that was asked for, or one by
/// formula. With fewer shards than there were, what was asked for is taken modulo their number.
pub fn leader(topic: &Topic, partition: i32, placement: Placement) -> u32 {
    if topic.is_internal() {
        return placement.offsets_shard(partition.unsigned_abs());
    }
    match topic.assigned(partition) {
        Some(node) => node % placement.shards,
        None => placement.partition_shard(topic.id, partition),
    }
}
