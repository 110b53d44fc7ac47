//! DescribeConfigs of topics, brokers, groups and client metrics subscriptions (KIP-226; KIP-569
//! without documentation).

use super::View;
use crate::cluster::{
    BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, LOGGER_RESOURCE, Overrides, Refused,
    TOPIC_RESOURCE, check_topic_name,
};
use crate::config::{
    ClientMetricsConfig, Config, Described, Describer, GroupConfig, Synonym, TopicConfig,
};
use muster_codec::messages::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use muster_codec::{AnswerBudget, ErrorCode, Str};
use std::collections::{BTreeMap, HashSet};

/// The configs of resources, with value, source and synonyms.
///
/// The answer is much larger than the request, so it must not grow with repetitions. A resource
/// that is named again is therefore refused, unlike in Kafka. If the resource has another error,
/// the answer has that error. A group that does not exist has configs, too, so a request may name
/// any number of groups. The answer therefore has a budget: a resource beyond it gets
/// UNKNOWN_SERVER_ERROR.
pub fn describe_configs<'r>(
    view: &View<'r>,
    request: &'r DescribeConfigsRequest<'_>,
) -> DescribeConfigsResponse<'r> {
    if let Some(unknown) = unknown_type(request) {
        return all_refused(request, unknown);
    }
    let mut seen = HashSet::with_capacity(request.resources.len());
    describe_configs_of(view, request, |resource_type, name| seen.insert((resource_type, name)))
}

/// The first unknown resource type of a request. As in Kafka, it makes all resources fail.
pub fn unknown_type(request: &DescribeConfigsRequest<'_>) -> Option<i8> {
    let mut types = request.resources.iter().map(|resource| resource.resource_type);
    types.find(|resource_type| !is_known(*resource_type))
}

/// Like [`describe_configs`], for a part of a request. `is_new` returns whether the resource is
/// named for the first time.
pub fn describe_configs_of<'r>(
    view: &View<'r>,
    request: &'r DescribeConfigsRequest<'_>,
    mut is_new: impl FnMut(i8, &'r str) -> bool,
) -> DescribeConfigsResponse<'r> {
    let mut budget = AnswerBudget::of_answer();
    let mut describers = Describers { view, of_brokers: BTreeMap::new() };
    let resources = request.resources.iter();
    let reserved =
        resources.clone().take_while(|resource| budget.take(&over_budget(resource))).count();
    let results = resources.take(reserved).map(|resource| {
        let mut described = describe(view, &mut describers, resource);
        if !is_new(resource.resource_type, &resource.resource_name) {
            let again = || invalid("Each resource must appear at most once.");
            described = Err(described.err().unwrap_or_else(again));
        }
        let result = budget.fit(result(resource, request.include_synonyms, described));
        result.unwrap_or_else(|| over_budget(resource))
    });
    DescribeConfigsResponse { results: results.collect(), ..Default::default() }
}

fn is_known(resource_type: i8) -> bool {
    [TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE]
        .contains(&resource_type)
}

/// Refuses all resources, as Kafka does for an unknown type.
fn all_refused<'r>(
    request: &'r DescribeConfigsRequest<'_>,
    unknown: i8,
) -> DescribeConfigsResponse<'r> {
    let mut budget = AnswerBudget::of_answer();
    let refused = || Err(invalid(format!("Unexpected resource type {unknown}")));
    let results = request.resources.iter().map(|resource| result(resource, false, refused()));
    let results = results.map_while(|result| budget.fit(result)).collect();
    DescribeConfigsResponse { results, ..Default::default() }
}

/// The `Describer` of each broker that a resource of the request has needed so far.
struct Describers<'v, 'r> {
    view: &'v View<'r>,
    of_brokers: BTreeMap<u32, Describer<'r>>,
}

impl<'r> Describers<'_, 'r> {
    fn of_broker(&mut self, node: u32) -> &Describer<'r> {
        let View { config, image, .. } = *self.view;
        self.of_brokers.entry(node).or_insert_with(|| Describer::new(config, image, node))
    }
}

