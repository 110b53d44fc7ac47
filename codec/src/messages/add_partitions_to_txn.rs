//! AddPartitionsToTxn (key 24), versions 0-5, flexible from 3.
//!
//! Added by each version:
//! - v4: request `transactions` in place of the fields of one transaction; response `error_code`,
//!   `results_by_transaction`. Only brokers send v4 and v5.
//! - v5: the error TRANSACTION_ABORTABLE.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct AddPartitionsToTxnRequest<'a> {
        transactions: Vec<AddPartitionsToTxnTransaction<'a>>, 4..;
        v3_and_below_transactional_id: Str<'a>, 0..=3;
        v3_and_below_producer_id: i64, 0..=3;
        v3_and_below_producer_epoch: i16, 0..=3;
        v3_and_below_topics: Vec<AddPartitionsToTxnTopic<'a>>, 0..=3;
    }

    pub struct AddPartitionsToTxnTransaction<'a> {
        transactional_id: Str<'a>, 4..;
        producer_id: i64, 4..;
        producer_epoch: i16, 4..;
        verify_only: bool, 4..;
        topics: Vec<AddPartitionsToTxnTopic<'a>>, 4..;
    }

    pub struct AddPartitionsToTxnTopic<'a> {
        name: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct AddPartitionsToTxnResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 4..;
        results_by_transaction: Vec<AddPartitionsToTxnResult<'a>>, 4..;
        results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult<'a>>, 0..=3;
    }

    pub struct AddPartitionsToTxnResult<'a> {
        transactional_id: Str<'a>, 4..;
        topic_results: Vec<AddPartitionsToTxnTopicResult<'a>>, 4..;
    }

    pub struct AddPartitionsToTxnTopicResult<'a> {
        name: Str<'a>, 0..;
        results_by_partition: Vec<AddPartitionsToTxnPartitionResult>, 0..;
    }

    pub struct AddPartitionsToTxnPartitionResult {
        partition_index: i32, 0..;
        partition_error_code: i16, 0..;
    }
}
