//! Forges a snapshot, as if it had been edited by hand.

use super::TELLING;
use crate::support::snapshots::has_groups;
use muster_coordinator::snapshot::{COUNT_BYTES, ENTRY_BYTES};
use muster_storage::snapshot::{SECTION_PART_AT, SECTION_ROW_BYTES, SectionRow, Snapshot};
use std::ops::Range;

/// The places of the entries of a slot's index, in bytes.
pub fn entries(bytes: &[u8], slot: &SectionRow) -> Vec<usize> {
    let at = slot.part.at as usize;
    let count = u64::from_be_bytes(bytes[at..at + COUNT_BYTES].try_into().unwrap()) as usize;
    (0..count).map(|number| at + COUNT_BYTES + number * ENTRY_BYTES).collect()
}

/// The snapshot with another offset in one group, and with valid checksums.
pub fn forged(mut bytes: Vec<u8>) -> Vec<u8> {
    let Snapshot { mut header, sections, .. } = Snapshot::open(&bytes).unwrap();
    let offset = (TELLING + 7).to_le_bytes();
    let forge = |(row, slot): (usize, &SectionRow)| {
        let of_group = |entry: usize| {
            let section = section(&bytes, entry);
            let found = bytes[section.clone()].windows(8).position(|it| it == offset)?;
            Some((row, entry, section.start + found, section))
        };
        entries(&bytes, slot).into_iter().find_map(of_group)
    };
    let mut groups = sections.iter().enumerate().filter(|(_, row)| has_groups(row));
    let (row, entry, place, section) = groups.find_map(forge).unwrap();
    bytes[place] ^= 0xff;
    let crc = crc32c::crc32c(&bytes[section]);
    bytes[entry + 32 + 12..entry + 32 + 16].copy_from_slice(&crc.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[sections[row].part.range()]);
    let at = header.sections.at as usize + row * SECTION_ROW_BYTES + SECTION_PART_AT + 16;
    bytes[at..at + 4].copy_from_slice(&crc.to_be_bytes());
    header.sections.crc = crc32c::crc32c(&bytes[header.sections.range()]);
    let header = header.to_bytes();
    bytes[..header.len()].copy_from_slice(&header);
    bytes
}

/// The byte range that has the offsets of a group. `entry` is the place of the group's index entry.
fn section(bytes: &[u8], entry: usize) -> Range<usize> {
    let at = u64::from_be_bytes(bytes[entry + 32..entry + 40].try_into().unwrap()) as usize;
    let len = u32::from_be_bytes(bytes[entry + 40..entry + 44].try_into().unwrap()) as usize;
    at..at + len
}
