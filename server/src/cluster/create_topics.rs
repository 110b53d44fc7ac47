//! CreateTopics and automatic creation, as Kafka's `ReplicationControlManager` decides them.

use super::change::{
    Change, Creator, Refused, check_length, config_record, is_timed_out, timed_out,
};
use super::limits::{
    AUTO_PARTITIONS_MAX, AUTO_PARTITIONS_SHARED, AUTO_TOPICS_MAX, AUTO_TOPICS_SHARED,
    PARTITIONS_MAX, PARTITIONS_PER_REQUEST_MAX, PARTITIONS_PER_TOPIC_MAX, TOPICS_MAX,
};
use super::{
    ClusterImage, MutationQuota, Overrides, TOPIC_RESOURCE, View, check_topic_name, is_reserved,
};
use crate::config::{Describer, TopicConfig};
use muster_codec::messages::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult,
    CreateTopicsRequest, CreateTopicsResponse,
};
use muster_codec::records::{ClusterRecord, TopicKey, TopicValue};
use muster_codec::{ErrorCode, Str, Uuid};
use muster_coordinator::Ids;
use std::collections::BTreeMap;
use std::ops::Range;

/// Creates topics. A topic that is named twice is answered once, with an error. But if the request
/// has timed out, and names at least one topic only once, each entry of the request is answered
/// with REQUEST_TIMED_OUT.
pub fn create_topics(
    view: &View<'_>,
    ids: &mut dyn Ids,
    quota: &mut MutationQuota<'_>,
    version: i16,
    request: &CreateTopicsRequest<'_>,
) -> Change<CreateTopicsResponse<'static>> {
    let mut asked: BTreeMap<&str, Vec<&CreatableTopic<'_>>> = BTreeMap::new();
    for topic in &request.topics {
        asked.entry(&topic.name).or_default().push(topic);
    }
    let too_many = partitions_asked(view, request) > PARTITIONS_PER_REQUEST_MAX;
    let mut creation = Creation::new(view);
    if is_timed_out(request.timeout_ms) && asked.values().any(|asked| asked.len() == 1) {
        let late =
            |asked: &CreatableTopic<'_>| creation.result(version, &asked.name, Err(timed_out()));
        let topics = request.topics.iter().map(late).collect();
        let response = CreateTopicsResponse { topics, ..Default::default() };
        return Change { records: Vec::new(), response };
    }
    let mut topics = Vec::with_capacity(asked.len());
    for (name, asked) in asked {
        let created = match asked[..] {
            _ if too_many => Err(excessive()),
            [topic] => creation.create(ids, quota, topic),
            _ => Err(Refused::new(ErrorCode::InvalidRequest, "Duplicate topic name.")),
        };
        topics.push(creation.result(version, name, created));
    }
    let records = if request.validate_only { Vec::new() } else { creation.records };
    let throttle_time_ms = quota.throttle_time_ms();
    Change { records, response: CreateTopicsResponse { topics, throttle_time_ms } }
}

/// Creates topics, with default configs, because a Metadata request has named them. Leaves out
/// topics that exist meanwhile or cannot be created: the client asks again, and then gets the
/// error. If a limit refuses further topics, also returns the reason, for the operator.
pub fn auto_create(
    view: &View<'_>,
    ids: &mut dyn Ids,
    creator: &mut Creator<'_>,
    topics: &[String],
) -> (Vec<ClusterRecord<'static>>, Option<String>) {
    let mut creation = Creation::new(view);
    for name in topics {
        if creation.check_name(name).is_err() {
            continue;
        }
        if let Err(refused) = creation.check_limits_by_name(creator) {
            return (creation.records, refused.message);
        }
        let name = Str::Borrowed(name.as_str());
        let topic = CreatableTopic {
            name,
            num_partitions: -1,
            replication_factor: -1,
            ..Default::default()
        };
        let _ = creation.create(ids, &mut MutationQuota::default(), &topic);
    }
    (creation.records, None)
}

