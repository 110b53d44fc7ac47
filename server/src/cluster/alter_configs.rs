//! IncrementalAlterConfigs (KIP-339) and AlterConfigs of topics, brokers, groups and client metrics
//! subscriptions, as Kafka's `ConfigurationControlManager` and `DynamicBrokerConfig` decide them.

use super::change::{Change, Creator, Refused, config_record};
use super::client_metrics::SubscriptionBudget;
use super::config_operations::{DELETE, SET, apply, check_operations, invalid, is_operation};
use super::limits::{
    GROUP_CONFIG_BYTES_MAX, GROUP_CONFIGS_MAX, GROUP_CONFIGS_SHARED, UNSERVED_CONFIG_BYTES_MAX,
};
use super::{
    BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, Overrides, TOPIC_RESOURCE, View,
    check_topic_name,
};
use crate::config::{Config, Describer, GroupConfig, TopicConfig, is_of_certificates};
use muster_codec::ErrorCode;
use muster_codec::Str;
use muster_codec::messages::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
    AlterableConfig, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    ReplacedConfig, ReplacedConfigsResource,
};
use muster_codec::records::ClusterRecord;
use std::collections::{BTreeMap, BTreeSet};

/// Changes configs. For each resource, all of its operations are applied or none.
pub fn incremental_alter_configs(
    view: &View<'_>,
    creator: &mut Creator<'_>,
    request: &IncrementalAlterConfigsRequest<'_>,
    refused: &BTreeMap<u32, String>,
) -> Change<IncrementalAlterConfigsResponse<'static>> {
    let how = How { replaces: false, validate_only: request.validate_only, refused };
    let change = alter_all(view, creator, &request.resources, how);
    change.map(|responses| IncrementalAlterConfigsResponse { responses, ..Default::default() })
}

/// Replaces all configs of resources: configs that the request does not name return to their
/// defaults.
pub fn alter_configs(
    view: &View<'_>,
    creator: &mut Creator<'_>,
    request: &AlterConfigsRequest<'_>,
    refused: &BTreeMap<u32, String>,
) -> Change<AlterConfigsResponse<'static>> {
    let how = How { replaces: true, validate_only: request.validate_only, refused };
    let change = alter_all(view, creator, &setting_all(request), how);
    change.map(|responses| AlterConfigsResponse { responses, ..Default::default() })
}

/// The names of the broker configs that the records set although they have no effect in muster. The
/// names are for the log.
pub fn set_without_effect(records: &[ClusterRecord<'_>]) -> impl Iterator<Item = String> {
    records.iter().filter_map(|record| {
        let ClusterRecord::Config(key, Some(_)) = record else { return None };
        let is_inert = key.resource_type == BROKER_RESOURCE && Config::is_without_effect(&key.name);
        is_inert.then(|| key.name.escape_debug().to_string())
    })
}

/// Converts an AlterConfigs request to operations that set each config.
pub(super) fn setting_all<'r>(
    request: &'r AlterConfigsRequest<'_>,
) -> Vec<AlterConfigsResource<'r>> {
    request.resources.iter().map(sets_all).collect()
}

fn sets_all<'r>(resource: &'r ReplacedConfigsResource<'_>) -> AlterConfigsResource<'r> {
    let config = |config: &'r ReplacedConfig<'_>| AlterableConfig {
        name: Str::Borrowed(&config.name),
        config_operation: SET,
        value: config.value.as_deref().map(Str::Borrowed),
    };
    AlterConfigsResource {
        resource_type: resource.resource_type,
        resource_name: Str::Borrowed(&resource.resource_name),
        configs: resource.configs.iter().map(config).collect(),
    }
}

/// How a request alters resources.
#[derive(Clone, Copy)]
struct How<'r> {
    /// Whether configs that the request does not name return to their defaults.
    replaces: bool,
    validate_only: bool,
    /// The reasons why brokers' new certificates cannot be used, by node id.
    refused: &'r BTreeMap<u32, String>,
}

