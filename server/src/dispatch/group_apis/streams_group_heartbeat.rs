//! StreamsGroupHeartbeat.

use super::{CoordinatorAnswer, GroupApi, NamedGroups};
use muster_codec::messages::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use muster_codec::{ErrorCode, Response};

impl GroupApi for StreamsGroupHeartbeatRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        StreamsGroupHeartbeatResponse { error_code: error.code(), ..Default::default() }.into()
    }
}

impl CoordinatorAnswer for StreamsGroupHeartbeatResponse<'_> {
    fn merge(&mut self, refused: Self) {
        *self = refused;
    }

    fn fail(&mut self, error: ErrorCode) {
        *self = Self { error_code: error.code(), ..Default::default() };
    }
}
