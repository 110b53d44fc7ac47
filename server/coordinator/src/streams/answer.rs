//! The answer to a StreamsGroupHeartbeat.

use super::configured::Status;
use super::member::Member;
use super::task::{Role, TaskKey, of_role};
use super::{Beat, StreamsGroup};
use crate::modern::Refusal;
use crate::modern::heartbeat::Outcome;
use crate::modern::owned::Owned;
use crate::modern::target::Delay;
use crate::modern::validate::JOIN;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use muster_codec::messages::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, StreamsGroupStatus,
};
use muster_codec::{ErrorCode, Str};

/// From this version on, there is a status for missing client tags.
const TAGS_FROM: i16 = 1;

impl StreamsGroup {
    pub(super) fn answer<'r>(
        &self,
        turn: &Turn<'_, 'r>,
        beat: &Beat<'r>,
        member: &Member,
        outcome: Outcome,
    ) -> StreamsGroupHeartbeatResponse<'r> {
        let assigned = &member.current.assigned;
        // The member may report other tasks because the last answer, which changed them, was lost.
        let is_other =
            |it: &Owned<TaskKey>| assigned.len_without(it) > 0 || it.len_without(assigned) > 0;
        let sends_tasks = beat.request.member_epoch == JOIN
            || outcome.is_changed
            || beat.tasks.as_ref().is_some_and(is_other);
        let tasks = |role| sends_tasks.then(|| of_role(assigned, role));
        let configs = turn.group_configs;
        let epoch = self.own.endpoints.epoch;
        let is_new = epoch != beat.request.endpoint_information_epoch;
        // As in Kafka, the epoch of the endpoints is 0 for a group that has no record yet and
        // replaces no other group.
        let is_known = self.own.is_recorded || self.own.is_successor;
        let encoded = self.own.endpoints.encoded().filter(|_| is_new);
        StreamsGroupHeartbeatResponse {
            member_id: beat.request.member_id.clone(),
            member_epoch: member.current.epoch,
            heartbeat_interval_ms: turn.streams_config(&self.id).heartbeat_interval_ms,
            task_offset_interval_ms: configs.task_offset_interval_ms(&self.id, turn.config),
            acceptable_recovery_lag: configs.acceptable_recovery_lag(&self.id, turn.config),
            status: Some(self.statuses(turn, beat.api_version, member, outcome)),
            active_tasks: tasks(Role::Active),
            standby_tasks: tasks(Role::Standby),
            warmup_tasks: tasks(Role::Warmup),
            endpoint_information_epoch: if is_known { epoch } else { 0 },
            partitions_by_user_endpoint: encoded.cloned(),
            ..Default::default()
        }
    }

    fn statuses(
        &self,
        turn: &Turn<'_, '_>,
        api_version: i16,
        member: &Member,
        outcome: Outcome,
    ) -> Vec<StreamsGroupStatus<'static>> {
        let (of_member, of_group) =
            (member.profile.topology_epoch, self.own.topology.as_ref().map(|it| it.epoch()));
        let stale = of_group.filter(|of_group| of_member < *of_group).map(|of_group| {
            let detail = format!(
                "The member's topology epoch {of_member} is behind the group's topology epoch \
                 {of_group}."
            );
            status(Status::StaleTopology, detail)
        });
        let delayed = outcome.delay.map(|delay| {
            let why = match delay {
                Delay::Initial => "initial rebalance delay",
                Delay::Interval => "assignment interval",
            };
            let detail = format!("Assignment delayed due to the configured {why}.");
            status(Status::AssignmentDelayed, detail)
        });
        let unready = self.own.configured.as_ref().and_then(|it| it.outcome.as_ref().err());
        let unready = unready.map(|it| status(it.status, it.detail.clone()));
        let shutdown = self.own.shutdown.as_ref().map(|member_id| {
            let detail = format!(
                "Streams group member {member_id} encountered a fatal error and requested a \
                 shutdown for the entire application."
            );
            status(Status::ShutdownApplication, detail)
        });
        let untagged = (api_version >= TAGS_FROM).then(|| self.missing_tags(turn, member));
        let all = [stale, delayed, unready, shutdown, untagged.flatten()];
        all.into_iter().flatten().collect()
    }

    /// The status of a member that lacks client tags which the group requires.
    fn missing_tags(
        &self,
        turn: &Turn<'_, '_>,
        member: &Member,
    ) -> Option<StreamsGroupStatus<'static>> {
        let tags = turn.group_configs.rack_tags(&self.id, turn.config).iter();
        let has = |tag: &str| member.profile.tags.iter().any(|(key, _)| **key == *tag);
        let missing: Vec<&str> = tags.map(|tag| &**tag).filter(|tag| !has(tag)).collect();
        (!missing.is_empty()).then(|| {
            let detail = format!(
                "Missing required client tags for rack-aware standby assignment: [{}]. Configure \
                 them via 'client.tag.<tagKey>' in your Streams config.",
                missing.join(", ")
            );
            status(Status::MissingClientTags, detail)
        })
    }
}

fn status(status: Status, detail: String) -> StreamsGroupStatus<'static> {
    StreamsGroupStatus { status_code: status as i8, status_detail: Str::Owned(detail) }
}

/// The response to a refused heartbeat. Like Kafka, it has no message for UNKNOWN_SERVER_ERROR.
pub(crate) fn refused<'r>(refusal: Refusal) -> StreamsGroupHeartbeatResponse<'r> {
    let is_ours = refusal.error == ErrorCode::UnknownServerError;
    StreamsGroupHeartbeatResponse {
        error_code: refusal.error as i16,
        error_message: (!is_ours).then_some(Str::Borrowed(refusal.message)),
        ..Default::default()
    }
}

/// The answer to a member that left.
pub(crate) fn left<'r>(
    request: &StreamsGroupHeartbeatRequest<'r>,
) -> StreamsGroupHeartbeatResponse<'r> {
    StreamsGroupHeartbeatResponse {
        member_id: request.member_id.clone(),
        member_epoch: request.member_epoch,
        ..Default::default()
    }
}
