//! The certificates that a change of configs leads to, which are checked before it is decided.

use super::alter_configs::{altered, setting_all};
use super::{BROKER_RESOURCE, View};
use crate::config::{Describer, Replacement, Served, ServedListener, ShardTls};
use muster_codec::ControllerRequest;
use muster_codec::messages::AlterConfigsResource;

/// The TLS that brokers would have after a request: of the listeners whose certificates it names,
/// or changes. What is refused for another reason is left out.
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
    let describer = Describer::new(view.config, view.image, shard);
    let overrides = altered(view, &describer, resource, replaces).ok()?;
    let after = view.config.with_overrides([&overrides].into_iter());
    let encrypted = view.config.served.iter().flat_map(Served::encrypted);
    let replacements = encrypted.filter_map(|(listener, it)| {
        let settings = after.tls_settings(&it.name);
        let is_asked = named.contains(&it) || settings != before.tls_settings(&it.name);
        is_asked.then_some(Replacement { listener, settings })
    });
    Some(ShardTls { shard, replacements: replacements.collect() })
}
