//! Groups of the newer protocols: consumer groups, share groups, and streams groups (KIP-848,
//! KIP-932, KIP-1071).
//!
//! All take the same steps at a heartbeat. Each step may add records:
//!
//! 1. [`validate`](validate): checks the member's epoch.
//! 2. [`heartbeat`](heartbeat): updates the member's profile.
//! 3. [`epoch`](epoch): bumps the group epoch if the group's subscriptions or their topics changed.
//! 4. [`target`](target): computes a target assignment for the group epoch.
//! 5. [`reconcile`](reconcile): takes the member's next step towards the target.
//! 6. [`Kind::answer`]: answers with the member's current assignment.
//!
//! [`timers`](timers) and [`fence`](fence) end a session. [`Kind`] has the differences between the
//! kinds. The compiler makes a separate version of a group for each kind (monomorphization). A
//! heartbeat that changes nothing takes one look-up of the member.
//!
//! All durable state is in the records, and only [`replay`](replay) changes it. A handler changes
//! slots, timers and the input of the assignors. A kind decodes its records, and calls the methods
//! of `replay` with their contents.

pub(crate) mod commits;
pub(crate) mod describe;
mod durable;
pub(crate) mod epoch;
mod fence;
pub(crate) mod heartbeat;
pub(crate) mod kind;
pub(crate) mod member;
pub(crate) mod member_targets;
pub(crate) mod members;
pub(crate) mod names;
pub(crate) mod owned;
pub(crate) mod reconcile;
pub(crate) mod records;
mod replay;
pub(crate) mod static_members;
pub(crate) mod subscriptions;
pub(crate) mod target;
#[cfg(test)]
mod tests;
mod timers;
pub(crate) mod topic_targets;
pub(crate) mod validate;

use crate::client::Client;
use crate::context::Topics;
use crate::text::Text;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use kind::{Kind, Part};
use member::MemberOf;
use members::Members;
use muster_codec::ErrorCode;
use muster_codec::records::GroupRecord;
use subscriptions::Subscriptions;
use target::Target;

/// The records that a handler is about to write. If the handler refuses the request, they are
/// dropped.
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

/// The state of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No members.
    Empty,
    /// The group lacks something that an assignment needs, such as the topics of its topology.
    NotReady,
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
            Self::NotReady => "NotReady",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }
}

/// A group of the kind `K`.
#[derive(Debug)]
pub(crate) struct Group<K: Kind> {
    pub(crate) id: Text,
    pub(crate) epoch: i32,
    /// The hash of the subscribed topics at the group epoch.
    pub(crate) metadata_hash: i64,
    pub(crate) members: Members<K>,
    pub(crate) target: Target<K::Targets>,
    /// The topics that the group subscribes to.
    pub(crate) subscriptions: Subscriptions,
    /// The number of stable members, by member epoch.
    pub(crate) stable_at: BTreeMap<i32, usize>,
    /// The version of the topics when `metadata_hash` was last compared with them. Not durable.
    pub(crate) checked_version: Option<i64>,
    /// The state that only groups of this kind have.
    pub(crate) own: K,
}

impl<K: Kind> Group<K> {
    /// A group without members.
    pub(crate) fn new(id: Text) -> Self {
        Self {
            id,
            epoch: 1,
            metadata_hash: 0,
            members: Members::default(),
            target: Target::default(),
            subscriptions: Subscriptions::default(),
            stable_at: BTreeMap::new(),
            checked_version: None,
            own: K::default(),
        }
    }

    pub(crate) fn state(&self) -> State {
        let reconciled = self.stable_at.get(&self.target.epoch).copied().unwrap_or(0);
        if self.members.is_empty() {
            State::Empty
        } else if !K::is_ready(self) {
            State::NotReady
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

    /// Number of members.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The number of members, including members whose records are not replayed yet.
    pub(crate) fn members_and_pending(&self) -> usize {
        self.members.slots_used()
    }

    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscriptions.contains(topic)
    }

    /// The members in the order of Kafka's hash table, without the members in `going`: the number
    /// of the slot, the id, the member.
    pub(crate) fn members_without(
        &self,
        going: &[u32],
    ) -> impl Iterator<Item = (u32, &Text, &MemberOf<K>)> {
        let numbers = self.members.numbers_in_hash_order().into_iter();
        let staying = numbers.filter(|number| !going.contains(number));
        let slots = staying.filter_map(|number| Some((number, self.members.slot(number)?)));
        slots.filter_map(|(number, slot)| Some((number, &slot.id, slot.member.as_ref()?)))
    }

    /// The target assignment of a member.
    pub(crate) fn target_of(&self, number: u32) -> Part<K> {
        self.target.of(number)
    }

    pub(crate) fn member_id(&self, number: u32) -> Option<&str> {
        self.members.slot(number).map(|slot| &*slot.id)
    }

    /// The member of a slot: its id and its client.
    pub(crate) fn named(&self, number: u32) -> Option<(&str, Client<'_>)> {
        let slot = self.members.slot(number)?;
        Some((&slot.id, K::client(&slot.member.as_ref()?.profile)))
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) fn target_epoch(&self) -> i32 {
        self.target.epoch
    }

    /// Whether topics may have changed since the group's hash was last compared.
    pub(crate) fn is_outdated(&self, topics: &dyn Topics) -> bool {
        self.checked_version != Some(topics.version())
    }

    /// Checks whether the group may be deleted.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP.
    pub(crate) fn validate_delete(&self) -> Result<(), ErrorCode> {
        if self.is_empty() { Ok(()) } else { Err(ErrorCode::NonEmptyGroup) }
    }
}
