//! DescribeGroups.

use super::list::{GroupList, extract, once};
use super::{Front, GroupAnswer, GroupApi, Named, owned};
use muster_codec::messages::{DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup};
use muster_codec::{ErrorCode, Response};

impl GroupApi for DescribeGroupsRequest<'_> {
    fn named(&mut self, _version: i16) -> Named<'_> {
        Named::Each(self)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        let groups = self.groups.iter().map(|group| DescribedGroup {
            group_id: owned(group),
            error_code: error.code(),
            ..Default::default()
        });
        DescribeGroupsResponse { groups: groups.collect(), ..Default::default() }.into()
    }
}

impl GroupList for DescribeGroupsRequest<'_> {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn name_once(&mut self) {
        once(&mut self.groups);
    }

    fn refuse_foreign(&mut self, front: &Front<'_>) -> Option<Response<'static>> {
        let groups = extract(&mut self.groups, |group| front.is_foreign(group))?;
        let foreign = Self { groups, ..Default::default() };
        Some(foreign.refused(front.version, ErrorCode::NotCoordinator))
    }
}

impl GroupAnswer for DescribeGroupsResponse<'_> {
    fn merge(&mut self, refused: Self) {
        self.groups.extend(refused.groups);
    }

    /// A description writes nothing.
    fn fail(&mut self, _error: ErrorCode) {}
}
