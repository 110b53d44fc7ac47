//! From records to state: the one thing that changes what is durable.

use crate::classic::ClassicGroup;
use crate::coordinator::Coordinator;
use crate::group::{Entry, Group};
use crate::timers::Timers;
use alloc::vec::Vec;
use muster_codec::Str;
use muster_codec::records::{GroupMetadataValue, GroupRecord, OffsetCommitKey, OffsetCommitValue};

impl Coordinator {
    /// Applies a record to the durable state.
    pub fn replay(&mut self, record: &GroupRecord<'_>, position: u64) {
        self.written_at = position;
        let group_id = record.group_id();
        let entry = match (self.groups.get_mut(group_id), is_tombstone(record)) {
            (Some(entry), _) => entry,
            (None, false) => self.groups.insert(group_id),
            (None, true) => return,
        };
        entry.written_at = position;
        match record {
            GroupRecord::OffsetCommit(key, Some(value)) => offset_committed(entry, key, value),
            GroupRecord::OffsetCommit(key, None) => entry.offsets.replay(key, None),
            GroupRecord::GroupMetadata(_, Some(value)) => {
                group_recorded(&mut self.timers, entry, value);
            }
            GroupRecord::GroupMetadata(_, None) => remove_group(&mut self.timers, entry),
        }
        if entry.group.is_none() && entry.offsets.is_empty() {
            self.groups.remove(group_id);
            self.removed_at = position;
        }
    }

    /// The durable state as the records that would make it, by group: what is left of the log when
    /// it is compacted.
    pub fn durable_records(&self) -> Vec<GroupRecord<'_>> {
        self.groups.iter().flat_map(durable_records).collect()
    }
}

fn is_tombstone(record: &GroupRecord<'_>) -> bool {
    matches!(record, GroupRecord::OffsetCommit(_, None) | GroupRecord::GroupMetadata(_, None))
}

/// Who commits without being a member makes a group of it: a simple one.
fn offset_committed(entry: &mut Entry, key: &OffsetCommitKey<'_>, value: &OffsetCommitValue<'_>) {
    if entry.group.is_none() {
        let group = ClassicGroup::new(entry.id.clone(), value.commit_timestamp);
        entry.group = Some(Group::Classic(group));
    }
    entry.offsets.replay(key, Some(value));
}

fn group_recorded(timers: &mut Timers, entry: &mut Entry, value: &GroupMetadataValue<'_>) {
    let id = &entry.id;
    let new = || Group::Classic(ClassicGroup::new(id.clone(), value.current_state_timestamp));
    let Group::Classic(group) = entry.group.get_or_insert_with(new);
    group.replay(timers, value);
}

fn remove_group(timers: &mut Timers, entry: &mut Entry) {
    if let Some(Group::Classic(mut group)) = entry.group.take() {
        group.removed(timers);
    }
}

fn durable_records(entry: &Entry) -> impl Iterator<Item = GroupRecord<'_>> {
    let hard = entry.group.as_ref().and_then(|Group::Classic(group)| group.hard());
    let offsets = entry.offsets.iter().map(|(topic, partition, committed)| {
        let key = OffsetCommitKey {
            group: Str::Borrowed(&entry.id),
            topic: Str::Borrowed(topic),
            partition,
        };
        GroupRecord::OffsetCommit(key, Some(committed.to_record()))
    });
    hard.map(|hard| hard.to_record(&entry.id)).into_iter().chain(offsets)
}
