//! ListTransactions (key 66), versions 0-2, flexible from 0.
//!
//! Added by each version:
//! - v1: request `duration_filter`.
//! - v2: request `transactional_id_pattern`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct ListTransactionsRequest<'a> {
        state_filters: Vec<Str<'a>>, 0..;
        producer_id_filters: Vec<i64>, 0..;
        duration_filter: i64 = -1, 1..;
        transactional_id_pattern: Option<Str<'a>>, 2..;
    }

    pub struct ListTransactionsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        unknown_state_filters: Vec<Str<'a>>, 0..;
        transaction_states: Vec<ListedTransaction<'a>>, 0..;
    }

    pub struct ListedTransaction<'a> {
        transactional_id: Str<'a>, 0..;
        producer_id: i64, 0..;
        transaction_state: Str<'a>, 0..;
    }
}
