//! Groups of a snapshot that nothing has touched yet: they are looked up in its index, in place.

use super::image::{self, section_bytes};
use super::index::{COUNT_BYTES, ENTRY_BYTES, IndexEntry, Kind, Section};
use super::pages::Pages;
use super::{SnapshotBytes, SnapshotDamage};
use crate::group::Entry;
use crate::limits::GROUPS_MAX;
use crate::offsets::Offsets;
use crate::text::Text;
use crate::timers::Timers;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::ops::Range;

/// What an offset takes in a section at the least, and how many a part of them has at the most.
const OFFSET_BYTES_MIN: usize = 56;
const PART_OFFSETS_MAX: usize = 1_024;

/// The records of a group take as long to look at for so many bytes as a member does.
const ITEM_BYTES: usize = 64;

/// What is wrong with an index that was whole when it was opened.
static INDEX_CHANGED: SnapshotDamage =
    SnapshotDamage { group_id: None, what: "the index is not what it was" };

/// The groups that are left of a snapshot; none of no snapshot.
#[derive(Default)]
pub(crate) struct Cold {
    bytes: Option<SnapshotBytes>,
    /// Where the index is in them, and the checksums that each look at it is held against.
    index: Range<usize>,
    pages: Pages,
    /// Where entries and names are in the index.
    entries: Range<usize>,
    names: Range<usize>,
    /// A look found bytes that are not what was opened.
    is_damaged: Cell<bool>,
    /// Groups that are here as a whole.
    left: Left,
    /// Groups that are alive, but for their offsets.
    offsets_left: Left,
}

/// A group as the index has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColdGroup<'a> {
    pub(crate) id: &'a str,
    /// Empty if no member ever joined.
    pub(crate) protocol_type: &'a str,
    pub(crate) entry: IndexEntry,
}

impl ColdGroup<'_> {
    /// How many offsets it has at the most, more or less.
    pub(super) fn offsets_max(&self) -> usize {
        let IndexEntry { offsets, parts, .. } = self.entry;
        match parts {
            0 => offsets.len as usize / OFFSET_BYTES_MIN,
            parts => (parts as usize).saturating_mul(PART_OFFSETS_MAX),
        }
    }

    /// How much there is to look at, at the most, more or less.
    pub(super) fn items_max(&self) -> usize {
        let members = self.entry.members as usize;
        members.max(self.entry.group.len as usize / ITEM_BYTES) + self.offsets_max()
    }

    fn damaged(&self, what: &'static str) -> SnapshotDamage {
        SnapshotDamage { group_id: Some(Text::from(self.id)), what }
    }
}

