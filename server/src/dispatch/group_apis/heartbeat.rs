//! Heartbeat.

use super::{GroupAnswer, GroupApi, Named};
use muster_codec::messages::{HeartbeatRequest, HeartbeatResponse};
use muster_codec::{ErrorCode, Response};

impl GroupApi for HeartbeatRequest<'_> {
    fn named(&mut self, _version: i16) -> Named<'_> {
        Named::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        HeartbeatResponse { error_code: error.code(), ..Default::default() }.into()
    }
}

impl GroupAnswer for HeartbeatResponse {
    fn merge(&mut self, refused: Self) {
        *self = refused;
    }

    /// A heartbeat writes nothing.
    fn fail(&mut self, _error: ErrorCode) {}
}
