//! The walk through all groups that writes a snapshot, in slices.

use super::index::{COUNT_BYTES, ENTRY_BYTES, IndexEntry, Section};
use super::{Cold, ColdGroup, SnapshotDamage, image};
use crate::coordinator::Coordinator;
use crate::group::{Entry, Group, Listed};
use crate::offsets::Expiry;
use crate::text::Text;
use alloc::vec::Vec;

/// A part of a snapshot's file with a checksum of its own (CRC-32C).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotPart {
    pub at: u64,
    pub len: u64,
    pub crc: u32,
}

/// How far the writing of a snapshot came. Sections come first, then the index of all of them.
#[derive(Debug)]
pub struct SnapshotWalk {
    /// The place of the next byte in the file.
    at: u64,
    /// The last group that was written.
    after: Option<Text>,
    is_through: bool,
    entries: Vec<u8>,
    names: Vec<u8>,
    /// How much of the index was given out.
    given: usize,
    index: SnapshotPart,
}

impl SnapshotWalk {
    /// A walk whose first byte comes at `at` in the file.
    pub fn new(at: u64) -> Self {
        Self {
            at,
            after: None,
            is_through: false,
            entries: [0; COUNT_BYTES].into(),
            names: Vec::new(),
            given: 0,
            index: SnapshotPart::default(),
        }
    }

    /// Adds the sections of a group that `out` ends with, from `start` on.
    fn add(&mut self, start: usize, out: &[u8], id: &str, protocol_type: &str, entry: IndexEntry) {
        let base = self.at;
        let place = |section: Section| Section { at: base + section.at - start as u64, ..section };
        self.at += (out.len() - start) as u64;
        let entry = IndexEntry {
            name_at: self.names.len() as u64,
            id_len: id.len() as u16,
            protocol_type_len: protocol_type.len() as u16,
            group: place(entry.group),
            offsets: place(entry.offsets),
            ..entry
        };
        entry.write(&mut self.entries);
        self.names.extend(id.as_bytes());
        self.names.extend(protocol_type.as_bytes());
    }

    /// All groups are written: the index is as long as it gets.
    fn through(&mut self) {
        self.is_through = true;
        let count = (self.entries.len() - COUNT_BYTES) / ENTRY_BYTES;
        self.entries[..COUNT_BYTES].copy_from_slice(&(count as u64).to_be_bytes());
        self.index.at = self.at;
        self.index.len = (self.entries.len() + self.names.len()) as u64;
    }

    /// Gives out the next `bytes` of the index; true if those were the last.
    fn give(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let entries = self.entries.len();
        let slice = match self.given < entries {
            true => &self.entries[self.given..entries.min(self.given + bytes)],
            false => {
                let from = self.given - entries;
                &self.names[from..self.names.len().min(from + bytes)]
            }
        };
        out.extend_from_slice(slice);
        self.index.crc = crc32c::crc32c_append(self.index.crc, slice);
        self.given += slice.len();
        self.given as u64 == self.index.len
    }
}

impl Coordinator {
    /// Writes on: appends to `out` what comes next in the file, about `bytes` of it. `position` is
    /// that of the last record, and the last of its block in the log. Gives the index once it is
    /// written, which is the end.
    ///
    /// A group is written as a whole, however large it is.
    ///
    /// # Errors
    /// A group that is still in the cold is damaged, or one has become too large for a section: no
    /// snapshot can be made of it. The former is [`Coordinator::damage`] then.
    pub fn write_snapshot(
        &mut self,
        walk: &mut SnapshotWalk,
        position: u64,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<SnapshotPart>, SnapshotDamage> {
        let start = out.len();
        while !walk.is_through && out.len() - start < bytes {
            let Some(id) = self.groups.id_after(walk.after.as_ref()) else {
                walk.through();
                break;
            };
            let cold = &self.groups.cold;
            let written = match self.groups.listed(&id) {
                Some(Listed::Live(entry)) => write_live(walk, cold, entry, position, out),
                Some(Listed::Cold(group)) => copy_cold(walk, cold, &group, position, out),
                None => Ok(()),
            };
            if let Err(damage) = written {
                if self.groups.cold.with_offsets(&id).is_some() {
                    self.damage.get_or_insert_with(|| damage.clone());
                }
                return Err(damage);
            }
            walk.after = Some(id);
        }
        let is_done = walk.is_through && walk.give(bytes.max(1), out);
        Ok(is_done.then_some(walk.index))
    }
}

fn write_live(
    walk: &mut SnapshotWalk,
    cold: &Cold,
    entry: &Entry,
    position: u64,
    out: &mut Vec<u8>,
) -> Result<(), SnapshotDamage> {
    if entry.group.is_none() && entry.offsets.is_empty() {
        // A group that did not come to be.
        return Ok(());
    }
    let start = out.len();
    let too_long = |_| SnapshotDamage {
        group_id: Some(entry.id.clone()),
        what: "it has more than a section can hold",
    };
    let records = image::write_group(entry, out).map_err(too_long)?;
    let base = entry.group.as_ref().and_then(Group::retention_base);
    let recorded = entry.group.as_ref().and_then(Group::recorded_at);
    let (offsets, topics, expiry) = match cold.with_offsets(&entry.id) {
        Some(group) if entry.offsets.is_cold() => {
            let IndexEntry { offsets, topics, expiry, .. } = group.entry;
            let at = out.len() as u64;
            out.extend_from_slice(cold.offsets(&group)?);
            (Section { at, ..offsets }, topics, expiry)
        }
        _ => {
            let (offsets, topics) = image::write_offsets(&entry.offsets, out).map_err(too_long)?;
            (offsets, topics, Expiry::of(&entry.offsets, base, recorded))
        }
    };
    let index = IndexEntry {
        name_at: 0,
        id_len: 0,
        protocol_type_len: 0,
        members: entry.group.as_ref().map_or(0, Group::members) as u32,
        group: records,
        offsets,
        position,
        topics,
        expiry,
        kind: image::kind(entry.group.as_ref()),
    };
    let protocol_type = entry.group.as_ref().map_or("", Group::protocol_type);
    walk.add(start, out, &entry.id, protocol_type, index);
    Ok(())
}

/// No record of the group came since the old snapshot was opened: its bytes are of this position
/// too.
fn copy_cold(
    walk: &mut SnapshotWalk,
    cold: &Cold,
    group: &ColdGroup<'_>,
    position: u64,
    out: &mut Vec<u8>,
) -> Result<(), SnapshotDamage> {
    let start = out.len();
    out.extend_from_slice(cold.records(group)?);
    let offsets_at = out.len();
    out.extend_from_slice(cold.offsets(group)?);
    let entry = IndexEntry {
        group: Section { at: start as u64, ..group.entry.group },
        offsets: Section { at: offsets_at as u64, ..group.entry.offsets },
        position,
        ..group.entry
    };
    walk.add(start, out, group.id, group.protocol_type, entry);
    Ok(())
}