impl fmt::Debug for Cold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cold").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Cold {
    /// # Errors
    /// An index that has not this checksum, or contradicts itself or the file.
    pub(super) fn open(
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
        let entries = COUNT_BYTES..COUNT_BYTES + count * ENTRY_BYTES;
        if entries.end > all.len() {
            return Err(damaged("the index is cut off"));
        }
        let names = entries.end..all.len();
        let (left, offsets_left) = (Left::all(count), Left::none(count));
        let (bytes, is_damaged) = (Some(Arc::clone(&bytes)), Cell::new(false));
        let cold = Self { bytes, index, pages, entries, names, is_damaged, left, offsets_left };
        cold.check(file.len() as u64).map_err(damaged)?;
        Ok(cold)
    }

    /// What was found wrong with the index since it was opened.
    pub(super) fn damage(&self) -> Option<&'static SnapshotDamage> {
        self.is_damaged.get().then_some(&INDEX_CHANGED)
    }

    /// How many groups are in the cold.
    pub(crate) fn len(&self) -> usize {
        self.left.count
    }

    /// Whether neither a group nor the offsets of one are here.
    pub(crate) fn is_gone(&self) -> bool {
        self.bytes.is_none()
    }

    /// A group of which at least the offsets are in the cold.
    pub(crate) fn with_offsets(&self, id: &str) -> Option<ColdGroup<'_>> {
        if self.is_gone() {
            return None;
        }
        let number = self.number(id)?;
        let is_here = self.left.has(number) || self.offsets_left.has(number);
        self.group(number).filter(|_| is_here)
    }

    /// A group, if it is in the cold.
    pub(crate) fn get(&self, id: &str) -> Option<ColdGroup<'_>> {
        self.find(id).and_then(|number| self.group(number))
    }

    /// Whether the group is here, and of this position or a later one.
    pub(crate) fn holds(&self, id: &str, position: u64) -> bool {
        self.get(id).is_some_and(|group| group.entry.position >= position)
    }

    /// All groups in the cold that come after an id, by id.
    pub(crate) fn iter_after(&self, id: Option<&str>) -> impl Iterator<Item = ColdGroup<'_>> {
        let from = id.map_or(0, |id| self.search(|other| other <= id));
        let numbers = core::iter::successors(self.left.next(from), |it| self.left.next(it + 1));
        numbers.filter_map(|number| self.group(number))
    }

    /// The first id of which anything is in the cold.
    pub(crate) fn first_id(&self) -> Option<Text> {
        let number = self.left.next(0).or_else(|| self.offsets_left.next(0))?;
        self.group(number).map(|group| Text::from(group.id))
    }

    /// The first id in the cold that comes after `id`.
    pub(crate) fn id_after(&self, id: Option<&str>) -> Option<&str> {
        let from = id.map_or(0, |id| self.search(|other| other <= id));
        self.group(self.left.next(from)?).map(|group| group.id)
    }

    /// The bytes of the section with a group's records.
    ///
    /// # Errors
    /// They are damaged.
    pub(super) fn records(&self, group: &ColdGroup<'_>) -> Result<&[u8], SnapshotDamage> {
        section_bytes(self.file(), group.entry.group).map_err(|what| group.damaged(what))
    }

    /// The bytes of one of the sections with a group's offsets; None behind the last.
    ///
    /// # Errors
    /// They are damaged.
    pub(super) fn offsets(
        &self,
        group: &ColdGroup<'_>,
        part: usize,
    ) -> Result<Option<&[u8]>, SnapshotDamage> {
        let bytes = |section| {
            section_bytes(self.file(), section).map(Some).map_err(|what| group.damaged(what))
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

    /// Takes a group out of the cold, but not its offsets; None if it is not there.
    ///
    /// # Errors
    /// Its records are damaged. The group is gone all the same.
    pub(crate) fn take(
        &mut self,
        id: &str,
        timers: &mut Timers,
    ) -> Result<Option<Entry>, SnapshotDamage> {
        let Some(number) = self.find(id) else { return Ok(None) };
        self.left.remove(number);
        let Some(group) = self.group(number) else { return Ok(None) };
        let entry = self.read_group(&group, timers)?;
        if entry.offsets.is_cold() {
            self.offsets_left.insert(number);
        }
        self.close_if_gone();
        Ok(Some(entry))
    }

    /// Takes the offsets of a group that was taken before.
    ///
    /// # Errors
    /// They are damaged. They are gone all the same.
    pub(crate) fn take_offsets(&mut self, id: &str) -> Result<Offsets, SnapshotDamage> {
        let number = self.number(id).filter(|number| self.offsets_left.has(*number));
        let Some(number) = number else { return Ok(Offsets::default()) };
        self.offsets_left.remove(number);
        let Some(group) = self.group(number) else { return Ok(Offsets::default()) };
        let offsets = self.read_offsets(&group)?;
        self.close_if_gone();
        Ok(offsets)
    }

    /// Makes a group of its bytes, but for its offsets.
    ///
    /// # Errors
    /// They are damaged.
    pub(super) fn read_group(
        &self,
        group: &ColdGroup<'_>,
        timers: &mut Timers,
    ) -> Result<Entry, SnapshotDamage> {
        let IndexEntry { kind, position, topics, .. } = group.entry;
        let entry = image::read_group(&Text::from(group.id), kind, self.records(group)?, timers)
            .map_err(|what| group.damaged(what))?;
        let offsets = if topics.is_empty() { Offsets::default() } else { Offsets::cold() };
        Ok(Entry { written_at: position, offsets, ..entry })
    }

    /// Makes a group's offsets of their bytes.
    ///
    /// # Errors
    /// They are damaged.
    pub(super) fn read_offsets(&self, group: &ColdGroup<'_>) -> Result<Offsets, SnapshotDamage> {
        let (mut offsets, mut part) = (Offsets::default(), 0);
        while let Some(bytes) = self.offsets(group, part)? {
            image::read_offsets(bytes, &mut offsets).map_err(|what| group.damaged(what))?;
            part += 1;
        }
        Ok(offsets)
    }

    fn close_if_gone(&mut self) {
        if self.left.count == 0 && self.offsets_left.count == 0 {
            (self.bytes, self.pages) = (None, Pages::default());
        }
    }

    fn check(&self, file_len: u64) -> Result<(), &'static str> {
        let mut before: Option<&str> = None;
        for number in 0..self.entries.len() / ENTRY_BYTES {
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
                return Err("an entry of the index says what cannot be");
            }
        }
        Ok(())
    }

    fn file(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |bytes| (**bytes).as_ref())
    }

    fn find(&self, id: &str) -> Option<usize> {
        if self.len() == 0 {
            return None;
        }
        self.number(id).filter(|number| self.left.has(*number))
    }

    /// The number of a group that the snapshot has.
    fn number(&self, id: &str) -> Option<usize> {
        let number = self.search(|other| other < id);
        self.group(number).is_some_and(|it| it.id == id).then_some(number)
    }

    /// How many ids at the beginning are such.
    fn search(&self, is_before: impl Fn(&str) -> bool) -> usize {
        let (mut low, mut high) = (0, self.entries.len() / ENTRY_BYTES);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.group(middle).is_some_and(|group| is_before(group.id)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// None behind the last, and of an entry that is damaged, which is noted.
    fn group(&self, number: usize) -> Option<ColdGroup<'_>> {
        let at = self.entries.start + number * ENTRY_BYTES;
        if self.is_gone() || at >= self.entries.end {
            return None;
        }
        let group = self.read_entry(at);
        self.is_damaged.set(self.is_damaged.get() || group.is_none());
        group
    }

    fn read_entry(&self, at: usize) -> Option<ColdGroup<'_>> {
        let index = self.file().get(self.index.clone())?;
        let entry = self.pages.get(index, at..at + ENTRY_BYTES)?.first_chunk()?;
        let entry = IndexEntry::read(entry)?;
        let name_at = self.names.start.checked_add(usize::try_from(entry.name_at).ok()?)?;
        let id_len = usize::from(entry.id_len);
        let name_len = id_len + usize::from(entry.protocol_type_len);
        let name = self.pages.get(index, name_at..name_at.checked_add(name_len)?)?;
        let (id, protocol_type) = name.split_at_checked(id_len)?;
        let id = core::str::from_utf8(id).ok()?;
        let protocol_type = core::str::from_utf8(protocol_type).ok()?;
        Some(ColdGroup { id, protocol_type, entry })
    }
}

