//! Requests that wait for other members.

use crate::output::RequestId;
use crate::text::owned;
use crate::turn::Turn;
use muster_codec::messages::{JoinGroupResponse, SyncGroupResponse};
use muster_codec::{ErrorCode, Str};

/// From this version on, a JoinGroup response may have a null protocol.
const NULLABLE_PROTOCOL_FROM: i16 = 7;

/// A request that is answered later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parked {
    pub(crate) request: RequestId,
    pub(crate) api_version: i16,
}

impl Parked {
    pub(crate) fn answer_join<'r>(
        self,
        turn: &mut Turn<'_, 'r>,
        mut response: JoinGroupResponse<'r>,
    ) {
        if response.protocol_name.is_none() && self.api_version < NULLABLE_PROTOCOL_FROM {
            response.protocol_name = Some(Str::Borrowed(""));
        }
        turn.answer(self.request, response);
    }

    /// Answers an error, and the member id with which the client should join again, if any.
    pub(crate) fn refuse_join(self, turn: &mut Turn<'_, '_>, error: ErrorCode, member_id: &str) {
        let response = JoinGroupResponse {
            error_code: error as i16,
            member_id: owned(member_id),
            protocol_name: None,
            ..Default::default()
        };
        self.answer_join(turn, response);
    }

    pub(crate) fn refuse_sync(self, turn: &mut Turn<'_, '_>, error: ErrorCode) {
        let response = SyncGroupResponse { error_code: error as i16, ..Default::default() };
        turn.answer(self.request, response);
    }
}
