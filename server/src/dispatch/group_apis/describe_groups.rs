//! DescribeGroups.

use super::list::{BySlot, GroupList, once, runs, take_denied_groups};
use super::{CoordinatorAnswer, GroupApi, NamedGroups, owned};
use crate::dispatch::authorization::{By, Verdict};
use crate::dispatch::extract::extract;
use crate::placement::Slot;
use crate::security::acls::Operation::Describe;
use muster_codec::messages::{DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup};
use muster_codec::{ErrorCode, Response};

impl GroupApi for DescribeGroupsRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::Each(self)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        let groups = self.groups.iter().map(|group| DescribedGroup {
            group_id: owned(group),
            error_code: error.code(),
            ..Default::default()
        });
        DescribeGroupsResponse { groups: groups.collect(), ..Default::default() }.into()
    }

    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        let of = |groups| Self { groups, ..Default::default() };
        take_denied_groups(&mut self.groups, Describe, by, of).restricted()
    }

    fn asks_for_operations(&self) -> bool {
        self.include_authorized_operations
    }
}

impl GroupList for DescribeGroupsRequest<'_> {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn name_once(&mut self) {
        once(&mut self.groups);
    }

    fn any(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.groups.iter().any(|group| is(group))
    }

    fn refuse(
        &mut self,
        which: &dyn Fn(&str) -> bool,
        version: i16,
        error: ErrorCode,
    ) -> Option<Response<'static>> {
        let groups = extract(&mut self.groups, |group| which(group))?;
        Some(Self { groups, ..Default::default() }.refused(version, error))
    }
}

impl BySlot for DescribeGroupsRequest<'_> {
    fn by_slot(self, slot_of: &dyn Fn(&str) -> Slot) -> Vec<(Slot, Self)> {
        let runs = runs(self.groups, |it| slot_of(it));
        runs.map(|(slot, groups)| (slot, Self { groups, ..self })).collect()
    }
}

impl CoordinatorAnswer for DescribeGroupsResponse<'_> {
    fn merge(&mut self, refused: Self) {
        self.groups.extend(refused.groups);
    }

    /// DescribeGroups writes no records.
    fn fail(&mut self, _error: ErrorCode) {}
}
