//! DeleteGroups.

use super::list::{BySlot, GroupList, once, runs, take_denied_groups};
use super::{CoordinatorAnswer, GroupApi, NamedGroups, owned};
use crate::dispatch::authorization::{By, Verdict};
use crate::dispatch::extract::extract;
use crate::placement::Slot;
use crate::security::acls::Operation::Delete;
use muster_codec::messages::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use muster_codec::{ErrorCode, Response};

impl GroupApi for DeleteGroupsRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::Each(self)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        let results = self.groups_names.iter().map(|group| DeletableGroupResult {
            group_id: owned(group),
            error_code: error.code(),
            error_message: None,
        });
        DeleteGroupsResponse { results: results.collect(), ..Default::default() }.into()
    }

    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        let of = |groups_names| Self { groups_names };
        take_denied_groups(&mut self.groups_names, Delete, by, of)
    }
}

impl GroupList for DeleteGroupsRequest<'_> {
    fn is_empty(&self) -> bool {
        self.groups_names.is_empty()
    }

    fn name_once(&mut self) {
        once(&mut self.groups_names);
    }

    fn any(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.groups_names.iter().any(|group| is(group))
    }

    fn refuse(
        &mut self,
        which: &dyn Fn(&str) -> bool,
        version: i16,
        error: ErrorCode,
    ) -> Option<Response<'static>> {
        let groups_names = extract(&mut self.groups_names, |group| which(group))?;
        Some(Self { groups_names }.refused(version, error))
    }
}

impl BySlot for DeleteGroupsRequest<'_> {
    fn by_slot(self, slot_of: &dyn Fn(&str) -> Slot) -> Vec<(Slot, Self)> {
        let runs = runs(self.groups_names, |it| slot_of(it));
        runs.map(|(slot, groups_names)| (slot, Self { groups_names })).collect()
    }
}

impl CoordinatorAnswer for DeleteGroupsResponse<'_> {
    fn merge(&mut self, refused: Self) {
        self.results.extend(refused.results);
    }

    fn fail(&mut self, error: ErrorCode) {
        self.results.iter_mut().for_each(|result| result.error_code = error.code());
    }
}

/// A copy of the response that does not borrow from the request.
pub(super) fn detached(response: DeleteGroupsResponse<'_>) -> DeleteGroupsResponse<'static> {
    let results = response.results.iter().map(|result| DeletableGroupResult {
        group_id: owned(&result.group_id),
        error_code: result.error_code,
        error_message: None,
    });
    DeleteGroupsResponse { results: results.collect(), ..Default::default() }
}
