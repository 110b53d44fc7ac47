//! The grid: the groups of Kafka's own benchmark (`ServerSideAssignorBenchmark`), and changes to
//! them.

use super::driver::{Group, Kafka, Outcome};
use muster_coordinator::assignors::{Assignor, SubscriptionType};

/// The size of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) members: usize,
    pub(crate) topics: usize,
    pub(crate) partitions: usize,
}

const fn size(members: usize, topics: usize, partitions: usize) -> Size {
    Size { members, topics, partitions }
}

pub(crate) const SIZES: [Size; 8] = [
    size(100, 10, 10),
    size(100, 10, 1_000),
    size(100, 100, 10_000),
    size(1_000, 10, 1_000),
    size(1_000, 100, 10_000),
    size(10_000, 100, 10_000),
    size(10_000, 100, 100_000),
    size(10_000, 100, 250_000),
];

/// In a heterogeneous group, the members of each of this number of parts subscribe to their own
/// part of the topics, as in Kafka's benchmark.
const PARTS: usize = 5;

/// A kind of computation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) assignor: Assignor,
    pub(crate) subscriptions: SubscriptionType,
}

pub(crate) const KINDS: [Kind; 3] = [
    Kind {
        name: "uniform, same topics",
        assignor: Assignor::Uniform,
        subscriptions: SubscriptionType::Homogeneous,
    },
    Kind {
        name: "uniform, five kinds of members",
        assignor: Assignor::Uniform,
        subscriptions: SubscriptionType::Heterogeneous,
    },
    Kind {
        name: "range, same topics",
        assignor: Assignor::Range,
        subscriptions: SubscriptionType::Homogeneous,
    },
];

/// A group that changes step by step.
pub(crate) struct Scenario {
    pub(crate) group: Group,
    kind: Kind,
    members: usize,
    topics: usize,
    partitions: usize,
}

impl Scenario {
    /// A group whose members have joined, and have no partitions yet.
    pub(crate) fn new(size: Size, kind: Kind, kafka: Option<Kafka>) -> Self {
        let Size { members, topics, partitions } = size;
        let group = kafka.map_or_else(Group::default, Group::with_kafka);
        let mut this = Self { group, kind, members, topics, partitions };
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
        self.group.assign(self.kind.assignor, self.kind.subscriptions, None, repeats)
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
        if self.kind.subscriptions == SubscriptionType::Homogeneous {
            return (0..self.topics).collect();
        }
        let part = member / self.members.div_ceil(PARTS);
        let len = self.topics.div_ceil(PARTS);
        (part * len..((part + 1) * len).min(self.topics)).collect()
    }
}
