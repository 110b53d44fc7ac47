//! Partitions of topics in answers.

use super::owned::Owned;
use crate::context::Topics;
use crate::text::owned;
use alloc::vec::Vec;
use muster_codec::Uuid;
use muster_codec::messages::{
    ConsumerGroupAssignment, ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatTopicPartitions, ConsumerGroupTopicPartitions,
};

/// The partitions that a member owns, in the answer to its heartbeat.
pub(crate) fn owned_in_answer(assigned: &Owned) -> ConsumerGroupHeartbeatAssignment {
    let topics = assigned.by_key().iter().map(|topic| ConsumerGroupHeartbeatTopicPartitions {
        topic_id: topic.key,
        partitions: topic.partitions.iter().map(|it| it.partition).collect(),
    });
    ConsumerGroupHeartbeatAssignment { topic_partitions: topics.collect() }
}

/// Partitions with the names of their topics. Topics that do not exist are left out.
pub(crate) fn named(
    by_topic: impl Iterator<Item = (Uuid, Vec<i32>)>,
    topics: &dyn Topics,
) -> ConsumerGroupAssignment<'static> {
    let topic_partitions = by_topic.filter_map(|(topic_id, partitions)| {
        let topic_name = owned(topics.name(topic_id)?);
        Some(ConsumerGroupTopicPartitions { topic_id, topic_name, partitions })
    });
    ConsumerGroupAssignment { topic_partitions: topic_partitions.collect() }
}