/// The number of partitions in a request. As in Kafka, a request over the limit is refused as a
/// whole.
fn partitions_asked(view: &View<'_>, request: &CreateTopicsRequest<'_>) -> i64 {
    let of_topic = |topic: &CreatableTopic<'_>| match topic.num_partitions {
        -1 if topic.assignments.is_empty() => i64::from(view.config.num_partitions),
        -1 => topic.assignments.len() as i64,
        count => i64::from(count.max(0)),
    };
    request.topics.iter().map(of_topic).sum()
}

/// Creates the topics of a request one after the other.
struct Creation<'v> {
    view: &'v View<'v>,
    /// The image including the topics created so far.
    image: ClusterImage,
    describer: Describer<'v>,
    records: Vec<ClusterRecord<'static>>,
}

/// The number of a topic's partitions, and their nodes if the request assigns them.
struct Partitions {
    count: i32,
    assigned: Option<Vec<i32>>,
}

struct Created {
    id: Uuid,
    partitions: i32,
    overrides: Overrides,
}

impl<'v> Creation<'v> {
    fn new(view: &'v View<'v>) -> Self {
        let describer = Describer::new(view.config, view.image, view.shard);
        Self { view, image: view.image.clone(), describer, records: Vec::new() }
    }

    fn create(
        &mut self,
        ids: &mut dyn Ids,
        quota: &mut MutationQuota<'_>,
        topic: &CreatableTopic<'_>,
    ) -> Result<Created, Refused> {
        self.check_name(&topic.name)?;
        let overrides = overrides(topic)?;
        TopicConfig::validate(self.describer.config(), &overrides)
            .map_err(|message| Refused::new(ErrorCode::InvalidConfig, message))?;
        let Partitions { count: partitions, assigned } = self.partitions(topic)?;
        self.check_limits(partitions)?;
        quota.take(i64::from(partitions))?;
        let id = ids.next_id();
        let slots = assigned.unwrap_or_else(|| slots(self.view, id, 0..partitions));
        let value = TopicValue { name: topic.name.to_string().into(), partitions, slots };
        let record = ClusterRecord::Topic(TopicKey { topic_id: id }, Some(value));
        let configs = overrides.iter().map(|(name, value)| {
            config_record(TOPIC_RESOURCE, &topic.name, name, Some(value.clone()))
        });
        for record in [record].into_iter().chain(configs) {
            self.image.apply(&record);
            self.records.push(record);
        }
        Ok(Created { id, partitions, overrides })
    }

    fn check_name(&self, name: &str) -> Result<(), Refused> {
        if is_reserved(name) {
            let words = format!("Creation of internal topic {name} is prohibited.");
            return Err(Refused::new(ErrorCode::InvalidRequest, words));
        }
        check_topic_name(name)
            .map_err(|message| Refused::new(ErrorCode::InvalidTopicException, message))?;
        if self.image.topic(name).is_some() {
            let words = format!("Topic '{name}' already exists.");
            return Err(Refused::new(ErrorCode::TopicAlreadyExists, words));
        }
        // Names that collide only with each other, in the same request, are both created, as in
        // Kafka.
        if let Some(other) = self.view.image.colliding(name) {
            let words = format!("Topic '{name}' collides with existing topic: {other}");
            return Err(Refused::new(ErrorCode::InvalidTopicException, words));
        }
        Ok(())
    }

    fn partitions(&self, topic: &CreatableTopic<'_>) -> Result<Partitions, Refused> {
        if !topic.assignments.is_empty() {
            let assigned = manual_assignment(self.view, topic)?;
            return Ok(Partitions { count: assigned.len() as i32, assigned: Some(assigned) });
        }
        if topic.replication_factor < -1 || topic.replication_factor == 0 {
            let words = "Replication factor must be larger than 0, or -1 to use the default value.";
            return Err(Refused::new(ErrorCode::InvalidReplicationFactor, words));
        }
        let count = match topic.num_partitions {
            -1 => self.view.config.num_partitions,
            count if count > 0 => count,
            _ => {
                let words = "Number of partitions was set to an invalid non-positive value.";
                return Err(Refused::new(ErrorCode::InvalidPartitions, words));
            }
        };
        check_replicas(topic.replication_factor)?;
        Ok(Partitions { count, assigned: None })
    }

