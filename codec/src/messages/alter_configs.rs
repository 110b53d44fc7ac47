//! AlterConfigs (key 33), versions 0-2, flexible from 2. The response has the type of
//! IncrementalAlterConfigs' response.

use super::AlterConfigsResourceResponse;
use crate::declare::message;
use crate::types::Str;

message! {
    pub struct AlterConfigsRequest<'a> {
        resources: Vec<ReplacedConfigsResource<'a>>, 0..;
        validate_only: bool, 0..;
    }

    pub struct ReplacedConfigsResource<'a> {
        resource_type: i8, 0..;
        resource_name: Str<'a>, 0..;
        configs: Vec<ReplacedConfig<'a>>, 0..;
    }

    pub struct ReplacedConfig<'a> {
        name: Str<'a>, 0..;
        value: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }

    pub struct AlterConfigsResponse<'a> {
        throttle_time_ms: i32, 0..;
        responses: Vec<AlterConfigsResourceResponse<'a>>, 0..;
    }
}
