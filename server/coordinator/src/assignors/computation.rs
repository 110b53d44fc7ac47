//! One computation of a target assignment, in slices.

use super::heterogeneous::Heterogeneous;
use super::homogeneous::Homogeneous;
use super::range::Range;
use super::{MemberIndex, TargetAssignment, TopicPartition};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A budget for [`Computation::step`] that takes a quarter to half a millisecond.
pub const SLICE: usize = 150_000;

/// What a changed member adds to the looks at its partitions: its list is made.
pub(super) const CHANGE_COST: usize = 32;

/// Which of Kafka's server-side assignors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assignor {
    /// Balanced over all topics, and sticky.
    #[default]
    Uniform,
    /// Consecutive partitions of each topic, the same of all topics with as many partitions.
    Range,
}

impl Assignor {
    /// By the name that `group.consumer.assignors` and clients give it.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Uniform, Self::Range].into_iter().find(|assignor| assignor.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }
}

/// Whether all members subscribe to the same names. Kafka goes by names, so two members may have
/// the same topics and yet differ, if one also names a topic that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionType {
    Homogeneous,
    Heterogeneous,
}

/// A member with its new partitions, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub member: MemberIndex,
    pub partitions: Vec<TopicPartition>,
}

/// A computation under way.
#[derive(Debug)]
pub struct Computation(Work);

#[derive(Debug)]
enum Work {
    Range(Range),
    Homogeneous(Homogeneous),
    Heterogeneous(Box<Heterogeneous>),
}

impl Computation {
    /// Begins. `joining` is the member whose own request this is, if it is new in the group: Kafka
    /// visits it last among its like.
    pub fn new(
        assignor: Assignor,
        subscriptions: SubscriptionType,
        joining: Option<MemberIndex>,
        target: &mut TargetAssignment,
    ) -> Self {
        Self(match (assignor, subscriptions) {
            (Assignor::Range, _) => Work::Range(Range::new(target)),
            (Assignor::Uniform, SubscriptionType::Homogeneous) => {
                Work::Homogeneous(Homogeneous::new(joining, target))
            }
            (Assignor::Uniform, SubscriptionType::Heterogeneous) => {
                Work::Heterogeneous(Box::new(Heterogeneous::new(joining, target)))
            }
        })
    }

    /// Goes on for about `budget` looks at a member or a partition. Gives the outcome once it is
    /// there: the members whose target changes, or that have none yet. To be called until then, and
    /// not again.
    pub fn step(&mut self, target: &TargetAssignment, budget: usize) -> Option<Vec<Change>> {
        match &mut self.0 {
            Work::Range(work) => work.step(target, budget),
            Work::Homogeneous(work) => work.step(target, budget),
            Work::Heterogeneous(work) => work.step(target, budget),
        }
    }

    /// Goes on to the end.
    pub fn finish(mut self, target: &TargetAssignment) -> Vec<Change> {
        loop {
            if let Some(changes) = self.step(target, usize::MAX) {
                return changes;
            }
        }
    }
}
