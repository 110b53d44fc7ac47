//! The answer to a ConsumerGroupHeartbeat.

use super::member::Current;
use crate::modern::Refusal;
use crate::modern::describe::owned_in_answer;
use crate::modern::validate::JOIN;
use crate::turn::Turn;
use muster_codec::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use muster_codec::{ErrorCode, Str};

pub(super) fn answer<'r>(
    turn: &Turn<'_, 'r>,
    group_id: &str,
    request: &ConsumerGroupHeartbeatRequest<'r>,
    current: &Current,
    is_changed: bool,
) -> ConsumerGroupHeartbeatResponse<'r> {
    let is_full = request.rebalance_timeout_ms != -1
        && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
        && request.topic_partitions.is_some();
    let sends_assignment = request.member_epoch == JOIN || is_full || is_changed;
    ConsumerGroupHeartbeatResponse {
        member_id: Some(request.member_id.clone()),
        member_epoch: current.epoch,
        heartbeat_interval_ms: turn.consumer_config(group_id).heartbeat_interval_ms,
        assignment: sends_assignment.then(|| owned_in_answer(&current.assigned)),
        ..Default::default()
    }
}

/// The response to a refused heartbeat. Like Kafka, it has no message for UNKNOWN_SERVER_ERROR.
pub(crate) fn refused<'r>(refusal: Refusal) -> ConsumerGroupHeartbeatResponse<'r> {
    let is_ours = refusal.error == ErrorCode::UnknownServerError;
    ConsumerGroupHeartbeatResponse {
        error_code: refusal.error as i16,
        error_message: (!is_ours).then_some(Str::Borrowed(refusal.message)),
        ..Default::default()
    }
}

/// The answer to a member that left.
pub(crate) fn left<'r>(
    request: &ConsumerGroupHeartbeatRequest<'r>,
) -> ConsumerGroupHeartbeatResponse<'r> {
    ConsumerGroupHeartbeatResponse {
        member_id: Some(request.member_id.clone()),
        member_epoch: request.member_epoch,
        ..Default::default()
    }
}
