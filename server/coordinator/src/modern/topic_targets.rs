//! Targets that are partitions of topics. The assignors name topics by indexes; this module
//! converts these to topic ids and records.

use super::owned::{KeyPartitions, Partitions};
use super::target::Targets;
use crate::assignors::{
    Change, Computation, MemberIndex, SLICE, TargetAssignment, TopicIndex, TopicPartition,
};
use crate::context::Topics;
use crate::text::Text;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::Uuid;

#[derive(Debug, Default)]
pub(crate) struct TopicTargets {
    pub(crate) assignment: TargetAssignment,
    /// Members whose subscription changed since the assignors last got it.
    changed: BTreeSet<MemberIndex>,
    /// The version of the topics that the assignors know.
    known_version: Option<i64>,
}

impl Targets for TopicTargets {
    type Key = Uuid;
    type Computation = Computation;
    type Change = Change;

    fn of(&self, number: u32) -> Partitions {
        self.partitions(self.assignment.of(number))
    }

    fn step(&self, computation: &mut Computation) -> Option<Vec<Change>> {
        computation.step(&self.assignment, SLICE)
    }

    fn changed(change: &Change) -> u32 {
        change.member
    }

    fn part(&self, change: &Change) -> Partitions {
        self.partitions(&change.partitions)
    }

    fn replay(&mut self, member: MemberIndex, part: Partitions) {
        let mut list = Vec::new();
        for topic in part {
            let index = self.assignment.topic(topic.key);
            let valid = topic.partitions.into_iter().filter_map(|it| u32::try_from(it).ok());
            list.extend(valid.map(|partition| TopicPartition { topic: index, partition }));
        }
        self.assignment.set(member, list);
    }

    fn forget(&mut self, member: MemberIndex) {
        self.assignment.leave(member);
    }
}

impl TopicTargets {
    /// Groups a list by topic id.
    fn partitions(&self, list: &[TopicPartition]) -> Partitions {
        let by_topic = list.chunk_by(|a, b| a.topic == b.topic).map(|of_topic| KeyPartitions {
            key: self.assignment.topic_id(of_topic[0].topic),
            partitions: of_topic.iter().map(|it| it.partition.cast_signed()).collect(),
        });
        let mut partitions: Partitions = by_topic.collect();
        partitions.sort_unstable_by_key(|topic| topic.key);
        partitions
    }

    /// Marks a member whose subscription the assignors must get again.
    pub(crate) fn subscription_changed(&mut self, member: MemberIndex) {
        self.changed.insert(member);
    }

    /// Marks all members.
    pub(crate) fn subscriptions_changed(&mut self) {
        self.known_version = None;
    }

    /// Takes the marked members; None means all members.
    pub(crate) fn take_changed(&mut self, topics: &dyn Topics) -> Option<BTreeSet<MemberIndex>> {
        let version = Some(topics.version());
        let changed = core::mem::take(&mut self.changed);
        if self.known_version == version {
            return Some(changed);
        }
        self.known_version = version;
        None
    }

    /// The indexes of the named topics that exist.
    pub(crate) fn indexes<'n>(
        &mut self,
        topics: &dyn Topics,
        names: impl Iterator<Item = &'n Text>,
    ) -> Vec<TopicIndex> {
        let mut indexes = Vec::new();
        for name in names {
            let (Some(id), Some(count)) = (topics.id(name), topics.partitions(name)) else {
                continue;
            };
            let topic = self.assignment.topic(id);
            self.assignment.set_name(topic, name);
            self.assignment.set_partitions(topic, count.max(0).cast_unsigned());
            indexes.push(topic);
        }
        indexes
    }
}
