//! ShareGroupHeartbeat.

use super::{CoordinatorAnswer, GroupApi, NamedGroups};
use muster_codec::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use muster_codec::{ErrorCode, Response};

impl GroupApi for ShareGroupHeartbeatRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        ShareGroupHeartbeatResponse { error_code: error.code(), ..Default::default() }.into()
    }
}

impl CoordinatorAnswer for ShareGroupHeartbeatResponse<'_> {
    fn merge(&mut self, refused: Self) {
        *self = refused;
    }

    fn fail(&mut self, error: ErrorCode) {
        *self = Self { error_code: error.code(), ..Default::default() };
    }
}
