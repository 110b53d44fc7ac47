//! The steps of [`crate::modern`] for a streams group.

use super::member::{Member, Profile, current_to_record, key_values};
use super::replay::subscriptions;
use super::roles;
use super::targets::{Computation, StreamsTargets};
use super::task::{TaskKey, reported, target_value};
use super::task_offsets::Report;
use super::topology::Topology;
use super::{Asked, Recorded, Reported, Streams, StreamsGroup};
use crate::allowance::Allowance;
use crate::client::Client;
use crate::config::{Config, GroupConfig};
use crate::counters::Events;
use crate::limits::GROUP_MEMBERS_MAX;
use crate::modern::epoch::{ProfileChange, ProfileEffect};
use crate::modern::heartbeat::{Existing, Outcome, Settling};
use crate::modern::kind::{HeartbeatFields, Kind};
use crate::modern::members::NoTimers;
use crate::modern::owned::{Owned, Partitions};
use crate::modern::reconcile::Split;
use crate::modern::records::{group_key, member_key, record_methods};
use crate::modern::static_members::{HasStatic, StaticMembers};
use crate::modern::subscriptions::Subscriptions;
use crate::modern::target::MemberUpdate;
use crate::modern::validate::JOIN;
use crate::modern::{Draft, Refusal, refuse};
use crate::timers::Timers;
use crate::turn::Turn;
use alloc::sync::Arc;
use muster_codec::ErrorCode;
use muster_codec::messages::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use muster_codec::records::{
    ConsumerGroupTargetAssignmentMetadataValue, GroupRecord, StreamsGroupMetadataValue,
};

use super::member::Current;

/// A heartbeat. `tasks` is None unless the member reports all of active, standby and warm-up tasks.
pub(crate) struct Beat<'r> {
    /// The version of the request. Answers of version 1 have more statuses.
    pub(crate) api_version: i16,
    pub(crate) request: StreamsGroupHeartbeatRequest<'r>,
    pub(crate) tasks: Option<Owned<TaskKey>>,
}

impl<'r> Beat<'r> {
    pub(crate) fn new(api_version: i16, request: StreamsGroupHeartbeatRequest<'r>) -> Self {
        let lists = (&request.active_tasks, &request.standby_tasks, &request.warmup_tasks);
        let tasks = match lists {
            (Some(active), Some(standby), Some(warmup)) => {
                Some(reported([active, standby, warmup]))
            }
            _ => None,
        };
        Self { api_version, request, tasks }
    }

    /// The fields of the heartbeat that are not in the member's profile.
    fn asked(&self) -> Asked {
        let topology = self.request.topology.as_ref();
        let lists =
            [&self.request.active_tasks, &self.request.standby_tasks, &self.request.warmup_tasks];
        let tasks = lists.into_iter().flatten().flatten().map(Reported::new);
        Asked {
            is_static: self.request.instance_id.is_some(),
            topology: topology.map(|it| Arc::new(Topology::read(it.epoch, &it.subtopologies))),
            tasks: tasks.collect(),
            report: Report::read(&self.request),
        }
    }
}

impl StreamsGroup {
    /// Answers a member that joins or stays. Adds its records to `draft`.
    ///
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
    /// UNRELEASED_INSTANCE_ID, INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY. UNKNOWN_SERVER_ERROR if
    /// the topology is too large, or the group has none. The errors of a profile that is too large.
    pub(crate) fn beat<'r>(
        &mut self,
        turn: &mut Turn<'_, 'r>,
        draft: &mut Draft<'r>,
        client: Client<'_>,
        beat: &Beat<'r>,
    ) -> Result<StreamsGroupHeartbeatResponse<'r>, Refusal> {
        self.own.asked = beat.asked();
        self.own.is_full = self.len() >= max_size(turn.config);
        let answer = self.heartbeat(turn, draft, client, beat);
        // A refused heartbeat must leave nothing in memory.
        self.own.asked = Asked::default();
        let mut answer = answer?;
        answer.topology_description_required = self.asks_for_description(turn.now, beat, &answer);
        Ok(answer)
    }
}

fn max_size(config: &Config) -> usize {
    let max = usize::try_from(config.group_streams_max_size).unwrap_or(0);
    max.min(GROUP_MEMBERS_MAX)
}

impl Kind for Streams {
    type Heartbeat<'r> = Beat<'r>;
    type Answer<'r> = StreamsGroupHeartbeatResponse<'r>;
    type Profile = Profile;
    type Key = TaskKey;
    type Reported = Owned<TaskKey>;
    type Targets = StreamsTargets;
    type Input = ();
    type EpochFields = Recorded;
    type MemberTimers = NoTimers;

    const REVOKES: bool = true;