    fn check_limits(&self, partitions: i32) -> Result<(), Refused> {
        let (partitions, there) = (i64::from(partitions), self.image.partition_count());
        if partitions > PARTITIONS_PER_TOPIC_MAX {
            return Err(too_many_in_a_topic());
        }
        if there + partitions > PARTITIONS_MAX {
            return Err(too_many_partitions(there));
        }
        if self.image.topic_count() >= TOPICS_MAX {
            let words = format!("There are {TOPICS_MAX} topics, which is the most (TOPICS_MAX).");
            return Err(Refused::new(ErrorCode::PolicyViolation, words));
        }
        Ok(())
    }

    /// Checks the limits for a topic that is created because a client has named it. While there are
    /// few topics, each client may create one; later only clients with a share left.
    fn check_limits_by_name(&self, creator: &mut Creator<'_>) -> Result<(), Refused> {
        let (topics, partitions) = (self.image.topic_count(), self.image.partition_count());
        if topics >= AUTO_TOPICS_MAX || partitions >= AUTO_PARTITIONS_MAX {
            let words = format!(
                "There are {topics} topics with {partitions} partitions; from {AUTO_TOPICS_MAX} \
                 topics or {AUTO_PARTITIONS_MAX} partitions on they are created by CreateTopics \
                 only (AUTO_TOPICS_MAX, AUTO_PARTITIONS_MAX)."
            );
            return Err(Refused::new(ErrorCode::PolicyViolation, words));
        }
        creator.admits(topics >= AUTO_TOPICS_SHARED || partitions >= AUTO_PARTITIONS_SHARED)
    }

    fn result(
        &self,
        version: i16,
        name: &str,
        created: Result<Created, Refused>,
    ) -> CreatableTopicResult<'static> {
        let name = name.to_owned().into();
        match created {
            Ok(created) => CreatableTopicResult {
                name,
                topic_id: created.id,
                error_message: None,
                num_partitions: created.partitions,
                replication_factor: 1,
                configs: (version >= 5).then(|| self.configs(&created.overrides)),
                ..Default::default()
            },
            Err(refused) => CreatableTopicResult {
                name,
                error_code: refused.error.code(),
                error_message: refused.error_message(),
                ..Default::default()
            },
        }
    }

    fn configs(&self, overrides: &Overrides) -> Vec<CreatableTopicConfigs<'static>> {
        let describe = |key| self.describer.topic(key, overrides);
        let entries = TopicConfig::KEYS.iter().map(describe);
        let entries = entries.map(|config| CreatableTopicConfigs {
            name: config.name,
            value: config.text.map(Str::Owned),
            read_only: config.read_only,
            config_source: config.source as i8,
            is_sensitive: false,
        });
        entries.collect()
    }
}

fn overrides(topic: &CreatableTopic<'_>) -> Result<Overrides, Refused> {
    let mut overrides = Overrides::new();
    for config in &topic.configs {
        let Some(value) = &config.value else {
            let words = format!("Null value not supported for topic configs: {}", config.name);
            return Err(Refused::new(ErrorCode::InvalidConfig, words));
        };
        check_length(&config.name, value)?;
        overrides.insert(config.name.to_string(), value.to_string());
    }
    Ok(overrides)
}

/// Refuses a replication factor above 1: only the shard that leads a partition has a replica.
fn check_replicas(factor: i16) -> Result<(), Refused> {
    if factor <= 1 {
        return Ok(());
    }
    let words = format!("Unable to replicate the partition {factor} time(s): {ONE_REPLICA}");
    Err(Refused::new(ErrorCode::InvalidReplicationFactor, words))
}

const ONE_REPLICA: &str =
    "muster keeps one replica of each partition, whatever the number of brokers.";

