//! How a replicated log is written.
//!
//! Appended records are in the open entry of their slot. When a block is due, the caller ends these
//! entries ([`ShardLog::end_entries`]), learns their indexes from raft, and writes them
//! ([`ShardLog::write_entry`]), together with the entries that other leaders sent. Then it seals
//! the block ([`ShardLog::seal_block`]).

use super::block::EndedEntry;
use super::group::{GroupLog, Offsets};
use super::{InBlock, Replicated, partitions_of, set_back};
use crate::layout::{BLOCK_HEADER_BYTES, PARTITION_BYTES};
use crate::log_partition::LogPartition;
use crate::progress::Progress;
use crate::shard_log::entries::LogSlot;
use crate::shard_log::gather::Sealed;
use crate::shard_log::partitions::{IndexEntry, Partitions};
use crate::shard_log::{EntryId, EntryPlace, Kept, ShardLog};
use crate::slot_entry::{
    EntryHead, EntryKind, Marker, NODE_GROUP, SLOT_ENTRY_BYTES, SlotEntry, group_of,
};
use crate::topic_rules::TopicRules;
use muster_codec::record_batch::{BatchHeader, set_partition_leader_epoch};
use muster_codec::wire::{DecodeError, Reader};

/// An entry for the next block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewEntry {
    pub group: u16,
    /// Not [`EntryKind::Void`].
    pub kind: EntryKind,
    pub index: u64,
    pub term: u32,
    /// How far the leader had applied the entries of the group of the cluster image: an index.
    pub stamp: u64,
}

impl ShardLog {
    fn replicated(&mut self) -> &mut Replicated {
        self.replicated.as_deref_mut().expect("the log of a cluster")
    }

    /// Whether a block has to be sealed now: something waits for it, and no other block is being
    /// written.
    pub fn block_is_due(&self, now: i64) -> bool {
        let Some(replicated) = &self.replicated else { return false };
        let waits = !replicated.ended.is_empty() || !replicated.block.entries.is_empty();
        self.may_seal() && (waits || self.is_due(now))
    }

    /// Whether no block is being written, or waits to be written.
    pub fn may_seal(&self) -> bool {
        self.in_flight.is_none() && self.gather.first_sealed().is_none()
    }

    /// Whether the next block is so long that it should be sealed before further entries are added.
    pub fn next_block_is_full(&self) -> bool {
        let bytes = self.replicated.as_ref().map_or(0, |it| it.block.buffer.len());
        bytes >= self.config.open_bytes_max
    }

    /// The most bytes after an entry's header, at all nodes.
    pub fn entry_bytes_max(&self) -> usize {
        self.config.batches_len_max()
    }

