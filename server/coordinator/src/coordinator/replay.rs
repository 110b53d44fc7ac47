//! Applies a record to its group, and a marker to all groups with offsets of its producer.

use super::Coordinator;
use crate::committed::Committed;
use crate::group::{Entry, durable_records, has_committed, replay_in};
use crate::pending::{GroupPending, Pending, Placed, Producer};
use alloc::vec::Vec;
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};

impl Coordinator {
    /// Applies a record to the durable state.
    pub fn replay(&mut self, record: &GroupRecord<'_>, position: u64) {
        self.written_at = position;
        self.replay_on_pending(record);
        let group_id = record.group_id();
        if matches!(record, GroupRecord::OffsetCommit(..)) {
            self.load_offsets(group_id)
        } else {
            self.load(group_id)
        }
        let entry = match (self.groups.get_mut(group_id), record.is_tombstone()) {
            (Some(entry), _) => entry,
            (None, false) => self.groups.insert(group_id),
            (None, true) => return,
        };
        entry.written(position, &mut self.changes);
        let offsets = entry.offsets.len() as u64;
        replay_in(entry, &mut self.timers, record);
        let gauges = &mut self.counters.gauges;
        gauges.offsets = gauges.offsets + entry.offsets.len() as u64 - offsets;
        // A record of an offset affects the counts only if it creates the group.
        if !matches!(record, GroupRecord::OffsetCommit(..)) || !entry.is_counted() {
            entry.recount(gauges, &mut self.payers);
            self.rebalances.replayed(entry);
        }
        if self.remove_if_vacant(group_id) {
            self.removed_at = position;
        }
    }

    /// Applies a record that is part of a transaction. Its offset is pending.
    pub fn replay_in_transaction(
        &mut self,
        producer: Producer,
        record: &GroupRecord<'_>,
        position: u64,
    ) {
        match record {
            GroupRecord::OffsetCommit(key, Some(value)) => {
                self.replay_pending(producer, key, value, position);
            }
            GroupRecord::OffsetCommit(_, None)
            | GroupRecord::GroupMetadata(..)
            | GroupRecord::ConsumerGroupMetadata(..)
            | GroupRecord::ConsumerGroupPartitionMetadata(..)
            | GroupRecord::ConsumerGroupMemberMetadata(..)
            | GroupRecord::ConsumerGroupTargetAssignmentMetadata(..)
            | GroupRecord::ConsumerGroupTargetAssignmentMember(..)
            | GroupRecord::ConsumerGroupCurrentMemberAssignment(..)
            | GroupRecord::ConsumerGroupRegularExpression(..)
            | GroupRecord::ShareGroupMetadata(..)
            | GroupRecord::ShareGroupMemberMetadata(..)
            | GroupRecord::ShareGroupTargetAssignmentMetadata(..)
            | GroupRecord::ShareGroupTargetAssignmentMember(..)
            | GroupRecord::ShareGroupCurrentMemberAssignment(..)
            | GroupRecord::ShareGroupStatePartitionMetadata(..)
            | GroupRecord::StreamsGroupMetadata(..)
            | GroupRecord::StreamsGroupMemberMetadata(..)
            | GroupRecord::StreamsGroupTargetAssignmentMetadata(..)
            | GroupRecord::StreamsGroupTargetAssignmentMember(..)
            | GroupRecord::StreamsGroupCurrentMemberAssignment(..)
            | GroupRecord::StreamsGroupTopology(..) => self.replay(record, position),
        }
    }

    /// Applies the marker of a producer: its pending offsets, in all groups of the slot, become
    /// committed or are dropped. `position` is the position of the marker.
    pub fn replay_end_transaction(
        &mut self,
        producer_id: i64,
        outcome: TransactionOutcome,
        position: u64,
    ) {
        self.written_at = position;
        for group_id in self.pending.groups_of(producer_id) {
            // A snapshot has the group at a later position, so the pending offsets belong to a
            // later transaction.
            if self.groups.unloaded.holds(&group_id, position) {
                continue;
            }
            self.load_offsets(&group_id);
            let committed = self.pending.end(&group_id, producer_id, outcome);
            let entry = self.groups.get_or_insert(&group_id);
            entry.written(position, &mut self.changes);
            let before = entry.offsets.len() as u64;
            for (topic, partition, committed) in committed {
                has_committed(entry, committed.commit_timestamp);
                entry.offsets.put(&topic, partition, committed);
            }
            let gauges = &mut self.counters.gauges;
            gauges.offsets = gauges.offsets + entry.offsets.len() as u64 - before;
            entry.recount(gauges, &mut self.payers);
            if self.remove_if_vacant(&group_id) {
                self.removed_at = position;
            }
        }
        self.counters.gauges.pending_offsets = self.pending.len() as u64;
    }

