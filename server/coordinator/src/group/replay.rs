//! Applies records to the state of a group; nothing else changes durable state.

use super::{Entry, Group};
use crate::classic::ClassicGroup;
use crate::consumer::ConsumerGroup;
use crate::share::ShareGroup;
use crate::timers::Timers;
use alloc::boxed::Box;
use alloc::vec::Vec;
use muster_codec::records::{GroupMetadataValue, GroupRecord, OffsetCommitKey, OffsetCommitValue};
use muster_codec::{Str, Wall};

pub(crate) fn replay_in(entry: &mut Entry, timers: &mut Timers, record: &GroupRecord<'_>) {
    match record {
        GroupRecord::OffsetCommit(key, Some(value)) => offset_committed(entry, key, value),
        GroupRecord::OffsetCommit(key, None) => entry.offsets.replay(key, None),
        GroupRecord::GroupMetadata(_, Some(value)) => group_recorded(timers, entry, value),
        GroupRecord::GroupMetadata(_, None) => remove_classic(timers, entry),
        GroupRecord::ConsumerGroupMetadata(_, None) => remove_consumer(timers, entry),
        GroupRecord::ConsumerGroupMetadata(_, Some(_))
        | GroupRecord::ConsumerGroupPartitionMetadata(..)
        | GroupRecord::ConsumerGroupMemberMetadata(..)
        | GroupRecord::ConsumerGroupTargetAssignmentMetadata(..)
        | GroupRecord::ConsumerGroupTargetAssignmentMember(..)
        | GroupRecord::ConsumerGroupCurrentMemberAssignment(..)
        | GroupRecord::ConsumerGroupRegularExpression(..) => {
            if let Some(group) = consumer_group(timers, entry, record.is_tombstone()) {
                group.replay(timers, record);
            }
        }
        GroupRecord::ShareGroupMetadata(_, None) => remove_share(timers, entry),
        GroupRecord::ShareGroupMetadata(_, Some(_))
        | GroupRecord::ShareGroupMemberMetadata(..)
        | GroupRecord::ShareGroupTargetAssignmentMetadata(..)
        | GroupRecord::ShareGroupTargetAssignmentMember(..)
        | GroupRecord::ShareGroupCurrentMemberAssignment(..)
        | GroupRecord::ShareGroupStatePartitionMetadata(..) => {
            if let Some(group) = share_group(timers, entry, record.is_tombstone()) {
                group.replay(timers, record);
            }
        }
    }
}

/// The consumer group of a record. The first record of one creates it, even if there is a classic
/// group without a record (a group that has only offsets), which it replaces.
fn consumer_group<'e>(
    timers: &mut Timers,
    entry: &'e mut Entry,
    is_tombstone: bool,
) -> Option<&'e mut ConsumerGroup> {
    match &entry.group {
        Some(Group::Consumer(_)) => {}
        Some(Group::Classic(_) | Group::Share(_)) | None if is_tombstone => {}
        Some(Group::Classic(_) | Group::Share(_)) | None => {
            let new = || Group::Consumer(Box::new(ConsumerGroup::new(entry.id.clone())));
            let group = entry.successor.take().map_or_else(new, |group| *group);
            replace(timers, entry, group);
        }
    }
    match &mut entry.group {
        Some(Group::Consumer(group)) => Some(group),
        Some(Group::Classic(_) | Group::Share(_)) | None => None,
    }
}

/// The share group of a record; as [`consumer_group`].
fn share_group<'e>(
    timers: &mut Timers,
    entry: &'e mut Entry,
    is_tombstone: bool,
) -> Option<&'e mut ShareGroup> {
    match &entry.group {
        Some(Group::Share(_)) => {}
        Some(Group::Classic(_) | Group::Consumer(_)) | None if is_tombstone => {}
        Some(Group::Classic(_) | Group::Consumer(_)) | None => {
            let new = || Group::Share(Box::new(ShareGroup::new(entry.id.clone())));
            let group = entry.successor.take().map_or_else(new, |group| *group);
            replace(timers, entry, group);
        }
    }
    match &mut entry.group {
        Some(Group::Share(group)) => Some(group),
        Some(Group::Classic(_) | Group::Consumer(_)) | None => None,
    }
}