fn describe(
    view: &View<'_>,
    describers: &mut Describers<'_, '_>,
    resource: &DescribeConfigsResource<'_>,
) -> Result<Vec<Described>, Refused> {
    let name = &*resource.resource_name;
    let asked: HashSet<&str> =
        resource.configuration_keys.iter().flatten().map(|key| &**key).collect();
    // A missing list and an empty list both ask for all keys.
    let is_asked = |name: &str| asked.is_empty() || asked.contains(name);
    let described = Config::KEYS.iter().filter(|key| !key.flags.internal);
    let broker_keys = described.filter(|key| is_asked(key.name));
    let none = Overrides::new();
    let overrides = view.image.configs(resource.resource_type, name).unwrap_or(&none);
    match resource.resource_type {
        TOPIC_RESOURCE => {
            check_topic(view, name)?;
            let describer = describers.of_broker(view.shard);
            let keys = TopicConfig::KEYS.iter().filter(|key| is_asked(key.name));
            Ok(keys.map(|key| describer.topic(key, overrides)).collect())
        }
        GROUP_RESOURCE if name.is_empty() => Err(invalid("Group name must not be empty")),
        GROUP_RESOURCE => {
            let describer = describers.of_broker(view.shard);
            // An internal key is described only if the group overrides it, as in Kafka.
            let keys = GroupConfig::KEYS.iter().filter(|key| {
                is_asked(key.name) && (!key.flags.internal || overrides.contains_key(key.name))
            });
            Ok(keys.map(|key| describer.group(key, overrides)).collect())
        }
        CLIENT_METRICS_RESOURCE if name.is_empty() => {
            Err(invalid("Client metrics subscription name must not be empty"))
        }
        CLIENT_METRICS_RESOURCE => {
            let describer = describers.of_broker(view.shard);
            let keys = ClientMetricsConfig::KEYS.iter().filter(|key| is_asked(key.name));
            Ok(keys.map(|key| describer.client_metrics(key, overrides)).collect())
        }
        BROKER_RESOURCE if name.is_empty() => {
            let describer = describers.of_broker(view.shard);
            let of_listeners = describer.of_listeners_of_all(is_asked);
            Ok(broker_keys
                .filter_map(|key| describer.all_brokers(key))
                .chain(of_listeners)
                .chain(describer.unserved_of_all(is_asked))
                .collect())
        }
        BROKER_RESOURCE => {
            let describer = describers.of_broker(node(view, name)?);
            let of_listeners = describer.of_listeners(is_asked);
            let unserved = describer.all_unserved(is_asked);
            let served = broker_keys.map(|key| describer.broker(key));
            Ok(served.chain(of_listeners).chain(unserved).collect())
        }
        LOGGER_RESOURCE => Err(invalid("muster has no broker loggers.")),
        other => Err(invalid(format!("Unknown resource type {other}"))),
    }
}

fn check_topic(view: &View<'_>, name: &str) -> Result<(), Refused> {
    check_topic_name(name)
        .map_err(|words| Refused::new(ErrorCode::InvalidTopicException, words))?;
    match view.image.topic(name) {
        Some(_) => Ok(()),
        None => Err(Refused::new(ErrorCode::UnknownTopicOrPartition, "")),
    }
}

fn node(view: &View<'_>, name: &str) -> Result<u32, Refused> {
    let words = || format!("Broker id must be an integer, but it is: {name}");
    let node: i32 = name.parse().map_err(|_| invalid(words()))?;
    let shards = view.placement.shards;
    u32::try_from(node).ok().filter(|node| *node < shards).ok_or_else(|| {
        let last = shards - 1;
        invalid(format!(
            "Unexpected broker id, expected 0 to {last} or empty string, but received {node}"
        ))
    })
}

fn invalid(words: impl Into<String>) -> Refused {
    Refused::new(ErrorCode::InvalidRequest, words)
}

fn result<'r>(
    resource: &'r DescribeConfigsResource<'_>,
    with_synonyms: bool,
    described: Result<Vec<Described>, Refused>,
) -> DescribeConfigsResult<'r> {
    let mut result = DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: Str::Borrowed(&resource.resource_name),
        ..Default::default()
    };
    match described {
        Ok(configs) => {
            let config = |described| config(described, with_synonyms);
            result.configs = configs.into_iter().map(config).collect();
        }
        Err(refused) => {
            result.error_code = refused.error.code();
            result.error_message = refused.error_message();
        }
    }
    result
}

fn over_budget<'r>(resource: &'r DescribeConfigsResource<'_>) -> DescribeConfigsResult<'r> {
    DescribeConfigsResult {
        error_code: ErrorCode::UnknownServerError.code(),
        error_message: Some(
            "The answer would be too large: ask for fewer resources at once.".into(),
        ),
        resource_type: resource.resource_type,
        resource_name: Str::Borrowed(&resource.resource_name),
        ..Default::default()
    }
}

fn config(described: Described, with_synonyms: bool) -> DescribeConfigsResourceResult<'static> {
    let synonyms = described.synonyms.into_iter().filter(|_| with_synonyms);
    let is_sensitive = described.config_type.is_secret();
    DescribeConfigsResourceResult {
        name: described.name,
        value: described.value.filter(|_| !is_sensitive).map(Str::Owned),
        read_only: described.read_only,
        config_source: described.source as i8,
        is_sensitive,
        synonyms: synonyms.map(|it| synonym(it, is_sensitive)).collect(),
        config_type: described.config_type as i8,
        documentation: None,
    }
}

/// A secret's value is null in answers.
fn synonym(synonym: Synonym, is_sensitive: bool) -> DescribeConfigsSynonym<'static> {
    DescribeConfigsSynonym {
        name: synonym.name,
        value: (!is_sensitive).then(|| synonym.value.into()),
        source: synonym.source as i8,
    }
}
