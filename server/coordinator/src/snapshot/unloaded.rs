//! Groups of a snapshot that are not loaded yet. They are looked up in its index, in place.

use super::SnapshotDamage;
use super::archive::{self, section_bytes};
use super::index::{COUNT_BYTES, IndexEntry, Section};
use crate::counters::Gauges;
use crate::group::{Entry, Kind};
use crate::limits::GROUPS_MAX;
use crate::offsets::Offsets;
use crate::pending::Restored;
use crate::text::Text;
use crate::timers::Timers;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use muster_snapshot_index::{BitSet, Found, Index, Pages, SnapshotBytes};

/// The minimum size of an offset in a section, and the maximum number of offsets in a part.
const OFFSET_BYTES_MIN: usize = 56;
const PART_OFFSETS_MAX: usize = 1_024;

/// Processing this many bytes of a group's records takes as long as one member.
const ITEM_BYTES: usize = 64;

/// The error for an index that was intact when it was opened, and is damaged now.
static INDEX_CHANGED: SnapshotDamage =
    SnapshotDamage { group_id: None, what: "the index was changed after it was opened" };

/// The unloaded groups of a snapshot. There are none without a snapshot.
#[derive(Default)]
pub(crate) struct Unloaded {
    index: Index<IndexEntry>,
    /// Counts the groups of which nothing is loaded, by kind, and all unloaded offsets.
    gauges: Gauges,
    /// The groups that had pending offsets when the snapshot was opened.
    with_pending: Vec<usize>,
    /// Groups of which nothing is loaded.
    whole: BitSet,
    /// Groups that are loaded without their offsets.
    offsets_only: BitSet,
}

/// An unloaded group, as the index describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnloadedGroup<'a> {
    pub(crate) id: &'a str,
    /// The protocol type; empty if no member ever joined.
    pub(crate) protocol_type: &'a str,
    pub(crate) entry: IndexEntry,
}

impl UnloadedGroup<'_> {
    /// An upper bound of the number of its offsets.
    pub(crate) fn offsets_max(&self) -> usize {
        let IndexEntry { offsets, parts, .. } = self.entry;
        match parts {
            0 => offsets.len as usize / OFFSET_BYTES_MIN,
            parts => (parts as usize).saturating_mul(PART_OFFSETS_MAX),
        }
    }

    /// An upper bound of the items to process.
    pub(crate) fn items_max(&self) -> usize {
        let members = self.entry.members as usize;
        members.max(self.entry.group.len as usize / ITEM_BYTES) + self.offsets_max()
    }

    fn damaged(&self, what: &'static str) -> SnapshotDamage {
        SnapshotDamage { group_id: Some(Text::from(self.id)), what }
    }
}

impl<'i> From<Found<'i, IndexEntry>> for UnloadedGroup<'i> {
    fn from(Found { id, text, row }: Found<'i, IndexEntry>) -> Self {
        Self { id, protocol_type: text, entry: row }
    }
}

