//! Recovery of a replicated log.
//!
//! An entry is replayed once it is known to be committed. The header of a later entry of its group
//! says so, or the caller does ([`Recovery::commit`]). Before that, a later entry may make it void.
//! If it is still unknown at the end of the log, the group's leader decides.

use super::case::refuse;
use super::waiting::WaitingEntry;
use super::{Case, Corruption, Recovered, RecoveredBatch, RecoveredItem, Recovery};
use crate::injected::Injected;
use crate::layout::{Block, SegmentHeader};
use crate::log_partition::LogPartition;
use crate::shard_log::partitions::IndexEntry;
use crate::shard_log::replicated::group::Offsets;
use crate::shard_log::replicated::{
    EntryId, EntryPlace, GroupLog, Kept, move_ends, next_offsets, partitions_of, set_back,
};
use crate::shard_log::segment::Segment;
use crate::slot_entry::{EntryHead, EntryKind, Marker, SlotEntry};
use crate::topic_rules::TopicRules;

/// The place of an entry that is read.
#[derive(Debug, Clone, Copy)]
struct Here {
    place: EntryPlace,
    end: u32,
    /// The position of the last operation in its block.
    position: u64,
    is_merged: bool,
}

impl Recovered {
    /// The logs of groups, by their number, in a replicated log.
    pub fn groups(&self) -> impl Iterator<Item = (u16, &GroupLog)> {
        self.groups.iter().filter(|(_, it)| it.exists() || it.has_gap())
    }

    /// Begins the index of a group after this entry, because a snapshot has the entries up to it.
    /// Returns false if the entry is not in the log, or not committed there: the log has lost
    /// records.
    pub fn begin_after(&mut self, group: u16, base: EntryId) -> bool {
        let of_group = self.groups.get_mut(group);
        let is_known = of_group.term_of(base.index).is_none_or(|term| term == base.term);
        let is_there = base.index <= of_group.commit() && is_known;
        if is_there {
            of_group.compact(base);
        }
        is_there
    }

    /// A group that lacks entries. Its log cannot be used.
    pub fn incomplete_group(&self) -> Option<u16> {
        self.incomplete_groups().next()
    }

    pub(crate) fn incomplete_groups(&self) -> impl Iterator<Item = u16> {
        self.groups.iter().filter(|(_, it)| it.has_gap()).map(|(group, _)| group)
    }

    /// The replica of a group, if its marker is in the log.
    pub(crate) fn replica(&self, group: u16) -> Option<u64> {
        self.groups.get(group)?.replica()
    }

    /// Whether the log has entries of a group.
    pub(crate) fn has_group(&self, group: u16) -> bool {
        self.groups.get(group).is_some_and(|it| it.exists() || it.has_gap())
    }

    fn has_compacted(&self) -> bool {
        self.segments.values().any(Segment::is_compacted)
    }

    /// Sets the end of a partition whose earlier records are only in a snapshot.
    pub fn set_log_end(&mut self, partition: LogPartition, end: i64) {
        let of_partition = self.partitions.get_mut(partition);
        if of_partition.next_offset < end {
            (of_partition.next_offset, of_partition.written_offset) = (end, end);
            of_partition.recovered_offset = end;
        }
    }
}

impl Recovery {
    /// Makes the recovery read replicated logs, which have this number of slots.
    pub fn replicated(self, slots: u32) -> Self {
        assert!(slots > 0, "a log without slots");
        Self { slots: Some(slots), ..self }
    }

