//! What removes offsets at once: OffsetDelete, DeleteGroups, and topics that are deleted.

use super::{Committed, Offsets, tombstone};
use crate::context::DeletedTopic;
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
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
    deleted: &Deleted<'_>,
) {
    if deleted.given.len() <= offsets.topics.len() {
        for topic in deleted.given {
            if let Some(partitions) = offsets.topics.get(topic.name) {
                delete_topic(turn, partitions, group_id, topic);
            }
        }
        return;
    }
    for (name, partitions) in offsets.by_topic() {
        for topic in deleted.of_name(name) {
            delete_topic(turn, partitions, group_id, topic);
        }
    }
}

fn delete_topic(
    turn: &mut Turn<'_, '_>,
    partitions: &BTreeMap<i32, Committed>,
    group_id: &str,
    topic: &DeletedTopic<'_>,
) {
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

/// Topics that were deleted: whichever has fewer, they or a group, is gone through.
pub(crate) struct Deleted<'d> {
    given: &'d [DeletedTopic<'d>],
    by_name: Vec<DeletedTopic<'d>>,
}

impl<'d> Deleted<'d> {
    pub(crate) fn new(given: &'d [DeletedTopic<'d>]) -> Self {
        let mut by_name = given.to_vec();
        by_name.sort_by_key(|topic| topic.name);
        Self { given, by_name }
    }

    fn of_name(&self, name: &str) -> impl Iterator<Item = &DeletedTopic<'d>> {
        let first = self.by_name.partition_point(|topic| topic.name < name);
        self.by_name[first..].iter().take_while(move |topic| topic.name == name)
    }
}
