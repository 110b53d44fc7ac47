//! SyncGroup.

use super::{CoordinatorAnswer, GroupApi, NamedGroups, without_group};
use crate::dispatch::authorization::{By, Verdict};
use crate::security::acls::Operation::Read;
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

    /// As in Kafka, an invalid request is refused before authorization.
    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        if lacks_protocol(self, by.version) {
            return Verdict::Passed;
        }
        Verdict::whole(by.group(Read, &self.group_id), |error| self.refused(by.version, error))
    }

    fn invalid(&self, version: i16) -> Option<ErrorCode> {
        let refused = lacks_protocol(self, version).then_some(ErrorCode::InconsistentGroupProtocol);
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

fn lacks_protocol(request: &SyncGroupRequest<'_>, version: i16) -> bool {
    let is_named = request.protocol_type.is_some() && request.protocol_name.is_some();
    version >= NAMES_PROTOCOL_FROM && !is_named
}
