//! CreateAcls (key 30), versions 1-3, flexible from 2.

use super::describe_acls::LITERAL;
use crate::declare::message;
use crate::types::Str;

message! {
    pub struct CreateAclsRequest<'a> {
        creations: Vec<AclCreation<'a>>, 0..;
    }

    pub struct AclCreation<'a> {
        resource_type: i8, 0..;
        resource_name: Str<'a>, 0..;
        resource_pattern_type: i8 = LITERAL, 1..;
        principal: Str<'a>, 0..;
        host: Str<'a>, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    pub struct CreateAclsResponse<'a> {
        throttle_time_ms: i32, 0..;
        results: Vec<AclCreationResult<'a>>, 0..;
    }

    pub struct AclCreationResult<'a> {
        error_code: i16, 0..;
        error_message: Option<Str<'a>> = Some(Str::Borrowed("")), 0..;
    }
}
