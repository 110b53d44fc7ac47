//! The notes of a pass: the newest record of each key, and the aborted transactions.

use super::CompactionRules;
use super::clean::{Decoded, decode};
use crate::newest::{NEW_MEMORY_COST, Newest, Noted};
use crate::raw_record::RawRecord;
use muster_codec::record_batch::{Batch, BatchHeader};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Notes {
    newest: Newest,
    /// The first offset of each aborted transaction, by producer id and marker offset.
    aborted: BTreeMap<(i64, i64), i64>,
}

/// The error when the table has no memory for another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Notes {
    /// Empty notes with memory for at most `keys` keys.
    pub(super) fn new(rules: &mut CompactionRules, keys: u64) -> Self {
        let aborted = std::mem::take(&mut rules.aborted).into_iter();
        let aborted = aborted.map(|(producer, offsets)| ((producer, offsets.end), offsets.start));
        Self {
            newest: Newest::new(rules.secret, keys, rules.map_bytes),
            aborted: aborted.collect(),
        }
    }

    /// Notes the records of a batch that have offset `from` or a later one. Returns how much work
    /// that was, as a number of records. If the records cannot be read, their keys are not noted.
    pub(super) fn batch(
        &mut self,
        batch: &Batch<'_>,
        from: i64,
        buffer: &mut Vec<u8>,
    ) -> Result<usize, Full> {
        if batch.header.is_control() || self.is_aborted(&batch.header) {
            return Ok(1);
        }
        let Some(Decoded { records }) = decode(batch, buffer) else { return Ok(1) };
        let mut cost = 1;
        for record in RawRecord::all(records) {
            let offset = record.offset(&batch.header);
            let Some(key) = record.key.filter(|_| offset >= from) else { continue };
            cost += match self.newest.note(self.newest.hash([key]), offset) {
                Noted::InPlace => 1,
                Noted::InNewMemory => 1 + NEW_MEMORY_COST,
                Noted::Full => return Err(Full),
            };
        }
        Ok(cost)
    }

    /// Whether a batch belongs to an aborted transaction. A producer has one transaction at a time,
    /// so the batch can only belong to the first transaction that ends after it.
    pub(super) fn is_aborted(&self, header: &BatchHeader) -> bool {
        let from = (header.producer_id, header.base_offset);
        let next = self.aborted.range(from..).next();
        header.is_transactional()
            && next.is_some_and(|((producer, _), first)| {
                *producer == header.producer_id && *first <= header.base_offset
            })
    }

    /// The offset of the newest record of a key; None if none was noted.
    pub(super) fn newest_of(&self, key: &[u8]) -> Option<i64> {
        self.newest.get(self.newest.hash([key]))
    }

    /// Frees a part of the table's memory. Returns true when nothing is left.
    pub(super) fn free(&mut self, bytes: usize) -> bool {
        self.newest.free(bytes)
    }
}
