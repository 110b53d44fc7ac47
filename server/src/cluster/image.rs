//! The image of the cluster, which all shards share: topics, configs, ACLs, quotas, producer ids.

use super::configs::{Configs, config_records};
use super::metric_names::MetricNames;
use super::scram_credentials::ScramCredentials;
use crate::config::{Altered, Config, Overrides, TOPIC_RESOURCE};
use crate::placement::Slot;
use crate::quotas::ClientQuotas;
use crate::security::acls::Acls;
use crate::topics::InternalTopic;
use imbl::OrdMap;
use muster_codec::Uuid;
use muster_codec::records::{
    ClusterIdKey, ClusterIdValue, ClusterRecord, ConfigKey, ConfigValue, DeletedTopicKey,
    DeletedTopicValue, ProducerIdsKey, ProducerIdsValue, TopicKey, TopicValue,
};
use muster_coordinator::Topics;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A topic; its configs are in [`ClusterImage::configs`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub id: Uuid,
    pub name: Arc<str>,
    pub partitions: i32,
    /// The slot of each partition, by index, as in the topic's record.
    slots: Arc<[i32]>,
}

impl Topic {
    /// The slot of a partition; None if the partition was created without a slot.
    pub fn slot(&self, partition: i32) -> Option<Slot> {
        let slot = self.slots.get(usize::try_from(partition).ok()?)?;
        u32::try_from(*slot).ok().map(Slot)
    }

    /// The topic's slots followed by the slots of new partitions; empty if no partition has a slot.
    pub(super) fn slots_with(&self, added: Vec<i32>) -> Vec<i32> {
        let mut all = self.slots.to_vec();
        if !added.is_empty() {
            all.resize(usize::try_from(self.partitions).unwrap_or_default(), NO_SLOT);
            all.extend(added);
        }
        all
    }

    /// Whether this is an internal topic, which only the server writes.
    pub fn is_internal(&self) -> bool {
        InternalTopic::of_id(self.id).is_some()
    }
}

/// The record of the cluster's id.
pub(crate) fn cluster_id_record(id: &str) -> ClusterRecord<'static> {
    let value = ClusterIdValue { cluster_id: id.to_owned().into() };
    ClusterRecord::ClusterId(ClusterIdKey {}, Some(value))
}

/// The number in place of a slot, for a partition without a slot.
const NO_SLOT: i32 = -1;

/// A deleted topic. It is kept until all shards have removed their groups' offsets of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTopic {
    pub name: Arc<str>,
    /// In milliseconds since the epoch.
    pub deleted_at: i64,
    /// The version of the topics at which this topic was deleted.
    pub version: i64,
}

/// All topics, configs and other shared state at one position of shard 0's log.
///
/// A clone shares all nodes of the trees; a change copies the few nodes that it affects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterImage {
    topics: OrdMap<Arc<str>, Topic>,
    names: OrdMap<Uuid, Arc<str>>,
    metric_names: MetricNames,
    deleted: Arc<BTreeMap<Uuid, DeletedTopic>>,
    configs: Configs,
    pub(super) scram_credentials: ScramCredentials,
    pub(super) acls: Acls,
    pub(super) client_quotas: ClientQuotas,
    next_producer_id: i64,
    /// The cluster id, once it is in the log.
    cluster_id: Option<Arc<str>>,
    /// The version of the topics: at least the position of their last change in shard 0's log, so
    /// that it also increases across restarts.
    topics_version: i64,
    /// The position of the last change of topics; 0 if there was none since the load.
    changed_at: u64,
    /// The version of the topics when the newest topic was created. It may also be a later version,
    /// because a load of the log sets it to `topics_version`.
    newest_topic_version: i64,
    /// The version of access rights (ACLs and credentials): at least the position of their last
    /// change.
    pub(super) access_version: i64,
    /// The number of partitions of user topics.
    partition_count: i64,
}

impl ClusterImage {
    /// A cluster that has only the internal topics.
    pub fn new(config: &Config) -> Self {
        let mut image = Self::default();
        // The numbers of partitions do not depend on the number of shards.
        let placement = config.placement(1);
        for row in InternalTopic::seen() {
            let partitions = (row.partitions)(placement) as i32;
            let (id, name) = (row.id, row.name.into());
            image.insert(Topic { id, name, partitions, slots: [].into() });
            for (name, value) in (row.overrides)(config) {
                image.configs.set(TOPIC_RESOURCE, row.name, name, value);
            }
        }
        // In a cluster the versions come from the log alone, whatever topics this server has.
        image.date_all(0);
        image
    }

    /// The cluster id, if it is in the log.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// The topic with a name, internal or not.
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// The topic with an id, internal or not.
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Topic> {
        self.topics.get(self.names.get(&id)?)
    }

