//! ListGroups goes through all groups, a slice at a time. One is under way; others wait, each with
//! its connection: an answer takes memory while it is gathered.

use super::Shard;
use crate::dispatch::Call;
use crate::net::ConnectionId;
use muster_codec::messages::ListGroupsRequest;
use muster_coordinator::{Listing, RequestId};
use std::collections::VecDeque;

/// Groups looked at before the time is: some 150 microseconds.
const GROUPS_AT_ONCE: usize = 512;

/// Those that wait, in the order in which they came; each connection has one at the most.
pub(crate) type Listings = VecDeque<(RequestId, Listing)>;

impl Shard {
    pub(crate) fn list_groups(&mut self, call: &Call<'_>, body: &ListGroupsRequest<'_>) {
        self.connections.hold(call.request);
        let is_first = self.listings.is_empty();
        self.listings.push_back((call.request, Listing::new(body)));
        if is_first {
            // Where there are few groups that is all.
            self.go_on_listing(&mut || true);
        }
    }

    /// A slice of the first listing.
    pub(super) fn go_on_listing(&mut self, is_over: &mut dyn FnMut() -> bool) {
        let Some((request, mut listing)) = self.listings.pop_front() else { return };
        loop {
            let listed = self.groups.coordinator.list(&mut listing, GROUPS_AT_ONCE);
            if let Some((response, visible_at)) = listed {
                self.connections.answer(request, &response.into(), visible_at);
                break;
            }
            if is_over() {
                self.listings.push_front((request, listing));
                break;
            }
        }
        if !self.listings.is_empty() {
            self.wait_for_listing();
        }
    }

    /// A client that is gone needs none.
    pub(super) fn forget_listing(&mut self, id: ConnectionId) {
        self.listings.retain(|(request, _)| request.connection != id.0);
    }
}
