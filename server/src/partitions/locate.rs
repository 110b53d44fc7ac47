//! Decides whether this shard answers for a partition, and otherwise which shard does.

use super::Call;
use super::partition_id::PartitionId;
use super::table::Table;
use crate::cluster::{ClusterImage, Endpoint, Topic, is_hosted, leader};
use muster_codec::ErrorCode;
use muster_codec::messages::NodeEndpoint;

/// The reason why this shard does not answer for a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    pub error: ErrorCode,
    /// The shard that leads the partition.
    pub leader: Option<u32>,
}

impl Missing {
    pub(super) fn of(error: ErrorCode) -> Self {
        Self { error, leader: None }
    }
}

impl Table {
    /// Finds a partition of a topic in the image, for a client.
    pub(super) fn locate(&self, topic: &Topic, index: i32) -> Result<PartitionId, Missing> {
        let id = self.locate_served(topic, index)?;
        if self.is_withheld(id) {
            return Err(Missing::of(ErrorCode::NotLeaderOrFollower));
        }
        Ok(id)
    }

    fn locate_served(&self, topic: &Topic, index: i32) -> Result<PartitionId, Missing> {
        let id = PartitionId { topic: topic.id, index };
        // The number of a shard is no hint to a shard of another node.
        if !topic.is_internal() && !is_hosted(topic, index, self.placement()) {
            return Err(Missing::of(ErrorCode::NotLeaderOrFollower));
        }
        let leader = leader(topic, index, self.placement());
        if leader != self.identity().shard {
            let error = ErrorCode::NotLeaderOrFollower;
            return Err(Missing { error, leader: Some(leader) });
        }
        if topic.is_internal() {
            return Ok(id);
        }
        if self.offline().contains(id) {
            return Err(Missing::of(ErrorCode::KafkaStorageError));
        }
        // The partition is in the image but not created yet: the client retries.
        let known = self.get(id).is_some();
        known.then_some(id).ok_or(Missing::of(ErrorCode::UnknownTopicOrPartition))
    }

    /// Finds a partition by its topic's name.
    pub(super) fn locate_named(
        &self,
        image: &ClusterImage,
        topic: &str,
        index: i32,
    ) -> Result<PartitionId, ErrorCode> {
        let topic = named(image, topic, index)?;
        self.locate(topic, index).map_err(|missing| missing.error)
    }

    /// Finds a partition by its topic's name, for a transaction coordinator. Finds even withheld
    /// partitions (which clients cannot use yet), because not all messages of coordinators are sent
    /// again.
    pub(super) fn locate_for_coordinator(
        &self,
        topic: &str,
        index: i32,
    ) -> Result<PartitionId, ErrorCode> {
        let topic = named(self.image(), topic, index)?;
        let id = self.locate_served(topic, index).map_err(|missing| missing.error)?;
        let has_lost_writes = self.get(id).is_some_and(|it| it.has_lost_writes);
        if has_lost_writes { Err(ErrorCode::KafkaStorageError) } else { Ok(id) }
    }

    /// The address of a shard for the client of a request.
    pub(super) fn endpoint(&self, call: Call<'_>, shard: u32) -> Option<NodeEndpoint<'static>> {
        let Endpoint { host, port } =
            self.identity().endpoints.of(call.listener).get(shard as usize)?;
        let (host, port) = (host.clone().into(), i32::from(*port));
        Some(NodeEndpoint { node_id: shard as i32, host, port, rack: None })
    }
}

/// A topic that has a partition with this index.
fn named<'i>(image: &'i ClusterImage, topic: &str, index: i32) -> Result<&'i Topic, ErrorCode> {
    let topic = image.topic(topic).filter(|topic| (0..topic.partitions).contains(&index));
    topic.ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// Checks the leader epoch of a request. The leader epoch of every partition is 0: a partition has
/// one replica, so no election changes its leader (KIP-320).
pub(super) fn check_leader_epoch(asked: i32) -> Result<(), ErrorCode> {
    match asked {
        -1 | 0 => Ok(()),
        1.. => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Err(ErrorCode::FencedLeaderEpoch),
    }
}

/// Adds an endpoint unless the answer already has it.
pub(super) fn add_endpoint(
    endpoints: &mut Vec<NodeEndpoint<'static>>,
    endpoint: NodeEndpoint<'static>,
) {
    if endpoints.iter().all(|known| known.node_id != endpoint.node_id) {
        endpoints.push(endpoint);
    }
}
