//! The grid: the groups of Kafka's own benchmark (`ServerSideAssignorBenchmark`), and changes to
//! them.

use super::driver::{Group, Kafka, Outcome};
use muster_coordinator::assignors::{Assignor, SubscriptionType};

/// Numbers of members, topics and partitions.
pub(crate) const SIZES: [(usize, usize, usize); 8] = [
    (100, 10, 10),
    (100, 10, 1_000),
    (100, 100, 10_000),
    (1_000, 10, 1_000),
    (1_000, 100, 10_000),
    (10_000, 100, 10_000),
    (10_000, 100, 100_000),
    (10_000, 100, 250_000),
];

/// In a heterogeneous group, the members of each of this number of parts subscribe to their own
/// part of the topics, as in Kafka's benchmark.
const PARTS: usize = 5;

/// The kinds of computations.
pub(crate) const KINDS: [(&str, Assignor, SubscriptionType); 3] = [
    ("uniform, same topics", Assignor::Uniform, SubscriptionType::Homogeneous),
    ("uniform, five kinds of members", Assignor::Uniform, SubscriptionType::Heterogeneous),
    ("range, same topics", Assignor::Range, SubscriptionType::Homogeneous),
];

/// A group that changes step by step.
pub(crate) struct Scenario {
    pub(crate) group: Group,
    assignor: Assignor,
    kind: SubscriptionType,
    members: usize,
    topics: usize,
    partitions: usize,
}

impl Scenario {
    /// A group whose members have joined, and have no partitions yet.
    pub(crate) fn new(
        (members, topics, partitions): (usize, usize, usize),
        (_, assignor, kind): (&str, Assignor, SubscriptionType),
        kafka: Option<Kafka>,
    ) -> Self {
        let group = kafka.map_or_else(Group::default, Group::with_kafka);
        let mut this = Self { group, assignor, kind, members, topics, partitions };
        for topic in 0..topics {
            this.group.topic(topic, (partitions / topics) as u32);
        }
        for member in 0..members {
            let topics = this.topics_of(member);
            this.group.join(&format!("member{member}"), None, &topics);
        }
        this
    }

    /// Computes the assignment; see [`Group::assign`].
    pub(crate) fn assign(&mut self, repeats: usize) -> (Outcome, Option<Outcome>) {
        self.group.assign(self.assignor, self.kind, None, repeats)
    }

    pub(crate) fn one_joins(&mut self) {
        let topics = self.topics_of(self.members - 1);
        self.group.join("newMember", None, &topics);
    }

    /// Removes one member in ten. Returns the ids of the removed members.
    pub(crate) fn many_leave(&mut self) -> Vec<String> {
        let leaving = (0..self.members).step_by(10).map(|member| format!("member{member}"));
        let leaving: Vec<_> = leaving.collect();
        for id in &leaving {
            self.group.leave(id);
        }
        leaving
    }

    /// Adds a tenth to the partitions of each topic, at least one partition.
    pub(crate) fn partitions_are_added(&mut self) {
        let each = self.partitions / self.topics;
        for topic in 0..self.topics {
            self.group.topic(topic, (each + each.div_ceil(10)) as u32);
        }
    }

    fn topics_of(&self, member: usize) -> Vec<usize> {
        if self.kind == SubscriptionType::Homogeneous {
            return (0..self.topics).collect();
        }
        let part = member / self.members.div_ceil(PARTS);
        let len = self.topics.div_ceil(PARTS);
        (part * len..((part + 1) * len).min(self.topics)).collect()
    }
}
