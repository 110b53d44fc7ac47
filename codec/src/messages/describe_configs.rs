//! DescribeConfigs (key 32), versions 1-4, flexible from 4.
//!
//! Added by each version:
//! - v3: request `include_documentation`; response `config_type`, `documentation`.

use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DescribeConfigsRequest<'a> {
        resources: Vec<DescribeConfigsResource<'a>>, 0..;
        include_synonyms: bool, 1..;
        include_documentation: bool, 3..;
    }

    pub struct DescribeConfigsResource<'a> {
        resource_type: i8, 0..;
        resource_name: Str<'a>, 0..;
        configuration_keys: Option<Vec<Str<'a>>> = Some(Vec::new()), 0..;
    }

    pub struct DescribeConfigsResponse<'a> {
        throttle_time_ms: i32, 0..;
        results: Vec<DescribeConfigsResult<'a>>, 0..;
    }

    pub struct DescribeConfigsResult<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        resource_type: i8, 0..;
        resource_name: Str<'a>, 0..;
        configs: Vec<DescribeConfigsResourceResult<'a>>, 0..;
    }

    pub struct DescribeConfigsResourceResult<'a> {
        name: Str<'a>, 0..;
        value: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        read_only: bool, 0..;
        config_source: i8 = -1, 1..;
        is_sensitive: bool, 0..;
        synonyms: Vec<DescribeConfigsSynonym<'a>>, 1..;
        config_type: i8, 3..;
        documentation: Option<Str<'a>> = Some(Str::Borrowed("")), 3..;
    }

    pub struct DescribeConfigsSynonym<'a> {
        name: Str<'a>, 1..;
        value: Option<Str<'a>> = Some(Str::Borrowed("")), 1..;
        source: i8, 1..;
    }
}
