//! The configs of a broker, a topic or a group, each with its source. This is the answer of
//! DescribeConfigs, which hides the values of secrets.

use super::answer::{Answer, Refused, late};
use crate::admin::describe_configs;
use crate::cluster::{BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE};
use crate::config::{Config, TopicConfig};
use crate::operator::Query;
use crate::operator::shards::Shards;
use muster_codec::Str;
use muster_codec::messages::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
};
use serde_json::{Value, json};

pub(super) fn answer(shards: &Shards, query: &Query) -> Result<Value, Refused> {
    let (resource_type, name) = resource(query);
    let image = shards.image().ok_or_else(|| late(0))?;
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type,
            resource_name: Str::Borrowed(name),
            configuration_keys: None,
        }],
        include_synonyms: true,
        ..Default::default()
    };
    let view = shards.view(&image);
    let described = describe_configs(&view, &request).results.pop();
    let described = described.ok_or_else(|| Answer::malformed("there is no such resource"))?;
    if described.error_code != 0 {
        let words = described.error_message.filter(|words| !words.is_empty());
        return Err(Answer::unknown(words.map_or("unknown".to_owned(), |it| it.into_owned())));
    }
    let configs = described.configs.iter().map(|it| config(it, obeyed(resource_type, &it.name)));
    Ok(json!({ "name": name, "configs": configs.collect::<Vec<_>>() }))
}

/// The requested resource; the first broker by default.
fn resource(query: &Query) -> (i8, &str) {
    let named = [("topic", TOPIC_RESOURCE), ("group", GROUP_RESOURCE), ("broker", BROKER_RESOURCE)];
    let found = named.into_iter().find_map(|(name, of_type)| Some((of_type, query.text(name)?)));
    found.unwrap_or((BROKER_RESOURCE, "0"))
}

/// Whether the config has an effect in muster. None if this is not known.
fn obeyed(resource_type: i8, name: &str) -> Option<bool> {
    match resource_type {
        BROKER_RESOURCE => Some(!Config::is_without_effect(name)),
        TOPIC_RESOURCE => TopicConfig::key(name).map(|key| key.flags.obeyed),
        _ => None,
    }
}

fn config(config: &DescribeConfigsResourceResult<'_>, obeyed: Option<bool>) -> Value {
    json!({
        "name": &*config.name,
        "value": config.value.as_deref(),
        "source": source(config.config_source),
        "read_only": config.read_only,
        "secret": config.is_sensitive,
        "obeyed": obeyed,
        "synonyms": config.synonyms.iter().map(synonym).collect::<Vec<_>>(),
    })
}

fn synonym(synonym: &DescribeConfigsSynonym<'_>) -> Value {
    json!({
        "name": &*synonym.name,
        "value": synonym.value.as_deref(),
        "source": source(synonym.source),
    })
}

/// Kafka's name of a config source.
fn source(number: i8) -> &'static str {
    match number {
        1 => "DYNAMIC_TOPIC_CONFIG",
        2 => "DYNAMIC_BROKER_CONFIG",
        3 => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        4 => "STATIC_BROKER_CONFIG",
        5 => "DEFAULT_CONFIG",
        7 => "CLIENT_METRICS_CONFIG",
        8 => "GROUP_CONFIG",
        _ => "UNKNOWN",
    }
}
