//! The target assignment of a group: what each member is to own at its epoch. The assignors keep it
//! in a form of their own; here it meets topic ids, records and time.

use super::owned::{Partitions, TopicPartitions};
use crate::assignors::{Computation, MemberIndex, TargetAssignment, TopicIndex, TopicPartition};
use crate::context::Topics;
use crate::text::Text;
use crate::timers::Timer;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::{Uuid, Wall};

/// The epoch of the empty target of a new group.
pub(crate) const INITIAL_EPOCH: i32 = 1;

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) epoch: i32,
    /// When it was computed, in milliseconds since the epoch; 0 if it never was.
    pub(crate) timestamp: i64,
    pub(crate) assignment: TargetAssignment,
    /// Whose subscription may differ from what the assignors were told.
    untold: BTreeSet<MemberIndex>,
    /// The version of the topics that the assignors were told of.
    told_version: Option<i64>,
    /// One that takes long, and goes on with the timer.
    pub(crate) computing: Option<Computing>,
    pub(crate) timer: Timer,
}

/// A computation under way, and the group epoch that it is for.
#[derive(Debug)]
pub(crate) struct Computing {
    pub(crate) computation: Computation,
    pub(crate) epoch: i32,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            epoch: INITIAL_EPOCH,
            timestamp: 0,
            assignment: TargetAssignment::default(),
            untold: BTreeSet::new(),
            told_version: None,
            computing: None,
            timer: Timer::default(),
        }
    }
}

impl Target {
    /// What a member is to own.
    pub(crate) fn of(&self, member: MemberIndex) -> Partitions {
        self.partitions(self.assignment.of(member))
    }

    /// By topic id.
    pub(crate) fn partitions(&self, list: &[TopicPartition]) -> Partitions {
        let by_topic = list.chunk_by(|a, b| a.topic == b.topic).map(|of_topic| TopicPartitions {
            topic_id: self.assignment.topic_id(of_topic[0].topic),
            partitions: of_topic.iter().map(|it| it.partition.cast_signed()).collect(),
        });
        let mut partitions: Partitions = by_topic.collect();
        partitions.sort_unstable_by_key(|topic| topic.topic_id);
        partitions
    }

    /// A record says what a member is to own. A computation that is under way would not know.
    pub(crate) fn replay(
        &mut self,
        member: MemberIndex,
        topics: impl Iterator<Item = (Uuid, Vec<i32>)>,
    ) {
        self.computing = None;
        let mut list = Vec::new();
        for (topic_id, partitions) in topics {
            let topic = self.assignment.topic(topic_id);
            let valid = partitions.into_iter().filter_map(|it| u32::try_from(it).ok());
            list.extend(valid.map(|partition| TopicPartition { topic, partition }));
        }
        self.assignment.set(member, list);
    }

    /// The assignors have to be told anew what a member subscribes to.
    pub(crate) fn subscription_changed(&mut self, member: MemberIndex) {
        self.untold.insert(member);
    }

    /// So they have of all members.
    pub(crate) fn subscriptions_changed(&mut self) {
        self.told_version = None;
    }

    /// Whom the assignors have to be told of: everyone if None. They are taken as told.
    pub(crate) fn take_untold(&mut self, topics: &dyn Topics) -> Option<BTreeSet<MemberIndex>> {
        let version = Some(topics.version());
        let untold = core::mem::take(&mut self.untold);
        if self.told_version == version {
            return Some(untold);
        }
        self.told_version = version;
        None
    }

    /// The indexes of the topics of these names that exist.
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

/// Whether the next target may be computed: not before `interval_ms` since the last (KIP-1263).
pub(crate) fn is_due(timestamp: i64, interval_ms: i32, wall: Wall) -> bool {
    timestamp == 0 || interval_ms == 0 || wall.is_over(timestamp, i64::from(interval_ms))
}
