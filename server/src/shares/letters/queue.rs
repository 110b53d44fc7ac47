//! The topic of a group's dead letter queue, and Kafka's checks of this topic. They are made for
//! each letter, because configs and topics change.

use super::Place;
use crate::cluster::leader;
use crate::config::{TopicConfig, effective};
use crate::shares::Inputs;
use muster_coordinator::MissingTopic;
use std::sync::Arc;

/// The prefix of the names of Kafka's own topics.
const INTERNAL_PREFIX: &str = "__";

/// The intended size of the letters in a batch; a single letter may be larger.
const BATCH_BYTES: usize = 1 << 20;

/// A dead letter queue that passed the checks.
pub(super) enum Queue {
    There(Place),
    /// The topic does not exist, and has to be created.
    Missing(MissingTopic),
}

/// Finds the queue for a source partition.
///
/// # Errors
/// The reason why the letter is dropped, in Kafka's words.
pub(super) fn find(
    inputs: &Inputs<'_>,
    group: &str,
    name: &str,
    source_partition: i32,
) -> Result<Queue, String> {
    let topic = inputs.image.topic(name);
    if name.is_empty() {
        return Err(format!("Configured DLQ topic name in share group: {group} is empty."));
    }
    if name.starts_with(INTERNAL_PREFIX) {
        return Err(format!(
            "Configured DLQ topic name in share group: {group} cannot start with __, topic: {name}."
        ));
    }
    let config: Option<TopicConfig> =
        topic.map(|topic| effective(inputs.config, inputs.image, &topic.name));
    if config.as_ref().is_some_and(|it| !it.errors_deadletterqueue_group_enable) {
        return Err(format!(
            "DLQ is not enabled on configured DLQ topic for share group: {group}, topic: {name}"
        ));
    }
    if topic.is_none() && !inputs.config.errors_deadletterqueue_auto_create_topics_enable {
        return Err(format!(
            "DLQ topic for share group: {group} does not exist, topic: {name}, and is not created \
             without errors.deadletterqueue.auto.create.topics.enable"
        ));
    }
    let prefix = &inputs.config.errors_deadletterqueue_topic_name_prefix;
    if !name.starts_with(prefix.as_str()) {
        return Err(format!(
            "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: \
             {group}, topic: {name}, prefix: {prefix}"
        ));
    }
    let (Some(topic), Some(config)) = (topic, config) else {
        return Ok(Queue::Missing(missing(name)));
    };
    let partition = source_partition % topic.partitions.max(1);
    let leader = leader(topic, partition, inputs.placement);
    let max_bytes = config.max_message_bytes.min(config.segment_bytes);
    let max_bytes = usize::try_from(max_bytes).unwrap_or(0);
    let batch_bytes = max_bytes.min(BATCH_BYTES);
    Ok(Queue::There(Place { topic_id: topic.id, partition, leader, batch_bytes, max_bytes }))
}

fn missing(name: &str) -> MissingTopic {
    let config = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
    MissingTopic {
        name: name.into(),
        partitions: -1,
        replication_factor: -1,
        configs: vec![
            config("errors.deadletterqueue.group.enable", "true"),
            config("message.timestamp.type", "CreateTime"),
        ],
    }
}
