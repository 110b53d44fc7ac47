//! Heartbeat.

use super::{CoordinatorAnswer, GroupApi, NamedGroups, without_group};
use crate::dispatch::authorization::{By, Verdict};
use crate::security::acls::Operation::Read;
use muster_codec::messages::{HeartbeatRequest, HeartbeatResponse};
use muster_codec::{ErrorCode, Response};

impl GroupApi for HeartbeatRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        HeartbeatResponse { error_code: error.code(), ..Default::default() }.into()
    }

    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        Verdict::whole(by.group(Read, &self.group_id), |error| self.refused(by.version, error))
    }

    fn invalid(&self, _version: i16) -> Option<ErrorCode> {
        without_group(&self.group_id)
    }
}

impl CoordinatorAnswer for HeartbeatResponse {
    fn merge(&mut self, refused: Self) {
        *self = refused;
    }

    /// A heartbeat writes no records.
    fn fail(&mut self, _error: ErrorCode) {}
}
