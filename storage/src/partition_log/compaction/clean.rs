//! Rewrites a batch by the rules of Kafka's `Cleaner` and `MemoryRecords.filterTo`.

use super::notes::Notes;
use super::{CompactionRules, LastOfProducer};
use crate::limits::COMPACTION_BATCH_BYTES_MAX;
use crate::raw_record::{RawRecord, move_times};
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{Batch, BatchHeader, Compression, TimestampType};
use muster_codec::wire::{DecodeError, Result};
use muster_compression::{compress, uncompressed};
use muster_faults::Fault;
use std::collections::BTreeSet;

/// The form in which a batch remains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// The batch is unchanged.
    Whole,
    /// The buffer contains the rewritten batch.
    Changed,
    /// No record is left. The buffer contains only the batch's header. It is kept, because it has
    /// the last sequence number of its producer.
    Empty,
    Nothing,
}

/// The decompressed records of a batch. All of them can be decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoded<'a> {
    pub(super) records: &'a [u8],
}

/// Decides what remains of each batch. Batches come in order, from the beginning of the log.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// The producers with a transactional batch since their last marker.
    observed: BTreeSet<i64>,
    /// Buffers for the kept records and for decompressed records.
    kept: Vec<u8>,
    decompressed: Vec<u8>,
}

/// The number and the properties of the kept records.
#[derive(Debug, Default)]
struct Kept {
    count: i32,
    tombstones: u32,
    max_timestamp: i64,
}

impl Cleaner {
    /// Decides what remains of a batch, and writes it to `out`, whose content is overwritten. All
    /// records from the offset `noted_to` on remain, except those of aborted transactions.
    ///
    /// # Errors
    /// The batch cannot be read. This cannot happen if it was read before.
    pub(super) fn clean(
        &mut self,
        batch: &Batch<'_>,
        notes: &Notes,
        rules: &CompactionRules,
        noted_to: i64,
        out: &mut Vec<u8>,
    ) -> Result<Left> {
        out.clear();
        let header = &batch.header;
        let is_of_empty_transaction =
            header.is_control() && !self.observed.remove(&header.producer_id);
        if header.is_transactional() && !header.is_control() {
            self.observed.insert(header.producer_id);
        }
        let is_over = header.delete_horizon().is_some_and(|horizon| horizon <= rules.now);
        let drops_all = (is_of_empty_transaction && is_over)
            || (!header.is_control() && notes.is_aborted(header));
        let Self { kept, decompressed, .. } = self;
        kept.clear();
        decompressed.clear();
        let Some(Decoded { records }) = decode(batch, decompressed) else { return Ok(Left::Whole) };
        let mut left = Kept { max_timestamp: i64::MIN, ..Kept::default() };
        for record in RawRecord::all(records) {
            let is_kept = header.is_control()
                || record.offset(header) >= noted_to
                || keeps(&record, header, notes, rules);
            if is_kept && !drops_all {
                kept.extend_from_slice(record.bytes);
                left.add(&record, header);
            }
        }
        if left.count == 0 {
            return Ok(self.empty(batch, rules, out));
        }
        let is_noted = header.next_offset() <= noted_to || header.is_control();
        let begins_retention =
            (left.tombstones > 0 && !header.is_control()) || is_of_empty_transaction;
        let sets_horizon = begins_retention && is_noted && header.delete_horizon().is_none();
        if left.count == header.records_count && !sets_horizon {
            return Ok(Left::Whole);
        }
        let horizon = rules.now.saturating_add(rules.delete_retention_ms);
        self.rebuild(header, &left, sets_horizon.then_some(horizon), out)?;
        Ok(Left::Changed)
    }

    /// How long the records of the last batch are after decompression; 0 if they are not
    /// compressed. (If the batch got a delete horizon when it was rewritten, only the kept records
    /// count.)
    pub(super) fn decompressed_bytes(&self) -> usize {
        self.decompressed.len()
    }