    /// The user topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values().filter(|topic| !topic.is_internal())
    }

    /// All topics by name, from `at` on.
    pub fn all_topics_from<'a>(&'a self, at: &str) -> impl Iterator<Item = &'a Topic> + use<'a> {
        use std::ops::Bound::{Included, Unbounded};
        self.topics.range::<_, str>((Included(at), Unbounded)).map(|(_, topic)| topic)
    }

    /// The number of topics, internal ones included.
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// The number of partitions of user topics.
    pub fn partition_count(&self) -> i64 {
        self.partition_count
    }

    /// The deleted topics whose offsets groups may still have, by id.
    pub fn deleted(&self) -> impl ExactSizeIterator<Item = (Uuid, &DeletedTopic)> {
        self.deleted.iter().map(|(id, topic)| (*id, topic))
    }

    /// A topic whose name is the same as `name`, if `.` and `_` are not distinguished, as in
    /// metrics.
    pub fn colliding(&self, name: &str) -> Option<&str> {
        self.metric_names.colliding(name)
    }

    /// The overrides of a resource. `resource_type` is Kafka's number, for example 2 for a topic.
    pub fn configs(&self, resource_type: i8, name: &str) -> Option<&Overrides> {
        self.configs.get(resource_type, name)
    }

    /// The names of the resources of a type whose configs are not the same as in an earlier image.
    pub fn reconfigured<'i>(&'i self, before: &'i Self, resource_type: i8) -> Vec<&'i str> {
        self.configs.changed(&before.configs, resource_type)
    }

    /// The number of resources of a type with overrides.
    pub fn configured_count(&self, resource_type: i8) -> usize {
        self.configs.count(resource_type)
    }

    /// Whether both images share one tree of topics, so that no topic differs.
    pub fn shares_topics_with(&self, other: &Self) -> bool {
        self.topics.ptr_eq(&other.topics)
    }

    /// The names of a type's resources with overrides, in order, starting at `from`.
    pub fn configured<'a>(&'a self, of: i8, from: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.configs.names_from(of, from)
    }

    /// The first producer id that is not allocated.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// The records that turn a new image ([`Self::new`]) into this one.
    pub fn records(&self, config: &Config) -> Vec<ClusterRecord<'static>> {
        let topics = self.topics().map(|topic| {
            let value = TopicValue {
                name: topic.name.to_string().into(),
                partitions: topic.partitions,
                slots: topic.slots.to_vec(),
            };
            ClusterRecord::Topic(TopicKey { topic_id: topic.id }, Some(value))
        });
        let deleted = self.deleted().map(|(topic_id, DeletedTopic { name, deleted_at, .. })| {
            deleted_topic_record(topic_id, Some((name, *deleted_at)))
        });
        let mut records: Vec<_> = topics.chain(deleted).collect();
        let new = Self::new(config);
        for resource_type in self.configs.types() {
            for (resource, overrides) in self.configs.of_type(resource_type) {
                let before = new.configs(resource_type, resource);
                records.extend(config_records(resource_type, resource, before, overrides));
            }
        }
        for resource_type in new.configs.types() {
            for (resource, before) in new.configs.of_type(resource_type) {
                if self.configs(resource_type, resource).is_none() {
                    let none = Overrides::new();
                    records.extend(config_records(resource_type, resource, Some(before), &none));
                }
            }
        }
        records.extend(self.scram_credentials.records());
        records.extend(self.acl_records().chain(self.client_quota_records()));
        let value = ProducerIdsValue { next_producer_id: self.next_producer_id };
        records.push(ClusterRecord::ProducerIds(ProducerIdsKey {}, Some(value)));
        records.extend(self.cluster_id.as_deref().map(cluster_id_record));
        records
    }

    /// Applies the records of one operation, at its position in the log.
    ///
    /// The operations of a position become visible together, and have one version. So the nodes of
    /// a cluster have the same versions, although a leader applies operations one by one, and the
    /// others all of a position at once.
    pub(crate) fn apply_at(&mut self, position: u64, records: &[ClusterRecord<'_>]) {
        let before = self.topics_version;
        records.iter().for_each(|record| self.apply(record));
        self.date_access(position, records);
        if self.topics_version > before {
            let is_first = position != std::mem::replace(&mut self.changed_at, position);
            let first = position.cast_signed().max(before + 1);
            self.topics_version = if is_first { first } else { before };
            self.newest_topic_version = if self.newest_topic_version > before {
                self.topics_version
            } else {
                self.newest_topic_version
            };
            records.iter().for_each(|record| self.date_deleted(record));
        }
    }

    /// Stores in a deleted topic the version of the topics at which it was deleted.
    fn date_deleted(&mut self, record: &ClusterRecord<'_>) {
        if let ClusterRecord::DeletedTopic(key, Some(_)) = record
            && let Some(topic) = Arc::make_mut(&mut self.deleted).get_mut(&key.topic_id)
        {
            topic.version = self.topics_version;
        }
    }

    /// Applies a record. An image changes only in this way, except for its versions.
    pub fn apply(&mut self, record: &ClusterRecord<'_>) {
        match record {
            ClusterRecord::Topic(key, Some(value)) => self.put_topic(key, value),
            ClusterRecord::Topic(key, None) => self.remove_topic(key),
            ClusterRecord::Config(key, value) => self.put_config(key, value.as_ref()),
            ClusterRecord::ProducerIds(_, value) => {
                let none = ProducerIdsValue::default();
                self.next_producer_id = value.as_ref().unwrap_or(&none).next_producer_id;
            }
            ClusterRecord::DeletedTopic(key, value) => self.put_deleted(key, value.as_ref()),
            ClusterRecord::ScramCredential(key, value) => self.put_credential(key, value.as_ref()),
            ClusterRecord::Acl(key, value) => self.put_acl(key, value.as_ref()),
            ClusterRecord::ClientQuota(key, value) => self.put_client_quota(key, value.as_ref()),
            ClusterRecord::ClusterId(_, value) => {
                self.cluster_id = value.as_ref().map(|it| it.cluster_id.as_ref().into());
            }
        }
    }

    fn put_topic(&mut self, key: &TopicKey, value: &TopicValue<'_>) {
        let (name, slots) = (value.name.as_ref().into(), value.slots.as_slice().into());
        self.insert(Topic { id: key.topic_id, name, partitions: value.partitions, slots });
    }

    /// Sets the versions to the position at which the load of shard 0's log ended. The replay has
    /// increased them by one for each change, and an operation may have several changes: so they
    /// may be higher than this position. If they stayed higher, a later load could set a lower
    /// version. It must not, because records of groups have the version for which their regular
    /// expressions were resolved.
    pub(crate) fn loaded_at(&mut self, position: u64) {
        self.date_all(position.cast_signed());
        self.access_version = position.cast_signed();
    }

    /// Called when shard 0 was loaded again. Makes the versions of topics newer than those of
    /// `before`, the image before the load. Shards that had that image then treat all topics as
    /// new, and topics that are missing now as deleted.
    pub(crate) fn changed_since(&mut self, before: &Self) {
        self.date_all(self.topics_version.max(before.topics_version + 1));
    }

    fn date_all(&mut self, version: i64) {
        (self.topics_version, self.newest_topic_version, self.changed_at) = (version, version, 0);
        let deleted = Arc::make_mut(&mut self.deleted).values_mut();
        deleted.for_each(|topic| topic.version = version);
    }

    fn insert(&mut self, topic: Topic) {
        let name = topic.name.clone();
        if MetricNames::has(&name) {
            self.metric_names.insert(name.clone());
        }
        self.names.insert(topic.id, name.clone());
        self.partition_count += created_partitions(&topic);
        let before = self.topics.insert(name, topic);
        self.partition_count -= before.as_ref().map_or(0, created_partitions);
        self.topics_version += 1;
        if before.is_none() {
            self.newest_topic_version = self.topics_version;
        }
    }

    /// Removes a topic. Its configs have tombstones of their own.
    fn remove_topic(&mut self, key: &TopicKey) {
        let Some(name) = self.names.remove(&key.topic_id) else { return };
        if MetricNames::has(&name) {
            self.metric_names.remove(&name);
        }
        self.topics_version += 1;
        let topic = self.topics.remove(&name);
        self.partition_count -= topic.as_ref().map_or(0, created_partitions);
    }

    fn put_deleted(&mut self, key: &DeletedTopicKey, value: Option<&DeletedTopicValue<'_>>) {
        let deleted = Arc::make_mut(&mut self.deleted);
        match value {
            Some(DeletedTopicValue { name, deleted_at }) => {
                let (name, version) = (name.as_ref().into(), self.topics_version);
                let topic = DeletedTopic { name, deleted_at: *deleted_at, version };
                deleted.insert(key.topic_id, topic);
            }
            None => drop(deleted.remove(&key.topic_id)),
        }
    }

    fn put_config(&mut self, key: &ConfigKey<'_>, value: Option<&ConfigValue<'_>>) {
        let (resource_type, name) = (key.resource_type, &*key.resource_name);
        match value {
            Some(value) => {
                self.configs.set(resource_type, name, &key.name, value.value.to_string());
            }
            None => self.configs.remove(resource_type, name, &key.name),
        }
    }
}

/// The record of a deleted topic, or its tombstone once no group has offsets of the topic.
pub(crate) fn deleted_topic_record(
    topic_id: Uuid,
    deleted: Option<(&str, i64)>,
) -> ClusterRecord<'static> {
    let value = deleted
        .map(|(name, deleted_at)| DeletedTopicValue { name: name.to_owned().into(), deleted_at });
    ClusterRecord::DeletedTopic(DeletedTopicKey { topic_id }, value)
}

fn created_partitions(topic: &Topic) -> i64 {
    if topic.is_internal() { 0 } else { i64::from(topic.partitions) }
}

impl Altered for ClusterImage {
    fn configs(&self, resource_type: i8, name: &str) -> Option<&Overrides> {
        Self::configs(self, resource_type, name)
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

    fn version(&self) -> i64 {
        self.topics_version
    }

    fn version_of_newest(&self) -> i64 {
        self.newest_topic_version
    }

    fn names_after(&self, name: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = name.map_or(Unbounded, Excluded);
        Box::new(self.topics.range::<_, str>((after, Unbounded)).map(|(name, _)| &**name))
    }
}
