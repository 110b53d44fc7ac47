//! DeleteAcls (key 31), versions 1-3, flexible from 2.

use super::describe_acls::LITERAL;
use crate::declare::message;
use crate::types::Str;

message! {
    pub struct DeleteAclsRequest<'a> {
        filters: Vec<DeleteAclsFilter<'a>>, 0..;
    }

    pub struct DeleteAclsFilter<'a> {
        resource_type_filter: i8, 0..;
        resource_name_filter: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        pattern_type_filter: i8 = LITERAL, 1..;
        principal_filter: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        host_filter: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    pub struct DeleteAclsResponse<'a> {
        throttle_time_ms: i32, 0..;
        filter_results: Vec<DeleteAclsFilterResult<'a>>, 0..;
    }

    pub struct DeleteAclsFilterResult<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        matching_acls: Vec<DeleteAclsMatchingAcl<'a>>, 0..;
    }

    pub struct DeleteAclsMatchingAcl<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        resource_type: i8, 0..;
        resource_name: Str<'a>, 0..;
        pattern_type: i8 = LITERAL, 1..;
        principal: Str<'a>, 0..;
        host: Str<'a>, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }
}
