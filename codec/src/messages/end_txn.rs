//! EndTxn (key 26), versions 0-5, flexible from 3.
//!
//! Added by each version:
//! - v2: the error PRODUCER_FENCED.
//! - v4: the error TRANSACTION_ABORTABLE.
//! - v5: response `producer_id`, `producer_epoch`, which the next transaction uses (KIP-890).

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct EndTxnRequest<'a> {
        transactional_id: Str<'a>, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        committed: bool, 0..;
    }

    pub struct EndTxnResponse {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        producer_id: i64 = -1, 5..;
        producer_epoch: i16 = -1, 5..;
    }
}
