//! SyncGroup (key 14), versions 0-5, flexible from 4.
//!
//! Added by each version:
//! - v1: response `throttle_time_ms`.
//! - v3: request `group_instance_id`.
//! - v5: request `protocol_type`, `protocol_name`; response `protocol_type`, `protocol_name`.

use crate::declare::message;
use crate::types::{Bytes, Str};

message! {
    pub struct SyncGroupRequest<'a> {
        group_id: Str<'a>, 0..;
        generation_id: i32, 0..;
        member_id: Str<'a>, 0..;
        group_instance_id: Option<Str<'a>>, 3..;
        protocol_type: Option<Str<'a>>, 5..;
        protocol_name: Option<Str<'a>>, 5..;
        assignments: Vec<SyncGroupRequestAssignment<'a>>, 0..;
    }

    pub struct SyncGroupRequestAssignment<'a> {
        member_id: Str<'a>, 0..;
        assignment: Bytes<'a>, 0..;
    }

    pub struct SyncGroupResponse<'a> {
        throttle_time_ms: i32, 1..;
        error_code: i16, 0..;
        protocol_type: Option<Str<'a>>, 5..;
        protocol_name: Option<Str<'a>>, 5..;
        assignment: Bytes<'a>, 0..;
    }
}
