//! DeleteGroups (key 42), versions 0-2, flexible from 2.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DeleteGroupsRequest<'a> {
        groups_names: Vec<Str<'a>>, 0..;
    }

    pub struct DeleteGroupsResponse<'a> {
        throttle_time_ms: i32, 0..;
        results: Vec<DeletableGroupResult<'a>>, 0..;
    }

    pub struct DeletableGroupResult<'a> {
        group_id: Str<'a>, 0..;
        error_code: i16, 0..;
    }
}
