//! The topics of the run: names, ids and partition counts, from the cluster's metadata.

use std::collections::HashMap;
use std::sync::Arc;

use muster_codec::Uuid;

use crate::plan::{Partition, TopicIndex};

/// All topics of a run. The index of a topic never changes. Its partition count and id may change.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    topics: Vec<Topic>,
    by_name: HashMap<Arc<str>, TopicIndex>,
    by_id: HashMap<Uuid, TopicIndex>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    pub name: Arc<str>,
    /// Zero if the cluster does not have topic ids.
    pub id: Uuid,
    /// The partition count. 0 while the topic does not exist.
    pub partitions: u32,
}

impl Topics {
    /// Adds or updates a topic from metadata. Returns whether anything changed.
    pub fn learn(&mut self, topic: Topic) -> bool {
        let next = TopicIndex(self.topics.len() as u32);
        let index = *self.by_name.entry(topic.name.clone()).or_insert(next);
        if !topic.id.is_zero() {
            self.by_id.insert(topic.id, index);
        }
        match self.topics.get_mut(index.0 as usize) {
            Some(known) if *known == topic => false,
            Some(known) => {
                *known = topic;
                true
            }
            None => {
                self.topics.push(topic);
                true
            }
        }
    }

    pub fn get(&self, index: TopicIndex) -> Option<&Topic> {
        self.topics.get(index.0 as usize)
    }

    pub fn named(&self, name: &str) -> Option<TopicIndex> {
        self.by_name.get(name).copied()
    }

    pub fn with_id(&self, id: Uuid) -> Option<TopicIndex> {
        self.by_id.get(&id).copied()
    }

    pub fn partitions(&self, index: TopicIndex) -> u32 {
        self.get(index).map_or(0, |topic| topic.partitions)
    }

    /// Groups sorted partitions by topic.
    pub fn of<'a>(
        &'a self,
        partitions: &'a [Partition],
    ) -> impl Iterator<Item = (&'a Topic, &'a [Partition])> {
        let each = partitions.chunk_by(|one, other| one.topic == other.topic);
        each.filter_map(|some| Some((self.get(some.first()?.topic)?, some)))
    }

    /// Whether the ids of all topics of these partitions are known.
    pub fn have_ids(&self, partitions: &[Partition]) -> bool {
        self.of(partitions).all(|(topic, _)| !topic.id.is_zero())
    }

    /// The topic that an answer names: by `id`, or by `name` if the id is zero.
    pub fn answered(&self, id: Uuid, name: &str) -> Option<TopicIndex> {
        if id.is_zero() { self.named(name) } else { self.with_id(id) }
    }

    pub fn iter(&self) -> impl Iterator<Item = (TopicIndex, &Topic)> {
        self.topics.iter().enumerate().map(|(at, topic)| (TopicIndex(at as u32), topic))
    }
}