/// Which numbers are left: a bit for each, and one for each word that has any, so that the next one
/// is found in few looks however many have gone.
#[derive(Default)]
struct Left {
    count: usize,
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl Left {
    fn all(count: usize) -> Self {
        let words = full(count);
        Self { count, summary: full(words.len()), words }
    }

    fn none(count: usize) -> Self {
        let words = vec![0; count.div_ceil(64)];
        Self { count: 0, summary: vec![0; words.len().div_ceil(64)], words }
    }

    fn insert(&mut self, number: usize) {
        debug_assert!(!self.has(number), "{number} is there");
        self.count += 1;
        self.words[number / 64] |= 1 << (number % 64);
        self.summary[number / 4096] |= 1 << (number / 64 % 64);
    }

    fn has(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    fn remove(&mut self, number: usize) {
        debug_assert!(self.has(number), "{number} is gone");
        self.count -= 1;
        let word = &mut self.words[number / 64];
        *word &= !(1 << (number % 64));
        if *word == 0 {
            self.summary[number / 4096] &= !(1 << (number / 64 % 64));
        }
    }

    /// The first number from this one on that is left.
    fn next(&self, number: usize) -> Option<usize> {
        let word = self.words.get(number / 64)? & (u64::MAX << (number % 64));
        if word != 0 {
            return Some(number / 64 * 64 + word.trailing_zeros() as usize);
        }
        let at = next_bit(&self.summary, number / 64 + 1)?;
        Some(at * 64 + self.words[at].trailing_zeros() as usize)
    }
}

/// That many bits that are set.
fn full(count: usize) -> Vec<u64> {
    let mut words = vec![u64::MAX; count / 64];
    if !count.is_multiple_of(64) {
        words.push(u64::MAX >> (64 - count % 64));
    }
    words
}

fn next_bit(words: &[u64], from: usize) -> Option<usize> {
    let first = words.get(from / 64)? & (u64::MAX << (from % 64));
    if first != 0 {
        return Some(from / 64 * 64 + first.trailing_zeros() as usize);
    }
    let rest = words.iter().enumerate().skip(from / 64 + 1);
    let (at, word) = rest.into_iter().find(|(_, word)| **word != 0)?;
    Some(at * 64 + word.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_found_in_order() {
        let mut left = Left::all(10_000);
        for number in (0..10_000).filter(|number| number % 4_999 != 7) {
            left.remove(number);
        }
        assert_eq!(left.count, 2);
        assert_eq!(left.next(0), Some(7));
        assert_eq!(left.next(8), Some(5_006));
        assert_eq!(left.next(5_007), None);
        assert!(left.has(5_006) && !left.has(5_007) && !left.has(10_000));
    }

    #[test]
    fn nothing_is_left_of_nothing() {
        let left = Left::all(0);
        assert_eq!((left.next(0), left.has(0)), (None, false));
        assert_eq!(Left::all(64).next(63), Some(63));
        assert_eq!(Left::all(64).next(64), None);
    }
}
