//! The differences between kinds of groups: the form of a subscription, the things that are
//! assigned to members, the records that store both, and the answer to a heartbeat.
//!
//! | | consumer | share | streams |
//! |---|---|---|---|
//! | subscription | names, an expression | names | the topology of the group |
//! | [`Kind::Key`] | topic id | the same | role and subtopology |
//! | [`Kind::reported`] | all that a member owns | always empty | all, by role |
//! | [`Kind::is_free`] | no other member owns it | always | by the processes that have it |
//! | [`Kind::epoch_after_revocation`] | stays | never asked | the next one |
//! | [`Kind::is_gathering`] | never | never | until the initial delay is over |
//! | [`Kind::least_interval_ms`] | 0 | 0 | by the number of tasks and members |
//! | [`Kind::EpochFields`] | none | none | the validated topology, configs |
//! | static members | yes | no | yes |
//! | [`Kind::change_roles`] | never | never | standbys and warm-ups, in place |

use super::Draft;
use super::Group;
use super::Refusal;
use super::epoch::{ProfileChange, ProfileEffect};
use super::heartbeat::{Existing, Outcome, Settling};
use super::member::{CurrentOf, MemberOf};
use super::members::OwnTimers;
use super::owned::{Key, Owned, Partitions};
use super::reconcile::Split;
use super::subscriptions::Subscriptions;
use super::target::{MemberUpdate, Targets};
use crate::allowance::Allowance;
use crate::client::Client;
use crate::config::{Config, GroupConfig};
use crate::counters::Events;
use crate::timers::Timers;
use crate::turn::Turn;
use core::fmt::Debug;
use muster_codec::records::GroupRecord;

/// One member's part of the target assignment of a group of kind `K`.
pub(crate) type Part<K> = Partitions<<K as Kind>::Key>;

/// The computation of a target assignment of a group of kind `K`.
pub(crate) type ComputationOf<K> = <<K as Kind>::Targets as Targets>::Computation;

/// A kind of group. The implementing type holds the state that only groups of this kind have.
pub(crate) trait Kind: Debug + Default {
    type Heartbeat<'r>: HeartbeatFields;
    type Answer<'r>;

    /// The properties of a member that are the content of its metadata record. The member sends
    /// them, except for its host.
    type Profile: Debug + Clone + PartialEq + Default;

    /// The key by which partitions are assigned.
    type Key: Key;

    /// The partitions that a member reports as its own.
    type Reported: Report<Self::Key> + ?Sized;

    /// The target assignment of all members.
    type Targets: Targets<Key = Self::Key>;

    /// A property of the subscriptions of all members, which the assignors need. It is determined
    /// at the same time as the group epoch.
    type Input: Copy;

    /// The fields that only this kind records with the group epoch.
    type EpochFields: Debug + Clone + PartialEq;

    /// The timers that only members of this kind have.
    type MemberTimers: OwnTimers;

    /// Whether members must revoke partitions before others get them. If not, a member reaches its
    /// target in one step.
    const REVOKES: bool;

    // Configs.

    fn config(turn: &Turn<'_, '_>, group_id: &str) -> GroupConfig;

    fn members_max(config: &Config) -> i32;

    // The request and the member's profile.

    fn reported<'h>(heartbeat: &'h Self::Heartbeat<'_>) -> Option<&'h Self::Reported>;

    /// The member that sent a heartbeat, in its state before the heartbeat. It may be a new member.
    /// Checks the epoch in the heartbeat.
    ///
    /// # Errors
    /// An unknown or fenced member.
    fn existing(
        group: &Group<Self>,
        draft: &mut Draft<'_>,
        heartbeat: &Self::Heartbeat<'_>,
    ) -> Result<Existing<Self>, Refusal>;

    /// Whether the sender of a heartbeat is in the group.
    fn is_known(group: &Group<Self>, heartbeat: &Self::Heartbeat<'_>) -> bool {
        group.members.get(heartbeat.member_id()).is_some()
    }

    /// Whether a heartbeat leaves the profile unchanged. Called for every heartbeat.
    fn is_unchanged(
        profile: &Self::Profile,
        heartbeat: &Self::Heartbeat<'_>,
        client: Client<'_>,
    ) -> bool;

