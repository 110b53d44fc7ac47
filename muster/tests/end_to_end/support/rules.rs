//! Requests that change or list configs and ACLs.

use super::Server;
use muster_codec::Response;
use muster_codec::messages::*;

pub const TOPIC: i8 = 2;
pub const BROKER: i8 = 4;
pub const CLIENT_METRICS: i8 = 16;
pub const GROUP: i8 = 32;

/// Sets configs of a resource. Removes configs whose value is `None`.
pub fn alter_configs(
    resource_type: i8,
    name: &str,
    configs: &[(&str, Option<&str>)],
) -> IncrementalAlterConfigsRequest<'static> {
    let config = |(name, value): &(&str, Option<&str>)| AlterableConfig {
        name: (*name).to_owned().into(),
        config_operation: i8::from(value.is_none()),
        value: value.map(|it| it.to_owned().into()),
    };
    let resource = AlterConfigsResource {
        resource_type,
        resource_name: name.to_owned().into(),
        configs: configs.iter().map(config).collect(),
    };
    IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false }
}

/// Sets or removes configs of a resource, like [`alter_configs`].
pub fn alter(server: &Server, resource_type: i8, name: &str, configs: &[(&str, Option<&str>)]) {
    let request = alter_configs(resource_type, name, configs);
    let response = server.client(0).call(1, request.into());
    let Response::IncrementalAlterConfigs(body) = response else { panic!("{response:?}") };
    assert_eq!(body.responses[0].error_code, 0, "{body:?}");
}

/// Asks for a config of a resource, or for all of its configs.
pub fn describe_configs(
    resource_type: i8,
    name: &str,
    key: Option<&str>,
) -> DescribeConfigsRequest<'static> {
    let resource = DescribeConfigsResource {
        resource_type,
        resource_name: name.to_owned().into(),
        configuration_keys: key.map(|key| vec![key.to_owned().into()]),
    };
    DescribeConfigsRequest { resources: vec![resource], ..Default::default() }
}

/// Allows alice to read the topic `orders`.
pub fn alice_reads_orders() -> CreateAclsRequest<'static> {
    let creation = AclCreation {
        resource_type: TOPIC,
        resource_name: "orders".into(),
        principal: "User:alice".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
        ..Default::default()
    };
    CreateAclsRequest { creations: vec![creation] }
}

/// A request for all ACLs.
pub fn all_acls() -> DescribeAclsRequest<'static> {
    DescribeAclsRequest {
        resource_type_filter: 1,
        resource_name_filter: None,
        pattern_type_filter: 1,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: 1,
    }
}
