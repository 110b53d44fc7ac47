//! JoinGroup.

use super::{CoordinatorAnswer, GroupApi, NamedGroups, without_group};
use crate::dispatch::authorization::{By, Verdict};
use crate::security::acls::Operation::Read;
use muster_codec::messages::{JoinGroupRequest, JoinGroupResponse};
use muster_codec::{ErrorCode, Response, Str};

/// The first version in which the protocol name may be null.
const NULL_PROTOCOL_FROM: i16 = 7;

impl GroupApi for JoinGroupRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::One(&self.group_id)
    }

    fn refused(&self, version: i16, error: ErrorCode) -> Response<'static> {
        JoinGroupResponse {
            error_code: error.code(),
            protocol_name: (version < NULL_PROTOCOL_FROM).then_some(Str::Borrowed("")),
            ..Default::default()
        }
        .into()
    }

    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        Verdict::whole(by.group(Read, &self.group_id), |error| self.refused(by.version, error))
    }

    fn invalid(&self, _version: i16) -> Option<ErrorCode> {
        without_group(&self.group_id)
    }
}

impl CoordinatorAnswer for JoinGroupResponse<'_> {
    fn merge(&mut self, refused: Self) {
        *self = refused;
    }

    fn fail(&mut self, error: ErrorCode) {
        self.error_code = error.code();
    }
}
