//! Consumer groups (KIP-848): members heartbeat with their subscription and the partitions that
//! they own, and the server assigns partitions to them.
//!
//! A heartbeat takes these steps, each of which may add records:
//!
//! 1. [`validate`](validate): checks the request, and the member's epoch.
//! 2. [`heartbeat`](heartbeat): updates the member's subscription.
//! 3. [`epoch`](epoch): bumps the group epoch if the group's subscriptions or their topics changed.
//! 4. [`target`](target): computes a target assignment for the group epoch.
//! 5. [`crate::modern::reconcile`]: takes the member's next step towards the target.
//! 6. Answers.
//!
//! All durable state is in the records, and only [`replay`](replay) changes it; a handler changes
//! slots, timers and the input of the assignors. A heartbeat that changes nothing takes one look-up
//! of the member.

pub(crate) mod classic_member;
mod describe;
mod durable;
mod epoch;
mod fence;
pub(crate) mod heartbeat;
pub(crate) mod member;
mod offsets;
mod records;
pub(crate) mod regex;
mod replay;
mod target;
mod timers;
pub(crate) mod validate;

use crate::assignors::SubscriptionType;
use crate::context::Topics;
use crate::modern::members::Members;
use crate::modern::names::NameLists;
use crate::modern::owners::Owners;
use crate::modern::subscriptions::Subscriptions;
use crate::modern::target::Target;
use crate::text::Text;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use hashbrown::HashMap;
use member::{Member, Profile};
use muster_codec::ErrorCode;
use muster_codec::records::GroupRecord;
use regex::Regexes;

pub(crate) use fence::left;
pub(crate) use heartbeat::refused;

/// The records that a handler is about to write; dropped if it refuses in the end.
pub(crate) type Draft<'r> = Vec<GroupRecord<'r>>;

/// Why a request is refused: the error, and a message for the client's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) error: ErrorCode,
    pub(crate) message: &'static str,
}

pub(crate) fn refuse<T>(error: ErrorCode, message: &'static str) -> Result<T, Refusal> {
    Err(Refusal { error, message })
}

/// The state of a consumer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No members.
    Empty,
    /// The group epoch has no target assignment yet.
    Assigning,
    /// Some members have not reached the target assignment yet.
    Reconciling,
    Stable,
}

impl State {
    /// The name in responses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }
}

#[derive(Debug)]
pub(crate) struct ConsumerGroup {
    id: Text,
    epoch: i32,
    /// The hash of the subscribed topics at that epoch.
    metadata_hash: i64,
    /// Whether there is a record from before Kafka 4.1 to be removed.
    has_partition_metadata: bool,
    members: Members<Member>,
    target: Target,
    // Counts over the members:
    /// Bytes of the members' profiles without the names of topics.
    profile_bytes: usize,
    names: NameLists,
    static_members: HashMap<Text, Text>,
    owners: Owners,
    subscriptions: Subscriptions,
    regexes: Regexes,
    assignors: BTreeMap<Text, usize>,
    classic_members: usize,
    classic_protocols: BTreeMap<Text, usize>,
    /// Number of stable members by epoch.
    stable_at: BTreeMap<i32, usize>,
    /// Whether all members have the same subscription. None if members changed since it was
    /// determined; like Kafka, not reset when a regular expression is resolved again.
    subscription_type: Option<SubscriptionType>,
    /// The version of the topics at which the hash was last compared; volatile.
    checked_version: Option<i64>,
    /// The hash of the present subscriptions if it differs from `metadata_hash`, which it does
    /// while a member's new expression is not resolved yet.
    present_hash: Option<i64>,
}

impl ConsumerGroup {
    /// A group without members.
    pub(crate) fn new(id: Text) -> Self {
        Self {
            id,
            epoch: 1,
            metadata_hash: 0,
            has_partition_metadata: false,
            members: Members::default(),
            target: Target::default(),
            profile_bytes: 0,
            names: NameLists::default(),
            static_members: HashMap::new(),
            owners: Owners::default(),
            subscriptions: Subscriptions::default(),
            regexes: Regexes::default(),
            assignors: BTreeMap::new(),
            classic_members: 0,
            classic_protocols: BTreeMap::new(),
            stable_at: BTreeMap::new(),
            subscription_type: None,
            checked_version: None,
            present_hash: None,
        }
    }

    pub(crate) fn state(&self) -> State {
        let reconciled = self.stable_at.get(&self.target.epoch).copied().unwrap_or(0);
        if self.members.is_empty() {
            State::Empty
        } else if self.epoch > self.target.epoch {
            State::Assigning
        } else if reconciled < self.members.len() {
            State::Reconciling
        } else {
            State::Stable
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// Approximate bytes of the members' profiles.
    pub(crate) fn member_bytes(&self) -> usize {
        self.profile_bytes + self.names.bytes()
    }

    /// The same as if each member had its own list of topic names.
    pub(crate) fn profile_bytes(&self) -> usize {
        self.profile_bytes + self.names.bytes_unshared(self.members.len())
    }

    /// Partitions that members own, plus those in their targets.
    pub(crate) fn assigned(&self) -> usize {
        self.owners.len() + self.target.assignment.assigned()
    }

    /// Members, including those whose records are not replayed yet.
    pub(crate) fn members_and_pending(&self) -> usize {
        self.members.slots_used()
    }

    /// A hash of the counts, compared after each replayed record.
    pub(crate) fn count_hash(&self) -> u64 {
        let Self { profile_bytes, assignors, classic_members, classic_protocols, .. } = self;
        let counts = (profile_bytes, assignors, classic_members, classic_protocols);
        let Self { stable_at, subscriptions, .. } = self;
        let static_members = self.static_members.len();
        xxhash_rust::xxh3::xxh3_64(
            format!("{counts:?} {stable_at:?} {subscriptions:?} {static_members}").as_bytes(),
        )
    }

    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscriptions.contains(topic)
    }

    /// The member with an instance id.
    fn static_member(&self, instance_id: &str) -> Option<(&Text, &Member)> {
        let member_id = self.static_members.get(instance_id)?;
        Some((member_id, self.members.get(member_id)?))
    }

    /// All topics that a member subscribes to, by name or by a resolved expression.
    fn subscribed<'g>(&'g self, profile: &'g Profile) -> impl Iterator<Item = &'g Text> {
        let matched = profile.regex().and_then(|regex| self.regexes.resolved(regex));
        let matched = matched.map(|resolved| &*resolved.topics).unwrap_or_default();
        profile.topics.iter().chain(matched)
    }

    fn is_subscriber_of(&self, profile: &Profile, topic: &str) -> bool {
        let matched = profile.regex().and_then(|regex| self.regexes.resolved(regex));
        profile.names(topic) || matched.is_some_and(|resolved| resolved.has(topic))
    }

    /// Whether all members have the same subscription, as Kafka last determined it.
    fn subscription_type(&self) -> SubscriptionType {
        self.subscription_type.unwrap_or_else(|| {
            epoch::subscription_type(&self.regexes, &self.subscriptions, self.members.len())
        })
    }

    /// Whether topics changed since the group's hash was compared.
    fn is_outdated(&self, topics: &dyn Topics) -> bool {
        self.checked_version != Some(topics.version())
    }
}