    /// Removes the entry of a group id that has neither a group nor offsets, committed or pending.
    /// Returns whether it was removed.
    pub(crate) fn remove_if_vacant(&mut self, group_id: &str) -> bool {
        let is_removed =
            self.pending.of(group_id).is_none() && self.groups.remove_if_vacant(group_id);
        if is_removed {
            self.changes.note_removed(group_id);
            self.rebalances.forget(group_id);
        }
        is_removed
    }

    fn replay_pending(
        &mut self,
        producer: Producer,
        key: &OffsetCommitKey<'_>,
        value: &OffsetCommitValue<'_>,
        position: u64,
    ) {
        self.written_at = position;
        self.load(&key.group);
        let entry = self.groups.get_or_insert(&key.group);
        entry.written(position, &mut self.changes);
        has_committed(entry, value.commit_timestamp);
        entry.recount(&mut self.counters.gauges, &mut self.payers);
        let committed = Committed::from_record(value);
        let pending = Pending { producer, committed };
        self.pending.add(&key.group, &key.topic, key.partition, pending);
        self.counters.gauges.pending_offsets = self.pending.len() as u64;
    }

    /// Called for a record that is in no transaction. A committed offset supersedes the pending
    /// offsets of its partition, and a tombstone removes them.
    fn replay_on_pending(&mut self, record: &GroupRecord<'_>) {
        let GroupRecord::OffsetCommit(key, value) = record else { return };
        if self.pending.is_empty() {
            return;
        }
        match value {
            Some(_) => self.pending.supersede(&key.group, &key.topic, key.partition),
            None => self.pending.remove(&key.group, &key.topic, key.partition),
        }
        self.counters.gauges.pending_offsets = self.pending.len() as u64;
    }

    /// The durable state as records, by group, like a compacted log. Pending offsets and unloaded
    /// groups are left out; see [`Self::load_all`].
    pub fn durable_records(&self) -> Vec<GroupRecord<'_>> {
        self.groups.live().flat_map(durable_records).collect()
    }

    /// Like [`Self::durable_records`], but with pending offsets, each with its producer for
    /// [`Self::replay_in_transaction`]. Superseded pending offsets precede the committed offset.
    pub fn durable_state(&self) -> Vec<(Option<Producer>, GroupRecord<'_>)> {
        self.groups.live().flat_map(|entry| self.durable_state_of(entry)).collect()
    }

    fn durable_state_of<'e>(
        &'e self,
        entry: &'e Entry,
    ) -> Vec<(Option<Producer>, GroupRecord<'e>)> {
        let of_group = self.pending.of(&entry.id);
        let pending = |is_superseded| {
            let all = of_group.into_iter().flat_map(GroupPending::iter);
            all.flat_map(move |(topic, partition, pending)| {
                let wanted = pending.in_order().filter(move |it| it.is_superseded == is_superseded);
                wanted.map(move |Placed { pending, .. }| {
                    (Some(pending.producer), pending.to_record(&entry.id, topic, partition))
                })
            })
        };
        let is_offset = |record: &GroupRecord<'_>| matches!(record, GroupRecord::OffsetCommit(..));
        let records = durable_records(entry);
        let (offsets, of_group): (Vec<_>, Vec<_>) = records.into_iter().partition(is_offset);
        let plain = |records: Vec<GroupRecord<'e>>| records.into_iter().map(|it| (None, it));
        let state = plain(of_group).chain(pending(true)).chain(plain(offsets));
        state.chain(pending(false)).collect()
    }
}
