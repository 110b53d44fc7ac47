//! IncrementalAlterConfigs (key 44), versions 0-1, flexible from 1.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct IncrementalAlterConfigsRequest<'a> {
        resources: Vec<AlterConfigsResource<'a>>, 0..;
        validate_only: bool, 0..;
    }

    pub struct AlterConfigsResource<'a> {
        resource_type: i8, 0..;
        resource_name: Str<'a>, 0..;
        configs: Vec<AlterableConfig<'a>>, 0..;
    }

    pub struct AlterableConfig<'a> {
        name: Str<'a>, 0..;
        config_operation: i8, 0..;
        value: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }

    pub struct IncrementalAlterConfigsResponse<'a> {
        throttle_time_ms: i32, 0..;
        responses: Vec<AlterConfigsResourceResponse<'a>>, 0..;
    }

    pub struct AlterConfigsResourceResponse<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        resource_type: i8, 0..;
        resource_name: Str<'a>, 0..;
    }
}
