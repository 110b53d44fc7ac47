//! DescribeGroups (key 15), versions 0-6, flexible from 5.
//!
//! Added by each version:
//! - v1: response `throttle_time_ms`.
//! - v3: request `include_authorized_operations`; response `authorized_operations`.
//! - v4: response `group_instance_id`.
//! - v6: response `error_message`.

use crate::declare::message;
use crate::types::{Bytes, Str};

message! {
    pub struct DescribeGroupsRequest<'a> {
        groups: Vec<Str<'a>>, 0..;
        include_authorized_operations: bool, 3..;
    }

    pub struct DescribeGroupsResponse<'a> {
        throttle_time_ms: i32, 1..;
        groups: Vec<DescribedGroup<'a>>, 0..;
    }

    pub struct DescribedGroup<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>>, 6..;
        group_id: Str<'a>, 0..;
        group_state: Str<'a>, 0..;
        protocol_type: Str<'a>, 0..;
        protocol_data: Str<'a>, 0..;
        members: Vec<DescribedGroupMember<'a>>, 0..;
        authorized_operations: i32 = i32::MIN, 3..;
    }

    pub struct DescribedGroupMember<'a> {
        member_id: Str<'a>, 0..;
        group_instance_id: Option<Str<'a>>, 4..;
        client_id: Str<'a>, 0..;
        client_host: Str<'a>, 0..;
        member_metadata: Bytes<'a>, 0..;
        member_assignment: Bytes<'a>, 0..;
    }
}
