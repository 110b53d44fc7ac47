//! Heartbeat (key 12), versions 0-4, flexible from 4.
//!
//! Added by each version:
//! - v1: response `throttle_time_ms`.
//! - v3: request `group_instance_id`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct HeartbeatRequest<'a> {
        group_id: Str<'a>, 0..;
        generation_id: i32, 0..;
        member_id: Str<'a>, 0..;
        group_instance_id: Option<Str<'a>>, 3..;
    }

    pub struct HeartbeatResponse {
        throttle_time_ms: i32, 1..;
        error_code: i16, 0..;
    }
}
