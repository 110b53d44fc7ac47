//! The input of decisions and answers about the cluster.

use super::{ClusterImage, InternalTopic, OfflinePartitions, Topic};
use crate::config::{Config, ListenerIndex};
use crate::placement::{Placement, Slot};
use std::sync::Arc;

/// The address of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

/// The addresses of the shards: for each listener those that its clients are given, by shard
/// number.
#[derive(Debug, Clone, Default)]
pub struct Endpoints(Arc<[Box<[Endpoint]>]>);

impl Endpoints {
    pub fn new(of_listeners: impl IntoIterator<Item = Box<[Endpoint]>>) -> Self {
        Self(of_listeners.into_iter().collect())
    }

    /// Those for the clients of a listener.
    pub fn of(&self, listener: ListenerIndex) -> &[Endpoint] {
        self.0.get(listener.0).map_or(&[], |endpoints| endpoints)
    }
}

/// Those of a server with one listener.
impl FromIterator<Endpoint> for Endpoints {
    fn from_iter<I: IntoIterator<Item = Endpoint>>(endpoints: I) -> Self {
        Self::new([endpoints.into_iter().collect()])
    }
}

/// A shard's view of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub image: &'a ClusterImage,
    pub offline: &'a OfflinePartitions,
    /// The config of file and command line, without altered configs.
    pub config: &'a Config,
    pub placement: Placement,
    /// The endpoints by shard number, which is the node id, for the clients of one listener.
    pub endpoints: &'a [Endpoint],
    /// The shard that answers.
    pub shard: u32,
    pub cluster_id: &'a str,
}

/// The shard that leads a partition of a topic, internal or not: the one that leads its slot, or,
/// for a partition without a slot, the one that the formula determines.
pub fn leader(topic: &Topic, partition: i32, placement: Placement) -> u32 {
    if let Some(internal) = InternalTopic::of_id(topic.id) {
        return placement.log_shard(internal.log_partition(partition));
    }
    match topic.slot(partition) {
        Some(slot) => placement.shard_of(slot),
        None => placement.partition_shard(topic.id, partition),
    }
}

/// The slot in whose partition of `__share_group_state` the share partitions of a topic partition
/// are, which the leader of that leads: the topic partition's own. A partition without a slot has
/// the first one of its leader; None if that leads no slot.
pub fn state_slot(topic: &Topic, partition: i32, placement: Placement) -> Option<Slot> {
    let of_leader = || placement.slots_of(leader(topic, partition, placement)).next();
    topic.slot(partition).or_else(of_leader)
}

/// The address of a partition in messages of transactions: one for all partitions of a shard, as
/// they are loaded together. So each shard reports to each coordinator once at startup, not each
/// slot, and the batches of a request need one question.
pub fn transaction_slot(topic: &Topic, partition: i32, placement: Placement) -> u32 {
    leader(topic, partition, placement)
}