fn offset_committed(entry: &mut Entry, key: &OffsetCommitKey<'_>, value: &OffsetCommitValue<'_>) {
    has_committed(entry, value.commit_timestamp);
    entry.offsets.replay(key, Some(value));
}

/// A commit of a client that is not a member creates a simple group.
pub(crate) fn has_committed(entry: &mut Entry, commit_timestamp: i64) {
    if entry.group.is_none() {
        let group = ClassicGroup::new(entry.id.clone(), Wall(commit_timestamp));
        entry.group = Some(Group::Classic(group));
    }
}

fn group_recorded(timers: &mut Timers, entry: &mut Entry, value: &GroupMetadataValue<'_>) {
    match &entry.group {
        Some(Group::Classic(_)) => {}
        Some(Group::Consumer(_) | Group::Share(_)) | None => {
            let new = ClassicGroup::new(entry.id.clone(), Wall(value.current_state_timestamp));
            let group = entry.successor.take().map_or(Group::Classic(new), |group| *group);
            replace(timers, entry, group);
        }
    }
    match &mut entry.group {
        Some(Group::Classic(group)) => group.replay(timers, value),
        Some(Group::Consumer(_) | Group::Share(_)) | None => {}
    }
}

fn replace(timers: &mut Timers, entry: &mut Entry, group: Group) {
    let before = entry.group.replace(group);
    before.into_iter().for_each(|mut group| group.removed(timers));
}

fn remove_classic(timers: &mut Timers, entry: &mut Entry) {
    match entry.group.take() {
        Some(Group::Classic(mut group)) => group.removed(timers),
        other @ (Some(Group::Consumer(_) | Group::Share(_)) | None) => entry.group = other,
    }
}

fn remove_consumer(timers: &mut Timers, entry: &mut Entry) {
    match entry.group.take() {
        Some(Group::Consumer(mut group)) => group.removed(timers),
        other @ (Some(Group::Classic(_) | Group::Share(_)) | None) => entry.group = other,
    }
}

fn remove_share(timers: &mut Timers, entry: &mut Entry) {
    match entry.group.take() {
        Some(Group::Share(mut group)) => group.removed(timers),
        other @ (Some(Group::Classic(_) | Group::Consumer(_)) | None) => entry.group = other,
    }
}

/// The durable state of a group as the records that produce it.
pub(crate) fn durable_records(entry: &Entry) -> Vec<GroupRecord<'_>> {
    let mut records = match &entry.group {
        Some(Group::Consumer(group)) => {
            let mut records = Vec::new();
            group.durable_records(&mut records);
            records
        }
        Some(Group::Share(group)) => {
            let mut records = Vec::new();
            group.durable_records(&mut records);
            records
        }
        Some(Group::Classic(_)) | None => group_records(entry),
    };
    if entry.offsets.is_unloaded() {
        return records;
    }
    records.extend(entry.offsets.iter().map(|(topic, partition, committed)| {
        let key = OffsetCommitKey {
            group: Str::Borrowed(&entry.id),
            topic: Str::Borrowed(topic),
            partition,
        };
        GroupRecord::OffsetCommit(key, Some(committed.to_record()))
    }));
    records
}

/// The records that produce the group, with the members in the order in which they joined, without
/// offsets.
pub(crate) fn group_records(entry: &Entry) -> Vec<GroupRecord<'_>> {
    let mut records = Vec::new();
    match &entry.group {
        Some(Group::Classic(group)) => {
            records.extend(group.durable().map(|durable| durable.to_record(&entry.id)));
        }
        Some(Group::Consumer(group)) => group.records_by_age(&mut records),
        Some(Group::Share(group)) => group.records_by_age(&mut records),
        None => {}
    }
    records
}
