//! LeaveGroup.

use super::{CoordinatorAnswer, GroupApi, NamedGroups, without_group};
use crate::dispatch::authorization::{By, Verdict};
use crate::security::acls::Operation::Read;
use muster_codec::messages::{LeaveGroupRequest, LeaveGroupResponse};
use muster_codec::{ErrorCode, Response};

impl GroupApi for LeaveGroupRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        LeaveGroupResponse { error_code: error.code(), ..Default::default() }.into()
    }

    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        Verdict::whole(by.group(Read, &self.group_id), |error| self.refused(by.version, error))
    }

    fn invalid(&self, _version: i16) -> Option<ErrorCode> {
        without_group(&self.group_id)
    }
}

impl CoordinatorAnswer for LeaveGroupResponse<'_> {
    fn merge(&mut self, refused: Self) {
        *self = refused;
    }

    fn fail(&mut self, error: ErrorCode) {
        self.error_code = error.code();
    }
}
