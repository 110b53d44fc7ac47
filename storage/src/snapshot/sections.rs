//! The table of sections in a snapshot. A row has the place of a section, and the positions of the
//! log that it covers.

use super::part::{PART_BYTES, Part};
use crate::slot_entry::{INDEX_LIMIT, TERM_LIMIT};
use muster_codec::wire::{Reader, Result};

/// The size of a row in bytes.
pub const SECTION_ROW_BYTES: usize = 40 + PART_BYTES;

/// The index of the byte in a row at which the section's [`Part`] begins.
pub const SECTION_PART_AT: usize = SECTION_ROW_BYTES - PART_BYTES;

/// A row: a section of the state of one partition. A section without content has no row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SectionRow {
    /// The number of the topic in the log.
    pub topic: u8,
    /// The number of the section, whose meaning depends on the topic.
    pub section: u8,
    /// The index of the partition in its topic.
    pub index: u32,
    /// The section has all operations of the partition up to this position. In a replicated log,
    /// the positions of a row are numbers of entries in the partition's Raft group.
    pub from: u64,
    /// The latest position of an operation in the section.
    pub newest: u64,
    /// The end offset of the partition at `from`.
    pub log_end: i64,
    /// The term of the entry `from`; 0 if the log is not replicated.
    pub term: u32,
    /// The place and the checksum of the section's bytes. The checksum may cover only some of these
    /// bytes; which ones depends on the topic.
    pub part: Part,
}

impl SectionRow {
    /// The key by which rows are sorted: topic, index of the partition, section.
    pub fn key(&self) -> (u8, u32, u8) {
        (self.topic, self.index, self.section)
    }

    /// Appends the row.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.topic, self.section, 0, 0]);
        out.extend(self.index.to_be_bytes());
        out.extend(self.from.to_be_bytes());
        out.extend(self.newest.to_be_bytes());
        out.extend(self.log_end.to_be_bytes());
        out.extend(self.term.to_be_bytes());
        out.extend([0; 4]);
        self.part.write(out);
    }

    /// Whether a snapshot with these positions may have this row. A replay skips records up to the
    /// position of a section, so a section with a position that is too late would lack records.
    pub(super) fn is_within(&self, from: u64, newest: u64) -> bool {
        from <= self.from && self.from <= self.newest && self.newest <= newest
    }

    /// Whether the positions and the term of this row are possible in a replicated log.
    pub(super) fn has_entries(&self) -> bool {
        let is_ordered = 0 < self.from && self.from <= self.newest && self.newest < INDEX_LIMIT;
        is_ordered && (1..TERM_LIMIT).contains(&self.term)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let [topic, section, _, _] = reader.array()?;
        let index = reader.array().map(u32::from_be_bytes)?;
        let from = reader.array().map(u64::from_be_bytes)?;
        let newest = reader.array().map(u64::from_be_bytes)?;
        let log_end = reader.i64()?;
        let term = reader.array().map(u32::from_be_bytes)?;
        let _reserved = reader.i32()?;
        let part = Part::read(reader)?;
        Ok(Self { topic, section, index, from, newest, log_end, term, part })
    }
}

/// Reads the rows, which are in the order of topic, partition and section. None if the bytes are
/// not a valid table.
pub(super) fn read(bytes: &[u8]) -> Option<Vec<SectionRow>> {
    let (rows, rest) = bytes.as_chunks::<SECTION_ROW_BYTES>();
    let rows = rows.iter().map(|row| SectionRow::read(&mut Reader::new(row)));
    let rows: Vec<_> = rows.collect::<Result<_>>().ok()?;
    let is_in_order = rows.is_sorted_by(|one, next| one.key() < next.key());
    (is_in_order && rest.is_empty()).then_some(rows)
}
