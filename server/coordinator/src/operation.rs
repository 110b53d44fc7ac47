//! Splits the records of a group into operations of the log, which are atomic and of limited size.

use muster_codec::Str;
use muster_codec::messages::StreamsGroupAssignment;
use muster_codec::records::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue, GroupMetadataValue, GroupRecord,
    StreamsGroupCurrentMemberAssignmentValue,
};

/// The most bytes of a record without its texts and partitions: lengths, versions, and its part of
/// the batch header.
const RECORD_BYTES: usize = 64;
/// The bytes of a topic in a target or an assignment, without its partitions.
const TOPIC_BYTES: usize = 24;
/// The most bytes that the length of a text takes.
const LENGTH_BYTES: usize = 5;

/// Splits the records of a group into operations. There is one operation, unless the records that
/// may be separated exceed `bytes_max`. Kafka writes one batch, and fails if it is larger than a
/// message may be.
///
/// A crash may keep only the first operations. That is safe for each kind of records:
///
/// - Tombstones of offsets are independent of each other.
/// - Members' targets precede the record of the assignment epoch. Without that record the group
///   epoch is newer than the target's, so the target is computed again. A partition that is in two
///   targets still has one owner.
/// - A new group epoch is its own operation, before the tombstones of the members that leave. (In
///   Kafka's batch it comes last.) The group epoch is then newer than the target's, so that the
///   partitions of all members that are gone are assigned again.
/// - The last tombstone of a static member and the metadata of its replacement are in one
///   operation, so that one of the two members exists. If the replacement has no target, its next
///   heartbeat raises the group epoch.
/// - When a classic group becomes a consumer group, the members precede their assignments. If a
///   member or its assignment is missing after a crash, the epoch of its client is refused, and the
///   client joins again. The first consumer got no answer. It joins again, too, and raises the
///   group epoch.
/// - When a consumer group becomes a classic group, either the member that left still exists, or
///   the target has no epoch. In both cases the group computes its target again, as it does when a
///   member without a target joins again. The tombstone of the consumer group and the record of the
///   classic group are in one operation; before this operation, the group is an empty consumer
///   group.
pub fn operations<'o, 'r>(
    records: &'o [GroupRecord<'r>],
    bytes_max: usize,
) -> impl Iterator<Item = &'o [GroupRecord<'r>]> {
    let is_cut = end_of_first(records, bytes_max) < records.len();
    let epochs = usize::from(is_cut && is_leave(records));
    let (mut rest, mut epoch) = records.split_at(records.len() - epochs);
    core::iter::from_fn(move || {
        if !epoch.is_empty() {
            return Some(core::mem::take(&mut epoch));
        }
        let (operation, after) = rest.split_at(end_of_first(rest, bytes_max));
        rest = after;
        (!operation.is_empty()).then_some(operation)
    })
}

