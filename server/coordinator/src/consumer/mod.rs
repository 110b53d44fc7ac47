//! Consumer groups (KIP-848): each member heartbeats, says what it subscribes to and what it owns,
//! and is told what to own. The server assigns.
//!
//! A heartbeat goes this way, and each step may add records:
//!
//! 1. [`validate`](validate): is the request one that makes sense? Is the member's epoch its own?
//! 2. [`heartbeat`](heartbeat): what the member says of itself, if that is new.
//! 3. [`epoch`](epoch): a new group epoch, if what the group subscribes to is new, or its topics
//!    are.
//! 4. [`target`](target): a target assignment for the group epoch.
//! 5. [`crate::modern::reconcile`]: the member's next step towards the target.
//! 6. The answer.
//!
//! Everything durable is in the records and is changed by [`replay`](replay) alone; a handler
//! changes seats, timers, and what the assignors were told. A steady heartbeat takes one look at
//! the member.

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
use crate::modern::names::NameLists;
use crate::modern::owners::Owners;
use crate::modern::roster::Roster;
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

/// The records that a handler is about to write. They are dropped if it refuses after all.
pub(crate) type Draft<'r> = Vec<GroupRecord<'r>>;

/// Why a request is refused: the error, and a sentence for whoever reads the client's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) error: ErrorCode,
    pub(crate) message: &'static str,
}

pub(crate) fn refuse<T>(error: ErrorCode, message: &'static str) -> Result<T, Refusal> {
    Err(Refusal { error, message })
}

/// Where a consumer group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No members.
    Empty,
    /// The group epoch has no target assignment yet.
    Assigning,
    /// Not every member is where the target wants it.
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
    /// Of the topics, at that epoch.
    metadata_hash: i64,
    /// Whether there is a record from before Kafka 4.1, to be removed.
    has_partition_metadata: bool,
    roster: Roster<Member>,
    target: Target,
    // What follows is counted of the members.
    /// Of what the members say of themselves, but for the names of topics.
    profile_bytes: usize,
    names: NameLists,
    static_members: HashMap<Text, Text>,
    owners: Owners,
    subscriptions: Subscriptions,
    regexes: Regexes,
    assignors: BTreeMap<Text, usize>,
    classic_members: usize,
    classic_protocols: BTreeMap<Text, usize>,
    /// How many members are stable at which epoch.
    stable_at: BTreeMap<i32, usize>,
    /// Whether all members subscribe to the same: None if members came or went since that was
    /// looked at. Kafka does not look when a regular expression is resolved anew.
    subscription_type: Option<SubscriptionType>,
    /// The version of the topics of which the hash was last looked at; not durable.
    checked_version: Option<i64>,
    /// The hash that the group would have as it is now. None if that is `metadata_hash`: it is
    /// another while a member's new expression is yet to be resolved.
    hash_meanwhile: Option<i64>,
}

impl ConsumerGroup {
    /// A group without members.
    pub(crate) fn new(id: Text) -> Self {
        Self {
            id,
            epoch: 1,
            metadata_hash: 0,
            has_partition_metadata: false,
            roster: Roster::default(),
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
            hash_meanwhile: None,
        }
    }

    pub(crate) fn state(&self) -> State {
        let reconciled = self.stable_at.get(&self.target.epoch).copied().unwrap_or(0);
        if self.roster.is_empty() {
            State::Empty
        } else if self.epoch > self.target.epoch {
            State::Assigning
        } else if reconciled < self.roster.len() {
            State::Reconciling
        } else {
            State::Stable
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.roster.is_empty()
    }

    pub(crate) fn members(&self) -> usize {
        self.roster.len()
    }

    /// What the members say of themselves, in bytes, more or less.
    pub(crate) fn member_bytes(&self) -> usize {
        self.profile_bytes + self.names.bytes()
    }

    /// The same, if each had names of topics of its own.
    pub(crate) fn profile_bytes(&self) -> usize {
        self.profile_bytes + self.names.bytes_unshared(self.roster.len())
    }

    /// How many partitions members own, and are to own.
    pub(crate) fn assigned(&self) -> usize {
        self.owners.len() + self.target.assignment.promised()
    }

    /// Members that are in it or about to be.
    pub(crate) fn seats(&self) -> usize {
        self.roster.seats()
    }

    /// A hash of what is counted of the members, with each record that is replayed.
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

    /// The member that has an instance id.
    fn static_member(&self, instance_id: &str) -> Option<(&Text, &Member)> {
        let member_id = self.static_members.get(instance_id)?;
        Some((member_id, self.roster.member(member_id)?))
    }

    /// All topics that a member subscribes to, by name or by an expression that is resolved.
    fn subscribed<'g>(&'g self, profile: &'g Profile) -> impl Iterator<Item = &'g Text> {
        let matched = profile.regex().and_then(|regex| self.regexes.resolved(regex));
        let matched = matched.map(|resolved| &*resolved.topics).unwrap_or_default();
        profile.topics.iter().chain(matched)
    }

    fn is_subscriber_of(&self, profile: &Profile, topic: &str) -> bool {
        let matched = profile.regex().and_then(|regex| self.regexes.resolved(regex));
        profile.names(topic) || matched.is_some_and(|resolved| resolved.has(topic))
    }

    /// Whether all members subscribe to the same, as Kafka last looked at it.
    fn subscription_type(&self) -> SubscriptionType {
        self.subscription_type.unwrap_or_else(|| {
            epoch::subscription_type(&self.regexes, &self.subscriptions, self.roster.len())
        })
    }

    /// Whether topics changed since the group's hash was looked at.
    fn is_outdated(&self, topics: &dyn Topics) -> bool {
        self.checked_version != Some(topics.version())
    }
}
