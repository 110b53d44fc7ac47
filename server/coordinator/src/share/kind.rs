//! The steps of [`crate::modern`] for a share group.

use super::answer::answer;
use super::member::{Current, Member, Profile, current_to_record};
use super::targets::{Computed, ShareTargets};
use super::{Share, ShareGroup, records, subscription_type};
use crate::allowance::Allowance;
use crate::assignors::SubscriptionType;
use crate::client::Client;
use crate::config::{Config, GroupConfig};
use crate::counters::Events;
use crate::modern::epoch::{ProfileChange, ProfileEffect};
use crate::modern::heartbeat::{Existing, Outcome, Settling};
use crate::modern::kind::{HeartbeatFields, Kind, Report};
use crate::modern::members::NoTimers;
use crate::modern::owned::{Owned, Partitions};
use crate::modern::records::{group_key, member_key, record_methods, target_value};
use crate::modern::subscriptions::Subscriptions;
use crate::modern::target::MemberUpdate;
use crate::modern::validate::{JOIN, unknown_member, validate_epoch};
use crate::modern::{Draft, Refusal};
use crate::timers::Timers;
use crate::turn::Turn;
use muster_codec::Uuid;
use muster_codec::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use muster_codec::records::{
    ConsumerGroupTargetAssignmentMetadataValue, GroupRecord, ShareGroupMetadataValue,
};

/// The report of members that report no partitions.
#[derive(Debug)]
pub(crate) struct NoReport;

impl Kind for Share {
    type Heartbeat<'r> = ShareGroupHeartbeatRequest<'r>;
    type Answer<'r> = ShareGroupHeartbeatResponse<'r>;
    type Profile = Profile;
    type Key = Uuid;
    type Reported = NoReport;
    type Targets = ShareTargets;
    type Input = SubscriptionType;
    type EpochFields = ();
    type MemberTimers = NoTimers;

    const REVOKES: bool = false;

    fn config(turn: &Turn<'_, '_>, group_id: &str) -> GroupConfig {
        turn.share_config(group_id)
    }

    fn members_max(config: &Config) -> i32 {
        config.group_share_max_size
    }

    fn reported<'h>(_: &'h ShareGroupHeartbeatRequest<'_>) -> Option<&'h NoReport> {
        Some(&NoReport)
    }

    fn existing(
        group: &ShareGroup,
        _: &mut Draft<'_>,
        heartbeat: &ShareGroupHeartbeatRequest<'_>,
    ) -> Result<Existing<Self>, Refusal> {
        if heartbeat.member_epoch == JOIN {
            return Ok(group.joining(&heartbeat.member_id));
        }
        let Some(before) = group.members.get(&heartbeat.member_id) else { return unknown_member() };
        validate_epoch(&before.current, heartbeat.member_epoch, Some(&NoReport))?;
        Ok(Existing { before: before.clone(), replaces: None })
    }

