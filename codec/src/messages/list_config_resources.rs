//! ListConfigResources (key 74), versions 0-1, flexible from 0.
//!
//! Added by each version:
//! - v1: request `resource_types`; response `resource_type`. Version 0 lists client metrics only.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct ListConfigResourcesRequest {
        resource_types: Vec<i8>, 1..;
    }

    pub struct ListConfigResourcesResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        config_resources: Vec<ConfigResource<'a>>, 0..;
    }

    pub struct ConfigResource<'a> {
        resource_name: Str<'a>, 0..;
        resource_type: i8 = 16, 1..;
    }
}