    /// Replays the entries of a group up to this index, because a snapshot proves that they are
    /// committed. Returns false if the log ends before this index.
    pub fn commit(
        &mut self,
        group: u16,
        index: u64,
        mut replay: impl FnMut(RecoveredItem<'_>),
    ) -> bool {
        let of_group = self.found.groups.get_mut(group);
        of_group.commit_to(index);
        let is_there = of_group.commit() >= index;
        self.replay_committed(group, &mut replay);
        is_there
    }

    /// Replays the entries of a block.
    pub(super) fn replay_entries(
        &mut self,
        block: &Block<'_>,
        header: &SegmentHeader,
        at: usize,
        replay: &mut impl FnMut(RecoveredItem<'_>),
    ) -> Result<usize, Corruption> {
        let SegmentHeader { sequence, block_bytes, .. } = *header;
        let is_merged = header.compacted.is_some();
        let end = (at + block.padded_len(block_bytes)) as u32;
        let position = self.found.position + u64::from(block.header.operations);
        let (mut entries, mut batches) = (0, 0);
        for entry in block.slot_entries() {
            let checked = entry.and_then(|it| {
                it.check(self.topics, self.slots.unwrap_or(1), is_merged).map(|()| it)
            });
            let Ok(entry) = checked else {
                return refuse(Case::M, sequence, at, "an entry cannot be read");
            };
            let place = EntryPlace { segment: sequence, start: at as u32, ordinal: entries };
            let here = Here { place, end, position, is_merged };
            match self.take_entry(&entry, here, replay) {
                Ok(count) => batches += count,
                Err(what) => return refuse(Case::S, sequence, at, what),
            }
            entries += 1;
        }
        let header = block.header;
        if batches != header.batches || header.operations == 0 {
            return refuse(Case::M, sequence, at, "the number of batches differs from the header");
        }
        if !is_merged && entries != header.operations {
            return refuse(Case::M, sequence, at, "the number of entries differs from the header");
        }
        self.block_replayed(sequence, end, position);
        Ok(end as usize)
    }

    /// Takes the next entry of a group. Returns the number of its batches.
    fn take_entry(
        &mut self,
        entry: &SlotEntry<'_>,
        here: Here,
        replay: &mut impl FnMut(RecoveredItem<'_>),
    ) -> Result<u32, &'static str> {
        let EntryHead { group, kind, index, term, commit, .. } = entry.head;
        if kind == EntryKind::Void {
            self.take_marker(entry, here, replay);
            return Ok(0);
        }
        let has_compacted = self.found.has_compacted();
        let of_group = self.found.groups.get_mut(group);
        if here.is_merged && index > of_group.last().index {
            of_group.skip_to(EntryId { index: index - 1, term });
        }
        if index > of_group.last().index + 1 && has_compacted {
            of_group.leave_gap();
            return Ok(count_batches(entry, self.topics));
        }
        of_group.check(&entry.head)?;
        if of_group.close_gap() {
            of_group.note_void(index, here.place);
        }
        let end = |partition| of_group.end_before(index, partition);
        let offsets = next_offsets(entry, self.topics, end, &self.found.partitions);
        let (offsets, batches, timestamp) =
            offsets.map_err(|_| "offsets that do not follow their partition")?;
        if let Some(void) = of_group.truncate(index, 0) {
            set_back(&mut self.found.partitions, void);
            of_group.note_void(index, here.place);
            self.waiting.truncate(group, index);
        }
        move_ends(&mut self.found.partitions, &offsets);
        self.index(&offsets, here);
        let Here { place, end, position, is_merged } = here;
        let kept = Kept { term, kind, length: entry.head.length, block: 0, place, end };
        let of_group = self.found.groups.get_mut(group);
        of_group.push(&entry.head, entry.body, kept, offsets);
        of_group.commit_to(if is_merged { index } else { commit });
        if is_merged {
            of_group.skip_to(EntryId { index, term });
        }
        self.found.segments.get_mut(&place.segment).into_iter().for_each(|it| it.time(timestamp));
        if kind.has_batches() {
            let body = entry.body.to_vec();
            self.waiting.push(WaitingEntry { head: entry.head, position, body });
        }
        self.replay_committed(group, replay);
        Ok(batches)
    }

    fn take_marker(
        &mut self,
        entry: &SlotEntry<'_>,
        here: Here,
        replay: &mut impl FnMut(RecoveredItem<'_>),
    ) {
        let EntryHead { group, index, term, .. } = entry.head;
        let base = EntryId { index, term };
        self.waiting.remove(group);
        let partitions = &mut self.found.partitions;
        for partition in partitions_of(partitions, group, self.slots.unwrap_or(1)) {
            partitions.get_mut(partition).set_back(0);
        }
        let of_group = self.found.groups.get_mut(group);
        let marker = Marker::read(entry.body).expect("a marker that was checked");
        of_group.begin(marker.replica, base, 0, Vec::new());
        of_group.note_void(0, here.place);
        replay(RecoveredItem::Marker { group, base, marker });
    }

    fn index(&mut self, offsets: &[Offsets], here: Here) {
        let Here { place: EntryPlace { segment, start, .. }, end, .. } = here;
        for it in offsets {
            let entry = IndexEntry { next_offset: it.after, start, end };
            self.found.partitions.get_mut(it.partition).index_block(segment, entry);
        }
    }

    /// Replays the committed entries of a group.
    fn replay_committed(&mut self, group: u16, replay: &mut impl FnMut(RecoveredItem<'_>)) {
        let of_group = self.found.groups.get_mut(group);
        let commit = of_group.commit();
        for pending in of_group.take_pending(commit) {
            for it in &pending.offsets {
                let of_partition = self.found.partitions.get_mut(it.partition);
                of_partition.recovered_offset = of_partition.recovered_offset.max(it.after);
            }
        }
        let to = if Injected::VoidReplayed.is_injected() { u64::MAX } else { commit };
        for waiting in self.waiting.take(group, to) {
            let WaitingEntry { head, position, body } = waiting;
            let entry = SlotEntry { head, body: &body };
            for batch in entry.batches(self.topics) {
                let (partition, batch) = batch.expect("a batch that was checked");
                let found = RecoveredBatch { partition, batch, position };
                replay(RecoveredItem::Batch { group, index: head.index, found });
            }
        }
    }
}

fn count_batches(entry: &SlotEntry<'_>, topics: TopicRules) -> u32 {
    entry.batches(topics).count() as u32
}
