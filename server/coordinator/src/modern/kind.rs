//! The part in which the kinds of groups differ: how members subscribe, what is assigned to them,
//! the records that say so, and the answer.
//!
//! | | consumer | share | streams |
//! |---|---|---|---|
//! | subscription | names, an expression | names | the topology of the group |
//! | assigned | partitions of topics | the same, also to several members | tasks of subtopologies |
//! | a step | the handshake of `reconcile` | straight to the target | a handshake by process |
//! | static members | yes | no | no |
//!
//! Consumer groups are the first users; the other columns are KIP-932 and KIP-1071, as far as they
//! decided where this trait cuts.

use super::Draft;
use super::Group;
use super::Refusal;
use super::epoch::{News, ProfileChange};
use super::heartbeat::Existing;
use super::member::{Client, CurrentOf, MemberOf};
use super::reconcile::UnknownState;
use super::target::{MemberTarget, MemberUpdate, Targets};
use crate::config::{Config, GroupConfig};
use crate::turn::Turn;
use core::fmt::Debug;
use muster_codec::records::GroupRecord;

/// One member's part of the target assignment of a group of the kind `K`.
pub(crate) type Part<K> = <<K as Kind>::Targets as Targets>::Part;

/// The computation of a target assignment of a group of the kind `K`.
pub(crate) type ComputationOf<K> = <<K as Kind>::Targets as Targets>::Computation;

/// A kind of group; a value is the state that only groups of this kind have.
pub(crate) trait Kind: Debug + Default {
    type Heartbeat<'r>: HeartbeatFields;
    type Answer<'r>;

    /// The properties of a member as it sends them: its metadata record.
    type Profile: Debug + Clone + PartialEq + Default;

    /// The current assignment of a member.
    type Assigned: Debug + Clone + PartialEq + Default;

    /// A member's report of the part of it that it owns.
    type Reported: Report<Self::Assigned> + ?Sized;

    /// The target assignment of all members.
    type Targets: Targets;

    /// A property of all subscriptions that the assignors need, determined with the group epoch.
    type Input: Copy;

    // The configs.

    fn config(turn: &Turn<'_, '_>, group_id: &str) -> GroupConfig;

    fn members_max(config: &Config) -> i32;

    // The request and the member's profile.

    fn reported<'h>(heartbeat: &'h Self::Heartbeat<'_>) -> Option<&'h Self::Reported>;

    /// The member of a heartbeat before it, which may be a new one; its epoch is checked.
    ///
    /// # Errors
    /// An unknown or fenced member.
    fn existing(
        group: &Group<Self>,
        draft: &mut Draft<'_>,
        heartbeat: &Self::Heartbeat<'_>,
    ) -> Result<Existing<Self>, Refusal>;

    /// Whether a heartbeat changes nothing of its member. On the path of each heartbeat.
    fn is_unchanged(
        profile: &Self::Profile,
        heartbeat: &Self::Heartbeat<'_>,
        client: Client<'_>,
    ) -> bool;

    /// The profile after a heartbeat; a field that the heartbeat leaves out keeps its value.
    fn updated(
        profile: &Self::Profile,
        heartbeat: &Self::Heartbeat<'_>,
        client: Client<'_>,
    ) -> Self::Profile;

    /// # Errors
    /// The group has no budget for the changed profile.
    fn refuse_if_large(
        group: &Group<Self>,
        budget_bytes: usize,
        before: &Self::Profile,
        after: &Self::Profile,
    ) -> Result<(), Refusal>;

    /// The time that a member has to revoke, and whether it runs out for a member of this profile.
    fn revocation_timeout_ms(profile: &Self::Profile) -> i32;

    fn has_revocation_timeout(profile: &Self::Profile) -> bool;

    // The group epoch.

    /// Whether the group has news for an unchanged member, other than a new target or changed
    /// topics. On the path of each heartbeat.
    fn has_news(group: &Group<Self>, turn: &Turn<'_, '_>) -> bool;

    /// The effect of a member's changed profile on the group.
    ///
    /// # Errors
    /// The subscription is not valid.
    fn news(
        group: &mut Group<Self>,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        change: ProfileChange<'_, Self::Profile>,
    ) -> Result<News, Refusal>;

    /// The hash of the topics that the group is known to have subscribed to.
    fn known_hash(group: &Group<Self>) -> i64;

    /// The hash of the topics after a change, and the input of the assignors.
    fn hash_after(
        group: &Group<Self>,
        turn: &mut Turn<'_, '_>,
        change: ProfileChange<'_, Self::Profile>,
    ) -> (i64, Self::Input);

    /// The hash of the topics after members have left; records of theirs go to `draft`.
    fn hash_without(
        group: &Group<Self>,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        members: &[&MemberOf<Self>],
    ) -> i64;

    /// The input of the assignors when the epoch stays.
    fn input(group: &Group<Self>) -> Self::Input;

    // The target assignment.

    /// The slot whose target is the member's: its own, unless its target belongs to an instance id.
    fn target_slot(
        group: &Group<Self>,
        number: Option<u32>,
        profile: &Self::Profile,
    ) -> Option<u32>;

    /// Begins the computation of a target assignment.
    fn computation(
        group: &mut Group<Self>,
        turn: &Turn<'_, '_>,
        update: &MemberUpdate<'_, Self>,
        input: Self::Input,
    ) -> ComputationOf<Self>;

    /// The member's assignment after its next step towards the target; None if it does not change.
    ///
    /// # Errors
    /// A member in an unknown state that may still own partitions.
    fn step(
        group: &Group<Self>,
        turn: &Turn<'_, '_>,
        member: &MemberOf<Self>,
        target: &MemberTarget<Self>,
        subscription_changed: bool,
        reported: Option<&Self::Reported>,
    ) -> Result<Option<CurrentOf<Self>>, UnknownState>;

    /// The answer to a member that joins or stays.
    fn answer<'r>(
        turn: &Turn<'_, 'r>,
        group_id: &str,
        heartbeat: &Self::Heartbeat<'r>,
        current: &CurrentOf<Self>,
        is_changed: bool,
    ) -> Self::Answer<'r>;

    // The records.

    /// The record of a group epoch.
    fn epoch_record(group: &Group<Self>, epoch: i32, metadata_hash: i64) -> GroupRecord<'static>;

    /// Removes records of earlier versions, when the group's topics are looked at.
    fn remove_old_records(group: &Group<Self>, draft: &mut Draft<'_>);

    fn member_record(
        group_id: &str,
        member_id: &str,
        profile: &Self::Profile,
    ) -> GroupRecord<'static>;

    fn target_record(group_id: &str, member_id: &str, target: Part<Self>) -> GroupRecord<'static>;

    fn target_epoch_record(group_id: &str, epoch: i32, timestamp: i64) -> GroupRecord<'static>;

    fn current_record(
        group_id: &str,
        member_id: &str,
        current: &CurrentOf<Self>,
    ) -> GroupRecord<'static>;

    /// The tombstones of a member, in Kafka's order.
    fn member_tombstones(group_id: &str, member_id: &str) -> [GroupRecord<'static>; 3];
}

/// The fields that heartbeats of all kinds have.
pub(crate) trait HeartbeatFields {
    fn member_id(&self) -> &str;

    fn member_epoch(&self) -> i32;
}

/// A member's report of the partitions that it owns, compared with an assignment `A`. A kind whose
/// members report none has an empty one that is within each assignment.
pub(crate) trait Report<A> {
    fn is_empty(&self) -> bool;

    fn has_any_of(&self, assigned: &A) -> bool;

    fn is_within(&self, assigned: &A) -> bool;
}
