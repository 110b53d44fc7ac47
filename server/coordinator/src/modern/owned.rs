//! Sets of partitions by topic, plain and with the epoch of each.

use alloc::vec::Vec;
use muster_codec::Uuid;

/// Partitions of a topic, ascending; `P` is an index, or an index with an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicPartitions<P> {
    pub(crate) topic_id: Uuid,
    pub(crate) partitions: Vec<P>,
}

/// Partitions by ascending topic id. No topic has an empty list.
pub(crate) type Partitions = Vec<TopicPartitions<i32>>;

/// A partition that a member owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnedPartition {
    pub(crate) partition: i32,
    /// The epoch in which the partition was assigned to the member (KIP-1251).
    pub(crate) epoch: i32,
}

/// The partitions that a member owns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Owned(Vec<TopicPartitions<OwnedPartition>>);

impl Owned {
    /// The topics may come in any order.
    pub(crate) fn new(mut topics: Vec<TopicPartitions<OwnedPartition>>) -> Self {
        topics.retain(|topic| !topic.partitions.is_empty());
        topics.sort_unstable_by_key(|topic| topic.topic_id);
        for topic in &mut topics {
            topic.partitions.sort_unstable();
            topic.partitions.dedup_by_key(|it| it.partition);
        }
        topics.dedup_by_key(|topic| topic.topic_id);
        Self(topics)
    }

    /// All of `partitions`, owned since the same epoch.
    pub(crate) fn since(partitions: &Partitions, epoch: i32) -> Self {
        let topics = partitions.iter().map(|topic| TopicPartitions {
            topic_id: topic.topic_id,
            partitions: topic.partitions.iter().map(|it| owned(*it, epoch)).collect(),
        });
        Self::new(topics.collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn topics(&self) -> &[TopicPartitions<OwnedPartition>] {
        &self.0
    }

    /// The partitions without their epochs.
    pub(crate) fn partitions(&self) -> Partitions {
        let topics = self.0.iter().map(|topic| TopicPartitions {
            topic_id: topic.topic_id,
            partitions: topic.partitions.iter().map(|it| it.partition).collect(),
        });
        topics.collect()
    }

    pub(crate) fn of_topic(&self, topic_id: Uuid) -> &[OwnedPartition] {
        let found = self.0.binary_search_by_key(&topic_id, |topic| topic.topic_id);
        found.map_or(&[], |at| &self.0[at].partitions)
    }

    /// The epoch in which a partition was assigned; None if it is not owned.
    pub(crate) fn epoch(&self, topic_id: Uuid, partition: i32) -> Option<i32> {
        let partitions = self.of_topic(topic_id);
        let at = partitions.binary_search_by_key(&partition, |it| it.partition).ok()?;
        Some(partitions[at].epoch)
    }

    pub(crate) fn contains(&self, topic_id: Uuid, partition: i32) -> bool {
        self.epoch(topic_id, partition).is_some()
    }

    /// The same partitions with epoch 0.
    pub(crate) fn with_epochs_reset(&self) -> Self {
        let mut reset = self.clone();
        reset.0.iter_mut().flat_map(|topic| &mut topic.partitions).for_each(|it| it.epoch = 0);
        reset
    }

    /// The union; a partition in both keeps the epoch that it has in `self`.
    pub(crate) fn union(self, other: Self) -> Self {
        let mut topics = self.0;
        for more in other.0 {
            match topics.binary_search_by_key(&more.topic_id, |topic| topic.topic_id) {
                Ok(at) => {
                    let known = &mut topics[at].partitions;
                    known.extend(more.partitions);
                    known.sort_by_key(|it| it.partition);
                    known.dedup_by_key(|it| it.partition);
                }
                Err(at) => topics.insert(at, more),
            }
        }
        Self(topics)
    }

    /// Splits by topic: those for which `is_kept` holds, and the others.
    pub(crate) fn partition(self, is_kept: impl Fn(Uuid) -> bool) -> (Self, Self) {
        let (kept, gone) = self.0.into_iter().partition(|topic| is_kept(topic.topic_id));
        (Self(kept), Self(gone))
    }
}

pub(crate) fn owned(partition: i32, epoch: i32) -> OwnedPartition {
    OwnedPartition { partition, epoch }
}
