//! Kafka's server-side assignors: `uniform` and `range` for consumer groups, `simple` for share
//! groups, and `sticky` for the tasks of streams groups. They place partitions and tasks as Kafka
//! does, with compact state. The rest of this text is about `uniform` and `range`.
//!
//! A group keeps one [`TargetAssignment`]: the subscriptions and the targets of its members.
//!
//! - **Subscriptions** change by [`TargetAssignment::join`], [`TargetAssignment::subscribe`],
//!   [`TargetAssignment::leave`] and [`TargetAssignment::set_partitions`]. These are idempotent: a
//!   handler calls them for its decision, and the replay of its records calls them again.
//! - **Targets** change only by [`TargetAssignment::set`], from the records of the target
//!   assignment. A state that replays the log therefore gets the same targets.
//!
//! A [`Computation`] finds the next assignment, in slices if it is long. It returns only the
//! members whose partitions [`Change`], and changes nothing itself: the caller writes the changes
//! as records and replays them. It reads two flat arrays (owner by partition, load by member). So
//! when one member joins 10,000 others, the cost is a pass over 400 KiB, not over 10,000 maps.
//!
//! The group may change during a computation: members join and leave, topics grow. The result never
//! names a member that left. Changes that came too late for the computation are left to the next
//! one. Only [`TargetAssignment::set`] and a second computation must wait for its end.

mod audience;
mod computation;
mod heterogeneous;
mod homogeneous;
mod java_heap;
pub(crate) mod java_sets;
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

/// The index of a member: a small dense number that the caller chooses (a slab key). It may be
/// reused for another member after this one has left.
pub type MemberIndex = u32;

/// The index of a topic: a small dense number for its id, from [`TargetAssignment::topic`].
pub type TopicIndex = u32;

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: TopicIndex,
    pub partition: u32,
}

/// The index of no member.
pub(crate) const NO_MEMBER: MemberIndex = MemberIndex::MAX;
