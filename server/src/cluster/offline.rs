//! The offline partitions that shards have reported.

use super::Topic;
use muster_codec::Uuid;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Partitions as topic id and index, in order.
pub type OfflineList = Arc<[(Uuid, i32)]>;

/// The offline partitions, by their leading shard.
#[derive(Debug, Clone, Default)]
pub struct OfflinePartitions {
    by_shard: BTreeMap<u32, OfflineList>,
}

impl OfflinePartitions {
    /// Replaces the report of a shard.
    pub fn set(&mut self, shard: u32, partitions: OfflineList) {
        self.by_shard.insert(shard, partitions);
        self.by_shard.retain(|_, partitions| !partitions.is_empty());
    }

    pub fn has(&self, topic: &Topic, index: i32) -> bool {
        self.by_shard.values().any(|list| list.binary_search(&(topic.id, index)).is_ok())
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &OfflineList)> {
        self.by_shard.iter().map(|(shard, list)| (*shard, list))
    }
}
