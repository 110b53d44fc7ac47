//! DescribeGroups: each item is one group.

use super::{LongApi, TOO_LARGE};
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::owned::{all, text};
use crate::long_requests::rest::{ItemList, Items, Rest};
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{Sizes, exceed_a_slice};
use muster_codec::messages::{DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup};
use muster_codec::{Field, Str};

impl LongApi for DescribeGroupsRequest<'_> {
    fn is_long(&self, _version: i16, sizes: &mut Sizes<'_>) -> bool {
        exceed_a_slice(self.groups.iter().map(|group| Self::weight(group, sizes)))
    }

    fn take_apart(self, _version: i16) -> Box<dyn Rest> {
        let groups = all(self.groups, text);
        Box::new(Items::new(DescribeGroupsRequest { groups: Vec::new(), ..self }, groups))
    }
}

impl<'r> ItemList for DescribeGroupsRequest<'r> {
    type Item = Str<'r>;

    fn weight(group: &Str<'r>, sizes: &mut Sizes<'_>) -> usize {
        sizes.group(group)
    }

    fn held(group: &Str<'r>) -> usize {
        group.held()
    }

    fn answer(&self, groups: Vec<Str<'r>>, slice: &mut Slice<'_>) {
        slice.add_from_groups(Self { groups, ..*self }.into());
    }
}

impl<'r> LongAnswer<'r> for DescribeGroupsResponse<'r> {
    type Element = DescribedGroup<'r>;

    fn list(&mut self) -> &mut Vec<DescribedGroup<'r>> {
        &mut self.groups
    }

    fn too_large(group: DescribedGroup<'r>) -> DescribedGroup<'r> {
        let group_id = group.group_id;
        DescribedGroup { error_code: TOO_LARGE, group_id, ..Default::default() }
    }

    fn bytes_after_list(_version: i16) -> usize {
        0
    }
}