fn alter_all(
    view: &View<'_>,
    creator: &mut Creator<'_>,
    resources: &[AlterConfigsResource<'_>],
    how: How<'_>,
) -> Change<Vec<AlterConfigsResourceResponse<'static>>> {
    let mut times: BTreeMap<(i8, &str), usize> = BTreeMap::new();
    for resource in resources {
        *times.entry(identity(resource)).or_default() += 1;
    }
    let is_repeated = |resource: &&AlterConfigsResource<'_>| times[&identity(resource)] > 1;
    let describer = Describer::new(view.config, view.image, view.shard);
    // Kafka's broker refuses a resource that is named twice. Kafka's controller never sees it, so
    // an unknown operation on such a resource does not make the controller fail.
    let mut named_once = resources.iter().filter(|resource| !is_repeated(resource));
    let is_senseless = named_once.any(|resource| is_senseless(view, resource));
    let groups = view.image.configured_count(GROUP_RESOURCE);
    let subscriptions = SubscriptionBudget::new(view.image);
    let mut budgets = Budgets { groups: GroupBudget { groups, creator }, subscriptions };
    let mut records = Vec::new();
    let mut responses = Vec::with_capacity(resources.len());
    for resource in resources {
        let altered = if is_repeated(&resource) {
            Err(invalid("Each resource must appear at most once."))
        } else if is_senseless {
            Err(senseless(view, &describer, &mut budgets, resource))
        } else {
            alter(view, &describer, &mut budgets, resource, how.replaces)
                .and_then(|records| check_certificates(resource, how.refused).map(|()| records))
        };
        responses.push(response(resource, altered.as_ref().err().cloned()));
        records.extend(altered.ok().filter(|_| !how.validate_only).into_iter().flatten());
    }
    Change { records, response: responses }
}

fn identity<'a>(resource: &'a AlterConfigsResource<'_>) -> (i8, &'a str) {
    (resource.resource_type, &resource.resource_name)
}

/// Refuses the configs of a broker whose new certificates cannot be used. The message is Kafka's,
/// without the Java class names around it.
fn check_certificates(
    resource: &AlterConfigsResource<'_>,
    refused: &BTreeMap<u32, String>,
) -> Result<(), Refused> {
    let (resource_type, name) = identity(resource);
    let node = name.parse().ok().filter(|_| resource_type == BROKER_RESOURCE);
    match node.and_then(|node: u32| refused.get(&node)) {
        Some(why) => {
            Err(invalid(format!("Validation of dynamic config update of SSLFactory failed: {why}")))
        }
        None => Ok(()),
    }
}

fn alter(
    view: &View<'_>,
    describer: &Describer<'_>,
    budgets: &mut Budgets<'_, '_, '_>,
    resource: &AlterConfigsResource<'_>,
    replaces: bool,
) -> Result<Vec<ClusterRecord<'static>>, Refused> {
    let (resource_type, name) = identity(resource);
    let none = Overrides::new();
    let before = view.image.configs(resource_type, name).unwrap_or(&none);
    let after = altered(view, resource, replaces)?;
    match resource_type {
        TOPIC_RESOURCE => {
            check_name(name)?;
            TopicConfig::validate(describer.config(), &after)
                .map_err(|message| Refused::new(ErrorCode::InvalidConfig, message))?;
            check_topic(view, name)?;
        }
        GROUP_RESOURCE if name.is_empty() => {
            return Err(invalid("Default group resources are not allowed."));
        }
        GROUP_RESOURCE => {
            GroupConfig::validate(describer.config(), &after)
                .map_err(|message| Refused::new(ErrorCode::InvalidConfig, message))?;
            budgets.groups.check(before, &after)?;
        }
        CLIENT_METRICS_RESOURCE => budgets.subscriptions.check(name, &after)?,
        _ => {
            view.config.validate_dynamic(&after).map_err(invalid)?;
            let node = name.parse().unwrap_or(view.shard);
            view.config.check_step(view.image, node, name, &after).map_err(invalid)?;
            check_unserved_bytes(&after)?;
        }
    }
    Ok(difference(resource_type, name, before, &after))
}

/// Limits the bytes of configs that muster only stores. Their names are arbitrary, as in Kafka.
fn check_unserved_bytes(after: &Overrides) -> Result<(), Refused> {
    let unserved = after.iter().filter(|(name, _)| Config::is_altered_unserved(name));
    let bytes: usize = unserved.map(|(name, value)| name.len() + value.len()).sum();
    if bytes <= UNSERVED_CONFIG_BYTES_MAX {
        return Ok(());
    }
    let words = format!(
        "Configs of a broker that change nothing in muster have at most \
         {UNSERVED_CONFIG_BYTES_MAX} bytes (UNSERVED_CONFIG_BYTES_MAX)."
    );
    Err(Refused::new(ErrorCode::PolicyViolation, words))
}

