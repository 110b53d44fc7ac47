//! The toy machine of a group. Its state has two sections. One has a digest of the records of all
//! odd entries that were applied, the other one that of the even entries.
//!
//! The sections of a snapshot are written one after the other, so the second may contain more
//! entries than the first. The index of the snapshot's row is that of the first. When entries are
//! applied to a loaded snapshot, a section skips those that it contains already.

use crate::{Content, Entry, Index};

/// A digest of records.
pub(crate) type Digest = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    /// The last entry that the section has.
    has: Index,
    digest: Digest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Toy([Section; 2]);

impl Default for Toy {
    fn default() -> Self {
        Self::empty(Index(0))
    }
}

impl Toy {
    /// A machine without a record after this entry.
    pub(crate) fn empty(has: Index) -> Self {
        Self([Section { has, digest: 0 }; 2])
    }

    /// A machine with sections of different times.
    pub(crate) fn of(sections: [Section; 2]) -> Self {
        Self(sections)
    }

    pub(crate) fn section(&self, number: usize) -> Section {
        self.0[number]
    }

    pub(crate) fn digests(&self) -> [Digest; 2] {
        self.0.map(|it| it.digest)
    }

    /// The last entry that any section has.
    pub(crate) fn newest(&self) -> Index {
        self.0[0].has.max(self.0[1].has)
    }

    pub(crate) fn apply(&mut self, entry: &Entry) {
        for (number, section) in self.0.iter_mut().enumerate() {
            if entry.index <= section.has {
                continue;
            }
            section.has = entry.index;
            if let Content::Records(records) = &entry.content
                && entry.index.0 % 2 == number as u64
            {
                section.digest = digest(section.digest, entry.index, records);
            }
        }
    }
}

fn digest(before: Digest, index: Index, records: &[u8]) -> Digest {
    let mix =
        |digest: Digest, byte: &u8| (digest ^ Digest::from(*byte)).wrapping_mul(0x100_0000_01b3);
    records.iter().fold(before.rotate_left(5) ^ index.0, mix)
}
