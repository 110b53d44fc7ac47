//! Which member should own which partition: Kafka's server-side assignors `uniform` and `range`, on
//! compact state, with Kafka's own placement.
//!
//! A group keeps one [`TargetAssignment`]: who may get what, and who has been promised what.
//!
//! - **Who may get what** is told as it changes: [`TargetAssignment::join`],
//!   [`TargetAssignment::subscribe`], [`TargetAssignment::leave`] and
//!   [`TargetAssignment::set_partitions`]. Telling the same twice does no harm, so a handler may
//!   tell what it has decided, and the replay of its records tell it again.
//! - **Who has been promised what** changes by [`TargetAssignment::set`] alone, from the records of
//!   the target assignment: a fresh state that replays a log has the same.
//!
//! A [`Computation`] finds the next assignment, in slices if it is long, and gives only the members
//! whose partitions [`Change`]. It changes nothing itself: the caller writes the changes as records
//! and replays them. It reads two flat arrays (owner by partition, load by member), so that one
//! member joining 10,000 others costs a pass over 400 KiB and not 10,000 maps.
//!
//! While a computation is under way the group may go on: members join and leave, topics grow.
//! The outcome never names a member that left, and what it could not know of is left to the next
//! computation. Only [`TargetAssignment::set`] must wait for it, as must a second computation.

mod audience;
mod computation;
mod heterogeneous;
mod homogeneous;
mod java_sets;
mod levels;
pub(crate) mod order;
mod owners;
mod range;
mod target;

pub use computation::{Assignor, Change, Computation, SLICE, SubscriptionType};
pub use target::{PARTITIONS_MAX, TargetAssignment};

/// A member: the caller's own small dense number for it (a slab key). It may be given to another
/// member once this one has left.
pub type MemberIndex = u32;

/// A topic: a small dense number for its id, from [`TargetAssignment::topic`].
pub type TopicIndex = u32;

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: TopicIndex,
    pub partition: u32,
}

/// Nobody: no member has this index.
pub(crate) const NOBODY: MemberIndex = MemberIndex::MAX;
