//! Kafka's server-side assignors `uniform` and `range`, with Kafka's own placement, on compact
//! state.
//!
//! A group keeps one [`TargetAssignment`]: its members' subscriptions, and their targets.
//!
//! - **Subscriptions** change by [`TargetAssignment::join`], [`TargetAssignment::subscribe`],
//!   [`TargetAssignment::leave`] and [`TargetAssignment::set_partitions`]. These are idempotent, so
//!   a handler may call them for what it has decided, and the replay of its records again.
//! - **Targets** change by [`TargetAssignment::set`] alone, from the records of the target
//!   assignment: a new state that replays a log has the same.
//!
//! A [`Computation`] finds the next assignment, in slices if it is long, and returns only the
//! members whose partitions [`Change`]. It changes nothing itself: the caller writes the changes as
//! records and replays them. It reads two flat arrays (owner by partition, load by member), so that
//! one member joining 10,000 others costs a pass over 400 KiB and not 10,000 maps.
//!
//! The group may change during a computation: members join and leave, topics grow. The result never
//! names a member that left; changes that it could not know of are left to the next computation.
//! Only [`TargetAssignment::set`] and a second computation must wait for it.

mod audience;
mod computation;
mod heterogeneous;
mod homogeneous;
mod java_heap;
mod java_sets;
mod levels;
pub mod order;
mod owners;
mod quota;
mod range;
pub(crate) mod simple;
pub mod sticky;
mod target;
mod tasks;

pub use computation::{Assignor, Change, Computation, SLICE, SubscriptionType};
pub use target::{PARTITIONS_MAX, TargetAssignment};
pub use tasks::{Place, TaskAssignor};

/// A member: the caller's own small dense number for it (a slab key). It may be reused for another
/// member after this one has left.
pub type MemberIndex = u32;

/// A topic: a small dense number for its id, from [`TargetAssignment::topic`].
pub type TopicIndex = u32;

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: TopicIndex,
    pub partition: u32,
}

/// No member has this index.
pub(crate) const NO_MEMBER: MemberIndex = MemberIndex::MAX;
