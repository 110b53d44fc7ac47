//! DescribeAcls: there is no authorizer.

use muster_codec::ErrorCode;
use muster_codec::messages::DescribeAclsResponse;

/// Kafka's answer without an authorizer.
pub fn describe_acls() -> DescribeAclsResponse<'static> {
    DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some("No Authorizer is configured.".into()),
        ..Default::default()
    }
}
