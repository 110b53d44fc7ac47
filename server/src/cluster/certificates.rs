//! The certificates that would result from a change of configs. They are checked before the change
//! is decided.

use super::alter_configs::{altered, setting_all};
use super::{BROKER_RESOURCE, View};
use crate::config::{Replacement, Served, ServedListener, ShardTls, listener_with_certificate_key};
use muster_codec::ControllerRequest;
use muster_codec::messages::{AlterConfigsResource, IncrementalAlterConfigsRequest};

/// The certificates that brokers would have after a request, for the listeners whose certificates
/// the request names or changes. Leaves out resources that are refused for another reason.
pub(crate) fn certificates_of(view: &View<'_>, request: &ControllerRequest<'_>) -> Vec<ShardTls> {
    match request {
        ControllerRequest::IncrementalAlterConfigs(body) => {
            certificates_of_all(view, &body.resources, false)
        }
        ControllerRequest::AlterConfigs(body) => {
            certificates_of_all(view, &setting_all(body), true)
        }
        ControllerRequest::CreateTopics(_)
        | ControllerRequest::DescribeQuorum(_)
        | ControllerRequest::DeleteTopics(_)
        | ControllerRequest::CreatePartitions(_)
        | ControllerRequest::CreateAcls(_)
        | ControllerRequest::DeleteAcls(_)
        | ControllerRequest::AlterClientQuotas(_)
        | ControllerRequest::AlterUserScramCredentials(_) => Vec::new(),
    }
}

/// The first listener whose certificate keys a request alters, and of which altered certificate
/// keys are still stored after the request. None if there is no such listener. The name is in lower
/// case, as in the keys.
pub(crate) fn listener_left_with_certificates(
    view: &View<'_>,
    request: &IncrementalAlterConfigsRequest<'_>,
) -> Option<String> {
    let mut of_brokers = request.resources.iter().filter(|it| it.resource_type == BROKER_RESOURCE);
    of_brokers.find_map(|resource| left_with_certificates(view, resource))
}

fn left_with_certificates(view: &View<'_>, resource: &AlterConfigsResource<'_>) -> Option<String> {
    let after = altered(view, resource, false).ok()?;
    let of_after: Vec<&str> =
        after.keys().filter_map(|it| listener_with_certificate_key(it)).collect();
    let mut named =
        resource.configs.iter().filter_map(|it| listener_with_certificate_key(&it.name));
    named.find(|it| of_after.contains(it)).map(str::to_owned)
}

fn certificates_of_all(
    view: &View<'_>,
    resources: &[AlterConfigsResource<'_>],
    replaces: bool,
) -> Vec<ShardTls> {
    let of_brokers = resources.iter().filter(|it| it.resource_type == BROKER_RESOURCE);
    let all = of_brokers.filter_map(|resource| of_broker(view, resource, replaces));
    all.filter(|it| !it.replacements.is_empty()).collect()
}

fn of_broker(
    view: &View<'_>,
    resource: &AlterConfigsResource<'_>,
    replaces: bool,
) -> Option<ShardTls> {
    let shard = resource.resource_name.parse().ok()?;
    let named = resource.configs.iter().map(|it| view.config.listener_of_certificates(&it.name));
    let named: Vec<&ServedListener> = named.flatten().collect();
    if named.is_empty() && !replaces {
        return None;
    }
    let before = view.config.with_dynamic(view.image, shard);
    let overrides = altered(view, resource, replaces).ok()?;
    let after = view.config.with_overrides([&overrides].into_iter());
    let encrypted = view.config.served.iter().flat_map(Served::encrypted);
    let replacements = encrypted.filter_map(|(listener, it)| {
        let settings = after.tls_settings(&it.name);
        let is_asked = named.contains(&it) || settings != before.tls_settings(&it.name);
        is_asked.then_some(Replacement { listener, settings })
    });
    Some(ShardTls { shard, replacements: replacements.collect() })
}
