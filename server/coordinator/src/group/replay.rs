//! Applies records to the state of a group. Only replay changes durable state.

use super::{Entry, Group, Kind};
use crate::classic::ClassicGroup;
use crate::consumer::Consumer;
use crate::modern;
use crate::share::Share;
use crate::streams::Streams;
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
        GroupRecord::GroupMetadata(_, None) => remove(timers, entry, Kind::Classic),
        GroupRecord::ConsumerGroupMetadata(_, None) => remove(timers, entry, Kind::Consumer),
        GroupRecord::ConsumerGroupMetadata(_, Some(_))
        | GroupRecord::ConsumerGroupPartitionMetadata(..)
        | GroupRecord::ConsumerGroupMemberMetadata(..)
        | GroupRecord::ConsumerGroupTargetAssignmentMetadata(..)
        | GroupRecord::ConsumerGroupTargetAssignmentMember(..)
        | GroupRecord::ConsumerGroupCurrentMemberAssignment(..)
        | GroupRecord::ConsumerGroupRegularExpression(..) => {
            replay_of::<Consumer>(timers, entry, record);
        }
        GroupRecord::ShareGroupMetadata(_, None) => remove(timers, entry, Kind::Share),
        GroupRecord::ShareGroupMetadata(_, Some(_))
        | GroupRecord::ShareGroupMemberMetadata(..)
        | GroupRecord::ShareGroupTargetAssignmentMetadata(..)
        | GroupRecord::ShareGroupTargetAssignmentMember(..)
        | GroupRecord::ShareGroupCurrentMemberAssignment(..)
        | GroupRecord::ShareGroupStatePartitionMetadata(..) => {
            replay_of::<Share>(timers, entry, record);
        }
        GroupRecord::StreamsGroupMetadata(_, None) => remove(timers, entry, Kind::Streams),
        GroupRecord::StreamsGroupMetadata(_, Some(_))
        | GroupRecord::StreamsGroupMemberMetadata(..)
        | GroupRecord::StreamsGroupTargetAssignmentMetadata(..)
        | GroupRecord::StreamsGroupTargetAssignmentMember(..)
        | GroupRecord::StreamsGroupCurrentMemberAssignment(..)
        | GroupRecord::StreamsGroupTopology(..) => {
            replay_of::<Streams>(timers, entry, record);
        }
    }
}

/// Applies a record to a group of its kind. The first record of a group creates it, and replaces a
/// group of another kind, such as a classic group that has only offsets.
fn replay_of<K: KindOfEntry>(timers: &mut Timers, entry: &mut Entry, record: &GroupRecord<'_>) {
    let is_there = entry.group.as_mut().is_some_and(|group| K::of(group).is_some());
    if !is_there && record.is_tombstone() {
        return;
    }
    if !is_there {
        let new = || K::into_group(modern::Group::new(entry.id.clone()));
        let group = entry.successor.take().map_or_else(new, |group| *group);
        replace(timers, entry, group);
    }
    if let Some(group) = entry.group.as_mut().and_then(K::of) {
        K::replay(group, timers, record);
    }
}

/// Converts a newer kind of group to and from [`Group`], and replays its records.
trait KindOfEntry: modern::kind::Kind {
    /// The group if it is of this kind.
    fn of(group: &mut Group) -> Option<&mut modern::Group<Self>>;

    fn into_group(group: modern::Group<Self>) -> Group;

    fn replay(group: &mut modern::Group<Self>, timers: &mut Timers, record: &GroupRecord<'_>);
}

macro_rules! kinds_of_entries {
    ($($kind:ident),*) => {
        $(impl KindOfEntry for $kind {
            fn of(group: &mut Group) -> Option<&mut modern::Group<Self>> {
                if let Group::$kind(group) = group { Some(group) } else { None }
            }

            fn into_group(group: modern::Group<Self>) -> Group {
                Group::$kind(Box::new(group))
            }

            fn replay(
                group: &mut modern::Group<Self>,
                timers: &mut Timers,
                record: &GroupRecord<'_>,
            ) {
                group.replay(timers, record);
            }
        })*
    };
}

kinds_of_entries! { Consumer, Share, Streams }

fn offset_committed(entry: &mut Entry, key: &OffsetCommitKey<'_>, value: &OffsetCommitValue<'_>) {
    has_committed(entry, value.commit_timestamp);
    entry.offsets.replay(key, Some(value));
}

/// Called when an offset is committed. If there is no group, the client is not a member, and a
/// simple group is created.
pub(crate) fn has_committed(entry: &mut Entry, commit_timestamp: i64) {
    if entry.group.is_none() {
        let group = ClassicGroup::new(entry.id.clone(), Wall(commit_timestamp));
        entry.group = Some(Group::Classic(group));
    }
}

fn group_recorded(timers: &mut Timers, entry: &mut Entry, value: &GroupMetadataValue<'_>) {
    match &entry.group {
        Some(Group::Classic(_)) => {}
        Some(Group::Consumer(_) | Group::Share(_) | Group::Streams(_)) | None => {
            let new = ClassicGroup::new(entry.id.clone(), Wall(value.current_state_timestamp));
            let group = entry.successor.take().map_or(Group::Classic(new), |group| *group);
            replace(timers, entry, group);
        }
    }
    match &mut entry.group {
        Some(Group::Classic(group)) => group.replay(timers, value),
        Some(Group::Consumer(_) | Group::Share(_) | Group::Streams(_)) | None => {}
    }
}

fn replace(timers: &mut Timers, entry: &mut Entry, group: Group) {
    let before = entry.group.replace(group);
    before.into_iter().for_each(|mut group| group.removed(timers));
}

fn remove(timers: &mut Timers, entry: &mut Entry, kind: Kind) {
    let removed = entry.group.take_if(|group| group.kind() == kind);
    removed.into_iter().for_each(|mut group| group.removed(timers));
}

/// The durable state of a group, as records.
pub(crate) fn durable_records(entry: &Entry) -> Vec<GroupRecord<'_>> {
    let mut records = Vec::new();
    match &entry.group {
        Some(Group::Consumer(group)) => group.durable_records(&mut records),
        Some(Group::Share(group)) => group.durable_records(&mut records),
        Some(Group::Streams(group)) => group.durable_records(&mut records),
        Some(Group::Classic(_)) | None => records = group_records(entry),
    }
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

/// The group as records, without offsets. Members are in the order in which they joined.
pub(crate) fn group_records(entry: &Entry) -> Vec<GroupRecord<'_>> {
    let mut records = Vec::new();
    match &entry.group {
        Some(Group::Classic(group)) => {
            records.extend(group.durable().map(|durable| durable.to_record(&entry.id)));
        }
        Some(Group::Consumer(group)) => group.records_by_age(&mut records),
        Some(Group::Share(group)) => group.records_by_age(&mut records),
        Some(Group::Streams(group)) => group.records_by_age(&mut records),
        None => {}
    }
    records
}
