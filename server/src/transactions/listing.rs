//! ListTransactions over the coordinators of a shard: lists some ids at a time, because a shard may
//! have a million.

use super::coordinators::Coordinators;
use super::topics::matcher;
use crate::list_over_all::{ListOverAll, Visit};
use crate::placement::TransactionsPartition;
use muster_codec::messages::{ListTransactionsRequest, ListTransactionsResponse};
use muster_codec::{Str, Wall};
use muster_storage::LogSlot;
use muster_transactions::Listing;

/// A list of transactional ids under way.
#[derive(Debug)]
pub(crate) struct ListingOfIds {
    pub(crate) list: ListOverAll<Listing, TransactionsPartition>,
    /// The filters that are not names of states; they are part of the last response.
    unknown_states: Vec<Str<'static>>,
}

impl ListingOfIds {
    pub(crate) fn new(request: &ListTransactionsRequest<'_>) -> Self {
        let list = ListOverAll::new(Listing::new(request, matcher));
        Self { list, unknown_states: Vec::new() }
    }

    /// The ids that were found since the last call, or the error of the whole list.
    pub(crate) fn take(&mut self) -> ListTransactionsResponse<'static> {
        let mut response = self.list.listing.take();
        self.unknown_states.append(&mut response.unknown_state_filters);
        if self.list.is_complete() {
            response.unknown_state_filters = std::mem::take(&mut self.unknown_states);
        }
        response
    }

    /// The number of bytes that the list holds.
    pub(crate) fn held(&self) -> usize {
        self.list.listing.held()
    }
}

impl Coordinators {
    /// Continues a list by about `count` ids and partitions.
    pub(crate) fn list(
        &self,
        of: &mut ListingOfIds,
        wall: Wall,
        count: usize,
        flushed: impl Fn(LogSlot) -> u64,
    ) {
        let visit = |coordinators: &mut &Self,
                     partition: TransactionsPartition,
                     listing: &mut Listing,
                     left| {
            let seen = coordinators.of(partition).map_or(0, |it| it.list(listing, wall, left));
            let written_at = coordinators.of(partition).map_or(0, |it| it.written_at());
            let written = (coordinators.slot_of(partition).log_slot(), written_at);
            Visit { seen, has_failed: listing.has_failed(), written }
        };
        let mut coordinators = self;
        of.list.advance(count, &mut coordinators, |it, last| it.following(last), visit, flushed);
    }
}
