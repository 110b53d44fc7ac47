//! The key of a share partition.

use alloc::sync::Arc;
use muster_codec::records::ShareStateKey;
use muster_codec::{Str, Uuid};

/// A share partition: a group, a topic id and a partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharePartitionKey {
    /// The keys of a group share the text, because there are many keys.
    pub group_id: Arc<str>,
    pub topic_id: Uuid,
    pub partition: i32,
}

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic_id: Uuid,
    pub partition: i32,
}

impl SharePartitionKey {
    pub fn new(group_id: impl Into<Arc<str>>, topic_id: Uuid, partition: i32) -> Self {
        Self { group_id: group_id.into(), topic_id, partition }
    }

    /// The smallest key of a group, for range scans.
    pub(crate) fn first_of(group_id: &str) -> Self {
        Self::new(group_id, Uuid::ZERO, i32::MIN)
    }

    /// The key of the records of the share partition.
    pub fn to_record(&self) -> ShareStateKey<'static> {
        let group_id = Str::Owned((*self.group_id).into());
        ShareStateKey { group_id, topic_id: self.topic_id, partition: self.partition }
    }

    /// The share partition whose records have this key.
    pub fn of_record(key: &ShareStateKey<'_>) -> Self {
        Self::new(&*key.group_id, key.topic_id, key.partition)
    }
}
