//! DeleteGroups (key 42), versions 0-3, flexible from 2.
//!
//! Added by v3: response `error_message` (KIP-1331).

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
        error_message: Option<Str<'a>>, 3..;
    }
}
