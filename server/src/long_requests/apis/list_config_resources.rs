//! ListConfigResources: the resources by type and name, some in each slice.

use super::LongApi;
use crate::admin::ResourceList;
use crate::cluster::GROUP_RESOURCE;
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::rest::Rest;
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{SLICE_WEIGHT, Sizes};
use muster_codec::messages::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

impl LongApi for ListConfigResourcesRequest {
    fn is_long(&self, _version: i16, sizes: &mut Sizes<'_>) -> bool {
        let image = sizes.image;
        image.topic_count() + image.configured_count(GROUP_RESOURCE) > SLICE_WEIGHT
    }

    fn take_apart(self, version: i16) -> Box<dyn Rest> {
        Box::new(ResourceList::new(version, &self))
    }
}

impl Rest for ResourceList {
    fn answer_slice(&mut self, slice: &mut Slice<'_>) {
        let view = slice.view();
        let response = self.next(&view, SLICE_WEIGHT);
        slice.count(0, self.is_empty());
        if response.error_code == 0 {
            slice.add(response.into())
        } else {
            slice.fail(response.into())
        }
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn items(&self) -> usize {
        0
    }

    fn held(&self) -> usize {
        0
    }
}

impl<'r> LongAnswer<'r> for ListConfigResourcesResponse<'r> {
    type Element = ConfigResource<'r>;

    fn list(&mut self) -> &mut Vec<ConfigResource<'r>> {
        &mut self.config_resources
    }

    /// Returns the resource itself: the list limits its own size to the budget of an answer.
    fn too_large(resource: ConfigResource<'r>) -> ConfigResource<'r> {
        resource
    }

    fn bytes_after_list(_version: i16) -> usize {
        0
    }
}