    /// Whether the next block has room for entries of another node, beside the records that wait
    /// for it already. `bytes` counts the headers of the entries, too.
    pub fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.replicated.as_ref().map_or(0, |it| it.ended_bytes);
        let len = self.next_block_len() + waiting + self.gather.open_bytes();
        !self.next_block_is_full() && len + bytes <= self.config.entries_len_max()
    }

    /// The length of the next block with the entries that are written to it.
    pub(super) fn next_block_len(&self) -> usize {
        let written = self.replicated.as_ref().map_or(0, |it| it.block.buffer.len());
        written.max(BLOCK_HEADER_BYTES)
    }

    /// Ends the open entries of all slots. Takes out those for which the next block has room, with
    /// the leader epoch that is the term of their group. The caller writes each of them, or
    /// discards its group. The others wait for a later block: any number of operations is
    /// accepted, but a block has a limit.
    pub fn end_entries(&mut self, term: impl Fn(u16) -> u32) -> Vec<EndedEntry> {
        self.end_open();
        let (mut len, max) = (self.next_block_len(), self.config.entries_len_max());
        let replicated = self.replicated();
        let mut is_full = false;
        let fits = |it: &mut EndedEntry| {
            let is_of_slot = it.group != NODE_GROUP;
            let added = SLOT_ENTRY_BYTES + it.bytes.len();
            is_full |= is_of_slot && len + added > max;
            let fits = is_of_slot && !is_full;
            len += if fits { added } else { 0 };
            fits
        };
        let mut ended: Vec<_> = replicated.ended.extract_if(.., fits).collect();
        replicated.ended_bytes = replicated.ended.iter().map(|it| it.bytes.len()).sum();
        for EndedEntry { group, bytes } in &mut ended {
            set_epochs(bytes, term(*group) as i32);
        }
        self.count_entries();
        ended
    }

    /// Ends the open entries, so that the next operations begin new ones.
    pub(in crate::shard_log) fn end_open(&mut self) {
        let slots = self.config.slots;
        let Some(replicated) = self.replicated.as_deref_mut() else { return };
        let first = replicated.ended.len();
        let (dirty, latest_at) = self.gather.take_open();
        if !dirty.is_empty() {
            replicated.block.begin();
            replicated.block.timestamp = replicated.block.timestamp.max(latest_at);
        }
        for partition in dirty {
            let group = group_of(partition, slots);
            let of_partition = self.partitions.get_mut(partition);
            of_partition.close(partition, None);
            let closed = std::mem::take(&mut of_partition.closed);
            replicated.ended_bytes += closed.bytes.len();
            let mut ended = replicated.ended.iter_mut().skip(first);
            match ended.find(|it| it.group == group) {
                Some(it) => it.bytes.extend(closed.bytes),
                None => replicated.ended.push(EndedEntry { group, bytes: closed.bytes }),
            }
        }
        self.gather.note_entries(replicated.bytes());
    }

    /// Counts the bytes that wait in entries again, after a change.
    fn count_entries(&mut self) {
        let bytes = self.replicated().bytes();
        self.gather.note_entries(bytes);
    }

    /// Drops the records that were appended to a group's slot but not written. Called when the
    /// node's replica no longer leads the group.
    pub fn discard(&mut self, group: u16) {
        self.end_open();
        let slots = self.config.slots;
        let replicated = self.replicated();
        replicated.ended.retain(|it| it.group != group);
        replicated.ended_bytes = replicated.ended.iter().map(|it| it.bytes.len()).sum();
        for partition in partitions_of(&self.partitions, group, slots) {
            let of_partition = self.partitions.get_mut(partition);
            of_partition.drop_open();
            // The newest entry with its records may be one that is undone. An answer that waited
            // for its index would wait for an entry of another leader.
            of_partition.position = 0;
        }
        self.count_entries();
    }

    /// Writes an entry to the next block. The entry makes the group's earlier entries with its
    /// index or higher ones void.
    ///
    /// # Errors
    /// The entry does not follow the others of its group, or its body does not fit its kind.
    /// Nothing was written.
    pub fn write_entry(&mut self, new: NewEntry, body: &[u8]) -> Result<(), DecodeError> {
        let NewEntry { group, kind, index, term, stamp } = new;
        let invalid = |what| Err(DecodeError::InvalidBatch(what));
        let block_len = self.next_block_len() + SLOT_ENTRY_BYTES + body.len();
        if block_len > self.config.block_len_max() {
            return invalid("an entry with which the block is too long");
        }
        let (topics, slots) = (self.config.topics, self.config.slots);
        let of_group = self.replicated().groups.get_mut(group);
        let commit = of_group.commit().min(index);
        let length = body.len() as u32;
        let head = EntryHead { group, kind, term, index, commit, stamp, length };
        if kind == EntryKind::Void {
            return invalid("a marker is written in its own way");
        }
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        EntryHead::read(&mut Reader::new(&bytes))?;
        let entry = SlotEntry { head, body };
        entry.check(topics, slots, false)?;
        if let Err(what) = of_group.check(&head) {
            return invalid(what);
        }
        self.push_entry(&entry)
    }

    fn push_entry(&mut self, entry: &SlotEntry<'_>) -> Result<(), DecodeError> {
        let Self { replicated, partitions, config, progress, .. } = self;
        let Replicated { groups, block, next_block, .. } =
            replicated.as_deref_mut().expect("the log of a cluster");
        let EntryHead { group, index, term, kind, length, .. } = entry.head;
        let of_group = groups.get_mut(group);
        let (offsets, batches, timestamp) = next_offsets(
            entry,
            config.topics,
            |partition| of_group.end_before(index, partition),
            partitions,
        )?;
        let void = of_group.truncate(index, *next_block);
        let voids = void.is_some();
        void.into_iter().for_each(|void| set_back(partitions, void));
        move_ends(partitions, &offsets);
        let place = EntryPlace::default();
        let kept = Kept { term, kind, length, block: *next_block, place, end: 0 };
        of_group.push(&entry.head, entry.body, kept, offsets.clone());
        block.push(entry, InBlock { group, index, voids, is_marker: false, offsets });
        block.batches += batches;
        block.timestamp = block.timestamp.max(timestamp);
        progress.accept();
        self.count_entries();
        Ok(())
    }

    /// Writes a marker to the next block. The log of the group then begins after the entry `base`,
    /// and all earlier entries of the group are void. `ends` are the ends of the group's
    /// partitions.
    ///
    /// # Errors
    /// The numbers are impossible. Nothing was written.
    pub fn write_marker(
        &mut self,
        group: u16,
        base: EntryId,
        marker: &Marker,
        ends: &[(LogPartition, i64)],
    ) -> Result<(), DecodeError> {
        let mut body = Vec::new();
        marker.write(&mut body);
        let EntryId { index, term } = base;
        let (kind, length) = (EntryKind::Void, body.len() as u32);
        let head = EntryHead { group, kind, term, index, commit: index, stamp: 0, length };
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        EntryHead::read(&mut Reader::new(&bytes))?;
        self.discard(group);
        let slots = self.config.slots;
        for partition in partitions_of(&self.partitions, group, slots) {
            self.partitions.get_mut(partition).set_back(0);
        }
        let offsets = ends.iter().map(|(partition, end)| {
            let of_partition = self.partitions.get_mut(*partition);
            (of_partition.next_offset, of_partition.written_offset) = (*end, *end);
            Offsets { partition: *partition, before: 0, after: *end }
        });
        let offsets: Vec<_> = offsets.collect();
        let replicated = self.replicated();
        let block = replicated.next_block;
        replicated.groups.get_mut(group).begin(marker.replica, base, block, offsets);
        let in_block = InBlock { group, index, voids: true, is_marker: true, offsets: Vec::new() };
        replicated.block.push(&SlotEntry { head, body: &body }, in_block);
        self.progress.accept();
        self.count_entries();
        Ok(())
    }

    /// Ends the next block, which is written by the next calls of [`ShardLog::poll`]. Returns the
    /// block's number. None if the block has no entry.
    pub fn seal_block(&mut self) -> Option<u64> {
        self.end_open();
        self.write_node_entries();
        let replicated = self.replicated();
        if replicated.block.entries.is_empty() {
            return None;
        }
        let block = std::mem::take(&mut replicated.block);
        let number = replicated.next_block;
        replicated.next_block += 1;
        let entries = block.entries.len() as u32;
        let first_position = self.progress.accepted() - u64::from(entries) + 1;
        self.gather.push_block(Sealed::replicated(block, first_position, number));
        self.count_entries();
        Some(number)
    }

    /// Writes the entries with the node's own records. No leader has to give them an index.
    fn write_node_entries(&mut self) {
        let replicated = self.replicated();
        let of_node = |it: &mut EndedEntry| it.group == NODE_GROUP;
        let mut rest = std::mem::take(&mut replicated.ended);
        let ended: Vec<_> = rest.extract_if(.., of_node).collect();
        replicated.ended_bytes = rest.iter().map(|it| it.bytes.len()).sum();
        replicated.ended = rest;
        for EndedEntry { group, bytes } in ended {
            let of_node = self.replicated().groups.get_mut(group);
            let (index, length) = (of_node.last().index + 1, bytes.len() as u32);
            let kind = EntryKind::Records;
            let head = EntryHead { group, kind, term: 0, index, commit: index, stamp: 0, length };
            self.push_entry(&SlotEntry { head, body: &bytes }).expect("the log's own batches");
            self.replicated().groups.get_mut(group).commit_to(index);
        }
    }

    /// The number of the last block on stable storage, since the log was opened.
    pub fn flushed_block(&self) -> u64 {
        self.replicated.as_ref().map_or(0, |it| it.flushed_block)
    }

    /// Notes that the entries of a group up to this one are committed. Returns whether more entries
    /// are visible: committed, and on stable storage.
    pub fn commit(&mut self, group: u16, index: u64) -> bool {
        let replicated = self.replicated.as_deref_mut().expect("the log of a cluster");
        let has_moved = replicated.groups.get_mut(group).commit_to(index);
        if has_moved {
            show(replicated, &mut self.partitions, group);
        }
        has_moved
    }

    /// The last entry of a group; 0 if there is none.
    pub fn last_entry(&self, group: u16) -> EntryId {
        self.group(group).map_or_else(EntryId::default, |it| it.last())
    }

    /// The last entry of a group that is known to be committed. It need not be on stable storage
    /// here: others have it.
    pub fn committed_entry(&self, group: u16) -> u64 {
        self.group(group).map_or(0, GroupLog::commit)
    }

    /// The last entry of a group that is committed and on stable storage.
    pub fn visible_entry(&self, group: u16) -> u64 {
        self.group(group).map_or(0, GroupLog::visible)
    }

    /// The entry after which the index of a group begins.
    pub fn base_entry(&self, group: u16) -> EntryId {
        self.group(group).map_or_else(EntryId::default, |it| it.base())
    }

    /// The index's row for an entry of a group. None if the entry is not after the base.
    pub fn kept_entry(&self, group: u16, index: u64) -> Option<&Kept> {
        self.group(group)?.get(index)
    }

    pub(in crate::shard_log) fn group(&self, group: u16) -> Option<&GroupLog> {
        self.replicated.as_ref()?.groups.get(group)
    }

    /// The progress of a slot: its open entry, and its visible ones.
    pub(in crate::shard_log) fn group_progress(
        &self,
        replicated: &Replicated,
        group: u16,
    ) -> Progress {
        let of_group = replicated.groups.get(group);
        let (last, visible) = of_group.map_or((0, 0), |it| (it.last().index, it.visible()));
        let ended = replicated.ended.iter().filter(|it| it.group == group).count() as u64;
        let is_open = u64::from(self.is_group_open(group));
        Progress::of_group(last + ended + is_open, visible)
    }

    pub(in crate::shard_log) fn is_group_open(&self, group: u16) -> bool {
        let slots = self.config.slots;
        self.gather.open_partitions().iter().any(|it| group_of(*it, slots) == group)
    }

    /// Notes the places of a block's entries: the write of the block has begun.
    pub(in crate::shard_log) fn block_placed(&mut self, block: &Sealed, at: (u64, u32, u32)) {
        let Some(replicated) = self.replicated.as_deref_mut() else { return };
        let (segment, start, end) = at;
        for (ordinal, it) in (0..).zip(&block.written) {
            let place = EntryPlace { segment, start, ordinal };
            let from = if it.is_marker { 0 } else { it.index };
            let of_group = replicated.groups.get_mut(it.group);
            if it.voids && !of_group.is_gone() {
                of_group.note_void(from, place);
            }
            if of_group.placed(it.index, block.number, place, end) {
                let mut later = block.written.iter().skip(ordinal as usize + 1);
                let is_void_here = later.any(|other| other.makes_void(it));
                let void_by = if is_void_here { block.number } else { replicated.next_block };
                of_group.void_in(place, void_by);
            }
        }
    }

    /// A block is on stable storage.
    pub(in crate::shard_log) fn entries_flushed(&mut self, block: &Sealed, at: (u64, u32, u32)) {
        let Some(replicated) = self.replicated.as_deref_mut() else { return };
        let (segment, start, end) = at;
        replicated.flushed_block = block.number;
        replicated.groups.each(|of_group| of_group.voided(block.number));
        for (ordinal, it) in (0..).zip(&block.written) {
            let of_group = replicated.groups.get_mut(it.group);
            let place = EntryPlace { segment, start, ordinal };
            let is_there =
                it.is_marker || of_group.get(it.index).is_some_and(|kept| kept.place == place);
            if !of_group.flushed(it.index, block.number) || !is_there {
                continue;
            }
            for offsets in &it.offsets {
                let of_partition = self.partitions.get_mut(offsets.partition);
                let entry = IndexEntry { next_offset: offsets.after, start, end };
                of_partition.index_block(segment, entry);
            }
            for partition in show(replicated, &mut self.partitions, it.group) {
                self.flushed.push(partition);
            }
            if it.group == NODE_GROUP {
                replicated.groups.get_mut(NODE_GROUP).compact_visible();
            } else {
                self.flushed_slots.push(LogSlot::of_group(it.group));
            }
        }
    }

    /// Notes that the recovered entries are on stable storage.
    pub(in crate::shard_log) fn recovered_entries_flushed(&mut self) {
        let Some(replicated) = self.replicated.as_deref_mut() else { return };
        for group in replicated.groups.numbers() {
            replicated.groups.get_mut(group).recovered_flushed();
            show(replicated, &mut self.partitions, group);
        }
    }
}

