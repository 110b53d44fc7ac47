//! ListTransactions over the coordinators of a shard: some ids after the others, as a shard may
//! have a million.

use super::coordinators::Coordinators;
use super::topics::matcher;
use crate::net::VisibleAt;
use crate::placement::Slot;
use muster_codec::messages::{ListTransactionsRequest, ListTransactionsResponse};
use muster_codec::{Str, Wall};
use muster_transactions::Listing;

/// A list of transactional ids under way.
#[derive(Debug)]
pub(crate) struct ListingOfIds {
    listing: Listing,
    /// The filters that name no state: part of the last response.
    unknown_states: Vec<Str<'static>>,
    /// All slots that follow this one are left; None before the first.
    after: Option<Slot>,
    is_complete: bool,
    visible_at: VisibleAt,
}

impl ListingOfIds {
    pub(crate) fn new(request: &ListTransactionsRequest<'_>) -> Self {
        Self {
            listing: Listing::new(request, matcher),
            unknown_states: Vec::new(),
            after: None,
            is_complete: false,
            visible_at: VisibleAt::Now,
        }
    }

    /// The ids that were found since the last call, or the error of the whole list.
    pub(crate) fn take(&mut self) -> ListTransactionsResponse<'static> {
        let mut response = self.listing.take();
        self.unknown_states.append(&mut response.unknown_state_filters);
        if self.is_complete {
            response.unknown_state_filters = std::mem::take(&mut self.unknown_states);
        }
        response
    }

    /// The positions that the list waits for, so far.
    pub(crate) fn visible_at(&mut self) -> VisibleAt {
        std::mem::take(&mut self.visible_at)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Bytes that it holds.
    pub(crate) fn held(&self) -> usize {
        self.listing.held()
    }
}

impl Coordinators {
    /// Continues a list by about `count` ids. `flushed` is the position of a slot up to which its
    /// records are durable.
    pub(crate) fn list(
        &self,
        list: &mut ListingOfIds,
        wall: Wall,
        count: usize,
        flushed: impl Fn(Slot) -> u64,
    ) {
        let mut left = count;
        while left > 0 && !list.is_complete {
            let Some((slot, coordinator)) = self.following(list.after) else {
                list.is_complete = true;
                return;
            };
            let seen = coordinator.list(&mut list.listing, wall, left);
            let written_at = coordinator.written_at();
            if written_at > flushed(slot) {
                let at = VisibleAt::position(slot.transactions_partition(), written_at);
                list.visible_at.join(at);
            }
            if seen < left {
                list.after = Some(slot);
            }
            list.is_complete = list.listing.has_failed();
            left = left.saturating_sub(seen + 1);
        }
    }
}