    /// The profile after a heartbeat. A field that the heartbeat leaves out keeps its value.
    fn updated(
        profile: &Self::Profile,
        heartbeat: &Self::Heartbeat<'_>,
        client: Client<'_>,
    ) -> Self::Profile;

    /// # Errors
    /// The changed profile exceeds a budget.
    fn refuse_if_large(
        group: &Group<Self>,
        members: &mut Allowance,
        before: &Self::Profile,
        after: &Self::Profile,
    ) -> Result<(), Refusal>;

    /// A member's client.
    fn client(profile: &Self::Profile) -> Client<'_>;

    /// The time in milliseconds within which a member must revoke partitions.
    fn revocation_timeout_ms(profile: &Self::Profile) -> i32;

    fn has_revocation_timeout(profile: &Self::Profile) -> bool;

    // The group epoch.

    /// Whether the group has changed in a way that affects a member which has not changed itself.
    /// New targets and changed topics are checked elsewhere. Called for every heartbeat.
    fn has_changed(
        group: &Group<Self>,
        turn: &Turn<'_, '_>,
        heartbeat: &Self::Heartbeat<'_>,
    ) -> bool;

    /// How a member's changed profile affects the group.
    ///
    /// # Errors
    /// The subscription is not valid.
    fn effect(
        group: &mut Group<Self>,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        change: ProfileChange<'_, Self::Profile>,
    ) -> Result<ProfileEffect<Self::EpochFields>, Refusal>;

    /// The hash of the subscribed topics with which a new hash is compared. The group epoch is
    /// bumped if they differ.
    fn known_hash(group: &Group<Self>) -> i64;

    /// The subscriptions after a change. The hash of their topics is recorded with the group epoch.
    fn subscriptions_after(
        group: &Group<Self>,
        change: ProfileChange<'_, Self::Profile>,
    ) -> Subscriptions;

    /// The subscriptions after members have left. Adds to `draft` the tombstones of records that
    /// only these members used. None if the subscriptions do not depend on the members: then the
    /// hash stays.
    fn subscriptions_without(
        group: &Group<Self>,
        draft: &mut Draft<'_>,
        members: &[&MemberOf<Self>],
    ) -> Option<Subscriptions>;

    /// The fields recorded with the current group epoch.
    fn epoch_fields(group: &Group<Self>) -> Self::EpochFields;

    /// The input of the assignors after a change that results in these subscriptions.
    fn input_after(
        group: &Group<Self>,
        change: ProfileChange<'_, Self::Profile>,
        subscriptions: &Subscriptions,
    ) -> Self::Input;

    /// The counter of new group epochs.
    fn rebalances(events: &mut Events) -> &mut u64;

    /// The input of the assignors while the group epoch stays.
    fn input(group: &Group<Self>) -> Self::Input;

    /// Whether the group has everything that it needs for an assignment.
    fn is_ready(group: &Group<Self>) -> bool;

    // The target assignment.

    /// The slot whose target the member gets: its own slot, or the slot of its static predecessor.
    fn target_slot(
        group: &Group<Self>,
        number: Option<u32>,
        profile: &Self::Profile,
    ) -> Option<u32>;

    /// Whether a new group still waits for more members before its first target.
    fn is_gathering(group: &Group<Self>) -> bool;

    /// The least time in milliseconds between two computations of a target, in addition to the
    /// config. A long computation may need it, so that it leaves time for other groups of the
    /// shard.
    fn least_interval_ms(group: &Group<Self>) -> i32;

    /// Begins the computation of a target assignment.
    fn computation(
        group: &mut Group<Self>,
        turn: &Turn<'_, '_>,
        update: &MemberUpdate<'_, Self>,
        input: Self::Input,
    ) -> ComputationOf<Self>;

    /// Adds a member with a slot to the target, before its first target or after a change.
    fn add_to_target(group: &mut Group<Self>, number: u32);

    // The steps of a member towards its target.

    /// Whether the member may be assigned partitions of this key.
    fn is_subscribed(
        group: &Group<Self>,
        turn: &Turn<'_, '_>,
        profile: &Self::Profile,
        key: &Self::Key,
    ) -> bool;