/// The slots of new partitions by the default placement.
pub(super) fn slots(view: &View<'_>, topic_id: Uuid, partitions: Range<i32>) -> Vec<i32> {
    let slot = |partition| view.placement.partition_slot(topic_id, partition);
    partitions.map(slot).map(|slot| slot.0 as i32).collect()
}

/// The node of each partition, by index, after Kafka's checks. Each partition gets the slot that
/// has the number of its node, because that node leads this slot.
fn manual_assignment(view: &View<'_>, topic: &CreatableTopic<'_>) -> Result<Vec<i32>, Refused> {
    let set = [
        ("replication factor", i32::from(topic.replication_factor)),
        ("numPartitions", topic.num_partitions),
    ];
    if let Some((what, _)) = set.iter().find(|(_, value)| *value != -1) {
        let words =
            format!("A manual partition assignment was specified, but {what} was not set to -1.");
        return Err(Refused::new(ErrorCode::InvalidRequest, words));
    }
    let mut nodes = BTreeMap::new();
    for CreatableReplicaAssignment { partition_index, broker_ids } in &topic.assignments {
        if nodes.contains_key(partition_index) {
            return Err(invalid_assignment(format!(
                "Found multiple manual partition assignments for partition {partition_index}"
            )));
        }
        nodes.insert(*partition_index, only_replica(view, broker_ids)?);
    }
    if nodes.keys().zip(0..).any(|(partition, index)| *partition != index) {
        let words = "partitions should be a consecutive 0-based integer sequence";
        return Err(invalid_assignment(words));
    }
    Ok(nodes.into_values().collect())
}

/// The single broker that a request assigns to a partition.
pub(crate) fn only_replica(view: &View<'_>, brokers: &[i32]) -> Result<i32, Refused> {
    const WHERE: &str = "The manual partition assignment includes";
    if view.brokers.are_of_cluster() {
        let words = "In this version the nodes of a cluster assign partitions themselves.";
        return Err(invalid_assignment(words));
    }
    let mut sorted = brokers.to_vec();
    sorted.sort_unstable();
    let Some(first) = sorted.first() else {
        return Err(invalid_assignment(format!("{WHERE} an empty replica list.")));
    };
    let is_known = |broker: i32| u32::try_from(broker).is_ok_and(|it| it < view.placement.shards);
    let leads_a_slot = |broker: i32| view.placement.slots_of(broker as u32).next().is_some();
    let mut previous = None;
    for broker in &sorted {
        if !is_known(*broker) {
            let words = format!("{WHERE} broker {broker}, but no such broker is registered.");
            return Err(invalid_assignment(words));
        }
        if !leads_a_slot(*broker) {
            let words = format!(
                "{WHERE} broker {broker}, which cannot lead a partition: muster has more brokers \
                 than __consumer_offsets has partitions."
            );
            return Err(invalid_assignment(words));
        }
        if previous.replace(broker) == Some(broker) {
            let words = format!("{WHERE} the broker {broker} more than once.");
            return Err(invalid_assignment(words));
        }
    }
    match sorted.len() {
        1 => Ok(*first),
        count => Err(invalid_assignment(format!("{WHERE} {count} replicas: {ONE_REPLICA}"))),
    }
}

fn invalid_assignment(words: impl Into<String>) -> Refused {
    Refused::new(ErrorCode::InvalidReplicaAssignment, words)
}

pub(super) fn too_many_in_a_topic() -> Refused {
    let words = format!(
        "A topic has at most {PARTITIONS_PER_TOPIC_MAX} partitions (PARTITIONS_PER_TOPIC_MAX)."
    );
    Refused::new(ErrorCode::PolicyViolation, words)
}

pub(super) fn too_many_partitions(there: i64) -> Refused {
    let words =
        format!("There are {there} partitions of at most {PARTITIONS_MAX} (PARTITIONS_MAX).");
    Refused::new(ErrorCode::PolicyViolation, words)
}

pub(super) fn excessive() -> Refused {
    let words = "Excessively large number of partitions per request.";
    Refused::new(ErrorCode::PolicyViolation, words)
}
