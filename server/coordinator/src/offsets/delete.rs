//! The removal of offsets on request: OffsetDelete, DeleteGroups, and deleted topics.

use super::{Offsets, Partitions, tombstone};
use crate::committed::Committed;
use crate::context::DeletedTopic;
use crate::pending::{GroupPending, Pending};
use crate::turn::Turn;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};

/// Answers an OffsetDelete that the group allows. Deleting an offset that does not exist is no
/// error.
pub(crate) fn delete<'r>(
    turn: &mut Turn<'_, 'r>,
    offsets: &Offsets,
    is_subscribed: impl Fn(&str) -> bool,
    request: OffsetDeleteRequest<'r>,
) -> OffsetDeleteResponse<'r> {
    let pending = turn.pending.of(&request.group_id);
    let topics = request.topics.into_iter().map(|topic| {
        let subscribed = is_subscribed(&topic.name);
        let error = if subscribed { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None };
        let partitions = topic.partitions.iter().map(|partition| {
            let partition_index = partition.partition_index;
            let is_pending = pending.is_some_and(|it| it.has(&topic.name, partition_index));
            let exists = is_pending || offsets.get(&topic.name, partition_index).is_some();
            if !subscribed && exists {
                turn.events.offsets_deleted += 1;
                turn.write(tombstone(&request.group_id, &topic.name, partition_index));
            }
            OffsetDeleteResponsePartition { partition_index, error_code: error as i16 }
        });
        OffsetDeleteResponseTopic { partitions: partitions.collect(), name: topic.name }
    });
    OffsetDeleteResponse { topics: topics.collect(), ..Default::default() }
}

/// Writes tombstones for at most `count` offsets of a group, including pending offsets. Returns
/// whether no further offsets are left. The tombstones of the group itself must come later.
pub(crate) fn delete_some(
    turn: &mut Turn<'_, '_>,
    offsets: &Offsets,
    group_id: &str,
    count: usize,
) -> bool {
    let pending = turn.pending.of(group_id).into_iter().flat_map(GroupPending::iter);
    let only_pending = pending
        .map(|(topic, partition, _)| (topic, partition))
        .filter(|(topic, partition)| offsets.get(topic, *partition).is_none());
    let committed = offsets.iter().map(|(topic, partition, _)| (topic, partition));
    let mut all = committed.chain(only_pending);
    for (topic, partition) in all.by_ref().take(count) {
        turn.events.offsets_deleted += 1;
        turn.write(tombstone(group_id, topic, partition));
    }
    all.next().is_none()
}

/// Writes tombstones for the offsets of deleted topics. The offsets of a later topic with the same
/// name stay. An offset without a topic id is matched by name and time.
pub(crate) fn delete_topics(
    turn: &mut Turn<'_, '_>,
    offsets: &Offsets,
    group_id: &str,
    deleted: &Deleted<'_>,
    records_max: usize,
) {
    if deleted.given.len() <= offsets.topics.len() {
        for topic in deleted.given {
            let partitions = offsets.topics.get(topic.name);
            delete_topic(turn, partitions, group_id, topic, records_max);
        }
        return;
    }
    for (name, partitions) in offsets.by_topic() {
        for topic in deleted.of_name(name) {
            delete_topic(turn, Some(partitions), group_id, topic, records_max);
        }
    }
    let pending = turn.pending.of(group_id);
    for name in pending.into_iter().flat_map(GroupPending::topics) {
        for topic in deleted.of_name(name).filter(|_| !offsets.topics.contains_key(name)) {
            delete_topic(turn, None, group_id, topic, records_max);
        }
    }
}

fn delete_topic(
    turn: &mut Turn<'_, '_>,
    committed: Option<&Partitions>,
    group_id: &str,
    topic: &DeletedTopic<'_>,
    records_max: usize,
) {
    let has_committed = |at| committed.and_then(|it| it.get(at)).is_some_and(|it| topic.has(it));
    let pending = turn.pending.of(group_id);
    let pending = pending.into_iter().flat_map(|pending| pending.of_topic(topic.name));
    let is_of_topic = |it: &Pending| topic.has(&it.committed);
    let pending = pending.filter(|(_, all)| all.iter().any(is_of_topic)).map(|(at, _)| at);
    let of_committed = committed.into_iter().flat_map(Partitions::iter);
    let of_committed = of_committed.filter(|(_, it)| topic.has(it)).map(|(at, _)| at);
    let rest = records_max.saturating_sub(turn.output.records.len());
    for partition in of_committed.chain(pending.filter(|at| !has_committed(*at))).take(rest) {
        turn.write(tombstone(group_id, topic.name, partition));
    }
}

impl DeletedTopic<'_> {
    /// Whether an offset belongs to this topic, and not to a newer topic with the same name.
    fn has(&self, committed: &Committed) -> bool {
        if committed.topic_id.is_zero() {
            committed.commit_timestamp <= self.deleted_at
        } else {
            committed.topic_id == self.id
        }
    }
}

/// Deleted topics, in two orders. A group is searched by these topics or by its own, whichever are
/// fewer.
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
