//! What removes offsets at once: OffsetDelete, DeleteGroups, and topics that are deleted.

use super::{Offsets, tombstone};
use crate::context::DeletedTopic;
use crate::turn::Turn;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};

/// Answers an OffsetDelete to a group that allows it. A partition without an offset is no error.
pub(crate) fn delete<'r>(
    turn: &mut Turn<'_, 'r>,
    offsets: &Offsets,
    is_subscribed: impl Fn(&str) -> bool,
    request: OffsetDeleteRequest<'r>,
) -> OffsetDeleteResponse<'r> {
    let topics = request.topics.into_iter().map(|topic| {
        let subscribed = is_subscribed(&topic.name);
        let error = if subscribed { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None };
        let partitions = topic.partitions.iter().map(|partition| {
            let partition_index = partition.partition_index;
            if !subscribed && offsets.get(&topic.name, partition_index).is_some() {
                turn.write(tombstone(&request.group_id, &topic.name, partition_index));
            }
            OffsetDeleteResponsePartition { partition_index, error_code: error as i16 }
        });
        OffsetDeleteResponseTopic { partitions: partitions.collect(), name: topic.name }
    });
    OffsetDeleteResponse { topics: topics.collect(), ..Default::default() }
}

/// Tombstones for all offsets of a group, which must come before the group's own.
pub(crate) fn delete_all(turn: &mut Turn<'_, '_>, offsets: &Offsets, group_id: &str) {
    for (topic, partition, _) in offsets.iter() {
        turn.write(tombstone(group_id, topic, partition));
    }
}

/// Tombstones for the offsets of deleted topics. An offset that was committed to a later topic of
/// the same name stays; one without a topic id goes by the name and the time.
pub(crate) fn delete_topics(
    turn: &mut Turn<'_, '_>,
    offsets: &Offsets,
    group_id: &str,
    deleted: &[DeletedTopic<'_>],
) {
    for topic in deleted {
        let Some(partitions) = offsets.topics.get(topic.name) else { continue };
        for (partition, committed) in partitions {
            let is_of_topic = match committed.topic_id.is_zero() {
                true => committed.commit_timestamp <= topic.until,
                false => committed.topic_id == topic.id,
            };
            if is_of_topic {
                turn.write(tombstone(group_id, topic.name, *partition));
            }
        }
    }
}
