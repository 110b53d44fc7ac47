//! The walk over all groups that writes a snapshot in slices.

use super::{Groups, Listed};
use crate::group::{Entry, Group};
use crate::offsets::{Expiry, RetentionBase};
use crate::pending::{GroupPending, PendingOffsets};
use crate::snapshot::index::{COUNT_BYTES, ENTRY_BYTES, IndexEntry, Section, TopicSet};
use crate::snapshot::{SnapshotDamage, Unloaded, UnloadedGroup, archive};
use crate::text::Text;
use alloc::string::String;
use alloc::vec::Vec;
use muster_snapshot_index::{Pieces, SnapshotPart};

/// The approximate size of an offset in the file. It decides the number of offsets in a part.
const OFFSET_BYTES: usize = 64;

/// The progress of writing a snapshot. The file has all sections first, and then their index.
#[derive(Debug)]
pub struct SnapshotWalk {
    /// The place of the next byte in the file.
    at: u64,
    /// The last group that was written completely.
    after: Option<Text>,
    /// The group that is being written.
    begun: Option<Begun>,
    is_through: bool,
    /// The two halves of the index.
    entries: Pieces,
    names: Pieces,
    /// The number of bytes of the index that were written.
    given: usize,
    index: SnapshotPart,
}

/// A group that is partly written.
#[derive(Debug)]
struct Begun {
    id: Text,
    protocol_type: String,
    /// The index entry, with the position at which the writing of the group began. Offsets that
    /// were written later may be newer. Recovery replays the records after that position again:
    /// this does no harm.
    entry: IndexEntry,
    /// The time from which the retention of its offsets counts.
    base: Option<RetentionBase>,
    recorded: Option<i64>,
    /// The parts of its offsets that were written.
    parts: Vec<Section>,
    remaining: Remaining,
}

/// The offsets that are not written yet.
#[derive(Debug)]
enum Remaining {
    /// The group is loaded: the offsets after this partition are left.
    Live(Option<(Text, i32)>),
    /// The group is unloaded: the parts in the old snapshot that are not copied yet are left.
    Unloaded,
}

impl SnapshotWalk {
    /// A walk that writes its first byte at `at` in the file.
    pub fn new(at: u64) -> Self {
        let mut entries = Pieces::default();
        entries.extend(&[0; COUNT_BYTES]);
        Self {
            at,
            after: None,
            begun: None,
            is_through: false,
            entries,
            names: Pieces::default(),
            given: 0,
            index: SnapshotPart::default(),
        }
    }

    /// Accounts for a section that was appended to `out`. Returns the section with its place in the
    /// file.
    fn place(&mut self, section: Section) -> Section {
        let placed = Section { at: self.at, ..section };
        self.at += u64::from(section.len);
        placed
    }

    /// Adds a completely written group to the index.
    fn add(&mut self, begun: &Begun) {
        let entry = IndexEntry {
            name_at: self.names.len() as u64,
            id_len: begun.id.len() as u16,
            protocol_type_len: begun.protocol_type.len() as u16,
            ..begun.entry
        };
        let mut bytes = Vec::with_capacity(ENTRY_BYTES);
        entry.write(&mut bytes);
        self.entries.extend(&bytes);
        self.names.extend(begun.id.as_bytes());
        self.names.extend(begun.protocol_type.as_bytes());
    }

    /// Called when all groups are written: completes the index.
    fn through(&mut self) {
        self.is_through = true;
        let count = (self.entries.len() - COUNT_BYTES) / ENTRY_BYTES;
        self.entries.begin_with(&(count as u64).to_be_bytes());
        self.index.at = self.at;
        self.index.len = (self.entries.len() + self.names.len()) as u64;
    }

    /// Appends the next `bytes` of the index, or fewer. Returns true if these are the last.
    fn give(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let entries = self.entries.len();
        let slice = match self.given.checked_sub(entries) {
            None => self.entries.from(self.given, bytes),
            Some(from) => self.names.from(from, bytes),
        };
        out.extend_from_slice(slice);
        self.index.crc = crc32c::crc32c_append(self.index.crc, slice);
        self.given += slice.len();
        self.given as u64 == self.index.len
    }
}

