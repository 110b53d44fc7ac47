//! ExpireDelegationToken (key 40), versions 1-2, flexible from 2.

use crate::declare::message;
use crate::types::SecretBytes;

message! {
    pub struct ExpireDelegationTokenRequest<'a> {
        hmac: SecretBytes<'a>, 0..;
        expiry_time_period_ms: i64, 0..;
    }

    pub struct ExpireDelegationTokenResponse {
        error_code: i16, 0..;
        expiry_timestamp_ms: i64, 0..;
        throttle_time_ms: i32, 0..;
    }
}