/// The configs that a resource would have after a request. Their values are not checked.
pub(super) fn altered(
    view: &View<'_>,
    resource: &AlterConfigsResource<'_>,
    replaces: bool,
) -> Result<Overrides, Refused> {
    let (resource_type, name) = identity(resource);
    check_at_broker(view, resource)?;
    let none = Overrides::new();
    let kept = view.image.configs(resource_type, name).filter(|_| !replaces);
    apply(resource_type, kept.unwrap_or(&none), &resource.configs)
}

/// The groups and subscriptions that a request may still add.
struct Budgets<'r, 'c, 'i> {
    groups: GroupBudget<'r, 'c>,
    subscriptions: SubscriptionBudget<'i>,
}

/// Counts the groups that have configs, and limits how many of them a client may add. These groups
/// need not exist.
struct GroupBudget<'r, 'c> {
    groups: usize,
    creator: &'r mut Creator<'c>,
}

impl GroupBudget<'_, '_> {
    fn check(&mut self, before: &Overrides, after: &Overrides) -> Result<(), Refused> {
        let refuse = |words| Err(Refused::new(ErrorCode::PolicyViolation, words));
        let bytes: usize = after.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > GROUP_CONFIG_BYTES_MAX {
            return refuse(format!(
                "Configs of a group have at most {GROUP_CONFIG_BYTES_MAX} bytes \
                 (GROUP_CONFIG_BYTES_MAX)."
            ));
        }
        if !before.is_empty() || after.is_empty() {
            return Ok(());
        }
        if self.groups >= GROUP_CONFIGS_MAX {
            return refuse(format!(
                "{GROUP_CONFIGS_MAX} groups have configs, which is the most (GROUP_CONFIGS_MAX)."
            ));
        }
        self.creator.admits(self.groups >= GROUP_CONFIGS_SHARED)?;
        self.groups += 1;
        Ok(())
    }
}

/// The error for a resource of a request that makes Kafka's controller fail because of an unknown
/// operation. The controller then fails for all resources, except those that Kafka's broker has
/// refused before: these have their own errors.
fn senseless(
    view: &View<'_>,
    describer: &Describer<'_>,
    budgets: &mut Budgets<'_, '_, '_>,
    resource: &AlterConfigsResource<'_>,
) -> Refused {
    let refused = match resource.resource_type {
        // For broker resources the broker also checks the values.
        BROKER_RESOURCE => alter(view, describer, budgets, resource, false).err(),
        _ => check_at_broker(view, resource).err(),
    };
    refused.unwrap_or_else(|| Refused::without_message(ErrorCode::UnknownServerError))
}

/// Whether an unknown operation on a resource makes Kafka's controller fail. It does not if the
/// resource is refused before that, for one of two reasons. The broker may refuse it: for example,
/// it allows no unknown operation on a broker's configs. Or a known operation on it may fail.
fn is_senseless(view: &View<'_>, resource: &AlterConfigsResource<'_>) -> bool {
    let is_known = |config: &&AlterableConfig<'_>| is_operation(config.config_operation);
    let known: Vec<_> = resource.configs.iter().filter(is_known).cloned().collect();
    known.len() < resource.configs.len()
        && check_at_broker(view, resource).is_ok()
        && apply(resource.resource_type, &Overrides::new(), &known).is_ok()
}

/// The checks that a broker makes before it forwards a request to the controller.
fn check_at_broker(view: &View<'_>, resource: &AlterConfigsResource<'_>) -> Result<(), Refused> {
    let (resource_type, name) = identity(resource);
    check_names_and_values(&resource.configs)?;
    match resource_type {
        TOPIC_RESOURCE | GROUP_RESOURCE | CLIENT_METRICS_RESOURCE => Ok(()),
        BROKER_RESOURCE => check_broker(view, name, &resource.configs),
        _ => Err(invalid(format!("Unknown resource type {resource_type}"))),
    }
}