impl Groups {
    /// See [`crate::Coordinator::write_snapshot`]. An error names its group.
    pub(crate) fn write_snapshot(
        &self,
        walk: &mut SnapshotWalk,
        pending: &PendingOffsets,
        position: u64,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<SnapshotPart>, (Text, SnapshotDamage)> {
        let start = out.len();
        while !walk.is_through && out.len() - start < bytes {
            let id = match &walk.begun {
                Some(begun) => Some(begun.id.clone()),
                None => self.id_after(walk.after.as_ref()),
            };
            let Some(id) = id else {
                walk.through();
                break;
            };
            let written = self.write_on(walk, &id, pending.of(&id), position, bytes, out);
            written.map_err(|damage| (id, damage))?;
        }
        let is_done = walk.is_through && walk.give(bytes.max(1), out);
        Ok(is_done.then_some(walk.index))
    }

    /// Begins a group, or writes the next part of its offsets.
    fn write_on(
        &self,
        walk: &mut SnapshotWalk,
        id: &Text,
        pending: Option<&GroupPending>,
        position: u64,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), SnapshotDamage> {
        let listed = self.listed(id);
        let has_unloaded = match &listed {
            Some(Listed::Live(entry)) => entry.offsets.is_unloaded(),
            Some(Listed::Unloaded(_)) => true,
            None => false,
        };
        let begun = walk.begun.take();
        // If the offsets were loaded meanwhile, the parts that were copied are of no use.
        let begun =
            begun.filter(|begun| has_unloaded || matches!(begun.remaining, Remaining::Live(_)));
        let begun = match (begun, &listed) {
            (Some(begun), _) => Some(begun),
            (None, Some(Listed::Live(entry))) => begin_live(walk, entry, pending, position, out)?,
            (None, Some(Listed::Unloaded(group))) => {
                Some(begin_unloaded(walk, &self.unloaded, group, position, out)?)
            }
            (None, None) => None,
        };
        let Some(mut begun) = begun else {
            walk.after = Some(id.clone());
            return Ok(());
        };
        let is_whole = match (&begun.remaining, &listed) {
            (Remaining::Unloaded, _) => copy_part(walk, &self.unloaded, &mut begun, out)?,
            (Remaining::Live(_), Some(Listed::Live(entry))) => {
                write_part(walk, entry, &mut begun, bytes.div_ceil(OFFSET_BYTES), out)?
            }
            // The group was deleted meanwhile. The records of its deletion follow in the log.
            (Remaining::Live(_), _) => true,
        };
        if is_whole {
            finish(walk, begun, out)
        } else {
            walk.begun = Some(begun)
        }
        Ok(())
    }
}

/// Writes the records of a group, and its pending offsets. None for an entry with neither a group
/// nor offsets.
fn begin_live(
    walk: &mut SnapshotWalk,
    entry: &Entry,
    pending: Option<&GroupPending>,
    position: u64,
    out: &mut Vec<u8>,
) -> Result<Option<Begun>, SnapshotDamage> {
    if entry.group.is_none() && entry.offsets.is_empty() && pending.is_none() {
        return Ok(None);
    }
    let records = archive::write_group(entry, pending, out).map_err(|_| too_long(&entry.id))?;
    let group = entry.group.as_ref();
    let index = IndexEntry {
        name_at: 0,
        id_len: 0,
        protocol_type_len: 0,
        members: group.map_or(0, Group::members) as u32,
        group: walk.place(records),
        offsets: Section::default(),
        position,
        topics: TopicSet::default(),
        expiry: if entry.offsets.is_empty() { Expiry::OF_NONE } else { Expiry::NEVER },
        kind: archive::kind(group),
        has_pending: pending.is_some(),
        parts: 0,
        offsets_len: 0,
    };
    Ok(Some(Begun {
        id: entry.id.clone(),
        protocol_type: group.map_or("", Group::protocol_type).into(),
        entry: index,
        base: group.and_then(Group::retention_base),
        recorded: group.and_then(Group::recorded_at),
        parts: Vec::new(),
        remaining: if entry.offsets.is_unloaded() {
            Remaining::Unloaded
        } else {
            Remaining::Live(None)
        },
    }))
}

/// Copies the records of an unloaded group from the old snapshot. Its bytes there are valid at this
/// position, too, because no record of the group has come since the snapshot was opened.
fn begin_unloaded(
    walk: &mut SnapshotWalk,
    unloaded: &Unloaded,
    group: &UnloadedGroup<'_>,
    position: u64,
    out: &mut Vec<u8>,
) -> Result<Begun, SnapshotDamage> {
    out.extend_from_slice(unloaded.records(group)?);
    let records = walk.place(group.entry.group);
    Ok(Begun {
        id: Text::from(group.id),
        protocol_type: group.protocol_type.into(),
        entry: IndexEntry { group: records, position, parts: 0, ..group.entry },
        base: None,
        recorded: None,
        parts: Vec::new(),
        remaining: Remaining::Unloaded,
    })
}

/// Copies the next part of a group's offsets from the old snapshot. Returns true after the last
/// part.
fn copy_part(
    walk: &mut SnapshotWalk,
    unloaded: &Unloaded,
    begun: &mut Begun,
    out: &mut Vec<u8>,
) -> Result<bool, SnapshotDamage> {
    let Some(group) = unloaded.with_offsets(&begun.id) else { return Ok(true) };
    (begun.entry.topics, begun.entry.expiry) = (group.entry.topics, group.entry.expiry);
    begun.entry.offsets_len = group.entry.offsets_len;
    let Some(part) = unloaded.offsets(&group, begun.parts.len())? else { return Ok(true) };
    let start = out.len();
    out.extend_from_slice(part);
    let section = archive::section(out, start).map_err(|_| too_long(&begun.id))?;
    begun.parts.push(walk.place(section));
    Ok(false)
}

/// Writes at most `offsets_max` more offsets. Returns true after the last one.
fn write_part(
    walk: &mut SnapshotWalk,
    entry: &Entry,
    begun: &mut Begun,
    offsets_max: usize,
    out: &mut Vec<u8>,
) -> Result<bool, SnapshotDamage> {
    let Remaining::Live(last) = &begun.remaining else { return Ok(true) };
    let part: Vec<_> = entry.offsets.after(last.as_ref()).take(offsets_max.max(1)).collect();
    let is_last = part.len() < offsets_max.max(1);
    if part.is_empty() && !begun.parts.is_empty() {
        return Ok(true);
    }
    let written = archive::write_offsets(part.iter().copied(), out);
    let (section, topics) = written.map_err(|_| too_long(&entry.id))?;
    begun.parts.push(walk.place(section));
    let expiry = Expiry::of(part.iter().map(|(.., it)| *it), begun.base, begun.recorded);
    begun.entry.topics = begun.entry.topics.and(topics);
    begun.entry.offsets_len += part.len() as u32;
    begun.entry.expiry = begun.entry.expiry.and(expiry);
    let last = part.last().map(|(topic, partition, _)| ((*topic).clone(), *partition));
    begun.remaining = Remaining::Live(last);
    Ok(is_last)
}

/// Completes a group. If its offsets have several parts, a table of the parts is written.
fn finish(walk: &mut SnapshotWalk, mut begun: Begun, out: &mut Vec<u8>) {
    begun.entry.offsets = match begun.parts.as_slice() {
        [one] => *one,
        parts => {
            begun.entry.parts = parts.len() as u32;
            let start = out.len();
            parts.iter().for_each(|part| part.write(out));
            let bytes = &out[start..];
            let crc = crc32c::crc32c(bytes);
            walk.place(Section { at: 0, len: bytes.len() as u32, crc })
        }
    };
    walk.add(&begun);
    walk.after = Some(begun.id);
}

fn too_long(id: &Text) -> SnapshotDamage {
    SnapshotDamage { group_id: Some(id.clone()), what: "it has more than a section can hold" }
}
