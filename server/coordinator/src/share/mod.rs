//! Share groups (KIP-932): the heartbeats of members contain their subscription, and the server
//! assigns partitions to the members. A partition may be assigned to several members. Its leader
//! delivers single records of the partition to members; this crate is not involved in that.
//!
//! The steps of a heartbeat are in [`crate::modern`], because all newer kinds of groups share them.
//! [`kind`](kind) implements these steps for share groups. A member has nothing to revoke. Before a
//! partition is assigned, its leader must have *share state* for it. [`state`](state) has the
//! partitions with share state, and [`initialize`](initialize) requests share state.

mod answer;
mod describe;
mod initialize;
mod kind;
pub(crate) mod member;
pub(crate) mod offsets;
mod records;
mod replay;
pub(crate) mod state;
mod targets;
pub(crate) mod validate;

use crate::assignors::SubscriptionType;
use crate::modern::names::NameLists;
use crate::modern::subscriptions::Subscriptions;
use crate::modern::{Group, State};
use alloc::format;
use state::StatePartitions;

pub(crate) use answer::{left, refused};

/// The protocol type of share groups in ListGroups.
pub(crate) const PROTOCOL_TYPE: &str = "share";

pub(crate) type ShareGroup = Group<Share>;

/// The state that only share groups have.
#[derive(Debug, Default)]
pub(crate) struct Share {
    // Replay derives these fields from the members, so that no request has to visit all members:
    /// The bytes of the members' profiles, without topic names.
    profile_bytes: usize,
    names: NameLists,
    /// The partitions that have share state at their leaders, or are about to get or to lose it.
    pub(crate) state: StatePartitions,
    /// Whether the next heartbeat must compare the partitions that have share state with the
    /// partitions in the targets ([`ShareGroup::has_unassigned_state`]), even if its member is
    /// unchanged. Set when the share state, a target or a member's profile was written, or a member
    /// was removed. Cleared by the comparison. Not durable.
    is_unchecked: bool,
}

impl ShareGroup {
    /// Approximate bytes of the members' profiles.
    pub(crate) fn member_bytes(&self) -> usize {
        self.own.profile_bytes + self.own.names.bytes()
    }

    /// The bytes of the members' profiles if each member had its own list of topic names.
    pub(crate) fn profile_bytes(&self) -> usize {
        self.own.profile_bytes + self.own.names.bytes_unshared(self.members.len())
    }

    /// Empty or Stable: there is no other state, because a member gets its target with its next
    /// heartbeat.
    pub(crate) fn share_state(&self) -> State {
        if self.is_empty() { State::Empty } else { State::Stable }
    }

    /// The number of partitions in the targets of members, plus the number with share state.
    pub(crate) fn assigned(&self) -> usize {
        self.target.by_member.assigned() + self.own.state.len()
    }

    /// A hash of the counts over the members. The audit ([`crate::Coordinator::audit_after`])
    /// compares it with the hash after a replay.
    pub(crate) fn count_hash(&self) -> u64 {
        let Self { stable_at, subscriptions, own, .. } = self;
        let counts = format!("{} {stable_at:?} {subscriptions:?}", own.profile_bytes);
        xxhash_rust::xxh3::xxh3_64(counts.as_bytes())
    }
}

/// Whether all `members` members subscribe to the same names.
fn subscription_type(subscriptions: &Subscriptions, members: usize) -> SubscriptionType {
    if subscriptions.counts().all(|count| count.by_name as usize == members) {
        SubscriptionType::Homogeneous
    } else {
        SubscriptionType::Heterogeneous
    }
}
