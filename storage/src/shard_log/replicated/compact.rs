//! The entries that compaction must leave for Raft, and the void ones that it removes.
//!
//! An entry after the base of its group may still become void, or be needed by a follower. So
//! compaction takes a segment only if each of its entries is void or not after the base.

use super::group::Void;
use super::{EntryId, Voids, partitions_of};
use crate::injected::Injected;
use crate::log_partition::LogPartition;
use crate::shard_log::ShardLog;
use crate::slot_entry::{NODE_GROUP, group_of};
use crate::snapshot::SectionRow;

impl ShardLog {
    /// Moves the base of a group to this entry, so that compaction may take the entries up to it. A
    /// renamed (complete) snapshot has these entries, and no follower in contact needs them.
    ///
    /// # Panics
    /// The entry is not committed, is not on stable storage, or has another term.
    pub fn compact_group(&mut self, group: u16, base: EntryId) {
        let Some(replicated) = self.replicated.as_deref_mut() else {
            unreachable!("the log of a cluster")
        };
        let of_group = replicated.groups.get_mut(group);
        if base.index > of_group.base().index {
            assert!(base.index <= of_group.visible(), "entries that others may overwrite");
            assert_eq!(of_group.term_of(base.index), Some(base.term), "another entry");
        }
        of_group.compact(base);
    }

    /// The position up to which a snapshot with these rows may have records of the log: 0 unless
    /// all that its sections have is committed and on stable storage. A snapshot gets its name by
    /// this position ([`SnapshotWriter::poll`](crate::snapshot::SnapshotWriter::poll)).
    ///
    /// Each row is followed by the term of its entry `newest`, when its section was written. An
    /// entry of another leader may have taken this place since, and then the section has void
    /// records. Two logs with the same entry have the same entries before it.
    ///
    /// A snapshot with void records is never settled. Its caller gives it up when a slot of it is
    /// deposed, or installs a snapshot.
    pub fn settled_position(&self, rows: &[(SectionRow, u32)]) -> u64 {
        let flushed = self.progress().flushed();
        if Injected::NamedBeforeCommit.is_injected() {
            return flushed;
        }
        let is_settled = |(row, newest_term): &(SectionRow, u32)| {
            let partition = LogPartition { topic: row.topic, index: row.index };
            let of_group = self.group(group_of(partition, self.config.slots));
            of_group.is_some_and(|it| {
                row.newest <= it.visible()
                    && it.term_of(row.from) == Some(row.term)
                    && it.term_of(row.newest) == Some(*newest_term)
            })
        };
        if rows.iter().all(is_settled) { flushed } else { 0 }
    }

    /// The replica of a group is gone: all its entries are void once the next block is on stable
    /// storage, and compaction takes them. The caller appends [`NodeRecord::Vote`] with
    /// [`ReplicaState::Gone`] to the same block. At startup it calls this for each group of
    /// [`NodeState::gone`]. A marker begins the log of the group again.
    ///
    /// [`NodeRecord::Vote`]: crate::node_state::NodeRecord::Vote
    /// [`ReplicaState::Gone`]: crate::node_state::ReplicaState::Gone
    /// [`NodeState::gone`]: crate::node_state::NodeState::gone
    pub fn end_group(&mut self, group: u16) {
        self.discard(group);
        for partition in partitions_of(&self.partitions, group, self.config.slots) {
            self.partitions.get_mut(partition).set_back(0);
        }
        let Some(replicated) = self.replicated.as_deref_mut() else {
            unreachable!("the log of a cluster")
        };
        let block = replicated.next_block;
        replicated.groups.get_mut(group).end(block);
    }

    /// The number of entries after the base of a group, and the bytes of their records.
    pub fn kept_size(&self, group: u16) -> (u64, u64) {
        let kept = self.group(group).into_iter().flat_map(|it| it.kept());
        kept.fold((0, 0), |(count, bytes), (_, it)| (count + 1, bytes + u64::from(it.length)))
    }

    /// The first segment that compaction must not take.
    pub(in crate::shard_log) fn first_needed_segment(&self) -> u64 {
        let Some(replicated) = &self.replicated else { return u64::MAX };
        if Injected::UncommittedCompacted.is_injected() {
            return u64::MAX;
        }
        let of_slots = replicated.groups.iter().filter(|(group, _)| *group != NODE_GROUP);
        of_slots.filter_map(|(_, it)| it.first_needed_segment()).min().unwrap_or(u64::MAX)
    }

    /// The void entries.
    pub(in crate::shard_log) fn voids(&self) -> Voids {
        let Some(replicated) = &self.replicated else { return Voids::default() };
        let voids = replicated.groups.iter().filter(|(_, it)| !it.voids().is_empty());
        Voids::of(voids.map(|(group, it)| (group, it.voids().to_vec())))
    }

    /// Forgets which entries are void in the segments up to this one, because compaction has
    /// replaced these segments. Returns what has to be restored if the replacing segment's file is
    /// gone.
    pub(in crate::shard_log) fn forget_voids(
        &mut self,
        last_segment: u64,
    ) -> Vec<(u16, Vec<Void>)> {
        let Some(replicated) = self.replicated.as_deref_mut() else { return Vec::new() };
        let mut before = Vec::new();
        for group in replicated.groups.numbers() {
            let of_group = replicated.groups.get_mut(group);
            if of_group.voids().iter().any(|void| void.at.segment <= last_segment) {
                before.push((group, of_group.voids().to_vec()));
                of_group.forget_voids(last_segment);
            }
        }
        before
    }

    pub(in crate::shard_log) fn restore_voids(&mut self, before: Vec<(u16, Vec<Void>)>) {
        let Some(replicated) = self.replicated.as_deref_mut() else { return };
        for (group, voids) in before {
            replicated.groups.get_mut(group).restore_voids(voids);
        }
    }
}
