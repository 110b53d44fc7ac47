//! UnregisterBroker (key 64), version 0, flexible.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct UnregisterBrokerRequest {
        broker_id: i32, 0..;
    }

    pub struct UnregisterBrokerResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }
}
