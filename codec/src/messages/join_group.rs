//! JoinGroup (key 11), versions 0-9, flexible from 6.
//!
//! Added by each version:
//! - v1: request `rebalance_timeout_ms`.
//! - v2: response `throttle_time_ms`.
//! - v5: request `group_instance_id`; response `group_instance_id`.
//! - v7: response `protocol_type`.
//! - v8: request `reason`.
//! - v9: response `skip_assignment`.

use crate::declare::message;
use crate::types::{Bytes, Str};

message! {
    pub struct JoinGroupRequest<'a> {
        group_id: Str<'a>, 0..;
        session_timeout_ms: i32, 0..;
        rebalance_timeout_ms: i32 = -1, 1..;
        member_id: Str<'a>, 0..;
        group_instance_id: Option<Str<'a>>, 5..;
        protocol_type: Str<'a>, 0..;
        protocols: Vec<JoinGroupRequestProtocol<'a>>, 0..;
        reason: Option<Str<'a>>, 8..;
    }

    pub struct JoinGroupRequestProtocol<'a> {
        name: Str<'a>, 0..;
        metadata: Bytes<'a>, 0..;
    }

    pub struct JoinGroupResponse<'a> {
        throttle_time_ms: i32, 2..;
        error_code: i16, 0..;
        generation_id: i32 = -1, 0..;
        protocol_type: Option<Str<'a>>, 7..;
        protocol_name: Option<Str<'a>> = Some(Str::Borrowed("")), 0.., nullable 7..;
        leader: Str<'a>, 0..;
        skip_assignment: bool, 9..;
        member_id: Str<'a>, 0..;
        members: Vec<JoinGroupResponseMember<'a>>, 0..;
    }

    pub struct JoinGroupResponseMember<'a> {
        member_id: Str<'a>, 0..;
        group_instance_id: Option<Str<'a>>, 5..;
        metadata: Bytes<'a>, 0..;
    }
}