/// Makes the records of the visible entries readable. Returns their partitions.
fn show(replicated: &mut Replicated, partitions: &mut Partitions, group: u16) -> Vec<LogPartition> {
    let mut shown = Vec::new();
    for pending in replicated.groups.get_mut(group).take_visible() {
        for it in &pending.offsets {
            let of_partition = partitions.get_mut(it.partition);
            of_partition.flushed_offset = of_partition.flushed_offset.max(it.after);
            shown.push(it.partition);
        }
    }
    shown
}

/// The offsets of an entry, the number of its batches, and their greatest timestamp. The entry may
/// make entries with records of a partition void. For such a partition `void_end` returns the end
/// before these records.
pub(in crate::shard_log) fn next_offsets(
    entry: &SlotEntry<'_>,
    topics: TopicRules,
    void_end: impl Fn(LogPartition) -> Option<i64>,
    partitions: &Partitions,
) -> Result<(Vec<Offsets>, u32, i64), DecodeError> {
    let mut offsets: Vec<Offsets> = Vec::new();
    let (mut batches, mut timestamp) = (0, i64::MIN);
    for batch in entry.batches(topics) {
        let (partition, batch) = batch?;
        let (base, after) = (batch.header.base_offset, batch.header.next_offset());
        let nth = offsets.iter().position(|it| it.partition == partition);
        let nth = nth.unwrap_or_else(|| {
            let end = || partitions.get(partition).map_or(0, |it| it.written_offset);
            let before = void_end(partition).unwrap_or_else(end);
            offsets.push(Offsets { partition, before, after: before });
            offsets.len() - 1
        });
        if base < offsets[nth].after || after <= base {
            return Err(DecodeError::InvalidBatch("offsets that do not follow their partition"));
        }
        offsets[nth].after = after;
        batches += 1;
        timestamp = timestamp.max(batch.header.max_timestamp);
    }
    Ok((offsets, batches, timestamp))
}

/// Moves the ends of partitions to those after an entry.
pub(in crate::shard_log) fn move_ends(partitions: &mut Partitions, offsets: &[Offsets]) {
    for it in offsets {
        let of_partition = partitions.get_mut(it.partition);
        of_partition.written_offset = it.after;
        of_partition.next_offset = of_partition.next_offset.max(it.after);
    }
}

/// Sets the leader epoch of each batch.
fn set_epochs(bytes: &mut [u8], epoch: i32) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let batch = &mut rest[PARTITION_BYTES..];
        let header = BatchHeader::read(batch).expect("a batch of this log");
        set_partition_leader_epoch(batch, epoch);
        rest = &mut batch[header.total_len()..];
    }
}