    fn is_unchanged(
        profile: &Profile,
        heartbeat: &ShareGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> bool {
        profile.is_unchanged_by(heartbeat, client)
    }

    fn updated(
        profile: &Profile,
        heartbeat: &ShareGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> Profile {
        profile.updated(heartbeat, client)
    }

    fn refuse_if_large(
        group: &ShareGroup,
        members: &mut Allowance,
        before: &Profile,
        after: &Profile,
    ) -> Result<(), Refusal> {
        group.refuse_if_large(members, before, after)
    }

    fn client(profile: &Profile) -> Client<'_> {
        Client { id: &profile.client_id, host: &profile.client_host }
    }

    fn revocation_timeout_ms(_: &Profile) -> i32 {
        i32::MAX
    }

    fn has_revocation_timeout(_: &Profile) -> bool {
        false
    }

    fn has_changed(
        group: &ShareGroup,
        turn: &Turn<'_, '_>,
        _: &ShareGroupHeartbeatRequest<'_>,
    ) -> bool {
        group.own.is_unchecked || group.is_initialization_due(turn)
    }

    fn effect(
        group: &mut ShareGroup,
        turn: &mut Turn<'_, '_>,
        _: &mut Draft<'_>,
        change: ProfileChange<'_, Profile>,
    ) -> Result<ProfileEffect<()>, Refusal> {
        let has_new_names = change.after.topics != change.before.topics;
        let bumps = has_new_names || group.has_unassigned_state();
        let is_outdated = group.is_outdated(turn.topics);
        group.own.is_unchecked = false;
        Ok(ProfileEffect { is_changed: bumps, bumps, is_outdated, fields: () })
    }

    fn known_hash(group: &ShareGroup) -> i64 {
        group.metadata_hash
    }

    fn subscriptions_after(
        group: &ShareGroup,
        change: ProfileChange<'_, Profile>,
    ) -> Subscriptions {
        let mut subscriptions = group.subscriptions.clone();
        subscriptions.remove_named(&change.before.topics);
        subscriptions.add_named(&change.after.topics);
        subscriptions
    }

    fn subscriptions_without(
        group: &ShareGroup,
        _: &mut Draft<'_>,
        members: &[&Member],
    ) -> Option<Subscriptions> {
        let mut subscriptions = group.subscriptions.clone();
        members.iter().for_each(|member| subscriptions.remove_named(&member.profile.topics));
        Some(subscriptions)
    }

    fn epoch_fields(_: &ShareGroup) {}

    fn input_after(
        group: &ShareGroup,
        change: ProfileChange<'_, Profile>,
        subscriptions: &Subscriptions,
    ) -> SubscriptionType {
        subscription_type(subscriptions, group.members.len() + usize::from(change.is_new))
    }

    fn rebalances(events: &mut Events) -> &mut u64 {
        &mut events.share_rebalances
    }

    fn input(group: &ShareGroup) -> SubscriptionType {
        subscription_type(&group.subscriptions, group.members.len())
    }

    fn is_ready(_: &ShareGroup) -> bool {
        true
    }

    fn is_gathering(_: &ShareGroup) -> bool {
        false
    }

    fn least_interval_ms(_: &ShareGroup) -> i32 {
        0
    }

    fn target_slot(_: &ShareGroup, number: Option<u32>, _: &Profile) -> Option<u32> {
        number
    }

    fn computation(
        group: &mut ShareGroup,
        turn: &Turn<'_, '_>,
        update: &MemberUpdate<'_, Self>,
        input: SubscriptionType,
    ) -> Computed {
        group.compute_target(turn, update, input)
    }

    fn add_to_target(group: &mut ShareGroup, number: u32) {
        group.own.is_unchecked = true;
        if let Some(slot) = group.members.slot(number) {
            group.target.by_member.join(number, &slot.id);
        }
    }

    fn is_subscribed(_: &ShareGroup, turn: &Turn<'_, '_>, profile: &Profile, key: &Uuid) -> bool {
        turn.topics.name(*key).is_some_and(|name| profile.names(name))
    }

    fn is_subscriber(_: &ShareGroup, profile: &Profile) -> bool {
        !profile.topics.is_empty()
    }

    fn is_free(_: &ShareGroup, _: &Member, _: &Uuid, _: i32) -> bool {
        true
    }

    fn epoch_after_revocation(epoch: i32) -> i32 {
        epoch
    }

    fn settle(
        group: &mut ShareGroup,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        _: &ShareGroupHeartbeatRequest<'_>,
        settling: &Settling<'_, Self>,
    ) {
        group.initialize(turn, draft, settling.epoch, settling.change);
    }

    fn answer<'r>(
        group: &ShareGroup,
        turn: &Turn<'_, 'r>,
        heartbeat: &ShareGroupHeartbeatRequest<'r>,
        member: &Member,
        outcome: Outcome,
    ) -> ShareGroupHeartbeatResponse<'r> {
        answer(turn, &group.id, heartbeat, &member.current, outcome.is_changed)
    }

    record_methods! {
        epoch ShareGroupMetadata(epoch_value),
        member ShareGroupMemberMetadata,
        target ShareGroupTargetAssignmentMember(target_value),
        target_epoch ShareGroupTargetAssignmentMetadata,
        current ShareGroupCurrentMemberAssignment(current_to_record)
    }

    fn remove_old_records(_: &ShareGroup, _: &mut Draft<'_>) {}

    fn own_records(group: &ShareGroup, out: &mut Draft<'_>) {
        if group.own.state.is_recorded {
            out.push(records::state(&group.id, &group.own.state));
        }
    }

    fn group_tombstones(group: &ShareGroup, out: &mut Draft<'_>) {
        out.push(records::state_tombstone(&group.id));
        out.push(Self::epoch_tombstone(&group.id));
    }

    fn profile_replaced(group: &mut ShareGroup, _: u32, before: Option<&Member>, after: &Profile) {
        if let Some(before) = before {
            group.uncount_profile(&before.profile);
        }
        group.count_profile(after);
    }

    fn profile_removed(group: &mut ShareGroup, _: &str, profile: &Profile) {
        group.uncount_profile(profile);
    }

    fn assigned(_: &mut ShareGroup, _: &Profile, _: &Current) {}

    fn unassigned(_: &mut ShareGroup, _: &Profile, _: &Current) {}

    fn cancel_timers(&mut self, _: &mut Timers) {}
}

impl HeartbeatFields for ShareGroupHeartbeatRequest<'_> {
    fn member_id(&self) -> &str {
        &self.member_id
    }

    fn member_epoch(&self) -> i32 {
        self.member_epoch
    }
}

impl Report<Uuid> for NoReport {
    fn is_empty(&self) -> bool {
        true
    }

    fn has_any_of(&self, _: &Owned) -> bool {
        false
    }

    fn is_within(&self, _: &Owned) -> bool {
        true
    }
}

fn epoch_value(epoch: i32, metadata_hash: i64, (): &()) -> ShareGroupMetadataValue {
    ShareGroupMetadataValue { epoch, metadata_hash }
}
