//! A table of the newest record of each key, for as many keys as fit into its memory (Kafka's
//! `SkimpyOffsetMap`). The compaction of every kind of log uses it.

use crate::limits::COMPACTION_SLICE_BYTES;
use crate::limits::COMPACTION_SLICE_RECORDS;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

/// The hash of a key. The hash function uses a random number of the log, so that no client can
/// construct two keys with the same hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHash([u64; 2]);

/// The hash of a key (two numbers), and the offset of its newest record plus one. A free slot has
/// only zeros.
type Slot = [u64; 3];

const FREE: Slot = [0; 3];

/// The table is allocated in chunks of this many slots, each when one of its slots is first used. A
/// chunk is small, so that no call takes long.
const CHUNK_SLOTS: usize = 2_048;
const CHUNK_BYTES: usize = CHUNK_SLOTS * size_of::<Slot>();

/// The time to allocate a chunk, expressed as a number of records.
pub(crate) const NEW_MEMORY_COST: usize =
    COMPACTION_SLICE_RECORDS * CHUNK_BYTES / COMPACTION_SLICE_BYTES;

/// The result of [`Newest::note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    InPlace,
    /// The record was noted, and a chunk was allocated for it. That takes as long as
    /// [`NEW_MEMORY_COST`] other records.
    InNewMemory,
    /// The table is full, and the record was not noted.
    Full,
}

/// A hash table with linear probing. Entries never move.
#[derive(Debug)]
pub(crate) struct Newest {
    hasher: SipHasher13,
    chunks: Vec<Vec<Slot>>,
    len: usize,
}

impl Newest {
    /// A table for at most `keys` keys, in at most `bytes` bytes, but at least one chunk.
    pub(crate) fn new(log_id: u64, keys: u64, bytes: usize) -> Self {
        let wanted = keys.saturating_mul(4) / 3 + 1;
        let most = bytes / CHUNK_BYTES;
        let chunks = wanted.div_ceil(CHUNK_SLOTS as u64).min(most.max(1) as u64);
        Self {
            hasher: SipHasher13::new_with_keys(log_id, !log_id),
            chunks: vec![Vec::new(); chunks as usize],
            len: 0,
        }
    }

    /// The hash of a key, which is given in parts.
    pub(crate) fn hash<const N: usize>(&self, parts: [&[u8]; N]) -> KeyHash {
        let mut hasher = self.hasher;
        parts.into_iter().for_each(|part| hasher.write(part));
        let hash = hasher.finish128();
        KeyHash([hash.h1, hash.h2])
    }

    /// Notes a record, unless a newer one of its key is known.
    pub(crate) fn note(&mut self, key: KeyHash, offset: i64) -> Noted {
        let at = self.find(key);
        let is_full = self.len >= self.slots() / 4 * 3;
        let chunk = &mut self.chunks[at / CHUNK_SLOTS];
        let noted = if chunk.is_empty() { Noted::InNewMemory } else { Noted::InPlace };
        chunk.resize(CHUNK_SLOTS, FREE);
        let slot = &mut chunk[at % CHUNK_SLOTS];
        if *slot == FREE {
            if is_full {
                return Noted::Full;
            }
            self.len += 1;
        }
        // Offsets are not negative.
        *slot = [key.0[0], key.0[1], slot[2].max(offset.wrapping_add(1) as u64)];
        noted
    }

    /// Frees `bytes` of the table, with the entries in them. Returns true when nothing is left.
    pub(crate) fn free(&mut self, bytes: usize) -> bool {
        let left = self.chunks.len().saturating_sub((bytes / CHUNK_BYTES).max(1));
        self.chunks.truncate(left);
        left == 0
    }

    /// The offset of the newest record of a key; None if none was noted.
    pub(crate) fn get(&self, key: KeyHash) -> Option<i64> {
        let slot = self.slot(self.find(key));
        (slot != FREE).then(|| (slot[2] as i64).wrapping_sub(1))
    }

    /// The slot of a key, or the free slot where the key would be inserted.
    fn find(&self, KeyHash([high, low]): KeyHash) -> usize {
        let slots = self.slots();
        let mut at = ((u128::from(high) * slots as u128) >> 64) as usize;
        loop {
            let slot = self.slot(at);
            if slot == FREE || (slot[0], slot[1]) == (high, low) {
                return at;
            }
            at = if at + 1 == slots { 0 } else { at + 1 };
        }
    }

    fn slot(&self, at: usize) -> Slot {
        self.chunks[at / CHUNK_SLOTS].get(at % CHUNK_SLOTS).copied().unwrap_or(FREE)
    }

    fn slots(&self) -> usize {
        self.chunks.len() * CHUNK_SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_offset_of_each_key_is_known() {
        let mut newest = Newest::new(7, 10_000, 1 << 20);
        for round in 0..3i64 {
            for key in 0..5_000u32 {
                let hash = newest.hash([&[key as u8 % 3][..], &key.to_be_bytes()]);
                assert_ne!(newest.note(hash, round * 5_000 + i64::from(key)), Noted::Full);
            }
        }
        for key in 0..5_000u32 {
            let hash = newest.hash([&[key as u8 % 3][..], &key.to_be_bytes()]);
            assert_eq!(newest.get(hash), Some(10_000 + i64::from(key)));
            assert_eq!(newest.get(newest.hash([&[9][..], &key.to_be_bytes()])), None);
        }
    }

    #[test]
    fn a_full_table_takes_newer_records_of_its_keys_but_no_further_key() {
        let mut newest = Newest::new(7, u64::MAX, 1);
        let mut known = 0u32;
        while newest.note(newest.hash([&known.to_be_bytes()]), 1) != Noted::Full {
            known += 1;
        }
        assert_eq!(known as usize, CHUNK_SLOTS / 4 * 3, "a quarter stays free");
        for key in 0..known {
            let hash = newest.hash([&key.to_be_bytes()]);
            assert_eq!(newest.note(hash, 2), Noted::InPlace);
            assert_eq!(newest.get(hash), Some(2));
        }
        assert_eq!(newest.get(newest.hash([&known.to_be_bytes()])), None);
    }

    #[test]
    fn another_log_has_other_hashes() {
        let (one, other) = (Newest::new(1, 1, 1), Newest::new(2, 1, 1));
        assert_ne!(one.hash([b"key"]), other.hash([b"key"]));
        assert_ne!(one.hash([b"key"]), one.hash([&[0][..], b"key"]));
    }
}
