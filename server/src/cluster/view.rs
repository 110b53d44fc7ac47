//! The input of decisions and answers about the cluster.

use super::{Brokers, ClusterImage, OfflinePartitions, Replicas, Topic};
use crate::config::Config;
use crate::placement::{NodePlace, Placement, Slot};
use crate::topics::InternalTopic;

/// A shard's view of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub image: &'a ClusterImage,
    pub offline: &'a OfflinePartitions,
    /// The config of the server's file and command line. It lacks the values that clients have
    /// altered.
    pub config: &'a Config,
    pub placement: Placement,
    pub brokers: Brokers<'a>,
    /// The shard that answers the request.
    pub shard: u32,
    pub cluster_id: &'a str,
}

impl View<'_> {
    /// The replicas of a partition. A partition of a user topic has one replica.
    pub fn replicas(&self, topic: &Topic, index: i32) -> Replicas {
        let of_cluster = || {
            if topic.is_internal() {
                self.brokers.replicas(self.placement.slot_of_index(index as u32), self.placement)
            } else {
                self.brokers.host(topic.slot(index)?, self.placement)
            }
        };
        of_cluster().unwrap_or_else(|| {
            let leader = self.brokers.own_id(leader(topic, index, self.placement));
            Replicas { leader: Some(leader), epoch: 0, replicas: vec![leader] }
        })
    }
}

/// The shard that leads a partition of a topic, internal or not. If the partition has a slot, it is
/// the leader of this slot. Otherwise the placement formula decides.
pub fn leader(topic: &Topic, partition: i32, placement: Placement) -> u32 {
    if let Some(internal) = InternalTopic::of_id(topic.id) {
        return placement.log_shard(internal.log_partition(partition as u32));
    }
    match topic.slot(partition) {
        Some(slot) => placement.shard_of(slot),
        None => placement.partition_shard(topic.id, partition),
    }
}

/// Whether this node has the records of a partition of a user topic.
pub fn is_hosted(topic: &Topic, partition: i32, placement: Placement) -> bool {
    let is_hosted = |slot| placement.host(slot) == placement.node.place;
    placement.node == NodePlace::ALONE || topic.slot(partition).is_none_or(is_hosted)
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
