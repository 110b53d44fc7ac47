//! The id of a partition.

use crate::topics::InternalTopic;
use muster_codec::Uuid;
use muster_storage::LogPartition;

/// A partition. It has the id of its topic, so a topic that is created again has other partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    pub topic: Uuid,
    pub index: i32,
}

impl PartitionId {
    /// The name of the partition, such as `orders-3`, for a topic with this name.
    pub fn named(self, topic: &str) -> String {
        format!("{topic}-{}", self.index)
    }

    /// The partition's place in the shard's log; None for a partition of a user topic.
    pub(super) fn log_partition(self) -> Option<LogPartition> {
        InternalTopic::of_id(self.topic).map(|topic| topic.log_partition(self.index as u32))
    }

    pub(super) fn is_internal(self) -> bool {
        InternalTopic::of_id(self.topic).is_some()
    }
}
