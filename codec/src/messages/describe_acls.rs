//! DescribeAcls (key 29), versions 1-3, flexible from 2.

use crate::declare::message;
use crate::types::Str;

/// `PatternType.LITERAL`.
pub(super) const LITERAL: i8 = 3;

message! {
    pub struct DescribeAclsRequest<'a> {
        resource_type_filter: i8, 0..;
        resource_name_filter: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        pattern_type_filter: i8 = LITERAL, 1..;
        principal_filter: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        host_filter: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    pub struct DescribeAclsResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
        resources: Vec<DescribeAclsResource<'a>>, 0..;
    }

    pub struct DescribeAclsResource<'a> {
        resource_type: i8, 0..;
        resource_name: Str<'a>, 0..;
        pattern_type: i8 = LITERAL, 1..;
        acls: Vec<AclDescription<'a>>, 0..;
    }

    pub struct AclDescription<'a> {
        principal: Str<'a>, 0..;
        host: Str<'a>, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }
}