    fn config(turn: &Turn<'_, '_>, group_id: &str) -> GroupConfig {
        turn.streams_config(group_id)
    }

    /// Returns no limit: [`Self::existing`] checks the group's size, and only for members that
    /// join.
    fn members_max(_: &Config) -> i32 {
        i32::MAX
    }

    fn reported<'h>(beat: &'h Beat<'_>) -> Option<&'h Owned<TaskKey>> {
        beat.tasks.as_ref()
    }

    fn is_known(group: &StreamsGroup, beat: &Beat<'_>) -> bool {
        group.has_sender(beat.member_id(), Self::instance_id(beat))
    }

    fn existing(
        group: &StreamsGroup,
        draft: &mut Draft<'_>,
        beat: &Beat<'_>,
    ) -> Result<Existing<Self>, Refusal> {
        if beat.member_epoch() == JOIN && group.own.is_full && !Self::is_known(group, beat) {
            return refuse(ErrorCode::GroupMaxSizeReached, "The group has its maximum of members.");
        }
        group.existing(draft, beat)
    }

    fn is_unchanged(profile: &Profile, beat: &Beat<'_>, client: Client<'_>) -> bool {
        (beat.request.instance_id.is_none()
            || beat.request.instance_id.as_deref() == profile.instance_id.as_deref())
            && profile.is_unchanged_by(&beat.request, client)
            && beat.tasks.is_none()
            && beat.request.task_offsets.is_none()
            && beat.request.task_end_offsets.is_none()
            && !beat.request.shutdown_application
    }

    fn updated(profile: &Profile, beat: &Beat<'_>, client: Client<'_>) -> Profile {
        profile.updated(&beat.request, client)
    }

    fn refuse_if_large(
        group: &StreamsGroup,
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

    fn has_revocation_timeout(_: &Profile) -> bool {
        true
    }

    fn has_changed(group: &StreamsGroup, turn: &Turn<'_, '_>, beat: &Beat<'_>) -> bool {
        group.own.configured.is_none()
            || beat.request.endpoint_information_epoch != group.own.endpoints.epoch
            || !group.has_configs(turn)
    }

    fn effect(
        group: &mut StreamsGroup,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        change: ProfileChange<'_, Profile>,
    ) -> Result<ProfileEffect<Recorded>, Refusal> {
        group.effect(turn, draft, change)
    }

    fn known_hash(group: &StreamsGroup) -> i64 {
        group.metadata_hash
    }

    fn subscriptions_after(group: &StreamsGroup, _: ProfileChange<'_, Profile>) -> Subscriptions {
        let configured = group.own.configured.as_ref().map(|it| &it.topology);
        subscriptions(configured.or(group.own.topology.as_ref()).map(|it| &**it))
    }

    fn subscriptions_without(
        _: &StreamsGroup,
        _: &mut Draft<'_>,
        _: &[&Member],
    ) -> Option<Subscriptions> {
        None
    }

    fn epoch_fields(group: &StreamsGroup) -> Recorded {
        group.own.recorded.clone()
    }

    fn input_after(_: &StreamsGroup, _: ProfileChange<'_, Profile>, _: &Subscriptions) {}

    fn rebalances(events: &mut Events) -> &mut u64 {
        &mut events.streams_rebalances
    }

    fn input(_: &StreamsGroup) {}

    fn is_ready(group: &StreamsGroup) -> bool {
        let topology = group.own.topology.as_ref();
        topology.is_some_and(|it| it.epoch() == group.own.recorded.validated)
    }

    fn is_gathering(group: &StreamsGroup) -> bool {
        group.own.gathering.is_set()
    }

    fn least_interval_ms(group: &StreamsGroup) -> i32 {
        group.least_interval_ms()
    }

    fn target_slot(group: &StreamsGroup, number: Option<u32>, profile: &Profile) -> Option<u32> {
        group.slot_of_target(number, profile.instance_id.as_deref())
    }

    fn computation(
        group: &mut StreamsGroup,
        turn: &Turn<'_, '_>,
        update: &MemberUpdate<'_, Self>,
        (): (),
    ) -> Computation {
        let standbys = turn.group_configs.standbys(&group.id, turn.config);
        let assignor = turn.group_configs.task_assignor(&group.id, turn.config);
        group.computation(Some(update), standbys, assignor)
    }

    fn add_to_target(group: &mut StreamsGroup, number: u32) {
        if let Some(slot) = group.members.slot(number) {
            group.target.by_member.join(number, &slot.id);
        }
    }

    fn is_subscribed(_: &StreamsGroup, _: &Turn<'_, '_>, _: &Profile, _: &TaskKey) -> bool {
        true
    }

    fn is_subscriber(_: &StreamsGroup, _: &Profile) -> bool {
        true
    }

    fn is_free(group: &StreamsGroup, member: &Member, key: &TaskKey, partition: i32) -> bool {
        let own = &member.current.assigned;
        group.own.holders.is_free(&member.profile.process_id, own, key, partition)
    }

    fn change_roles(
        assigned: &Owned<TaskKey>,
        target: &Partitions<TaskKey>,
        split: &mut Split<Self>,
        waits_for: impl Fn(&Owned<TaskKey>) -> bool,
    ) {
        roles::change_roles(assigned, target, split, waits_for);
    }

    fn epoch_after_revocation(epoch: i32) -> i32 {
        epoch.saturating_add(1)
    }

    fn settle(
        group: &mut StreamsGroup,
        turn: &mut Turn<'_, '_>,
        _: &mut Draft<'_>,
        beat: &Beat<'_>,
        Settling { number, change, member, outcome, replaces, .. }: &Settling<'_, Self>,
    ) {
        let request = &beat.request;
        if request.shutdown_application {
            group.shut_down(&request.member_id);
        }
        let has_endpoint = member.profile.endpoint.is_some();
        if change.before.endpoint != change.after.endpoint || (has_endpoint && outcome.is_changed) {
            group.endpoints_changed();
        }
        if request.endpoint_information_epoch != group.own.endpoints.epoch {
            group.encode_endpoints(turn, *number, member, *replaces);
        }
    }

    fn answer<'r>(
        group: &StreamsGroup,
        turn: &Turn<'_, 'r>,
        beat: &Beat<'r>,
        member: &Member,
        outcome: Outcome,
    ) -> StreamsGroupHeartbeatResponse<'r> {
        group.answer(turn, beat, member, outcome)
    }

