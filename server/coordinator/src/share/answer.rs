//! The answer to a ShareGroupHeartbeat.

use super::member::Current;
use crate::modern::Refusal;
use crate::modern::describe::owned_in_answer;
use crate::modern::validate::{JOIN, LEAVE};
use crate::turn::Turn;
use muster_codec::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use muster_codec::{ErrorCode, Str};

pub(super) fn answer<'r>(
    turn: &Turn<'_, 'r>,
    group_id: &str,
    request: &ShareGroupHeartbeatRequest<'r>,
    current: &Current,
    is_changed: bool,
) -> ShareGroupHeartbeatResponse<'r> {
    let sends_assignment =
        request.member_epoch == JOIN || request.subscribed_topic_names.is_some() || is_changed;
    ShareGroupHeartbeatResponse {
        member_id: Some(request.member_id.clone()),
        member_epoch: current.epoch,
        heartbeat_interval_ms: turn.share_config(group_id).heartbeat_interval_ms,
        assignment: sends_assignment.then(|| owned_in_answer(&current.assigned)),
        ..Default::default()
    }
}

/// The response to a refused heartbeat. Like Kafka, it has no message for UNKNOWN_SERVER_ERROR.
pub(crate) fn refused<'r>(refusal: Refusal) -> ShareGroupHeartbeatResponse<'r> {
    let is_ours = refusal.error == ErrorCode::UnknownServerError;
    ShareGroupHeartbeatResponse {
        error_code: refusal.error as i16,
        error_message: (!is_ours).then_some(Str::Borrowed(refusal.message)),
        ..Default::default()
    }
}

/// The answer to a member that left.
pub(crate) fn left<'r>(
    request: &ShareGroupHeartbeatRequest<'r>,
) -> ShareGroupHeartbeatResponse<'r> {
    ShareGroupHeartbeatResponse {
        member_id: Some(request.member_id.clone()),
        member_epoch: LEAVE,
        ..Default::default()
    }
}
