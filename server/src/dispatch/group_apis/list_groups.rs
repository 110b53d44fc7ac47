//! ListGroups.

use super::{CoordinatorAnswer, GroupApi, NamedGroups};
use crate::dispatch::authorization::{By, Verdict};
use muster_codec::messages::{ListGroupsRequest, ListGroupsResponse};
use muster_codec::{ErrorCode, Response};

impl GroupApi for ListGroupsRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::OfShard
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        ListGroupsResponse { error_code: error.code(), ..Default::default() }.into()
    }

    /// The answer leaves out denied groups.
    fn authorize(&mut self, _by: &By<'_>) -> Verdict {
        Verdict::Restricted
    }
}

impl CoordinatorAnswer for ListGroupsResponse<'_> {
    fn merge(&mut self, refused: Self) {
        *self = refused;
    }

    /// ListGroups writes no records.
    fn fail(&mut self, _error: ErrorCode) {}
}
