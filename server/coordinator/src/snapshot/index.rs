//! The index of a snapshot. Its parts are the number of groups, an entry of fixed size for each
//! group, and the names of the groups. The entries are sorted by group id. FORMAT.md describes the
//! bytes. The index is read in place: a look-up reads single entries.

use crate::group::Kind;
use crate::offsets::Expiry;
use alloc::vec::Vec;
use muster_snapshot_index::Row;

/// The bytes of the field with the number of groups, which precedes the entries.
pub const COUNT_BYTES: usize = 8;
/// The size of an entry.
pub const ENTRY_BYTES: usize = 92;

/// The size of a section's description, in an entry or in a table of parts.
pub(crate) const SECTION_BYTES: usize = 16;

/// The place and length of a section in the file, and its CRC-32C.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) at: u64,
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

impl Section {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.at.to_be_bytes());
        out.extend(self.len.to_be_bytes());
        out.extend(self.crc.to_be_bytes());
    }

    pub(crate) fn read(bytes: &[u8; SECTION_BYTES]) -> Self {
        let u32_at = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u32::from_be_bytes);
        let at = bytes.first_chunk().copied().map_or(0, u64::from_be_bytes);
        Self { at, len: u32_at(8), crc: u32_at(12) }
    }
}

/// The index entry of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The byte position of the id within the names. The protocol type follows the id.
    pub(crate) name_at: u64,
    pub(crate) id_len: u16,
    pub(crate) protocol_type_len: u16,
    pub(crate) members: u32,
    pub(crate) group: Section,
    pub(crate) offsets: Section,
    /// The archive contains all records of the group up to this position.
    pub(crate) position: u64,
    pub(crate) topics: TopicSet,
    pub(crate) expiry: Expiry,
    pub(crate) kind: Kind,
    /// Whether the section of records also has pending offsets.
    pub(crate) has_pending: bool,
    /// The number of offsets.
    pub(crate) offsets_len: u32,
    /// If the offsets have several sections, `offsets` is a table of these sections, and this is
    /// their number. 0 if `offsets` is the only section.
    pub(crate) parts: u32,
}

/// A set of topics as a Bloom filter of 64 bits. It may report topics that are not in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TopicSet(pub(crate) u64);

impl TopicSet {
    pub(crate) fn insert(&mut self, topic: &str) {
        self.0 |= Self::bit(topic);
    }

    /// The union of two sets.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn may_have(self, topic: &str) -> bool {
        self.0 & Self::bit(topic) != 0
    }

    fn bit(topic: &str) -> u64 {
        1 << (xxhash_rust::xxh3::xxh3_64(topic.as_bytes()) & 63)
    }
}

impl IndexEntry {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(self.name_at.to_be_bytes());
        out.extend(self.id_len.to_be_bytes());
        out.extend(self.protocol_type_len.to_be_bytes());
        out.extend(self.members.to_be_bytes());
        self.group.write(out);
        self.offsets.write(out);
        out.extend(self.position.to_be_bytes());
        out.extend(self.topics.0.to_be_bytes());
        out.extend(self.expiry.at.to_be_bytes());
        out.extend(self.expiry.since.to_be_bytes());
        out.extend(self.parts.to_be_bytes());
        out.extend(u16::from(self.has_pending).to_be_bytes());
        out.extend((self.kind as u16).to_be_bytes());
        out.extend(self.offsets_len.to_be_bytes());
        debug_assert_eq!(out.len() - start, ENTRY_BYTES);
    }
}

impl Row for IndexEntry {
    const BYTES: usize = ENTRY_BYTES;

    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ENTRY_BYTES] = bytes.try_into().ok()?;
        let u64_at = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u64::from_be_bytes);
        let u32_at = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u32::from_be_bytes);
        let u16_at = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u16::from_be_bytes);
        let section =
            |at: usize| bytes[at..].first_chunk().map_or(Section::default(), Section::read);
        Some(Self {
            name_at: u64_at(0),
            id_len: u16_at(8),
            protocol_type_len: u16_at(10),
            members: u32_at(12),
            group: section(16),
            offsets: section(32),
            position: u64_at(48),
            topics: TopicSet(u64_at(56)),
            expiry: Expiry { at: u64_at(64) as i64, since: u64_at(72) as i64 },
            parts: u32_at(80),
            offsets_len: u32_at(88),
            has_pending: match u16_at(84) {
                0 => false,
                1 => true,
                _ => return None,
            },
            kind: Kind::of(u16_at(86))?,
        })
    }
    fn name(&self) -> (u64, usize, usize) {
        (self.name_at, self.id_len.into(), self.protocol_type_len.into())
    }
}
