//! The committed offsets of groups. Only records and markers change them.

mod commit;
mod delete;
mod expiry;
mod fetch;
mod partitions;
mod transactional;

pub(crate) use commit::{Commit, commit, is_metadata_too_large};
pub(crate) use delete::{Deleted, delete, delete_some, delete_topics};
pub(crate) use expiry::{Expiry, RetentionBase, expire};
pub(crate) use fetch::fetch;
pub(crate) use transactional::{as_commit, as_transactional};

use crate::committed::Committed;
use crate::text::{Text, owned};
use alloc::vec::Vec;
use core::ops::Bound;
use hashbrown::HashMap;
use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};
use partitions::Partitions;

/// The committed offsets of one group.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    topics: HashMap<Text, Partitions>,
    /// The number of offsets, at most [`GROUP_OFFSETS_MAX`](crate::limits::GROUP_OFFSETS_MAX).
    len: u32,
    /// Whether the offsets are still unloaded, in a snapshot. They must be loaded before any
    /// access.
    is_unloaded: bool,
}

impl Offsets {
    /// Offsets that are not loaded from a snapshot yet.
    pub(crate) fn unloaded() -> Self {
        Self { is_unloaded: true, ..Self::default() }
    }

    pub(crate) fn is_unloaded(&self) -> bool {
        self.is_unloaded
    }

    /// The number of offsets; 0 if they are unloaded.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0 && !self.is_unloaded
    }

    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&Committed> {
        debug_assert!(!self.is_unloaded, "they are unloaded");
        self.topics.get(topic)?.get(partition)
    }

    /// Applies a record of this group.
    pub(crate) fn replay(
        &mut self,
        key: &OffsetCommitKey<'_>,
        value: Option<&OffsetCommitValue<'_>>,
    ) {
        debug_assert!(!self.is_unloaded, "they are unloaded");
        match value {
            Some(value) => self.put(&key.topic, key.partition, Committed::from_record(value)),
            None => self.remove(&key.topic, key.partition),
        }
    }

    /// All offsets, by topic and partition.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Text, i32, &Committed)> {
        self.by_topic().into_iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(partition, committed)| (topic, partition, committed))
        })
    }

    /// The offsets after `last`, by topic and partition; all offsets if it is None.
    pub(crate) fn after<'o>(
        &'o self,
        last: Option<&(Text, i32)>,
    ) -> impl Iterator<Item = (&'o Text, i32, &'o Committed)> {
        let mut topics = self.by_topic();
        if let Some((topic, _)) = last {
            topics.drain(..topics.partition_point(|(other, _)| *other < topic));
        }
        let first = last.map(|(topic, partition)| (topic.clone(), Bound::Excluded(*partition)));
        topics.into_iter().flat_map(move |(topic, partitions)| {
            let from = first.as_ref().filter(|(first, _)| first == topic);
            let from = from.map_or(Bound::Unbounded, |(_, from)| *from);
            partitions.from(from).map(move |(partition, committed)| (topic, partition, committed))
        })
    }

    /// The topics, sorted, with their partitions.
    #[expect(clippy::disallowed_methods, reason = "sorted before anyone sees it")]
    pub(crate) fn by_topic(&self) -> Vec<(&Text, &Partitions)> {
        debug_assert!(!self.is_unloaded, "they are unloaded");
        let mut topics: Vec<_> = self.topics.iter().collect();
        topics.sort_unstable_by_key(|(topic, _)| *topic);
        topics
    }

    /// The topics with their partitions, unsorted.
    #[expect(clippy::disallowed_methods, reason = "the caller has no order")]
    pub(crate) fn in_any_order(&self) -> impl Iterator<Item = (&Text, &Partitions)> {
        debug_assert!(!self.is_unloaded, "they are unloaded");
        self.topics.iter()
    }

    /// Adds all partitions of a topic. Returns false if the topic had partitions already.
    pub(crate) fn put_topic(&mut self, topic: &str, partitions: Partitions) -> bool {
        self.len += partitions.len() as u32;
        self.topics.insert(Text::from(topic), partitions).is_none()
    }

    /// Adds offsets of a topic, in this order, and empties `run`. If the topic is new and the
    /// offsets are sorted, they are stored faster and more densely.
    pub(crate) fn put_run(&mut self, topic: &str, run: &mut Vec<(i32, Committed)>) {
        let is_in_order = run.is_sorted_by(|(a, _), (b, _)| a < b);
        if is_in_order && !run.is_empty() && !self.topics.contains_key(topic) {
            self.put_topic(topic, run.drain(..).collect());
        } else {
            run.drain(..).for_each(|(partition, committed)| self.put(topic, partition, committed));
        }
    }

    pub(crate) fn put(&mut self, topic: &str, partition: i32, committed: Committed) {
        let partitions = match self.topics.get_mut(topic) {
            Some(partitions) => partitions,
            None => self.topics.entry(Text::from(topic)).or_default(),
        };
        self.len += u32::from(partitions.insert(partition, committed).is_none());
    }

    fn remove(&mut self, topic: &str, partition: i32) {
        let Some(partitions) = self.topics.get_mut(topic) else { return };
        self.len -= u32::from(partitions.remove(partition).is_some());
        if partitions.is_empty() {
            self.topics.remove(topic);
        }
    }
}

/// The tombstone of an offset.
fn tombstone<'r>(group_id: &str, topic: &str, partition: i32) -> GroupRecord<'r> {
    let key = OffsetCommitKey { group: owned(group_id), topic: owned(topic), partition };
    GroupRecord::OffsetCommit(key, None)
}
