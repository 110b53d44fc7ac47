//! The partitions of a share group that have share state, as the group's record lists them.

use crate::context::DeletedTopic;
use crate::partition_set::PartitionSet;
use crate::share_state::{ByTopic, TopicState};
use crate::text::{Text, owned};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::Uuid;
use muster_codec::records::{
    ShareGroupStatePartitionMetadataValue as StateValue, ShareGroupTopic, ShareGroupTopicPartitions,
};

/// The content of the group's ShareGroupStatePartitionMetadata record (type 15).
#[derive(Debug, Clone, Default)]
pub(crate) struct StatePartitions {
    /// Whether the group has this record, which may be empty.
    pub(crate) is_recorded: bool,
    /// Partitions for which share state was requested from the leaders.
    pub(crate) initializing: ByTopic,
    /// Partitions that have share state. Only these may be assigned.
    pub(crate) initialized: ByTopic,
    /// Topics whose share state is being deleted.
    pub(crate) deleting: BTreeMap<Uuid, Text>,
    /// The time, in milliseconds of [`crate::Context::now`], at which the share state of a topic is
    /// requested again: at once, if the topic has no entry. Not durable.
    retry_at: BTreeMap<Uuid, i64>,
}

impl StatePartitions {
    pub(crate) fn from_record(value: &StateValue<'_>) -> Self {
        let by_topic = |topics: &[ShareGroupTopicPartitions<'_>]| {
            let topics = topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().copied().collect();
                (topic.topic_id, TopicState { name: Text::from(&*topic.topic_name), partitions })
            });
            topics.collect()
        };
        let deleting = value.deleting_topics.iter();
        Self {
            is_recorded: true,
            initializing: by_topic(&value.initializing_topics),
            initialized: by_topic(&value.initialized_topics),
            deleting: deleting.map(|it| (it.topic_id, Text::from(&*it.topic_name))).collect(),
            retry_at: BTreeMap::new(),
        }
    }

    /// Replaces the state by the content of a record. The times of the next requests stay.
    pub(crate) fn replace(&mut self, recorded: Self) {
        let mut retry_at = core::mem::take(&mut self.retry_at);
        retry_at.retain(|topic, _| recorded.initializing.contains_key(topic));
        *self = Self { retry_at, ..recorded };
    }

    /// Those partitions of a topic that have no share state, and for which share state was not
    /// requested recently.
    pub(crate) fn lacking(&self, topic: Uuid, count: i32, now: i64) -> PartitionSet {
        let waits = self.retry_at.get(&topic).is_some_and(|at| now < *at);
        let initializing = self.initializing.get(&topic).filter(|_| waits);
        let known = self.initialized.get(&topic).into_iter().chain(initializing);
        known.fold(PartitionSet::first(count), |rest, it| rest.without(&it.partitions))
    }

    /// Notes that share state was requested for these topics.
    pub(crate) fn asked<'t>(&mut self, topics: impl Iterator<Item = &'t Uuid>, retry_at: i64) {
        self.retry_at.extend(topics.map(|topic| (*topic, retry_at)));
    }

    /// The earliest time at which share state must be requested again; None if nothing was
    /// requested.
    pub(crate) fn retry_at(&self) -> Option<i64> {
        let at = |topic: &Uuid| self.retry_at.get(topic).copied().unwrap_or(i64::MIN);
        self.initializing.keys().map(at).min()
    }

    pub(crate) fn to_record(&self) -> StateValue<'static> {
        let by_topic = |topics: &ByTopic| {
            let topics = topics.iter().map(|(topic_id, topic)| ShareGroupTopicPartitions {
                topic_id: *topic_id,
                topic_name: owned(&topic.name),
                partitions: topic.partitions.as_slice().to_vec(),
            });
            topics.collect()
        };
        let deleting = self.deleting.iter();
        let deleting = deleting.map(|(topic_id, topic_name)| ShareGroupTopic {
            topic_id: *topic_id,
            topic_name: owned(topic_name),
        });
        StateValue {
            initializing_topics: by_topic(&self.initializing),
            initialized_topics: by_topic(&self.initialized),
            deleting_topics: deleting.collect(),
        }
    }

    /// Whether partitions have share state, or share state was requested for some.
    pub(crate) fn has_partitions(&self) -> bool {
        !self.initializing.is_empty() || !self.initialized.is_empty()
    }

    /// The number of partitions with share state, or for which it was requested.
    pub(crate) fn len(&self) -> usize {
        let topics = self.initializing.values().chain(self.initialized.values());
        topics.map(|topic| topic.partitions.len()).sum()
    }

    /// The state after share state was requested for these partitions.
    pub(crate) fn with_initializing(&self, topics: &ByTopic) -> Self {
        let mut after = self.clone();
        add(&mut after.initializing, topics);
        after.deleting.retain(|topic, _| !after.initializing.contains_key(topic));
        after
    }

    /// The state after these partitions got share state.
    pub(crate) fn with_initialized(&self, topics: &ByTopic) -> Self {
        let mut after = self.without_initializing(topics);
        add(&mut after.initialized, topics);
        after
    }

    /// The state after the request for these partitions failed.
    pub(crate) fn without_initializing(&self, topics: &ByTopic) -> Self {
        let mut after = self.clone();
        for (topic, gone) in topics {
            if let Some(found) = after.initializing.get_mut(topic) {
                found.partitions = core::mem::take(&mut found.partitions).without(&gone.partitions);
            }
        }
        after.initializing.retain(|_, topic| !topic.partitions.is_empty());
        after
    }

    /// The state without deleted topics; None if it contains none of them.
    pub(crate) fn without_deleted(&self, deleted: &[DeletedTopic<'_>]) -> Option<Self> {
        let has = |topic: &Uuid| {
            self.initializing.contains_key(topic)
                || self.initialized.contains_key(topic)
                || self.deleting.contains_key(topic)
        };
        let gone: Vec<Uuid> = deleted.iter().map(|topic| topic.id).filter(|it| has(it)).collect();
        if gone.is_empty() {
            return None;
        }
        let mut after = self.clone();
        after.initializing.retain(|topic, _| !gone.contains(topic));
        after.initialized.retain(|topic, _| !gone.contains(topic));
        after.deleting.retain(|topic, _| !gone.contains(topic));
        Some(after)
    }
}

fn add(to: &mut ByTopic, topics: &ByTopic) {
    for (topic, more) in topics {
        let new = || TopicState { name: more.name.clone(), partitions: PartitionSet::default() };
        let found = to.entry(*topic).or_insert_with(new);
        found.partitions.add(&more.partitions);
    }
}
