//! SyncGroup.

use super::{CoordinatorAnswer, GroupApi, NamedGroups, without_group};
use muster_codec::messages::{SyncGroupRequest, SyncGroupResponse};
use muster_codec::{ErrorCode, Response};

/// The first version whose requests name the protocol (KIP-559).
const NAMES_PROTOCOL_FROM: i16 = 5;

impl GroupApi for SyncGroupRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        SyncGroupResponse { error_code: error.code(), ..Default::default() }.into()
    }

    fn invalid(&self, version: i16) -> Option<ErrorCode> {
        let is_named = self.protocol_type.is_some() && self.protocol_name.is_some();
        let is_invalid = version >= NAMES_PROTOCOL_FROM && !is_named;
        let refused = is_invalid.then_some(ErrorCode::InconsistentGroupProtocol);
        refused.or_else(|| without_group(&self.group_id))
    }
}

impl CoordinatorAnswer for SyncGroupResponse<'_> {
    fn merge(&mut self, refused: Self) {
        *self = refused;
    }

    fn fail(&mut self, error: ErrorCode) {
        *self = Self { error_code: error.code(), ..Default::default() };
    }
}
