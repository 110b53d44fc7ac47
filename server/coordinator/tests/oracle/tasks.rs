//! Intended differences in answers, mostly in answers to members of streams groups.

use crate::forms::in_order;
use crate::placement;
use muster_codec::ApiKey;
use muster_coordinator::MissingTopic;
use serde_json::{Value, json};

const TASKS: [&str; 3] = ["activeTasks", "standbyTasks", "warmupTasks"];

/// The intended difference between two answers, if this file knows it.
pub fn difference(api: ApiKey, kafka: &Value, muster: &Value) -> Option<&'static str> {
    if placement::in_other_order(api, kafka, muster) {
        return Some("topic-order");
    }
    if api == ApiKey::ListGroups {
        let is_mended = kafka != muster && without_unready(muster) == *kafka;
        return is_mended.then_some("not-ready-filter");
    }
    if api == ApiKey::StreamsGroupDescribe {
        return described(kafka, muster);
    }
    if api != ApiKey::StreamsGroupHeartbeat || kafka == muster {
        return None;
    }
    let mut unasked = muster.clone();
    if kafka["topologyDescriptionRequired"] == false && muster["errorCode"] == 0 {
        unasked["topologyDescriptionRequired"] = false.into();
    }
    if unasked == *kafka {
        return Some("description-asked");
    }
    let is_same = |kafka: &Value| *kafka == unasked;
    with_tasks_of(kafka, &unasked).as_ref().is_some_and(is_same).then_some("tasks-again")
}

/// The difference between two descriptions of groups, if it is intended: only topics of topologies
/// differ.
pub fn described(kafka: &Value, muster: &Value) -> Option<&'static str> {
    let without = |value: &Value| {
        let mut value = value.clone();
        strip_counts(&mut value);
        in_order(value)
    };
    (kafka != muster && without(kafka) == without(muster)).then_some("described-counts")
}

fn strip_counts(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip_counts),
        Value::Object(fields) if fields.contains_key("subtopologyId") => {
            for name in ["sourceTopics", "repartitionSinkTopics"] {
                fields.get_mut(name).and_then(Value::as_array_mut).into_iter().for_each(Vec::dedup);
            }
            for name in ["stateChangelogTopics", "repartitionSourceTopics"] {
                let topics = fields.get_mut(name).and_then(Value::as_array_mut);
                topics.into_iter().flatten().for_each(|topic| topic["partitions"] = Value::Null);
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(strip_counts),
        _ => {}
    }
}

/// A list of groups without the groups in the state NotReady, which Kafka's filter cannot name.
fn without_unready(list: &Value) -> Value {
    let mut list = list.clone();
    let groups = list["groups"].as_array_mut();
    groups.into_iter().for_each(|groups| groups.retain(|it| it["groupState"] != "NotReady"));
    list
}

/// Kafka's answer with the tasks of muster's answer. None if Kafka's answer has tasks.
fn with_tasks_of(kafka: &Value, muster: &Value) -> Option<Value> {
    let mut with_tasks = kafka.clone();
    for tasks in TASKS {
        if !kafka[tasks].is_null() || muster[tasks].is_null() {
            return None;
        }
        with_tasks[tasks] = muster[tasks].clone();
    }
    Some(with_tasks)
}

/// Missing topics as the oracle prints them.
pub fn missing(topics: &[MissingTopic]) -> Value {
    let of = |topic: &MissingTopic| {
        let configs = topic.configs.iter().map(|(name, value)| (name.to_string(), json!(**value)));
        let configs: serde_json::Map<_, _> = configs.collect();
        let MissingTopic { partitions, replication_factor, .. } = topic;
        let topic = json!({
            "partitions": partitions, "replication_factor": replication_factor, "configs": configs,
        });
        topic
    };
    topics.iter().map(|topic| (topic.name.to_string(), of(topic))).collect()
}