    /// Whether the member subscribes to any topic, even to one that does not exist.
    fn is_subscriber(group: &Group<Self>, profile: &Self::Profile) -> bool;

    /// Whether a partition that the member does not own may be assigned to it.
    fn is_free(
        group: &Group<Self>,
        member: &MemberOf<Self>,
        key: &Self::Key,
        partition: i32,
    ) -> bool;

    /// Adjusts a step if the member has a partition under one key and should have it under another
    /// key: for example, if a standby task becomes active.
    fn change_roles(
        _assigned: &Owned<Self::Key>,
        _target: &Part<Self>,
        _split: &mut Split<Self>,
        _waits_for: impl Fn(&Owned<Self::Key>) -> bool,
    ) {
    }

    /// The epoch that a member gets after it has revoked its partitions at `epoch`.
    fn epoch_after_revocation(epoch: i32) -> i32;

    /// The last step of a heartbeat. `draft` already has the member's records; this step adds
    /// records of the group.
    fn settle(
        group: &mut Group<Self>,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        heartbeat: &Self::Heartbeat<'_>,
        settling: &Settling<'_, Self>,
    );

    /// The answer to a member that joins or stays.
    fn answer<'r>(
        group: &Group<Self>,
        turn: &Turn<'_, 'r>,
        heartbeat: &Self::Heartbeat<'r>,
        member: &MemberOf<Self>,
        outcome: Outcome,
    ) -> Self::Answer<'r>;

    // Records.

    /// The record of a group epoch.
    fn epoch_record(
        group_id: &str,
        epoch: i32,
        metadata_hash: i64,
        fields: &Self::EpochFields,
    ) -> GroupRecord<'static>;

    /// Called when the group's topics are compared. Adds tombstones of records that only earlier
    /// versions write.
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

    fn epoch_tombstone(group_id: &str) -> GroupRecord<'static>;

    fn member_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static>;

    fn target_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static>;

    fn target_epoch_tombstone(group_id: &str) -> GroupRecord<'static>;

    fn current_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static>;

    /// The records that only this kind has, as a compacted log would contain them.
    fn own_records(group: &Group<Self>, out: &mut Draft<'_>);

    /// The last tombstones of a group: of its epoch, and of the records that only this kind has.
    fn group_tombstones(group: &Group<Self>, out: &mut Draft<'_>);

    // Replay.

    /// Called when a member's profile becomes `after`. `before` is None if the member is new.
    fn profile_replaced(
        group: &mut Group<Self>,
        number: u32,
        before: Option<&MemberOf<Self>>,
        after: &Self::Profile,
    );

    /// Called when a member is removed.
    fn profile_removed(group: &mut Group<Self>, member_id: &str, profile: &Self::Profile);

    /// Called when a member gets this assignment.
    fn assigned(group: &mut Group<Self>, profile: &Self::Profile, current: &CurrentOf<Self>);

    /// Called when a member loses this assignment.
    fn unassigned(group: &mut Group<Self>, profile: &Self::Profile, current: &CurrentOf<Self>);

    /// Cancels the timers that only groups of this kind have, because the group is removed.
    fn cancel_timers(&mut self, timers: &mut Timers);
}

/// The fields that heartbeats of all kinds have.
pub(crate) trait HeartbeatFields {
    fn member_id(&self) -> &str;

    fn member_epoch(&self) -> i32;
}

/// The partitions that a member reports as its own, compared with an assignment. Members of some
/// kinds report no partitions: their report is empty, and is contained in each assignment.
pub(crate) trait Report<K> {
    fn is_empty(&self) -> bool;

    fn has_any_of(&self, assigned: &Owned<K>) -> bool;

    fn is_within(&self, assigned: &Owned<K>) -> bool;
}

/// A report with the structure of an assignment.
impl<K: Key> Report<K> for Owned<K> {
    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn has_any_of(&self, assigned: &Self) -> bool {
        self.by_key().iter().any(|of_key| {
            of_key.partitions.iter().any(|it| assigned.contains(&of_key.key, it.partition))
        })
    }

    fn is_within(&self, assigned: &Self) -> bool {
        self.len_without(assigned) == 0
    }
}
