//! The steps of [`crate::modern`] for a consumer group.

use super::answer::answer;
use super::classic_member::ClassicTimers;
use super::member::{Current, Member, Profile, current_to_record};
use super::{Consumer, ConsumerGroup, records};
use crate::allowance::Allowance;
use crate::assignors::{Computation, SubscriptionType};
use crate::client::Client;
use crate::config::{Config, GroupConfig};
use crate::counters::Events;
use crate::modern::epoch::{ProfileChange, ProfileEffect};
use crate::modern::heartbeat::{Existing, Outcome, Settling};
use crate::modern::kind::{HeartbeatFields, Kind, Report};
use crate::modern::owned::{Owned, Partitions};
use crate::modern::records::{group_key, member_key, record_methods, target_value};
use crate::modern::static_members::{HasStatic, StaticMembers};
use crate::modern::subscriptions::Subscriptions;
use crate::modern::target::MemberUpdate;
use crate::modern::topic_targets::TopicTargets;
use crate::modern::{Draft, Refusal};
use crate::timers::Timers;
use crate::turn::Turn;
use muster_codec::Uuid;
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions as Reported,
};
use muster_codec::records::{
    ConsumerGroupMetadataValue, ConsumerGroupTargetAssignmentMetadataValue, GroupRecord,
};

impl Kind for Consumer {
    type Heartbeat<'r> = ConsumerGroupHeartbeatRequest<'r>;
    type Answer<'r> = ConsumerGroupHeartbeatResponse<'r>;
    type Profile = Profile;
    type Key = Uuid;
    type Reported = [Reported];
    type Targets = TopicTargets;
    type Input = SubscriptionType;
    type EpochFields = ();
    type MemberTimers = ClassicTimers;

    const REVOKES: bool = true;

    fn config(turn: &Turn<'_, '_>, group_id: &str) -> GroupConfig {
        turn.consumer_config(group_id)
    }

    fn members_max(config: &Config) -> i32 {
        config.group_consumer_max_size
    }

    fn reported<'h>(heartbeat: &'h ConsumerGroupHeartbeatRequest<'_>) -> Option<&'h [Reported]> {
        heartbeat.topic_partitions.as_deref()
    }

