//! AddOffsetsToTxn (key 25), versions 0-4, flexible from 3.
//!
//! Added by each version:
//! - v2: the error PRODUCER_FENCED.
//! - v4: the error TRANSACTION_ABORTABLE.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct AddOffsetsToTxnRequest<'a> {
        transactional_id: Str<'a>, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        group_id: Str<'a>, 0..;
    }

    pub struct AddOffsetsToTxnResponse {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
    }
}
