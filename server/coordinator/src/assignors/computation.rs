//! The computation of a target assignment, in slices.

use super::heterogeneous::Heterogeneous;
use super::homogeneous::Homogeneous;
use super::range::Range;
use super::{MemberIndex, TargetAssignment, TopicPartition};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The usual budget of [`Computation::step`], in visits of a partition or member. It takes a
/// quarter to half a millisecond.
pub const SLICE: usize = 150_000;

/// The cost of building the new list of partitions of a member whose target changes, as a number of
/// visits.
pub(super) const CHANGE_COST: usize = 32;

/// Kafka's server-side assignors of consumer groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assignor {
    /// Balanced over all topics, and sticky.
    #[default]
    Uniform,
    /// Consecutive partitions of each topic. Topics with equal partition counts and the same
    /// members are co-partitioned.
    Range,
}

impl Assignor {
    /// The assignor with this name in `group.consumer.assignors` and requests.
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

/// Whether all members subscribe to the same topics. Kafka compares the names: if a member also
/// names a topic that does not exist, its subscription differs from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionType {
    Homogeneous,
    Heterogeneous,
}

/// A member and its new partitions, ascending.
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
    /// Starts a computation. `joining` is the member of the current request if it is new in the
    /// group: Kafka visits it last in its hash bucket.
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

    /// Visits about `budget` members and partitions. Returns `None` until the computation is
    /// complete. Then returns the new targets of members whose target changes, or that had none.
    /// Must not be called again after that.
    pub fn step(&mut self, target: &TargetAssignment, budget: usize) -> Option<Vec<Change>> {
        match &mut self.0 {
            Work::Range(work) => work.step(target, budget),
            Work::Homogeneous(work) => work.step(target, budget),
            Work::Heterogeneous(work) => work.step(target, budget),
        }
    }

    /// Runs the computation to its end.
    pub fn finish(mut self, target: &TargetAssignment) -> Vec<Change> {
        loop {
            if let Some(changes) = self.step(target, usize::MAX) {
                return changes;
            }
        }
    }
}
