//! The removal of offsets on request: OffsetDelete, DeleteGroups, and deleted topics.

use super::{Offsets, Partitions, tombstone};
use crate::context::DeletedTopic;
use crate::turn::Turn;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};

/// Answers an OffsetDelete that the group allows. A partition without an offset is no error.
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

/// Writes tombstones for all offsets of a group, which must precede the group's own.
pub(crate) fn delete_all(turn: &mut Turn<'_, '_>, offsets: &Offsets, group_id: &str) {
    for (topic, partition, _) in offsets.iter() {
        turn.write(tombstone(group_id, topic, partition));
    }
}

/// Writes tombstones for the offsets of deleted topics. An offset of a later topic with the same
/// name stays; one without a topic id is judged by name and time.
pub(crate) fn delete_topics(
    turn: &mut Turn<'_, '_>,
    offsets: &Offsets,
    group_id: &str,
    deleted: &Deleted<'_>,
    records_max: usize,
) {
    if deleted.given.len() <= offsets.topics.len() {
        for topic in deleted.given {
            if let Some(partitions) = offsets.topics.get(topic.name) {
                delete_topic(turn, partitions, group_id, topic, records_max);
            }
        }
        return;
    }
    for (name, partitions) in offsets.by_topic() {
        for topic in deleted.of_name(name) {
            delete_topic(turn, partitions, group_id, topic, records_max);
        }
    }
}

fn delete_topic(
    turn: &mut Turn<'_, '_>,
    partitions: &Partitions,
    group_id: &str,
    topic: &DeletedTopic<'_>,
    records_max: usize,
) {
    for (partition, committed) in partitions.iter() {
        if turn.output.records.len() >= records_max {
            return;
        }
        let is_of_topic = match committed.topic_id.is_zero() {
            true => committed.commit_timestamp <= topic.deleted_at,
            false => committed.topic_id == topic.id,
        };
        if is_of_topic {
            turn.write(tombstone(group_id, topic.name, partition));
        }
    }
}

/// Deleted topics, in two orders: the smaller of this list and the group's topics is iterated.
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
