//! The input of decisions and answers about the cluster.

use super::{ClusterImage, OfflinePartitions, Topic};
use crate::config::{Config, ListenerIndex};
use crate::placement::{Placement, Slot};
use crate::topics::InternalTopic;
use std::sync::Arc;

/// The address at which clients reach a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

/// The advertised addresses of all shards: for each listener a list by shard number.
#[derive(Debug, Clone, Default)]
pub struct Endpoints(Arc<[Box<[Endpoint]>]>);

impl Endpoints {
    pub fn new(of_listeners: impl IntoIterator<Item = Box<[Endpoint]>>) -> Self {
        Self(of_listeners.into_iter().collect())
    }

    /// The addresses for clients of this listener.
    pub fn of(&self, listener: ListenerIndex) -> &[Endpoint] {
        self.0.get(listener.0).map_or(&[], |endpoints| endpoints)
    }
}

/// The addresses of a server with one listener.
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
    /// The config of the server's file and command line. It lacks the values that clients have
    /// altered.
    pub config: &'a Config,
    pub placement: Placement,
    /// The addresses for clients of one listener, by shard number, which is the node id.
    pub endpoints: &'a [Endpoint],
    /// The shard that answers the request.
    pub shard: u32,
    pub cluster_id: &'a str,
}

/// The shard that leads a partition of a topic, internal or not. It is the leader of the
/// partition's slot; for a partition without a slot, the placement formula decides.
pub fn leader(topic: &Topic, partition: i32, placement: Placement) -> u32 {
    if let Some(internal) = InternalTopic::of_id(topic.id) {
        return placement.log_shard(internal.log_partition(partition as u32));
    }
    match topic.slot(partition) {
        Some(slot) => placement.shard_of(slot),
        None => placement.partition_shard(topic.id, partition),
    }
}

/// The slot whose partition of `__share_group_state` has the share state of a topic's partition.
/// This is the slot of the topic's partition. If it has none, it is the first slot of its leader;
/// None if the leader has no slot.
pub fn state_slot(topic: &Topic, partition: i32, placement: Placement) -> Option<Slot> {
    let of_leader = || placement.slots_of(leader(topic, partition, placement)).next();
    topic.slot(partition).or_else(of_leader)
}

/// The number that stands for a partition in messages of transactions: the number of its shard. All
/// partitions of a shard are loaded together. So at startup the shard reports to the coordinators
/// once for all of them, and one question to a coordinator covers all batches of a request.
pub fn transaction_slot(topic: &Topic, partition: i32, placement: Placement) -> u32 {
    leader(topic, partition, placement)
}
