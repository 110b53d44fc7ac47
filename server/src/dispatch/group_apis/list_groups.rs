//! ListGroups.

use super::{CoordinatorAnswer, GroupApi, NamedGroups};
use muster_codec::messages::{ListGroupsRequest, ListGroupsResponse};
use muster_codec::{ErrorCode, Response};

impl GroupApi for ListGroupsRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::OfShard
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        ListGroupsResponse { error_code: error.code(), ..Default::default() }.into()
    }
}

impl CoordinatorAnswer for ListGroupsResponse<'_> {
    fn merge(&mut self, refused: Self) {
        *self = refused;
    }

    /// ListGroups writes no records.
    fn fail(&mut self, _error: ErrorCode) {}
}