impl fmt::Debug for Unloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unloaded").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Unloaded {
    /// Opens the index of a snapshot.
    ///
    /// # Errors
    /// The checksum of the index is not `crc`, the index contradicts itself or the file, or it has
    /// more than [`GROUPS_MAX`] groups.
    pub(crate) fn open(
        bytes: SnapshotBytes,
        index: Range<usize>,
        crc: u32,
    ) -> Result<Self, SnapshotDamage> {
        let damaged = |what| SnapshotDamage { group_id: None, what };
        let file = (*bytes).as_ref();
        let all = file.get(index.clone()).ok_or(damaged("the index is not in the file"))?;
        let pages = Pages::of(all, crc).ok_or(INDEX_CHANGED.clone())?;
        let count = pages.get(all, 0..COUNT_BYTES).and_then(|count| count.first_chunk().copied());
        let count = usize::try_from(count.map_or(0, u64::from_be_bytes)).ok();
        let count = count.filter(|it| *it <= GROUPS_MAX);
        let count = count.ok_or(damaged("the index has too many groups"))?;
        let file_len = file.len() as u64;
        let index = Index::new(bytes, index, pages, COUNT_BYTES, count);
        let index = index.ok_or(damaged("the index is cut off"))?;
        let mut unloaded = Self {
            index,
            gauges: Gauges::default(),
            with_pending: Vec::new(),
            whole: BitSet::all(count),
            offsets_only: BitSet::none(count),
        };
        unloaded.check(file_len).map_err(damaged)?;
        Ok(unloaded)
    }

    /// The damage found in the index since it was opened.
    pub(crate) fn damage(&self) -> Option<&'static SnapshotDamage> {
        self.index.is_damaged().then_some(&INDEX_CHANGED)
    }

    /// Number of unloaded groups.
    pub(crate) fn len(&self) -> usize {
        self.whole.len()
    }

    /// The counts of groups of which nothing is loaded, by kind, and of all unloaded offsets, even
    /// of loaded groups.
    pub(crate) fn gauges(&self) -> Gauges {
        self.gauges
    }

    /// Whether nothing is left to load, neither groups nor offsets.
    pub(crate) fn is_closed(&self) -> bool {
        self.index.is_closed()
    }

    /// A group of which at least the offsets are unloaded.
    pub(crate) fn with_offsets(&self, id: &str) -> Option<UnloadedGroup<'_>> {
        if self.is_closed() {
            return None;
        }
        let number = self.index.number(id)?;
        let is_here = self.whole.has(number) || self.offsets_only.has(number);
        self.group(number).filter(|_| is_here)
    }

    /// A completely unloaded group.
    pub(crate) fn get(&self, id: &str) -> Option<UnloadedGroup<'_>> {
        self.find(id).and_then(|number| self.group(number))
    }

    /// Whether nothing of the group is loaded, and the snapshot has its state at this position or a
    /// later one.
    pub(crate) fn holds(&self, id: &str, position: u64) -> bool {
        self.get(id).is_some_and(|group| group.entry.position >= position)
    }

    /// All completely unloaded groups after an id, in the order of ids.
    pub(crate) fn iter_after(&self, id: Option<&str>) -> impl Iterator<Item = UnloadedGroup<'_>> {
        let from = id.map_or(0, |id| self.index.search(|other| other <= id));
        let numbers = core::iter::successors(self.whole.next(from), |it| self.whole.next(it + 1));
        numbers.filter_map(|number| self.group(number))
    }

    /// The id of the first group of which nothing is loaded. If there is none, the id of the first
    /// group whose offsets are unloaded.
    pub(crate) fn first_id(&self) -> Option<Text> {
        let number = self.whole.next(0).or_else(|| self.offsets_only.next(0))?;
        self.group(number).map(|group| Text::from(group.id))
    }

    /// The first id after `id` of a completely unloaded group.
    pub(crate) fn id_after(&self, id: Option<&str>) -> Option<&str> {
        let from = id.map_or(0, |id| self.index.search(|other| other <= id));
        self.group(self.whole.next(from)?).map(|group| group.id)
    }

    /// The bytes of the section with a group's records.
    ///
    /// # Errors
    /// The bytes are damaged.
    pub(crate) fn records(&self, group: &UnloadedGroup<'_>) -> Result<&[u8], SnapshotDamage> {
        section_bytes(self.index.file(), group.entry.group).map_err(|what| group.damaged(what))
    }

    /// The pending offsets of all groups when the snapshot was opened, each with its group. The
    /// pending offsets of one partition are in the order of their records.
    ///
    /// # Errors
    /// The bytes are damaged.
    pub(crate) fn pending(&self) -> Result<Vec<(Text, Restored)>, SnapshotDamage> {
        let mut all = Vec::new();
        for group in self.with_pending.iter().filter_map(|number| self.group(*number)) {
            let pending = archive::read_pending(self.records(&group)?);
            let pending = pending.map_err(|what| group.damaged(what))?;
            let id = Text::from(group.id);
            all.extend(pending.into_iter().map(|it| (id.clone(), it)));
        }
        Ok(all)
    }

    /// The groups that had pending offsets when the snapshot was opened.
    pub(crate) fn with_pending(&self) -> Vec<Text> {
        let groups = self.with_pending.iter().filter_map(|number| self.group(*number));
        groups.map(|group| Text::from(group.id)).collect()
    }

    /// The bytes of one section of a group's offsets; None after the last section.
    ///
    /// # Errors
    /// The bytes are damaged.
    pub(crate) fn offsets(
        &self,
        group: &UnloadedGroup<'_>,
        part: usize,
    ) -> Result<Option<&[u8]>, SnapshotDamage> {
        let bytes = |section| {
            section_bytes(self.index.file(), section).map(Some).map_err(|what| group.damaged(what))
        };
        let IndexEntry { offsets, parts, .. } = group.entry;
        if parts == 0 {
            return if part == 0 { bytes(offsets) } else { Ok(None) };
        }
        let (table, _) = bytes(offsets)?.unwrap_or_default().as_chunks();
        match table.get(part) {
            Some(section) => bytes(Section::read(section)),
            None if part as u64 == u64::from(parts) => Ok(None),
            None => Err(group.damaged("a part of its offsets is missing")),
        }
    }

    /// Loads an unloaded group, but not its offsets. Returns None if the group is not unloaded.
    ///
    /// # Errors
    /// The records are damaged. The group is removed from the unloaded groups even then.
    pub(crate) fn take(
        &mut self,
        id: &str,
        timers: &mut Timers,
    ) -> Result<Option<Entry>, SnapshotDamage> {
        let Some(number) = self.find(id) else { return Ok(None) };
        self.whole.remove(number);
        let Some(group) = self.group(number) else { return Ok(None) };
        let (kind, offsets) = (group.entry.kind, u64::from(group.entry.offsets_len));
        let entry = self.read_group(&group, timers);
        kind.empty_groups(&mut self.gauges).into_iter().for_each(|groups| *groups -= 1);
        let are_unloaded = entry.as_ref().is_ok_and(|entry| entry.offsets.is_unloaded());
        if are_unloaded {
            self.offsets_only.insert(number);
        } else {
            self.gauges.offsets -= offsets;
        }
        let entry = entry?;
        self.close_if_empty();
        Ok(Some(entry))
    }

    /// Loads the offsets of a group that was loaded without them. `read` are the offsets if they
    /// were decoded already, part by part.
    ///
    /// # Errors
    /// The offsets are damaged. They are removed from the unloaded offsets even then.
    pub(crate) fn take_offsets(
        &mut self,
        id: &str,
        read: Option<Offsets>,
    ) -> Result<Offsets, SnapshotDamage> {
        let number = self.index.number(id).filter(|number| self.offsets_only.has(*number));
        let Some(number) = number else { return Ok(Offsets::default()) };
        self.offsets_only.remove(number);
        let Some(group) = self.group(number) else { return Ok(Offsets::default()) };
        let offsets = read.map_or_else(|| self.read_offsets(&group), |it| all_of(&group, it));
        self.gauges.offsets -= u64::from(group.entry.offsets_len);
        let offsets = offsets?;
        self.close_if_empty();
        Ok(offsets)
    }

    /// Decodes a group without its offsets.
    ///
    /// # Errors
    /// The bytes are damaged.
    pub(crate) fn read_group(
        &self,
        group: &UnloadedGroup<'_>,
        timers: &mut Timers,
    ) -> Result<Entry, SnapshotDamage> {
        let IndexEntry { kind, position, topics, .. } = group.entry;
        let entry = archive::read_group(&Text::from(group.id), kind, self.records(group)?, timers)
            .map_err(|what| group.damaged(what))?;
        let offsets = if topics.is_empty() { Offsets::default() } else { Offsets::unloaded() };
        Ok(Entry { written_at: position, offsets, ..entry })
    }

    /// Decodes the offsets of a group.
    ///
    /// # Errors
    /// The bytes are damaged.
    pub(crate) fn read_offsets(
        &self,
        group: &UnloadedGroup<'_>,
    ) -> Result<Offsets, SnapshotDamage> {
        let (mut offsets, mut part) = (Offsets::default(), 0);
        while self.read_part(group, part, &mut offsets)? {
            part += 1;
        }
        all_of(group, offsets)
    }

    /// Decodes one section of a group's offsets. Returns whether the group has this section.
    ///
    /// # Errors
    /// The bytes are damaged.
    pub(crate) fn read_part(
        &self,
        group: &UnloadedGroup<'_>,
        part: usize,
        offsets: &mut Offsets,
    ) -> Result<bool, SnapshotDamage> {
        let Some(bytes) = self.offsets(group, part)? else { return Ok(false) };
        archive::read_offsets(bytes, offsets).map_err(|what| group.damaged(what))?;
        Ok(true)
    }

    /// Calls `take` with each offset of a group, without decoding the offsets.
    ///
    /// # Errors
    /// The bytes are damaged.
    pub(crate) fn each_offset(
        &self,
        group: &UnloadedGroup<'_>,
        mut take: impl FnMut(&str, i32, i64),
    ) -> Result<(), SnapshotDamage> {
        let mut part = 0;
        while let Some(bytes) = self.offsets(group, part)? {
            archive::each_offset(bytes, &mut take).map_err(|what| group.damaged(what))?;
            part += 1;
        }
        Ok(())
    }

    fn close_if_empty(&mut self) {
        if self.whole.is_empty() && self.offsets_only.is_empty() {
            self.index.close();
        }
    }

    fn check(&mut self, file_len: u64) -> Result<(), &'static str> {
        let mut gauges = Gauges::default();
        let mut with_pending = Vec::new();
        let mut before: Option<&str> = None;
        for number in 0..self.index.len() {
            let group = self.group(number).ok_or("an entry of the index cannot be read")?;
            if before.is_some_and(|before| before >= group.id) {
                return Err("the index is not in order");
            }
            before = Some(group.id);
            let IndexEntry { group: records, offsets, members, kind, .. } = group.entry;
            let in_file = |it: Section| {
                it.at.checked_add(u64::from(it.len)).is_some_and(|end| end <= file_len)
            };
            if !in_file(records) || !in_file(offsets) || (kind == Kind::None && members > 0) {
                return Err("an entry of the index has impossible values");
            }
            with_pending.extend(group.entry.has_pending.then_some(number));
            gauges.offsets += u64::from(group.entry.offsets_len);
            kind.empty_groups(&mut gauges).into_iter().for_each(|groups| *groups += 1);
        }
        self.gauges = gauges;
        self.with_pending = with_pending;
        Ok(())
    }

    fn find(&self, id: &str) -> Option<usize> {
        if self.len() == 0 {
            return None;
        }
        self.index.number(id).filter(|number| self.whole.has(*number))
    }

    /// The group of an index entry. None after the last entry. None for a damaged entry, too; the
    /// damage is noted.
    fn group(&self, number: usize) -> Option<UnloadedGroup<'_>> {
        self.index.get(number).map(UnloadedGroup::from)
    }
}

/// Checks that a group has the number of offsets that the index states.
fn all_of(group: &UnloadedGroup<'_>, offsets: Offsets) -> Result<Offsets, SnapshotDamage> {
    if offsets.len() != group.entry.offsets_len as usize {
        return Err(group.damaged("it has another number of offsets than the index says"));
    }
    Ok(offsets)
}
