//! UnregisterController (key 94, KIP-1312), version 0, flexible.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct UnregisterControllerRequest {
        controller_id: i32, 0..;
    }

    pub struct UnregisterControllerResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }
}