/// The number of records in the first operation.
fn end_of_first(records: &[GroupRecord<'_>], bytes_max: usize) -> usize {
    let mut bytes = 0;
    let is_cut = |at: usize| {
        bytes += cut_bytes(&records[at], records.get(at + 1))?;
        let is_full = at > 0 && bytes > bytes_max;
        (is_full && !is_replacement(&records[at - 1], &records[at])).then_some(at)
    };
    (0..records.len()).find_map(is_cut).unwrap_or(records.len())
}

/// Whether members leave: all records but the last are tombstones, and the last is a new group
/// epoch.
fn is_leave(records: &[GroupRecord<'_>]) -> bool {
    let Some((last, others)) = records.split_last() else { return false };
    matches!(last, GroupRecord::ConsumerGroupMetadata(_, Some(_)))
        && others.iter().all(GroupRecord::is_tombstone)
}

/// The bytes that must not be separated if an operation begins with `record`: this record, and a
/// next record that must stay with it. None if an operation may not begin here.
fn cut_bytes(record: &GroupRecord<'_>, next: Option<&GroupRecord<'_>>) -> Option<usize> {
    let (group_id, own) = match (record, next) {
        (GroupRecord::OffsetCommit(key, None), _) => (&key.group, key.topic.len()),
        (GroupRecord::ConsumerGroupMemberMetadata(key, value), _) => {
            (&key.group_id, key.member_id.len() + value.as_ref().map_or(0, profile_bytes))
        }
        (GroupRecord::ConsumerGroupTargetAssignmentMember(key, value), _) => {
            (&key.group_id, key.member_id.len() + value.as_ref().map_or(0, target_bytes))
        }
        (GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value), _) => {
            (&key.group_id, key.member_id.len() + value.as_ref().map_or(0, current_bytes))
        }
        (GroupRecord::StreamsGroupTargetAssignmentMember(key, value), _) => {
            (&key.group_id, key.member_id.len() + value.as_ref().map_or(0, tasks_bytes))
        }
        (GroupRecord::StreamsGroupCurrentMemberAssignment(key, value), _) => {
            (&key.group_id, key.member_id.len() + value.as_ref().map_or(0, owned_tasks_bytes))
        }
        (
            GroupRecord::ConsumerGroupMetadata(key, None),
            Some(GroupRecord::GroupMetadata(_, Some(classic))),
        ) => (&key.group_id, classic_bytes(classic)),
        _ => return None,
    };
    Some(group_id.len() + own + RECORD_BYTES)
}

/// Whether `record` is a static member, and replaces the member whose tombstone is `before`.
fn is_replacement(before: &GroupRecord<'_>, record: &GroupRecord<'_>) -> bool {
    let is_gone = matches!(before, GroupRecord::ConsumerGroupMemberMetadata(_, None));
    is_gone && matches!(record, GroupRecord::ConsumerGroupMemberMetadata(_, Some(_)))
}

fn profile_bytes(value: &ConsumerGroupMemberMetadataValue<'_>) -> usize {
    let texts = [&value.instance_id, &value.rack_id, &value.server_assignor];
    let texts = texts.into_iter().chain([&value.subscribed_topic_regex]).flatten();
    let texts = texts.chain([&value.client_id, &value.client_host]);
    let texts: usize = texts
        .chain(&value.subscribed_topic_names)
        .map(|it: &Str<'_>| it.len() + LENGTH_BYTES)
        .sum();
    let protocols = value.classic_member_metadata.0.iter().flat_map(|it| &it.supported_protocols);
    let protocol_bytes = protocols.map(|it| it.name.len() + it.metadata.len() + 2 * LENGTH_BYTES);
    texts + protocol_bytes.sum::<usize>()
}

fn target_bytes(value: &ConsumerGroupTargetAssignmentMemberValue) -> usize {
    let topics = value.topic_partitions.iter();
    topics.map(|it| TOPIC_BYTES + size_of::<i32>() * it.partitions.len()).sum()
}

/// Each partition is written with its epoch.
fn current_bytes(value: &ConsumerGroupCurrentMemberAssignmentValue) -> usize {
    let topics = value.assigned_partitions.iter().chain(&value.partitions_pending_revocation);
    topics.map(|it| TOPIC_BYTES + 2 * size_of::<i32>() * it.partitions.len()).sum()
}

fn tasks_bytes(value: &StreamsGroupAssignment<'_>) -> usize {
    let lists = [&value.active_tasks, &value.standby_tasks, &value.warmup_tasks];
    let tasks = lists.into_iter().flatten();
    tasks
        .map(|it| it.subtopology_id.len() + TOPIC_BYTES + size_of::<i32>() * it.partitions.len())
        .sum()
}

/// Each task is written with its epoch.
fn owned_tasks_bytes(value: &StreamsGroupCurrentMemberAssignmentValue<'_>) -> usize {
    let assigned = [&value.active_tasks, &value.standby_tasks, &value.warmup_tasks];
    let revoked = [
        &value.active_tasks_pending_revocation,
        &value.standby_tasks_pending_revocation,
        &value.warmup_tasks_pending_revocation,
    ];
    let tasks = assigned.into_iter().chain(revoked).flatten();
    tasks
        .map(|it| {
            it.subtopology_id.len() + TOPIC_BYTES + 2 * size_of::<i32>() * it.partitions.len()
        })
        .sum()
}

fn classic_bytes(value: &GroupMetadataValue<'_>) -> usize {
    let members = value.members.iter();
    members.map(|it| it.member_id.len() + it.subscription.len() + it.assignment.len()).sum()
}
