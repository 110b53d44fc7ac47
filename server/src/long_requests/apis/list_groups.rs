//! ListGroups: all groups of the shard, some in each slice.

use super::LongApi;
use crate::groups::ListingOfSlots;
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::rest::Rest;
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{SLICE_WEIGHT, Sizes};
use muster_codec::messages::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use muster_coordinator::Listing;

impl LongApi for ListGroupsRequest<'_> {
    fn is_long(&self, _version: i16, sizes: &mut Sizes<'_>) -> bool {
        sizes.all_groups() > SLICE_WEIGHT
    }

    fn take_apart(self, _version: i16) -> Box<dyn Rest> {
        Box::new(Groups(ListingOfSlots::new(Listing::new(&self))))
    }
}

/// The groups that are not listed yet.
#[derive(Debug)]
struct Groups(ListingOfSlots);

impl Rest for Groups {
    fn answer_slice(&mut self, slice: &mut Slice<'_>) {
        slice.add_listed(&mut self.0, SLICE_WEIGHT);
    }

    fn is_empty(&self) -> bool {
        self.0.is_complete()
    }

    fn items(&self) -> usize {
        0
    }

    fn held(&self) -> usize {
        0
    }
}

impl<'r> LongAnswer<'r> for ListGroupsResponse<'r> {
    type Element = ListedGroup<'r>;

    fn list(&mut self) -> &mut Vec<ListedGroup<'r>> {
        &mut self.groups
    }

    /// Returns the group itself: the listing limits its own size to the budget of an answer.
    fn too_large(group: ListedGroup<'r>) -> ListedGroup<'r> {
        group
    }

    fn bytes_after_list(_version: i16) -> usize {
        0
    }
}
