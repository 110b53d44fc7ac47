//! ListTransactions: all transactional ids of the shard, some in each slice.

use super::LongApi;
use crate::long_requests::answer::LongAnswer;
use crate::long_requests::rest::Rest;
use crate::long_requests::slice::Slice;
use crate::long_requests::weight::{SLICE_WEIGHT, Sizes};
use crate::transactions::ListingOfIds;
use muster_codec::messages::{
    ListTransactionsRequest, ListTransactionsResponse, ListedTransaction,
};

impl LongApi for ListTransactionsRequest<'_> {
    fn is_long(&self, _version: i16, sizes: &mut Sizes<'_>) -> bool {
        sizes.all_transactional_ids() > SLICE_WEIGHT
    }

    fn take_apart(self, _version: i16) -> Box<dyn Rest> {
        Box::new(Ids(ListingOfIds::new(&self)))
    }
}

/// The ids that are not listed yet.
#[derive(Debug)]
struct Ids(ListingOfIds);

impl Rest for Ids {
    fn answer_slice(&mut self, slice: &mut Slice<'_>) {
        slice.add_listed_ids(&mut self.0, SLICE_WEIGHT);
    }

    fn is_empty(&self) -> bool {
        self.0.list.is_complete()
    }

    fn items(&self) -> usize {
        0
    }

    fn held(&self) -> usize {
        self.0.held()
    }
}

impl<'r> LongAnswer<'r> for ListTransactionsResponse<'r> {
    type Element = ListedTransaction<'r>;

    fn list(&mut self) -> &mut Vec<ListedTransaction<'r>> {
        &mut self.transaction_states
    }

    /// Returns the transaction itself: the listing limits its own size to the budget of an answer.
    fn too_large(transaction: ListedTransaction<'r>) -> ListedTransaction<'r> {
        transaction
    }

    fn bytes_after_list(_version: i16) -> usize {
        0
    }
}
