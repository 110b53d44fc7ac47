//! ListGroups (key 16), versions 0-5, flexible from 3.
//!
//! Added by each version:
//! - v1: response `throttle_time_ms`.
//! - v4: request `states_filter`; response `group_state`.
//! - v5: request `types_filter`; response `group_type`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct ListGroupsRequest<'a> {
        states_filter: Vec<Str<'a>>, 4..;
        types_filter: Vec<Str<'a>>, 5..;
    }

    pub struct ListGroupsResponse<'a> {
        throttle_time_ms: i32, 1..;
        error_code: i16, 0..;
        groups: Vec<ListedGroup<'a>>, 0..;
    }

    pub struct ListedGroup<'a> {
        group_id: Str<'a>, 0..;
        protocol_type: Str<'a>, 0..;
        group_state: Str<'a>, 4..;
        group_type: Str<'a>, 5..;
    }
}
