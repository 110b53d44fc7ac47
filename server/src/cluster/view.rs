//! The input of decisions and answers about the cluster.

use super::{ClusterImage, OfflinePartitions, Topic};
use crate::config::Config;
use crate::placement::{Placement, Slot};

/// The address of a shard.
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
    /// The config of file and command line, without altered configs.
    pub config: &'a Config,
    pub placement: Placement,
    /// By shard number, which is the node id.
    pub endpoints: &'a [Endpoint],
    /// The shard that answers.
    pub shard: u32,
    pub cluster_id: &'a str,
}

/// The shard that leads a partition of a topic, internal or not: the one that leads its slot, or,
/// for a partition without a slot, the one that the formula determines.
pub fn leader(topic: &Topic, partition: i32, placement: Placement) -> u32 {
    if topic.is_internal() {
        return placement.shard_of(Slot(partition.unsigned_abs()));
    }
    match topic.slot(partition) {
        Some(slot) => placement.shard_of(slot),
        None => placement.partition_shard(topic.id, partition),
    }
}