    /// Handles a batch of which no record remains. If it is the last batch of a known producer, it
    /// is kept without records.
    fn empty(&self, batch: &Batch<'_>, rules: &CompactionRules, out: &mut Vec<u8>) -> Left {
        let header = &batch.header;
        let is_last = match rules.producers.get(&header.producer_id) {
            Some(LastOfProducer::Data(last_offset)) => header.last_offset() == *last_offset,
            Some(LastOfProducer::Marker(epoch)) => {
                header.is_control() && header.producer_epoch == *epoch
            }
            None => false,
        };
        if !is_last || !header.has_producer_id() {
            return Left::Nothing;
        }
        empty_batch(*header, out);
        Left::Empty
    }

    /// Writes the batch with the kept records. The offsets of the records, and the codec, stay the
    /// same.
    fn rebuild(
        &mut self,
        header: &BatchHeader,
        left: &Kept,
        horizon: Option<i64>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut header = *header;
        if let Some(horizon) = horizon {
            self.decompressed.clear();
            move_times(&self.kept, header.base_timestamp, horizon, &mut self.decompressed)?;
            std::mem::swap(&mut self.kept, &mut self.decompressed);
            header.set_delete_horizon(horizon);
        }
        header.records_count = left.count;
        if header.timestamp_type() == TimestampType::CreateTime {
            header.max_timestamp = left.max_timestamp;
        }
        out.resize(RECORD_BATCH_HEADER_BYTES, 0);
        let codec = header.compression().unwrap_or(Compression::None);
        let compressed = compress(codec, &self.kept, out);
        compressed.map_err(|_| DecodeError::InvalidBatch("records that cannot be compressed"))?;
        header.write(out);
        Ok(())
    }
}

impl Kept {
    fn add(&mut self, record: &RawRecord<'_>, header: &BatchHeader) {
        let timestamp = header.base_timestamp.wrapping_add(record.timestamp_delta);
        self.count += 1;
        self.tombstones += u32::from(record.is_tombstone);
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }
}

/// Appends the empty form of a batch.
pub(super) fn empty_batch(mut header: BatchHeader, out: &mut Vec<u8>) {
    header.clear_records();
    out.resize(RECORD_BATCH_HEADER_BYTES, 0);
    header.write(out);
}

/// Decodes the records of a batch. None if they cannot be decoded, which can happen because
/// compressed batches of clients are stored without decompression. Such a batch is kept, and its
/// keys are not compared.
pub(super) fn decode<'a>(batch: &Batch<'a>, buffer: &'a mut Vec<u8>) -> Option<Decoded<'a>> {
    let header = &batch.header;
    let compression = header.compression()?;
    let payload = batch.payload();
    let records = uncompressed(compression, payload, COMPACTION_BATCH_BYTES_MAX, buffer).ok()?;
    let (mut rest, mut count, mut next) = (records, 0, 0);
    while !rest.is_empty() {
        let record = RawRecord::read(rest).ok()?;
        if record.offset_delta < next || record.offset_delta > header.last_offset_delta {
            return None;
        }
        (count, next) = (count + 1, record.offset_delta.checked_add(1)?);
        rest = &rest[record.bytes.len()..];
    }
    (count == header.records_count).then_some(Decoded { records })
}

/// Whether a record below `noted_to` is kept (`Cleaner.shouldRetainRecord`).
fn keeps(
    record: &RawRecord<'_>,
    header: &BatchHeader,
    notes: &Notes,
    rules: &CompactionRules,
) -> bool {
    let (Some(key), offset) = (record.key, record.offset(header)) else { return false };
    let is_newest = notes.newest_of(key).is_none_or(|newest| offset >= newest);
    if is_newest && Fault::NewestLost.is_injected() {
        return false;
    }
    let is_retained = header.delete_horizon().is_none_or(|horizon| rules.now < horizon);
    is_newest && (!record.is_tombstone || is_retained)
}
