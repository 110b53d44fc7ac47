//! InitProducerId (key 22), versions 0-5, flexible from 2.
//!
//! Added by each version:
//! - v3: request `producer_id`, `producer_epoch`.
//! - v6, which is not served: request `enable2_pc`, `keep_prepared_txn`; response
//!   `ongoing_txn_producer_id`, `ongoing_txn_producer_epoch`.

use crate::declare::message;
use crate::error_code::ErrorCode;
use crate::types::Str;

/// `RecordBatch.NO_PRODUCER_EPOCH`.
const NO_EPOCH: i16 = -1;

message! {
    pub struct InitProducerIdRequest<'a> {
        transactional_id: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        transaction_timeout_ms: i32, 0..;
        producer_id: i64 = -1, 3..;
        producer_epoch: i16 = -1, 3..;
        enable2_pc: bool, 6..;
        keep_prepared_txn: bool, 6..;
    }

    pub struct InitProducerIdResponse {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        producer_id: i64 = -1, 0..;
        producer_epoch: i16, 0..;
        ongoing_txn_producer_id: i64 = -1, 6..;
        ongoing_txn_producer_epoch: i16 = -1, 6..;
    }
}
impl InitProducerIdResponse {
    /// The answer to a refused request, as `KafkaApis.handleInitProducerIdRequest` makes it.
    pub fn refused(error: ErrorCode) -> Self {
        Self { error_code: error.code(), producer_epoch: NO_EPOCH, ..Default::default() }
    }
}
