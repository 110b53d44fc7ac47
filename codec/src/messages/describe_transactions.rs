//! DescribeTransactions (key 65), version 0, flexible from 0.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DescribeTransactionsRequest<'a> {
        transactional_ids: Vec<Str<'a>>, 0..;
    }

    pub struct DescribeTransactionsResponse<'a> {
        throttle_time_ms: i32, 0..;
        transaction_states: Vec<DescribedTransaction<'a>>, 0..;
    }

    pub struct DescribedTransaction<'a> {
        error_code: i16, 0..;
        transactional_id: Str<'a>, 0..;
        transaction_state: Str<'a>, 0..;
        transaction_timeout_ms: i32, 0..;
        /// -1 in the state Empty.
        transaction_start_time_ms: i64, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        topics: Vec<DescribedTransactionTopic<'a>>, 0..;
    }

    pub struct DescribedTransactionTopic<'a> {
        topic: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }
}