    fn existing(
        group: &ConsumerGroup,
        draft: &mut Draft<'_>,
        heartbeat: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<Existing<Self>, Refusal> {
        group.existing(draft, heartbeat)
    }

    fn is_known(group: &ConsumerGroup, heartbeat: &ConsumerGroupHeartbeatRequest<'_>) -> bool {
        group.has_sender(&heartbeat.member_id, heartbeat.instance_id.as_deref())
    }

    fn is_unchanged(
        profile: &Profile,
        heartbeat: &ConsumerGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> bool {
        heartbeat.instance_id.as_deref() == profile.instance_id.as_deref()
            && profile.is_unchanged_by(heartbeat, client)
    }

    fn updated(
        profile: &Profile,
        heartbeat: &ConsumerGroupHeartbeatRequest<'_>,
        client: Client<'_>,
    ) -> Profile {
        profile.updated(heartbeat, client)
    }

    fn refuse_if_large(
        group: &ConsumerGroup,
        members: &mut Allowance,
        before: &Profile,
        after: &Profile,
    ) -> Result<(), Refusal> {
        group.refuse_if_large(members, before, after)
    }

    fn client(profile: &Profile) -> Client<'_> {
        Client { id: &profile.client_id, host: &profile.client_host }
    }

    fn revocation_timeout_ms(profile: &Profile) -> i32 {
        profile.rebalance_timeout_ms
    }

    fn has_revocation_timeout(profile: &Profile) -> bool {
        profile.classic.is_none()
    }

    fn has_changed(
        group: &ConsumerGroup,
        turn: &Turn<'_, '_>,
        _: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> bool {
        group.is_resolution_due(turn)
    }

    fn effect(
        group: &mut ConsumerGroup,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        change: ProfileChange<'_, Profile>,
    ) -> Result<ProfileEffect<()>, Refusal> {
        group.effect(turn, draft, change)
    }

    fn known_hash(group: &ConsumerGroup) -> i64 {
        group.own.present_hash.unwrap_or(group.metadata_hash)
    }

    fn subscriptions_after(
        group: &ConsumerGroup,
        ProfileChange { before, after, .. }: ProfileChange<'_, Profile>,
    ) -> Subscriptions {
        group.subscriptions_after(before, Some(after))
    }

    fn subscriptions_without(
        group: &ConsumerGroup,
        draft: &mut Draft<'_>,
        members: &[&Member],
    ) -> Option<Subscriptions> {
        Some(group.subscriptions_without(draft, members))
    }

    fn epoch_fields(_: &ConsumerGroup) {}

    fn input_after(
        group: &ConsumerGroup,
        change: ProfileChange<'_, Profile>,
        subscriptions: &Subscriptions,
    ) -> SubscriptionType {
        group.subscription_type_after(change, subscriptions)
    }

    fn rebalances(events: &mut Events) -> &mut u64 {
        &mut events.consumer_rebalances
    }

    fn input(group: &ConsumerGroup) -> SubscriptionType {
        group.subscription_type()
    }

    fn is_ready(_: &ConsumerGroup) -> bool {
        true
    }

    fn is_gathering(_: &ConsumerGroup) -> bool {
        false
    }

    fn least_interval_ms(_: &ConsumerGroup) -> i32 {
        0
    }

    fn target_slot(group: &ConsumerGroup, number: Option<u32>, profile: &Profile) -> Option<u32> {
        group.slot_of_target(number, profile.instance_id.as_deref())
    }

    fn computation(
        group: &mut ConsumerGroup,
        turn: &Turn<'_, '_>,
        update: &MemberUpdate<'_, Self>,
        input: SubscriptionType,
    ) -> Computation {
        let change = ProfileChange {
            before: &update.before.profile,
            after: &update.after.profile,
            is_new: update.is_new,
        };
        let assignor = group.preferred_assignor(&turn.config.group_consumer_assignors, change);
        group.update_assignors(turn, update);
        let joining = update.is_new.then_some(update.number);
        Computation::new(assignor, input, joining, &mut group.target.by_member.assignment)
    }

    fn add_to_target(group: &mut ConsumerGroup, number: u32) {
        group.add_to_target(number);
    }

    fn is_subscribed(
        group: &ConsumerGroup,
        turn: &Turn<'_, '_>,
        profile: &Profile,
        key: &Uuid,
    ) -> bool {
        let name = turn.topics.name(*key);
        name.is_some_and(|name| group.own.is_subscriber_of(profile, name))
    }

    fn is_subscriber(group: &ConsumerGroup, profile: &Profile) -> bool {
        group.own.subscribed(profile).next().is_some()
    }

    /// A partition that the member itself still revokes counts as free.
    fn is_free(group: &ConsumerGroup, member: &Member, key: &Uuid, partition: i32) -> bool {
        !group.own.owners.is_owned(*key, partition)
            || member.current.revoking.contains(key, partition)
    }

    fn epoch_after_revocation(epoch: i32) -> i32 {
        epoch
    }

    fn settle(
        _: &mut ConsumerGroup,
        _: &mut Turn<'_, '_>,
        _: &mut Draft<'_>,
        _: &ConsumerGroupHeartbeatRequest<'_>,
        _: &Settling<'_, Self>,
    ) {
    }

    fn answer<'r>(
        group: &ConsumerGroup,
        turn: &Turn<'_, 'r>,
        heartbeat: &ConsumerGroupHeartbeatRequest<'r>,
        member: &Member,
        outcome: Outcome,
    ) -> ConsumerGroupHeartbeatResponse<'r> {
        answer(turn, &group.id, heartbeat, &member.current, outcome.is_changed)
    }