fn check_names_and_values(configs: &[AlterableConfig<'_>]) -> Result<(), Refused> {
    let mut seen = BTreeSet::new();
    if !configs.iter().all(|config| seen.insert(&*config.name)) {
        return Err(invalid("Error due to duplicate config keys"));
    }
    let is_null = |c: &&AlterableConfig<'_>| c.config_operation != DELETE && c.value.is_none();
    let nulls: Vec<&str> = configs.iter().filter(is_null).map(|config| &*config.name).collect();
    if !nulls.is_empty() {
        return Err(invalid(format!("Null value not supported for : {}", nulls.join(","))));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Refused> {
    if name.is_empty() {
        return Err(invalid("Default topic resources are not allowed."));
    }
    check_topic_name(name)
        .map_err(|message| Refused::new(ErrorCode::InvalidTopicException, message))
}

fn check_topic(view: &View<'_>, name: &str) -> Result<(), Refused> {
    match view.image.topic(name) {
        None => {
            let words = format!("The topic '{name}' does not exist.");
            Err(Refused::new(ErrorCode::UnknownTopicOrPartition, words))
        }
        Some(topic) if topic.is_internal() => {
            Err(invalid(format!("Alteration of internal topic {name} is prohibited.")))
        }
        Some(_) => Ok(()),
    }
}

fn check_broker(
    view: &View<'_>,
    broker: &str,
    configs: &[AlterableConfig<'_>],
) -> Result<(), Refused> {
    if !broker.is_empty() {
        let words = || format!("Node id must be an integer, but it is: {broker}");
        let node: i32 = broker.parse().map_err(|_| invalid(words()))?;
        if !u32::try_from(node).is_ok_and(|node| node < view.placement.shards) {
            let last = view.placement.shards - 1;
            let words = format!("Unexpected broker id, expected 0 to {last}, but received {node}");
            return Err(invalid(words));
        }
    }
    check_operations(configs)?;
    let of_listener = |name: &str| view.config.altered_of_listener(name).is_some();
    let is_dynamic = |name: &str| {
        let is_of_muster = || Config::key(name).is_some_and(|key| key.flags.dynamic);
        of_listener(name) || is_of_muster() || Config::is_altered_unserved(name)
    };
    let refuse = |refused: &dyn Fn(&str) -> bool, words: &str| {
        let set = configs.iter().filter(|config| config.config_operation != DELETE);
        let names: Vec<&str> = set.map(|config| &*config.name).filter(|it| refused(it)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let finer: BTreeSet<&str> = names.iter().filter_map(|name| finest(name)).collect();
        let cure = if finer.is_empty() {
            String::new()
        } else {
            format!(". Set {} instead", Vec::from_iter(finer).join(", "))
        };
        Err(invalid(format!("{words}: [{}]{cure}", names.join(", "))))
    };
    refuse(&|name| !is_dynamic(name) && !Config::is_altered_for_one_broker(name), NOT_DYNAMIC)?;
    refuse(&is_of_certificates, OF_LISTENERS)?;
    refuse(&|name| broker.is_empty() && Config::is_altered_for_one_broker(name), OF_BROKERS)?;
    refuse(&|name| !is_dynamic(name), NOT_DYNAMIC)?;
    let why = format!("{NOT_DYNAMIC}, as the server's command line sets them");
    refuse(&|name| view.config.is_pinned(name), &why)
}

/// If `name` is a key in hours or minutes: the key in milliseconds that takes precedence over it,
/// so that it has to be altered instead. None for any other key.
fn finest(name: &str) -> Option<&'static str> {
    let obeyed = TopicConfig::KEYS.iter().filter(|key| key.flags.obeyed);
    obeyed
        .filter_map(|key| key.synonyms.split_first())
        .find_map(|(first, coarser)| coarser.contains(&name).then_some(*first))
}

const NOT_DYNAMIC: &str = "Cannot update these configs dynamically";
const OF_LISTENERS: &str = "These security configs can be dynamically updated only per-listener \
                            using the listener prefix";
const OF_BROKERS: &str =
    "Cannot update these configs at default cluster level, broker id must be specified";

fn difference(
    resource_type: i8,
    resource: &str,
    before: &Overrides,
    after: &Overrides,
) -> Vec<ClusterRecord<'static>> {
    let set = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let set = set.map(|(name, value)| (name, Some(value.clone())));
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name, None));
    set.chain(gone)
        .map(|(name, value)| config_record(resource_type, resource, name, value))
        .collect()
}

fn response(
    resource: &AlterConfigsResource<'_>,
    refused: Option<Refused>,
) -> AlterConfigsResourceResponse<'static> {
    AlterConfigsResourceResponse {
        error_code: refused.as_ref().map_or(ErrorCode::None, |refused| refused.error).code(),
        error_message: refused.and_then(Refused::error_message),
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.to_string().into(),
    }
}
