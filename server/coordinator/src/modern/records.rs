//! The parts that the records of consumer and share groups have in common.

use super::owned::{KeyPartitions, Partitions};
use crate::text::owned;
use muster_codec::records::{
    ConsumerGroupKey, ConsumerGroupMemberKey, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, ConsumerGroupTargetTopicPartitions,
};

pub(crate) fn group_key(group_id: &str) -> ConsumerGroupKey<'static> {
    ConsumerGroupKey { group_id: owned(group_id) }
}

pub(crate) fn member_key(group_id: &str, member_id: &str) -> ConsumerGroupMemberKey<'static> {
    ConsumerGroupMemberKey { group_id: owned(group_id), member_id: owned(member_id) }
}

pub(crate) fn target_epoch_value(
    assignment_epoch: i32,
    assignment_timestamp: i64,
) -> ConsumerGroupTargetAssignmentMetadataValue {
    ConsumerGroupTargetAssignmentMetadataValue { assignment_epoch, assignment_timestamp }
}

pub(crate) fn target_value(partitions: Partitions) -> ConsumerGroupTargetAssignmentMemberValue {
    let topics = partitions.into_iter().map(|topic| ConsumerGroupTargetTopicPartitions {
        topic_id: topic.key,
        partitions: topic.partitions,
    });
    ConsumerGroupTargetAssignmentMemberValue { topic_partitions: topics.collect() }
}

/// The partitions of a member's target.
pub(crate) fn target_part(value: &ConsumerGroupTargetAssignmentMemberValue) -> Partitions {
    let topics = value.topic_partitions.iter();
    let topics =
        topics.map(|it| KeyPartitions { key: it.topic_id, partitions: it.partitions.clone() });
    topics.collect()
}
