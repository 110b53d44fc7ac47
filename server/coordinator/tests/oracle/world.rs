//! The topics and the configs that a transcript sets.

use muster_codec::Uuid;
use muster_coordinator::{Config, Topics};
use serde_json::Value;

/// The topics as the last `new` or `topics` operation left them.
#[derive(Debug, Default)]
pub struct World {
    topics: Vec<Topic>,
    made: u64,
}

#[derive(Debug)]
struct Topic {
    name: String,
    id: Uuid,
    partitions: i32,
}

impl World {
    /// Deletes, then makes or grows topics; gives the names and ids of those deleted.
    pub fn change(&mut self, op: &Value) -> Vec<(String, Uuid)> {
        let named = |name: &Value| op["delete"].as_array().is_some_and(|all| all.contains(name));
        let gone = |topic: &mut Topic| named(&Value::from(topic.name.as_str()));
        let deleted =
            self.topics.extract_if(.., gone).map(|topic| (topic.name, topic.id)).collect();
        for entry in op["topics"].as_array().into_iter().flatten() {
            self.make_or_grow(entry);
        }
        deleted
    }

    fn make_or_grow(&mut self, entry: &Value) {
        let name = entry["name"].as_str().unwrap();
        let partitions = entry["partitions"].as_i64().unwrap() as i32;
        if let Some(topic) = self.topics.iter_mut().find(|topic| topic.name == name) {
            topic.partitions = topic.partitions.max(partitions);
            return;
        }
        let id = match entry["id"].as_str() {
            Some(id) => Uuid::parse(id).unwrap(),
            None => self.numbered_id(),
        };
        self.topics.push(Topic { name: name.to_owned(), id, partitions });
    }

    /// The id that the oracle gives to a topic without one.
    fn numbered_id(&mut self) -> Uuid {
        self.made += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&0x74_6f70_6963_u64.to_be_bytes());
        id[8..].copy_from_slice(&self.made.to_be_bytes());
        Uuid(id)
    }
}

impl Topics for World {
    fn id(&self, name: &str) -> Option<Uuid> {
        self.topics.iter().find(|topic| topic.name == name).map(|topic| topic.id)
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.topics.iter().find(|topic| topic.id == id).map(|topic| topic.name.as_str())
    }

    fn partitions(&self, name: &str) -> Option<i32> {
        self.topics.iter().find(|topic| topic.name == name).map(|topic| topic.partitions)
    }
}

/// The configs of a `new` operation that muster's coordinator obeys; those of other protocols and
/// of Kafka's threads mean nothing to it.
pub fn config(op: &Value) -> Config {
    let mut config = Config::default();
    for (name, value) in op["config"].as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        set(&mut config, name, &value);
    }
    config
}

fn set(config: &mut Config, name: &str, value: &str) {
    let number = || value.parse::<i64>().unwrap();
    match name {
        "group.initial.rebalance.delay.ms" => {
            config.group_initial_rebalance_delay_ms = number() as i32;
        }
        "group.min.session.timeout.ms" => config.group_min_session_timeout_ms = number() as i32,
        "group.max.session.timeout.ms" => config.group_max_session_timeout_ms = number() as i32,
        "group.max.size" => config.group_max_size = number() as i32,
        "offset.metadata.max.bytes" => config.offset_metadata_max_bytes = number() as i32,
        "offsets.retention.minutes" => config.offsets_retention_ms = number() * 60_000,
        "offsets.retention.check.interval.ms" => {
            config.offsets_retention_check_interval_ms = number();
        }
        _ => assert!(
            ["group.consumer.", "group.share.", "group.streams."]
                .iter()
                .any(|prefix| name.starts_with(prefix)),
            "a config that the harness does not know: {name}"
        ),
    }
}
