//! The operations of IncrementalAlterConfigs (KIP-339): a config is set or deleted, or items are
//! appended to a list or subtracted from it.

use super::change::{Refused, check_length};
use super::{BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, Overrides, TOPIC_RESOURCE};
use crate::config::{Config, ConfigType, TopicConfig};
use muster_codec::ErrorCode;
use muster_codec::messages::AlterableConfig;
use std::collections::BTreeSet;

pub(super) const SET: i8 = 0;
pub(super) const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(super) fn is_operation(operation: i8) -> bool {
    (SET..=SUBTRACT).contains(&operation)
}

pub(super) fn check_operations(configs: &[AlterableConfig<'_>]) -> Result<(), Refused> {
    if let Some(config) = configs.iter().find(|config| !is_operation(config.config_operation)) {
        return Err(invalid(format!("Unknown config operation {}", config.config_operation)));
    }
    let is_list = |name: &str| Config::altered_type(name) == Some(ConfigType::List);
    let extends = |config: &&AlterableConfig<'_>| config.config_operation >= APPEND;
    match configs.iter().filter(extends).find(|config| !is_list(&config.name)) {
        Some(config) => Err(not_a_list(config.config_operation, &config.name)),
        None => Ok(()),
    }
}

/// The configs of a resource after the operations.
pub(super) fn apply(
    resource_type: i8,
    before: &Overrides,
    configs: &[AlterableConfig<'_>],
) -> Result<Overrides, Refused> {
    let mut after = before.clone();
    for AlterableConfig { name, config_operation, value } in configs {
        let value = value.as_deref().unwrap_or_default();
        let value = match *config_operation {
            DELETE => {
                after.remove(&**name);
                continue;
            }
            SET => value.to_owned(),
            APPEND if resource_type == BROKER_RESOURCE && repeats(value) => {
                let words = format!("Configuration '{name}' values must not be duplicated.");
                return Err(invalid(words));
            }
            operation => {
                let list = list(resource_type, before, name);
                changed_list(&list.ok_or_else(|| not_a_list(operation, name))?, operation, value)
            }
        };
        check_length(name, &value)?;
        after.insert(name.to_string(), value);
    }
    Ok(after)
}

/// The list to which an operation appends items, or from which it removes them: the resource's own
/// value, else Kafka's default. The server's config file and the configs of brokers do not count.
/// None if the config is no list, or if Kafka's controller does not know its type.
fn list(resource_type: i8, before: &Overrides, name: &str) -> Option<String> {
    let (config_type, default) = match resource_type {
        TOPIC_RESOURCE => {
            let key = TopicConfig::key(name)?;
            (key.config_type, key.get(&Config::default().topic_defaults()).text())
        }
        // Kafka's controller does not know the types of these configs.
        GROUP_RESOURCE | CLIENT_METRICS_RESOURCE => return None,
        _ => match Config::key(name) {
            Some(key) => (key.config_type, key.get(&Config::default()).text()),
            None => (Config::altered_type(name)?, Some(Config::default_of_unserved(name).into())),
        },
    };
    let text = before.get(name).cloned().or(default).unwrap_or_default();
    (config_type == ConfigType::List).then_some(text)
}

/// Whether a value has an item twice. Kafka refuses to append such a value only to a config of a
/// broker.
fn repeats(value: &str) -> bool {
    items_of_operation(value).collect::<BTreeSet<_>>().len() < items_of_operation(value).count()
}

/// Applies APPEND or SUBTRACT to a list. As in Kafka, blanks around an item belong to the item.
/// APPEND skips items that the list has; SUBTRACT removes the first equal item.
fn changed_list(list: &str, operation: i8, value: &str) -> String {
    let mut items: Vec<&str> = list.split(',').filter(|item| !item.is_empty()).collect();
    for item in items_of_operation(value) {
        let place = items.iter().position(|other| *other == item);
        match (operation, place) {
            (SUBTRACT, Some(place)) => drop(items.remove(place)),
            (SUBTRACT, None) | (_, Some(_)) => {}
            (_, None) => items.push(item),
        }
    }
    items.join(",")
}

/// The items of an operation, as Java's `split` returns them: empty items at the end are dropped,
/// but an empty text is one empty item.
fn items_of_operation(value: &str) -> impl Iterator<Item = &str> {
    let items = value.trim_end_matches(',');
    let has_items = value.is_empty() || !items.is_empty();
    has_items.then(|| items.split(',')).into_iter().flatten()
}

fn not_a_list(operation: i8, name: &str) -> Refused {
    let operation = if operation == APPEND { "APPEND" } else { "SUBTRACT" };
    let words = format!("Can't {operation} to key {name} because its type is not LIST.");
    Refused::new(ErrorCode::InvalidConfig, words)
}

pub(super) fn invalid(words: impl Into<String>) -> Refused {
    Refused::new(ErrorCode::InvalidRequest, words)
}
