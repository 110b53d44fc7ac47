//! The log of one group: its entries by index, and which of them are void, wherever they are in the
//! shard's log.
//!
//! A durable block is never written again. So an entry with index i makes void all entries of its
//! group that are before it in the log and have an index of at least i.

use crate::log_partition::LogPartition;
use crate::slot_entry::{CHANGE_BYTES, EntryHead, EntryKind};
use std::collections::{BTreeMap, VecDeque};

/// The number of an entry, and the term of the leader that made it. Two entries of a group with the
/// same id are the same entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryId {
    pub index: u64,
    pub term: u32,
}

/// The place of an entry in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct EntryPlace {
    pub segment: u64,
    /// The byte position of the block.
    pub start: u32,
    /// The number of the entry in its block.
    pub ordinal: u32,
}

/// An entry of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub term: u32,
    pub kind: EntryKind,
    /// The number of bytes after its header.
    pub length: u32,
    /// The number of the entry's block since the log was opened; 0 if the entry was recovered.
    pub block: u64,
    /// The entry's place, once the block has one, and the byte position after the block.
    pub place: EntryPlace,
    pub end: u32,
}

/// The entries that the entry at `at` has made void: all of its group that are at earlier places
/// and have at least this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Void {
    pub(crate) index: u64,
    pub(crate) at: EntryPlace,
}

/// The offsets of a partition that an entry has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) partition: LogPartition,
    /// The end of the partition before the entry, and after it.
    pub(crate) before: i64,
    pub(crate) after: i64,
}

/// An entry whose records are not visible yet.
#[derive(Debug)]
pub(crate) struct Pending {
    index: u64,
    pub(crate) offsets: Vec<Offsets>,
}

/// The log of a group.
#[derive(Debug, Default)]
pub struct GroupLog {
    /// The index begins after this entry, which is committed, and in a snapshot or a marker.
    base: EntryId,
    /// The replica to which the log belongs, if the replica's marker is in the log.
    replica: Option<u64>,
    /// The last entry. In a recovery that has not ended, it may be before the base.
    last: EntryId,
    /// The number of the block with the marker at which the log begins; 0 if the marker was
    /// recovered.
    begun_in: u64,
    /// The entries after the base.
    kept: VecDeque<Kept>,
    /// The bodies of the entries in `kept` that change the members, by index.
    changes: BTreeMap<u64, [u8; CHANGE_BYTES]>,
    pending: VecDeque<Pending>,
    commit: u64,
    /// All entries up to this one are on stable storage.
    durable: u64,
    voids: Vec<Void>,
    /// Set while some entries are void because of blocks that are not on stable storage yet. If
    /// such a block is lost, the entries that it made void are valid again. The two values are the
    /// place of the first such entry, and the number of the last such block.
    void_until: Option<(EntryPlace, u64)>,
    /// In a recovery: whether an entry was left out because its predecessors are missing.
    /// Compaction may have dropped them because they are void. A later entry must then show that
    /// this one is void, too.
    has_gap: bool,
}

/// All entries of a group that is gone are before it.
const BEHIND_ALL: EntryPlace = EntryPlace { segment: u64::MAX, start: u32::MAX, ordinal: u32::MAX };

impl GroupLog {
    /// Whether the group has entries, or a marker.
    pub(crate) fn exists(&self) -> bool {
        self.last.index > 0 || !self.voids.is_empty()
    }

    /// The entry after which the index begins.
    pub fn base(&self) -> EntryId {
        self.base
    }

    /// The replica to which the log belongs, if the replica's marker is in the log.
    pub fn replica(&self) -> Option<u64> {
        self.replica
    }

    /// The last entry.
    pub fn last(&self) -> EntryId {
        self.last
    }

    /// The last entry that is known to be committed.
    pub fn commit(&self) -> u64 {
        self.commit
    }

    /// The last entry that is committed and on stable storage.
    pub(crate) fn visible(&self) -> u64 {
        self.commit.min(self.durable)
    }

    pub(crate) fn voids(&self) -> &[Void] {
        &self.voids
    }

    /// The body of the entry with this index, if the entry is after the base and changes the
    /// members.
    pub fn change(&self, index: u64) -> Option<&[u8; CHANGE_BYTES]> {
        self.changes.get(&index)
    }

    /// The entry with this index. None if it is not after the base.
    pub(crate) fn get(&self, index: u64) -> Option<&Kept> {
        self.kept.get(self.nth(index)?)
    }

    /// The entries after the base, with their indexes.
    pub fn kept(&self) -> impl Iterator<Item = (u64, &Kept)> {
        (self.base.index + 1..).zip(&self.kept)
    }

    fn nth(&self, index: u64) -> Option<usize> {
        index.checked_sub(self.base.index + 1).map(|nth| nth as usize)
    }

