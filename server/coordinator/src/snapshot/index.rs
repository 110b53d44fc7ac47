//! The index of a snapshot: the number of groups, an entry of fixed size for each by id, and their
//! names. FORMAT.md has the bytes. It is read in place: a look-up reads single entries.

use crate::offsets::Expiry;
use alloc::vec::Vec;

/// The number of groups, before the entries.
pub(super) const COUNT_BYTES: usize = 8;
pub(super) const ENTRY_BYTES: usize = 88;

/// A section in an entry, or in a table of parts.
pub(super) const SECTION_BYTES: usize = 16;

/// The kind of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Offsets without a group.
    None,
    Classic,
    Consumer,
}

/// The place of a section in the file, and its CRC-32C.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) crc: u32,
}

impl Section {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.at.to_be_bytes());
        out.extend(self.len.to_be_bytes());
        out.extend(self.crc.to_be_bytes());
    }

    pub(super) fn read(bytes: &[u8; SECTION_BYTES]) -> Self {
        let u32_at = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u32::from_be_bytes);
        let at = bytes.first_chunk().copied().map_or(0, u64::from_be_bytes);
        Self { at, len: u32_at(8), crc: u32_at(12) }
    }
}

/// The index entry of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The place of the id among the names; the protocol type follows it.
    pub(super) name_at: u64,
    pub(super) id_len: u16,
    pub(super) protocol_type_len: u16,
    pub(crate) members: u32,
    pub(super) group: Section,
    pub(super) offsets: Section,
    /// It includes all records of the group up to this position.
    pub(crate) position: u64,
    pub(crate) topics: TopicSet,
    pub(crate) expiry: Expiry,
    pub(crate) kind: Kind,
    /// The number of parts of the offsets, if `offsets` is a table of them; 0 if it is the only
    /// section.
    pub(super) parts: u32,
}

/// An approximate set of topics, with one bit of 64 for each: it may contain others too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TopicSet(pub(super) u64);

impl TopicSet {
    pub(super) fn insert(&mut self, topic: &str) {
        self.0 |= Self::bit(topic);
    }

    /// The union of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn is_empty(self) -> bool {
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
    pub(super) fn write(&self, out: &mut Vec<u8>) {
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
        out.extend((self.kind as u32).to_be_bytes());
        debug_assert_eq!(out.len() - start, ENTRY_BYTES);
    }

    /// None if the bytes are not those of an entry.
    pub(super) fn read(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
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
            kind: match u32_at(84) {
                0 => Kind::None,
                1 => Kind::Classic,
                2 => Kind::Consumer,
                _ => return None,
            },
        })
    }
}
