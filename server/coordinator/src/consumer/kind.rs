//! The steps of [`crate::modern`] as a consumer group takes them.

use super::answer::answer;
use super::member::{Member, Profile};
use super::{Consumer, ConsumerGroup, records};
use crate::assignors::{Computation, SubscriptionType};
use crate::config::{Config, GroupConfig};
use crate::modern::epoch::{News, ProfileChange};
use crate::modern::heartbeat::Existing;
use crate::modern::kind::{HeartbeatFields, Kind, Report};
use crate::modern::member::{Client, Current};
use crate::modern::owned::{Owned, Partitions};
use crate::modern::reconcile::{Reconciliation, UnknownState};
use crate::modern::target::{MemberTarget, MemberUpdate};
use crate::modern::topic_targets::TopicTargets;
use crate::modern::{Draft, Refusal};
use crate::turn::Turn;
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions as Reported,
};
use muster_codec::records::GroupRecord;

impl Kind for Consumer {
    type Heartbeat<'r> = ConsumerGroupHeartbeatRequest<'r>;
    type Answer<'r> = ConsumerGroupHeartbeatResponse<'r>;
    type Profile = Profile;
    type Assigned = Owned;
    type Reported = [Reported];
    type Targets = TopicTargets;
    type Input = SubscriptionType;

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
        budget_bytes: usize,
        before: &Profile,
        after: &Profile,
    ) -> Result<(), Refusal> {
        group.refuse_if_large(budget_bytes, before, after)
    }

    fn revocation_timeout_ms(profile: &Profile) -> i32 {
        profile.rebalance_timeout_ms
    }

    fn has_revocation_timeout(profile: &Profile) -> bool {
        profile.classic.is_none()
    }

    fn has_news(group: &ConsumerGroup, turn: &Turn<'_, '_>) -> bool {
        group.is_resolution_due(turn)
    }

    fn news(
        group: &mut ConsumerGroup,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        change: ProfileChange<'_, Profile>,
    ) -> Result<News, Refusal> {
        group.news(turn, draft, change)
    }

    fn known_hash(group: &ConsumerGroup) -> i64 {
        group.own.present_hash.unwrap_or(group.metadata_hash)
    }

    fn hash_after(
        group: &ConsumerGroup,
        turn: &mut Turn<'_, '_>,
        change: ProfileChange<'_, Profile>,
    ) -> (i64, SubscriptionType) {
        group.hash_after(turn, change)
    }

    fn hash_without(
        group: &ConsumerGroup,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        members: &[&Member],
    ) -> i64 {
        group.hash_without(turn, draft, members)
    }

    fn input(group: &ConsumerGroup) -> SubscriptionType {
        group.subscription_type()
    }

    fn target_slot(group: &ConsumerGroup, number: Option<u32>, profile: &Profile) -> Option<u32> {
        let Some(instance_id) = profile.instance_id.as_deref() else { return number };
        let holder = group.own.static_members.get(instance_id);
        holder.and_then(|member_id| group.members.slot_number(member_id))
    }

    fn computation(
        group: &mut ConsumerGroup,
        turn: &Turn<'_, '_>,
        update: &MemberUpdate<'_, Self>,
        input: SubscriptionType,
    ) -> Computation {
        let assignor = group.preferred_assignor(turn, update);
        group.update_assignors(turn, update);
        let joining = update.is_new.then_some(update.number);
        Computation::new(assignor, input, joining, &mut group.target.by_member.assignment)
    }

    fn step(
        group: &ConsumerGroup,
        turn: &Turn<'_, '_>,
        member: &Member,
        target: &MemberTarget<Self>,
        subscription_changed: bool,
        reported: Option<&[Reported]>,
    ) -> Result<Option<Current<Owned>>, UnknownState> {
        let (profile, own) = (&member.profile, &group.own);
        let reconciliation = Reconciliation {
            target_epoch: target.epoch,
            target: &target.part,
            subscription_changed,
            is_subscriber: own.subscribed(profile).next().is_some(),
            is_subscribed: |topic_id| {
                turn.topics.name(topic_id).is_some_and(|name| own.is_subscriber_of(profile, name))
            },
            owners: &own.owners,
            reported,
        };
        reconciliation.step(&member.current)
    }

    fn answer<'r>(
        turn: &Turn<'_, 'r>,
        group_id: &str,
        heartbeat: &ConsumerGroupHeartbeatRequest<'r>,
        current: &Current<Owned>,
        is_changed: bool,
    ) -> ConsumerGroupHeartbeatResponse<'r> {
        answer(turn, group_id, heartbeat, current, is_changed)
    }

    fn epoch_record(group: &ConsumerGroup, epoch: i32, metadata_hash: i64) -> GroupRecord<'static> {
        records::group_epoch(&group.id, epoch, metadata_hash)
    }

    fn remove_old_records(group: &ConsumerGroup, draft: &mut Draft<'_>) {
        if group.own.has_partition_metadata {
            draft.push(records::partition_metadata_tombstone(&group.id));
        }
    }

    fn member_record(group_id: &str, member_id: &str, profile: &Profile) -> GroupRecord<'static> {
        records::member_metadata(group_id, member_id, profile)
    }

    fn target_record(group_id: &str, member_id: &str, target: Partitions) -> GroupRecord<'static> {
        records::target(group_id, member_id, target)
    }

    fn target_epoch_record(group_id: &str, epoch: i32, timestamp: i64) -> GroupRecord<'static> {
        records::target_metadata(group_id, epoch, timestamp)
    }

    fn current_record(
        group_id: &str,
        member_id: &str,
        current: &Current<Owned>,
    ) -> GroupRecord<'static> {
        records::current(group_id, member_id, current)
    }

    fn member_tombstones(group_id: &str, member_id: &str) -> [GroupRecord<'static>; 3] {
        [
            records::current_tombstone(group_id, member_id),
            records::target_tombstone(group_id, member_id),
            records::member_tombstone(group_id, member_id),
        ]
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

impl Report<Owned> for [Reported] {
    fn is_empty(&self) -> bool {
        <[Reported]>::is_empty(self)
    }

    fn has_any_of(&self, assigned: &Owned) -> bool {
        self.iter().any(|topic| {
            !assigned.of_topic(topic.topic_id).is_empty()
                && topic.partitions.iter().any(|it| assigned.contains(topic.topic_id, *it))
        })
    }

    fn is_within(&self, assigned: &Owned) -> bool {
        self.iter().all(|topic| {
            !assigned.of_topic(topic.topic_id).is_empty()
                && topic.partitions.iter().all(|it| assigned.contains(topic.topic_id, *it))
        })
    }
}
