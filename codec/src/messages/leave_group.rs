//! LeaveGroup (key 13), versions 0-5, flexible from 4.
//!
//! Added by each version:
//! - v1: response `throttle_time_ms`.
//! - v3: request `members`; response `members`.
//! - v5: request `reason`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct LeaveGroupRequest<'a> {
        group_id: Str<'a>, 0..;
        member_id: Str<'a>, 0..=2;
        members: Vec<MemberIdentity<'a>>, 3..;
    }

    pub struct MemberIdentity<'a> {
        member_id: Str<'a>, 3..;
        group_instance_id: Option<Str<'a>>, 3..;
        reason: Option<Str<'a>>, 5..;
    }

    pub struct LeaveGroupResponse<'a> {
        throttle_time_ms: i32, 1..;
        error_code: i16, 0..;
        members: Vec<MemberResponse<'a>>, 3..;
    }

    pub struct MemberResponse<'a> {
        member_id: Str<'a>, 3..;
        group_instance_id: Option<Str<'a>> = Some(Str::Borrowed("")), 3..;
        error_code: i16, 3..;
    }
}
