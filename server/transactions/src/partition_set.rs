//! A set of partitions, by topic.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use muster_codec::Str;
use muster_codec::records::TransactionPartitions;

/// The bytes of a topic in a record, without its name and partitions.
const TOPIC_BYTES: usize = 8;

/// Partitions of some topics, in order. Sets are small: a transaction writes to a few partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionSet {
    topics: Vec<(Box<str>, Vec<i32>)>,
}

impl PartitionSet {
    pub fn of(topic: &str, partition: i32) -> Self {
        let mut set = Self::default();
        set.insert(topic, partition);
        set
    }

    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// The number of partitions.
    pub fn len(&self) -> usize {
        self.topics.iter().map(|(_, partitions)| partitions.len()).sum()
    }

    /// The bytes of the set in a record, and approximately in memory.
    pub fn bytes(&self) -> usize {
        let topics = self.topics.iter();
        topics.map(|(name, all)| Self::bytes_of_topic(name, all.len())).sum()
    }

    /// The bytes of a topic with this number of partitions.
    pub(crate) fn bytes_of_topic(name: &str, partitions: usize) -> usize {
        TOPIC_BYTES + name.len() + size_of::<i32>() * partitions
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        let topics = self.topics.iter();
        topics.flat_map(|(topic, all)| all.iter().map(|partition| (&**topic, *partition)))
    }

    /// The topics with their partitions.
    pub fn topics(&self) -> impl Iterator<Item = (&str, &[i32])> {
        self.topics.iter().map(|(topic, partitions)| (&**topic, &partitions[..]))
    }

    pub fn contains(&self, topic: &str, partition: i32) -> bool {
        let found = self.find(topic).ok();
        found.is_some_and(|at| self.topics[at].1.binary_search(&partition).is_ok())
    }

    pub fn contains_all(&self, others: &Self) -> bool {
        others.iter().all(|(topic, partition)| self.contains(topic, partition))
    }

    pub fn contains_any(&self, others: &Self) -> bool {
        others.iter().any(|(topic, partition)| self.contains(topic, partition))
    }

    pub fn insert(&mut self, topic: &str, partition: i32) {
        let at = self.find(topic).unwrap_or_else(|at| {
            self.topics.insert(at, (topic.into(), Vec::new()));
            at
        });
        let partitions = &mut self.topics[at].1;
        if let Err(at) = partitions.binary_search(&partition) {
            partitions.insert(at, partition);
        }
    }

    pub fn insert_all(&mut self, others: &Self) {
        others.iter().for_each(|(topic, partition)| self.insert(topic, partition));
    }

    pub fn remove_all(&mut self, others: &Self) {
        self.retain(|topic, partition| !others.contains(topic, partition));
    }

    /// Removes and returns the partitions of one topic.
    pub fn take_topic(&mut self, topic: &str) -> Self {
        let Ok(at) = self.find(topic) else { return Self::default() };
        Self { topics: vec![self.topics.remove(at)] }
    }

    pub fn retain(&mut self, mut is_kept: impl FnMut(&str, i32) -> bool) {
        for (topic, partitions) in &mut self.topics {
            partitions.retain(|partition| is_kept(topic, *partition));
        }
        self.topics.retain(|(_, partitions)| !partitions.is_empty());
    }

    fn find(&self, topic: &str) -> Result<usize, usize> {
        self.topics.binary_search_by(|(name, _)| (**name).cmp(topic))
    }

    pub(crate) fn to_record(&self) -> Vec<TransactionPartitions<'static>> {
        let topics = self.topics.iter().map(|(topic, partition_ids)| TransactionPartitions {
            topic: Str::Owned((**topic).into()),
            partition_ids: partition_ids.clone(),
        });
        topics.collect()
    }
}

impl<'p> FromIterator<(&'p str, i32)> for PartitionSet {
    /// Sorts the partitions first, so that each is inserted at the end. A client may name millions.
    fn from_iter<I: IntoIterator<Item = (&'p str, i32)>>(partitions: I) -> Self {
        let mut all: Vec<(&str, i32)> = partitions.into_iter().collect();
        all.sort_unstable();
        let mut set = Self::default();
        all.into_iter().for_each(|(topic, partition)| set.insert(topic, partition));
        set
    }
}

impl From<&[TransactionPartitions<'_>]> for PartitionSet {
    fn from(topics: &[TransactionPartitions<'_>]) -> Self {
        let all = topics.iter().flat_map(|it| it.partition_ids.iter().map(|id| (&*it.topic, *id)));
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_kept_in_order_and_once() {
        let mut set: PartitionSet = [("t", 2), ("a", 1), ("t", 0), ("t", 2)].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [("a", 1), ("t", 0), ("t", 2)]);
        assert!(set.contains("t", 2) && !set.contains("t", 1) && !set.contains("b", 1));
        assert_eq!((set.len(), set.bytes()), (3, 2 * TOPIC_BYTES + 2 + 12));
        set.remove_all(&[("a", 1), ("t", 2)].into_iter().collect());
        assert_eq!(set, PartitionSet::of("t", 0));
        assert!(set.take_topic("a").is_empty());
        assert_eq!(set.clone().take_topic("t"), set);
        assert_eq!(PartitionSet::from(&set.to_record()[..]), set);
    }
}
