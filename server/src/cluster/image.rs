//! The image of the cluster that each shard holds: topics, configs, the next producer id.

use muster_codec::Uuid;
use muster_codec::records::{
    ClusterRecord, ConfigKey, ConfigValue, ProducerIdsValue, TopicKey, TopicValue,
};
use muster_coordinator::Topics;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A topic; its configs are in [`ClusterImage::configs`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub id: Uuid,
    pub name: Arc<str>,
    pub partitions: i32,
}

/// Config names and values that replace defaults.
pub type Overrides = BTreeMap<String, String>;

/// Kafka's number of topics among the resources that have configs.
pub const TOPIC_RESOURCE: i8 = 2;
/// Kafka's number of brokers; the name is the node id, or empty for all brokers.
pub const BROKER_RESOURCE: i8 = 4;

/// All topics and configs at one point in shard 0's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterImage {
    topics: BTreeMap<Arc<str>, Topic>,
    names: HashMap<Uuid, Arc<str>>,
    configs: BTreeMap<(i8, String), Overrides>,
    next_producer_id: i64,
}

impl ClusterImage {
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name)
    }

    pub fn topic_by_id(&self, id: Uuid) -> Option<&Topic> {
        self.topics.get(self.names.get(&id)?)
    }

    /// All topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values()
    }

    /// What was set for a resource: Kafka's type number (2 topic, 4 broker, 32 group) and name.
    pub fn configs(&self, resource_type: i8, name: &str) -> Option<&Overrides> {
        self.configs.get(&(resource_type, name.to_owned()))
    }

    /// The first producer id that was not given out.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// The one way in which an image changes.
    pub fn apply(&mut self, record: &ClusterRecord<'_>) {
        match record {
            ClusterRecord::Topic(key, Some(value)) => self.put_topic(key, value),
            ClusterRecord::Topic(key, None) => self.remove_topic(key),
            ClusterRecord::Config(key, value) => self.put_config(key, value.as_ref()),
            ClusterRecord::ProducerIds(_, value) => {
                let none = ProducerIdsValue::default();
                self.next_producer_id = value.as_ref().unwrap_or(&none).next_producer_id;
            }
        }
    }

    fn put_topic(&mut self, key: &TopicKey, value: &TopicValue<'_>) {
        let name: Arc<str> = value.name.as_ref().into();
        let topic = Topic { id: key.topic_id, name: name.clone(), partitions: value.partitions };
        self.names.insert(key.topic_id, name.clone());
        self.topics.insert(name, topic);
    }

    fn remove_topic(&mut self, key: &TopicKey) {
        let Some(name) = self.names.remove(&key.topic_id) else { return };
        self.topics.remove(&name);
        self.configs.remove(&(TOPIC_RESOURCE, name.to_string()));
    }

    fn put_config(&mut self, key: &ConfigKey<'_>, value: Option<&ConfigValue<'_>>) {
        let resource = (key.resource_type, key.resource_name.to_string());
        let overrides = self.configs.entry(resource).or_default();
        match value {
            Some(value) => overrides.insert(key.name.to_string(), value.value.to_string()),
            None => overrides.remove(key.name.as_ref()),
        };
    }
}

impl Topics for ClusterImage {
    fn id(&self, name: &str) -> Option<Uuid> {
        self.topic(name).map(|topic| topic.id)
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.names.get(&id).map(|name| &**name)
    }

    fn partitions(&self, name: &str) -> Option<i32> {
        self.topic(name).map(|topic| topic.partitions)
    }
}