    /// The term of an entry, if it is known.
    pub(crate) fn term_of(&self, index: u64) -> Option<u32> {
        let known = [self.last, self.base].into_iter().find(|known| known.index == index);
        known.map(|known| known.term).or_else(|| Some(self.get(index)?.term))
    }

    /// Checks whether an entry may follow the last one.
    ///
    /// # Errors
    /// The reason why the entry may not follow.
    pub(crate) fn check(&self, head: &EntryHead) -> Result<(), &'static str> {
        if self.is_gone() {
            return Err("an entry of a replica that is gone");
        }
        if head.index > self.last.index + 1 {
            return Err("an entry whose predecessors are missing");
        }
        if head.index <= self.commit {
            return Err("an entry in the place of a committed one");
        }
        if self.term_of(head.index - 1).is_some_and(|before| head.term < before) {
            return Err("an entry with a lower term than the one before it");
        }
        Ok(())
    }

    /// The end that a partition had before the entries from this index on. None if these entries
    /// have no record of the partition.
    pub(crate) fn end_before(&self, index: u64, partition: LogPartition) -> Option<i64> {
        let from = self.pending.partition_point(|it| it.index < index);
        let mut offsets = self.pending.range(from..).flat_map(|it| &it.offsets);
        offsets.find(|it| it.partition == partition).map(|it| it.before)
    }

    /// Makes the entries from this index on void. The cause is an entry in block `block`. Returns
    /// the void entries whose offsets have to be set back, the last entry first. None if no entry
    /// becomes void.
    pub(crate) fn truncate(
        &mut self,
        index: u64,
        block: u64,
    ) -> Option<impl Iterator<Item = Pending> + use<>> {
        if index > self.last.index {
            return None;
        }
        assert!(index > self.commit, "committed entries are never void");
        if let Some(first) = self.get(index).filter(|first| first.end > 0) {
            self.void_in(first.place, block);
        }
        self.last = EntryId { index: index - 1, term: self.term_of(index - 1).unwrap_or(0) };
        self.kept.truncate(self.nth(index).unwrap_or(0));
        self.changes.split_off(&index);
        self.durable = self.durable.min(index - 1);
        let from = self.pending.partition_point(|it| it.index < index);
        Some(self.pending.split_off(from).into_iter().rev())
    }

    /// Adds an entry that [`Self::check`] permits. Void entries must have been removed before.
    /// `body` is the entry without its header.
    pub(crate) fn push(
        &mut self,
        head: &EntryHead,
        body: &[u8],
        kept: Kept,
        offsets: Vec<Offsets>,
    ) {
        assert_eq!(head.index, self.last.index + 1, "the entries of a group are contiguous");
        self.last = EntryId { index: head.index, term: head.term };
        if head.index > self.base.index {
            self.kept.push_back(kept);
            if head.kind == EntryKind::Members
                && let Some(change) = body.first_chunk()
            {
                self.changes.insert(head.index, *change);
            }
        }
        self.pending.push_back(Pending { index: head.index, offsets });
    }

    /// Notes that entries from this place on are void because of this block.
    pub(crate) fn void_in(&mut self, place: EntryPlace, block: u64) {
        let (first, last) = self.void_until.unwrap_or((place, block));
        self.void_until = Some((first.min(place), last.max(block)));
    }

    /// Notes that a block that makes entries void is on stable storage.
    pub(crate) fn voided(&mut self, block: u64) {
        self.void_until.take_if(|(_, last)| *last <= block);
    }

    /// Leaves out an entry whose predecessors are missing.
    pub(crate) fn leave_gap(&mut self) {
        self.has_gap = true;
    }

    /// Notes that a later entry was found that makes the left-out entries void. Returns whether
    /// entries were left out.
    pub(crate) fn close_gap(&mut self) -> bool {
        std::mem::replace(&mut self.has_gap, false)
    }

    pub(crate) fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// Begins the log again after this entry, which a snapshot has. All earlier entries are void.
    pub(crate) fn begin(&mut self, replica: u64, base: EntryId, block: u64, offsets: Vec<Offsets>) {
        // A marker of a block that is not durable may have made older entries void, too.
        let has_void = self.exists() || self.void_until.is_some();
        let void_until = has_void.then(|| (EntryPlace::default(), block));
        *self = Self {
            base,
            replica: Some(replica),
            last: base,
            begun_in: block,
            commit: base.index,
            void_until,
            ..Self::default()
        };
        self.pending.push_back(Pending { index: base.index, offsets });
    }

    /// Makes all entries void, because of a record in this block: the replica is gone.
    pub(crate) fn end(&mut self, block: u64) {
        *self = Self {
            voids: vec![Void { index: 0, at: BEHIND_ALL }],
            void_until: Some((EntryPlace::default(), block)),
            ..Self::default()
        };
    }

    /// Whether all entries are void, and none may follow but a marker.
    pub(crate) fn is_gone(&self) -> bool {
        self.voids.first().is_some_and(|void| void.at == BEHIND_ALL)
    }

    /// Continues after an entry of a compacted segment: all entries up to it are merged.
    pub(crate) fn skip_to(&mut self, merged: EntryId) {
        self.last = merged;
        self.commit = self.commit.max(merged.index);
        self.compact(merged);
    }

    /// Moves the base to this entry: a snapshot has the entries up to it, and no follower needs
    /// them.
    pub(crate) fn compact(&mut self, base: EntryId) {
        if base.index <= self.base.index {
            return;
        }
        let merged = (base.index - self.base.index) as usize;
        self.kept.drain(..merged.min(self.kept.len()));
        self.changes = self.changes.split_off(&(base.index + 1));
        self.base = base;
    }

    /// Notes that the entries up to this one are committed. Returns whether more entries are
    /// visible.
    pub(crate) fn commit_to(&mut self, index: u64) -> bool {
        let before = self.visible();
        self.commit = self.commit.max(index.min(self.last.index));
        self.visible() > before
    }

    /// Notes that an entry of this block is on stable storage. Returns false, and changes nothing,
    /// if the entry is void.
    pub(crate) fn flushed(&mut self, index: u64, block: u64) -> bool {
        let is_there = self.is_in(index, block);
        if is_there {
            self.durable = self.durable.max(index);
        }
        is_there
    }

    /// Notes that all recovered entries are on stable storage.
    pub(crate) fn recovered_flushed(&mut self) {
        self.voided(0);
        if self.begun_in > 0 {
            // The log has begun again meanwhile, in a block that was not recovered.
            return;
        }
        let of_blocks = self.kept.iter().filter(|kept| kept.block > 0).count() as u64;
        self.durable = self.durable.max(self.last.index - of_blocks);
    }

    /// Whether the entry in this block is the valid entry with this index.
    fn is_in(&self, index: u64, block: u64) -> bool {
        self.get(index).is_some_and(|kept| kept.block == block)
            || self.base.index == index && self.begun_in == block
    }

    /// Notes the place of an entry, and the end of its block. Returns whether the entry is void.
    pub(crate) fn placed(&mut self, index: u64, block: u64, place: EntryPlace, end: u32) -> bool {
        let is_void = !self.is_in(index, block);
        let nth = self.nth(index);
        if let Some(kept) =
            nth.and_then(|nth| self.kept.get_mut(nth)).filter(|it| it.block == block)
        {
            (kept.place, kept.end) = (place, end);
        }
        is_void
    }

    /// Notes that the entries with at least this index are void if they are at places before `at`.
    pub(crate) fn note_void(&mut self, index: u64, at: EntryPlace) {
        self.voids.retain(|earlier| earlier.index < index);
        self.voids.push(Void { index, at });
    }

    /// Moves the base to the last visible entry: no other node needs the entries up to it.
    pub(crate) fn compact_visible(&mut self) {
        let index = self.visible();
        if let Some(term) = self.term_of(index) {
            self.compact(EntryId { index, term });
        }
    }

    /// The first segment that compaction must not take. It has the first entry after the base (or
    /// the marker of a replica without entries), or an entry that is void only once a block is
    /// durable.
    pub(crate) fn first_needed_segment(&self) -> Option<u64> {
        let kept = self.kept.front().filter(|kept| kept.end > 0).map(|kept| kept.place.segment);
        let marker = self.voids.first().filter(|_| self.last.index == 0 && !self.is_gone());
        let void = self.void_until.map(|(first, _)| first.segment);
        kept.or(marker.map(|void| void.at.segment)).into_iter().chain(void).min()
    }

    /// Drops the knowledge of void entries in the segments up to this one.
    pub(crate) fn forget_voids(&mut self, last_segment: u64) {
        self.voids.retain(|void| void.at.segment > last_segment);
    }

    /// Undoes [`Self::forget_voids`]. Later void entries may have been noted since.
    pub(crate) fn restore_voids(&mut self, before: Vec<Void>) {
        let later = std::mem::replace(&mut self.voids, before);
        for Void { index, at } in later {
            self.note_void(index, at);
        }
    }

    /// Takes out the entries that have become visible.
    pub(crate) fn take_visible(&mut self) -> impl Iterator<Item = Pending> + '_ {
        self.take_pending(self.visible())
    }

    /// Takes out the entries up to this one that were not visible before.
    pub(crate) fn take_pending(&mut self, to: u64) -> impl Iterator<Item = Pending> + '_ {
        let end = self.pending.partition_point(|it| it.index <= to);
        self.pending.drain(..end)
    }
}

/// Whether an entry at a place is void.
pub(crate) fn is_void(voids: &[Void], index: u64, place: EntryPlace) -> bool {
    voids.iter().any(|void| place < void.at && index >= void.index)
}