    record_methods! {
        epoch ConsumerGroupMetadata(epoch_value),
        member ConsumerGroupMemberMetadata,
        target ConsumerGroupTargetAssignmentMember(target_value),
        target_epoch ConsumerGroupTargetAssignmentMetadata,
        current ConsumerGroupCurrentMemberAssignment(current_to_record)
    }

    fn remove_old_records(group: &ConsumerGroup, draft: &mut Draft<'_>) {
        if group.own.has_partition_metadata {
            draft.push(records::partition_metadata_tombstone(&group.id));
        }
    }

    fn own_records(group: &ConsumerGroup, out: &mut Draft<'_>) {
        if group.own.has_partition_metadata {
            out.push(records::partition_metadata(&group.id));
        }
        let resolved = group.own.regexes.all_resolved();
        out.extend(resolved.map(|(regex, it)| records::resolved(&group.id, regex, it)));
    }

    fn group_tombstones(group: &ConsumerGroup, out: &mut Draft<'_>) {
        let resolved = group.own.regexes.all_resolved();
        out.extend(resolved.map(|(regex, _)| records::regex_tombstone(&group.id, regex)));
        out.push(records::partition_metadata_tombstone(&group.id));
        out.push(Self::epoch_tombstone(&group.id));
    }

    fn profile_replaced(
        group: &mut ConsumerGroup,
        number: u32,
        before: Option<&Member>,
        after: &Profile,
    ) {
        group.profile_replaced(number, before, after);
    }

    fn profile_removed(group: &mut ConsumerGroup, member_id: &str, profile: &Profile) {
        group.uncount_profile(member_id, profile);
    }

    fn assigned(group: &mut ConsumerGroup, _: &Profile, current: &Current) {
        group.own.owners.add(&current.assigned, current.epoch);
        group.own.owners.add(&current.revoking, current.epoch);
        group.own.subscription_type = None;
    }

    fn unassigned(group: &mut ConsumerGroup, _: &Profile, current: &Current) {
        group.own.owners.remove(&current.assigned, current.epoch);
        group.own.owners.remove(&current.revoking, current.epoch);
    }

    fn cancel_timers(&mut self, timers: &mut Timers) {
        timers.cancel(&mut self.regexes.timer);
    }
}

impl HasStatic for Consumer {
    fn static_members(&self) -> &StaticMembers {
        &self.static_members
    }

    fn instance_id<'h>(heartbeat: &'h ConsumerGroupHeartbeatRequest<'_>) -> Option<&'h str> {
        heartbeat.instance_id.as_deref()
    }

    fn is_always_released(profile: &Profile) -> bool {
        profile.classic.is_some()
    }
}

impl HeartbeatFields for ConsumerGroupHeartbeatRequest<'_> {
    fn member_id(&self) -> &str {
        &self.member_id
    }

    fn member_epoch(&self) -> i32 {
        self.member_epoch
    }
}

impl Report<Uuid> for [Reported] {
    fn is_empty(&self) -> bool {
        <[Reported]>::is_empty(self)
    }

    fn has_any_of(&self, assigned: &Owned) -> bool {
        self.iter().any(|topic| {
            !assigned.of_key(&topic.topic_id).is_empty()
                && topic.partitions.iter().any(|it| assigned.contains(&topic.topic_id, *it))
        })
    }

    fn is_within(&self, assigned: &Owned) -> bool {
        self.iter().all(|topic| {
            !assigned.of_key(&topic.topic_id).is_empty()
                && topic.partitions.iter().all(|it| assigned.contains(&topic.topic_id, *it))
        })
    }
}

fn epoch_value(epoch: i32, metadata_hash: i64, (): &()) -> ConsumerGroupMetadataValue {
    ConsumerGroupMetadataValue { epoch, metadata_hash }
}