    record_methods! {
        epoch StreamsGroupMetadata(epoch_value),
        member StreamsGroupMemberMetadata,
        target StreamsGroupTargetAssignmentMember(target_value),
        target_epoch StreamsGroupTargetAssignmentMetadata,
        current StreamsGroupCurrentMemberAssignment(current_to_record)
    }

    fn remove_old_records(_: &StreamsGroup, _: &mut Draft<'_>) {}

    fn own_records(group: &StreamsGroup, out: &mut Draft<'_>) {
        out.extend(group.own.topology.iter().map(|it| {
            let description = group.own.description.as_ref().map(|it| it.0.clone());
            let value = it.to_record(description);
            GroupRecord::StreamsGroupTopology(group_key(&group.id), Some(value))
        }));
    }

    fn group_tombstones(group: &StreamsGroup, out: &mut Draft<'_>) {
        out.push(Self::epoch_tombstone(&group.id));
        out.push(GroupRecord::StreamsGroupTopology(group_key(&group.id), None));
    }

    fn profile_replaced(
        group: &mut StreamsGroup,
        number: u32,
        before: Option<&Member>,
        after: &Profile,
    ) {
        group.profile_replaced(number, before, after);
    }

    fn profile_removed(group: &mut StreamsGroup, member_id: &str, profile: &Profile) {
        group.profile_removed(member_id, profile);
    }

    fn assigned(group: &mut StreamsGroup, profile: &Profile, current: &Current) {
        for tasks in [&current.assigned, &current.revoking] {
            group.own.holders.add(&profile.process_id, tasks);
        }
    }

    fn unassigned(group: &mut StreamsGroup, profile: &Profile, current: &Current) {
        for tasks in [&current.assigned, &current.revoking] {
            group.own.holders.remove(&profile.process_id, tasks);
        }
    }

    fn cancel_timers(&mut self, timers: &mut Timers) {
        timers.cancel(&mut self.gathering);
    }
}

impl HasStatic for Streams {
    fn static_members(&self) -> &StaticMembers {
        &self.static_members
    }

    fn instance_id<'h>(beat: &'h Beat<'_>) -> Option<&'h str> {
        beat.request.instance_id.as_deref()
    }

    fn is_always_released(_: &Profile) -> bool {
        false
    }
}

impl HeartbeatFields for Beat<'_> {
    fn member_id(&self) -> &str {
        &self.request.member_id
    }

    fn member_epoch(&self) -> i32 {
        self.request.member_epoch
    }
}

fn epoch_value(
    epoch: i32,
    metadata_hash: i64,
    fields: &Recorded,
) -> StreamsGroupMetadataValue<'static> {
    StreamsGroupMetadataValue {
        epoch,
        metadata_hash,
        validated_topology_epoch: fields.validated,
        last_assignment_configs: Some(key_values(&fields.configs)),
        stored_description_topology_epoch: fields.description.stored,
        failed_description_topology_epoch: fields.description.failed,
    }
}
