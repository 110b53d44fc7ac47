//! FindCoordinator with several keys (from version 4 on). A request for one key is never long.

use super::LongApi;
use crate::admin;
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::owned::{all, text};
use crate::long_requests::rest::{ItemList, Items, Rest};
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{Sizes, exceed_a_slice};
use muster_codec::messages::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use muster_codec::{Field, Str};

impl LongApi for FindCoordinatorRequest<'_> {
    fn is_long(&self, _version: i16, sizes: &mut Sizes<'_>) -> bool {
        exceed_a_slice(self.coordinator_keys.iter().map(|key| Self::weight(key, sizes)))
    }

    fn take_apart(self, _version: i16) -> Box<dyn Rest> {
        let key_type = self.key_type;
        let request = FindCoordinatorRequest { key_type, ..Default::default() };
        Box::new(Items::new(request, all(self.coordinator_keys, text)))
    }
}

impl<'r> ItemList for FindCoordinatorRequest<'r> {
    type Item = Str<'r>;

    fn weight(_key: &Str<'r>, _sizes: &mut Sizes<'_>) -> usize {
        1
    }

    fn held(key: &Str<'r>) -> usize {
        key.held()
    }

    fn answer(&self, coordinator_keys: Vec<Str<'r>>, slice: &mut Slice<'_>) {
        let key_type = self.key_type;
        let request = FindCoordinatorRequest { coordinator_keys, key_type, ..Default::default() };
        let view = slice.view();
        slice.add(admin::find_coordinator(&view, slice.version(), &request).into());
    }
}

impl<'r> LongAnswer<'r> for FindCoordinatorResponse<'r> {
    type Element = Coordinator<'r>;

    fn list(&mut self) -> &mut Vec<Coordinator<'r>> {
        &mut self.coordinators
    }

    /// Returns the coordinator itself, which is as small as an error.
    fn too_large(coordinator: Coordinator<'r>) -> Coordinator<'r> {
        coordinator
    }

    fn bytes_after_list(_version: i16) -> usize {
        0
    }
}
