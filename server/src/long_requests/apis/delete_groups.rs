//! DeleteGroups. The answers are short, but each group's offsets are deleted with it.

use super::LongApi;
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::owned::{all, text};
use crate::long_requests::rest::{ItemList, Items, Rest};
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{Sizes, exceed_a_slice};
use muster_codec::messages::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use muster_codec::{Field, Str};

impl LongApi for DeleteGroupsRequest<'_> {
    /// Whether the request is sliced. A request for a share group is not: its answer waits for the
    /// leaders of the group's partitions, and other long requests would wait with it.
    fn is_long(&self, _version: i16, sizes: &mut Sizes<'_>) -> bool {
        exceed_a_slice(self.groups_names.iter().map(|group| Self::weight(group, sizes)))
            && !self.groups_names.iter().any(|group| sizes.is_share_group(group))
    }

    fn take_apart(self, _version: i16) -> Box<dyn Rest> {
        let request = DeleteGroupsRequest { groups_names: Vec::new() };
        Box::new(Items::new(request, all(self.groups_names, text)))
    }
}

impl<'r> ItemList for DeleteGroupsRequest<'r> {
    type Item = Str<'r>;

    fn weight(group: &Str<'r>, sizes: &mut Sizes<'_>) -> usize {
        sizes.offsets(group)
    }

    fn held(group: &Str<'r>) -> usize {
        group.held()
    }

    fn answer(&self, groups_names: Vec<Str<'r>>, slice: &mut Slice<'_>) {
        slice.add_from_groups(Self { groups_names }.into());
    }
}

impl<'r> LongAnswer<'r> for DeleteGroupsResponse<'r> {
    type Element = DeletableGroupResult<'r>;

    fn list(&mut self) -> &mut Vec<DeletableGroupResult<'r>> {
        &mut self.results
    }

    /// Returns the result itself: it is as small as an error, and the group is already deleted.
    fn too_large(result: DeletableGroupResult<'r>) -> DeletableGroupResult<'r> {
        result
    }

    fn bytes_after_list(_version: i16) -> usize {
        0
    }
}
