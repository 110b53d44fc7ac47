//! Consumer groups (KIP-848): the heartbeats of members contain their subscription and the
//! partitions that they own, and the server assigns partitions to the members.
//!
//! The steps of a heartbeat are in [`crate::modern`], because all newer kinds of groups share them.
//! [`kind`](kind) implements these steps for consumer groups. Only consumer groups have regular
//! expressions ([`regex`](regex)) and members that use the classic protocol
//! ([`classic_member`](classic_member)).
//!
//! All durable state is in the records, and only [`replay`](replay) changes it. A handler changes
//! slots, timers and the input of the assignors.
//!
//! After a load a group resolves its regular expressions again, unless the version of the topics is
//! still the version from which they were last resolved.

mod answer;
pub(crate) mod classic_member;
mod describe;
mod epoch;
mod kind;
mod leave;
pub(crate) mod member;
mod offsets;
mod owners;
mod records;
pub(crate) mod regex;
mod replay;
mod target;
pub(crate) mod validate;

use crate::assignors::SubscriptionType;
use crate::modern::Group;
use crate::modern::names::NameLists;
use crate::modern::static_members::StaticMembers;
use crate::text::Text;
use alloc::collections::BTreeMap;
use alloc::format;
use member::Profile;
use owners::Owners;
use regex::Regexes;

pub(crate) use answer::{left, refused};

pub(crate) type ConsumerGroup = Group<Consumer>;

/// The state that only consumer groups have.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    /// Whether the log has a ConsumerGroupPartitionMetadata record (Kafka before 4.1). The next
    /// group epoch removes it.
    has_partition_metadata: bool,
    // Replay derives these fields from the members, so that no request has to visit all members:
    /// The bytes of the members' profiles, without topic names.
    profile_bytes: usize,
    names: NameLists,
    static_members: StaticMembers,
    owners: Owners,
    regexes: Regexes,
    assignors: BTreeMap<Text, usize>,
    classic_members: usize,
    classic_protocols: BTreeMap<Text, usize>,
    /// Whether all members have the same subscription. None if members changed since this was last
    /// determined. As in Kafka, a new resolution of a regular expression does not reset the value.
    subscription_type: Option<SubscriptionType>,
    /// The hash of the current subscriptions, while a member's new expression is not resolved yet:
    /// the group epoch was then not raised for this hash. None otherwise.
    present_hash: Option<i64>,
}

impl Consumer {
    /// The topics to which a member subscribes, by name or by a resolved expression.
    fn subscribed<'g>(&'g self, profile: &'g Profile) -> impl Iterator<Item = &'g Text> {
        let matched = profile.regex().and_then(|regex| self.regexes.resolved(regex));
        let matched = matched.map(|resolved| &*resolved.topics).unwrap_or_default();
        profile.topics.iter().chain(matched)
    }

    fn is_subscriber_of(&self, profile: &Profile, topic: &str) -> bool {
        let matched = profile.regex().and_then(|regex| self.regexes.resolved(regex));
        profile.names(topic) || matched.is_some_and(|resolved| resolved.has(topic))
    }
}

impl ConsumerGroup {
    /// Approximate bytes of the members' profiles.
    pub(crate) fn member_bytes(&self) -> usize {
        self.own.profile_bytes + self.own.names.bytes()
    }

    /// The bytes of the members' profiles if each member had its own list of topic names.
    pub(crate) fn profile_bytes(&self) -> usize {
        self.own.profile_bytes + self.own.names.bytes_unshared(self.members.len())
    }

    /// The number of partitions that members own, plus the number in their targets.
    pub(crate) fn assigned(&self) -> usize {
        self.own.owners.len() + self.target.by_member.assignment.assigned()
    }

    /// A hash of the counts over the members. The audit ([`crate::Coordinator::audit_after`])
    /// compares it with the hash after a replay.
    pub(crate) fn count_hash(&self) -> u64 {
        let Consumer { profile_bytes, assignors, classic_members, classic_protocols, .. } =
            &self.own;
        let counts = (profile_bytes, assignors, classic_members, classic_protocols);
        let Self { stable_at, subscriptions, .. } = self;
        let static_members = self.own.static_members.len();
        xxhash_rust::xxh3::xxh3_64(
            format!("{counts:?} {stable_at:?} {subscriptions:?} {static_members}").as_bytes(),
        )
    }

    /// Whether all members have the same subscription, as Kafka last determined it.
    fn subscription_type(&self) -> SubscriptionType {
        self.own.subscription_type.unwrap_or_else(|| {
            epoch::subscription_type(&self.own.regexes, &self.subscriptions, self.members.len())
        })
    }
}
