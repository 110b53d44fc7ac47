//! A member of a group: its profile, and its progress towards the target assignment.

use super::kind::Kind;
use super::owned::{Key, Owned};
use crate::event::Moved;

/// A member with a profile `P`, to which partitions of keys `K` are assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member<P, K> {
    /// The content of the metadata record.
    pub(crate) profile: P,
    pub(crate) current: Current<K>,
}

/// A member of a group of the kind `K`.
pub(crate) type MemberOf<K> = Member<<K as Kind>::Profile, <K as Kind>::Key>;

/// The current assignment of a member of kind `K`.
pub(crate) type CurrentOf<K> = Current<<K as Kind>::Key>;

/// The current assignment of a member. It is the content of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Current<K> {
    pub(crate) epoch: i32,
    /// The previous member epoch. A member that did not receive its last answer still sends it.
    pub(crate) previous_epoch: i32,
    pub(crate) state: MemberState,
    pub(crate) assigned: Owned<K>,
    /// The partitions that the member still has to revoke.
    pub(crate) revoking: Owned<K>,
}

/// The state of a member (`MemberState` in Kafka). If the members of a kind revoke nothing, all are
/// Stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MemberState {
    /// The member has reached the target of its epoch, and owns all partitions in it.
    #[default]
    Stable,
    /// The member still has to revoke partitions, and keeps its epoch until then.
    UnrevokedPartitions,
    /// The member has the target's epoch, and waits for partitions that other members own.
    UnreleasedPartitions,
    /// The state in a record that a later version of Kafka wrote.
    Unknown,
}

impl MemberState {
    /// The state with this number in a record.
    pub(crate) fn from_number(number: i8) -> Self {
        match number {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            _ => Self::Unknown,
        }
    }

    /// The name as operators see it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stable => "Stable",
            Self::UnrevokedPartitions => "UnrevokedPartitions",
            Self::UnreleasedPartitions => "UnreleasedPartitions",
            Self::Unknown => "Unknown",
        }
    }

    pub(crate) fn number(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown => 127,
        }
    }
}

impl<P: Default, K> Default for Member<P, K> {
    /// A member before it has joined.
    fn default() -> Self {
        Self { profile: P::default(), current: Current::default() }
    }
}

impl<K> Default for Current<K> {
    /// A member before it has joined.
    fn default() -> Self {
        Self {
            epoch: 0,
            previous_epoch: -1,
            state: MemberState::Stable,
            assigned: Owned::default(),
            revoking: Owned::default(),
        }
    }
}

impl<K> Current<K> {
    pub(crate) fn is_reconciled_to(&self, epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == epoch
    }
}

impl<K: Key> Current<K> {
    /// Counts the partitions that the member gets by the step to `next`. The member itself is
    /// counted only for the first such step in an epoch.
    pub(crate) fn moved_to(&self, next: &Self) -> Moved {
        let partitions = next.assigned.len_without(&self.assigned) as u32;
        let is_first = partitions > 0 && !self.assigned.has_since(next.epoch);
        Moved { members: u32::from(is_first), partitions, has_more: false }
    }
}
