//! DescribeAcls: the ACLs that match a filter, by resource.

use super::View;
use crate::security::acls::{AclFilter, Entry};
use muster_codec::messages::{
    AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse,
};
use muster_codec::{ErrorCode, Str};

/// The ACLs that match the request's filter. Without an authorizer the answer is SECURITY_DISABLED,
/// as in Kafka.
pub fn describe_acls<'r>(
    view: &View<'r>,
    request: &DescribeAclsRequest<'_>,
) -> DescribeAclsResponse<'r> {
    if !view.config.has_authorizer() {
        return refused(ErrorCode::SecurityDisabled, "No Authorizer is configured.");
    }
    let Some(filter) = AclFilter::new(request.into()) else {
        return refused(ErrorCode::InvalidRequest, "Unknown filter.");
    };
    let mut resources: Vec<DescribeAclsResource<'r>> = Vec::new();
    let mut last = None;
    for (pattern, entry) in view.image.acls().matching(&filter) {
        if last != Some(pattern) {
            last = Some(pattern);
            resources.push(DescribeAclsResource {
                resource_type: pattern.resource_type.code(),
                resource_name: Str::Borrowed(&pattern.name),
                pattern_type: pattern.pattern_type.code(),
                acls: Vec::new(),
            });
        }
        resources.last_mut().into_iter().for_each(|it| it.acls.push(description(entry)));
    }
    DescribeAclsResponse { resources, ..Default::default() }
}

fn description(entry: &Entry) -> AclDescription<'_> {
    AclDescription {
        principal: Str::Borrowed(&entry.principal),
        host: Str::Borrowed(&entry.host),
        operation: entry.operation.code(),
        permission_type: entry.permission.code(),
    }
}

fn refused(error: ErrorCode, words: &'static str) -> DescribeAclsResponse<'static> {
    DescribeAclsResponse {
        error_code: error.code(),
        error_message: Some(words.into()),
        ..Default::default()
    }
}
