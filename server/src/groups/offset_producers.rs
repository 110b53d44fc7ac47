//! The producers of transactions with offsets in the slots of a shard: which may write and which
//! markers are stale, by the rules of partitions. Offsets are those of the slot's partition of
//! `__consumer_offsets`.

use crate::placement::Slot;
use muster_codec::DecodeError;
use muster_codec::messages::DescribedProducer;
use muster_codec::record_batch::{Batch, EndTxnMarker, NO_SEQUENCE, NO_TIMESTAMP};
use muster_storage::ShardLog;
use muster_transactions::message::{Producer, Stamp};
use muster_transactions::partition::{End, PartitionTransactions, Saved};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Producers of a shard that are kept without an open transaction. One that is forgotten is asked
/// about again, and a marker that is repeated ends nothing.
const IDLE_MAX: usize = 100_000;

/// Aborted transactions that are kept of each slot, for readers of `__consumer_offsets`. The oldest
/// are forgotten, whose offsets compaction has dropped by then.
const ABORTED_MAX: usize = 4_096;

/// Producers that are forgotten at once.
const FORGOTTEN_OF_A_CALL: usize = 16;

/// The producers by slot.
#[derive(Debug, Default)]
pub(crate) struct OffsetProducers {
    slots: BTreeMap<Slot, PartitionTransactions>,
    /// When each wrote last.
    written_at: BTreeMap<(Slot, i64), i64>,
    /// Those without an open transaction, by the time of their last marker.
    idle: BTreeSet<(i64, Slot, i64)>,
}

impl OffsetProducers {
    /// Begins a slot with what a snapshot has of it.
    ///
    /// # Errors
    /// Bytes that [`Self::write_snapshot`] did not write.
    pub(crate) fn open_snapshot(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), DecodeError> {
        let Saved { transactions, written_at } = Saved::read(bytes)?;
        self.slots.insert(slot, transactions);
        self.written_at.extend(written_at.into_iter().map(|(id, at)| ((slot, id), at)));
        Ok(())
    }

    /// Applies a batch of the log.
    ///
    /// # Errors
    /// A marker that this version cannot read.
    pub(crate) fn replay(&mut self, slot: Slot, batch: &Batch<'_>) -> Result<(), DecodeError> {
        let header = &batch.header;
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        let (producer, offset) = (Producer { id, epoch }, header.base_offset);
        if header.is_control() {
            for record in batch.records()? {
                let Some(marker) = EndTxnMarker::of_record(&record?)? else { continue };
                let EndTxnMarker { outcome, coordinator_epoch } = marker;
                let end = End { producer, outcome, version: 0, coordinator_epoch };
                self.marked(header.max_timestamp, slot, &end, offset, None);
                self.expire(i64::MIN);
            }
        } else if header.is_transactional() && header.records_count > 0 {
            self.of(slot).appended(producer, offset, None);
            self.wrote(header.max_timestamp, slot, id);
        }
        Ok(())
    }

    /// All of the log is replayed. Producers without an open transaction are forgotten: a snapshot
    /// does not have them.
    pub(crate) fn loaded(&mut self) {
        for (_, slot, id) in std::mem::take(&mut self.idle) {
            self.written_at.remove(&(slot, id));
            self.of(slot).forget(id);
        }
    }

    /// The slot that follows another one, of those that a snapshot has something of; the first for
    /// None.
    pub(super) fn next_with_some(&self, slot: Option<Slot>) -> Option<Slot> {
        let after = slot.map_or(Bound::Unbounded, Bound::Excluded);
        let mut slots = self.slots.range((after, Bound::Unbounded));
        slots.find(|(_, it)| !it.is_settled()).map(|(slot, _)| *slot)
    }

    /// Writes the open and the aborted transactions of a slot.
    pub(super) fn write_snapshot(&self, slot: Slot, out: &mut Vec<u8>) {
        let written_at = |id| self.written_at.get(&(slot, id)).copied().unwrap_or(NO_TIMESTAMP);
        self.slots.get(&slot).into_iter().for_each(|it| it.write_snapshot(written_at, out));
    }

    /// The transactions of a slot.
    pub(super) fn of(&mut self, slot: Slot) -> &mut PartitionTransactions {
        self.slots.entry(slot).or_default()
    }

    /// A record was written at `first_offset`, which opened a transaction.
    pub(super) fn appended(
        &mut self,
        now: i64,
        slot: Slot,
        producer: Producer,
        first_offset: i64,
        stamp: Stamp,
    ) {
        self.of(slot).appended(producer, first_offset, Some(stamp));
        self.wrote(now, slot, producer.id);
    }

    /// Offsets were written in a transaction.
    pub(super) fn wrote(&mut self, now: i64, slot: Slot, producer_id: i64) {
        if let Some(before) = self.written_at.insert((slot, producer_id), now) {
            self.idle.remove(&(before, slot, producer_id));
        }
    }

    /// A marker was written.
    pub(super) fn marked(
        &mut self,
        now: i64,
        slot: Slot,
        end: &End,
        offset: i64,
        stamp: Option<Stamp>,
    ) {
        let of_slot = self.of(slot);
        of_slot.marked(end, offset, stamp);
        of_slot.keep_aborted(ABORTED_MAX);
        let id = end.producer.id;
        self.wrote(now, slot, id);
        self.idle.insert((now, slot, id));
    }

    /// The slot can be read up to `end`. Returns the last stable offset.
    pub(super) fn flushed(&mut self, slot: Slot, end: i64) -> i64 {
        let Some(of_slot) = self.slots.get_mut(&slot) else { return end };
        of_slot.high_watermark_is(end);
        of_slot.last_stable_offset(end, ShardLog::LOG_START_OFFSET)
    }

    /// The aborted transaction that a batch is of: its first offset and its producer.
    pub(super) fn aborted(&self, slot: Slot, producer_id: i64, offset: i64) -> Option<(i64, i64)> {
        let mut all = self.slots.get(&slot)?.aborted(offset, offset + 1);
        let found = all.find(|it| it.producer_id == producer_id)?;
        Some((found.first_offset, producer_id))
    }

    /// Forgets some producers whose last marker is from this time or before, or which are too many.
    pub(super) fn expire(&mut self, until: i64) {
        for _ in 0..FORGOTTEN_OF_A_CALL {
            let Some((since, slot, id)) = self.idle.first().copied() else { return };
            if since > until && self.idle.len() <= IDLE_MAX {
                return;
            }
            self.idle.pop_first();
            self.written_at.remove(&(slot, id));
            self.of(slot).forget(id);
        }
    }

    /// The producers of a slot, for DescribeProducers.
    pub(super) fn describe(&self, slot: Slot) -> Vec<DescribedProducer> {
        let Some(of_slot) = self.slots.get(&slot) else { return Vec::new() };
        let describe = |Producer { id, epoch }| {
            let (coordinator_epoch, current_txn_start_offset) = of_slot.describe(id);
            let last_timestamp = self.written_at.get(&(slot, id)).copied();
            DescribedProducer {
                producer_id: id,
                producer_epoch: epoch.into(),
                last_sequence: NO_SEQUENCE,
                last_timestamp: last_timestamp.unwrap_or(NO_TIMESTAMP),
                coordinator_epoch,
                current_txn_start_offset,
            }
        };
        of_slot.known().map(describe).collect()
    }

    /// The open transactions, each with its slot.
    pub(super) fn open(&self) -> impl Iterator<Item = (Slot, Producer)> {
        self.slots.iter().flat_map(|(slot, it)| it.open().map(move |producer| (*slot, producer)))
    }

    /// The same with their first offsets, for checks.
    pub(super) fn places(&self) -> impl Iterator<Item = (Slot, Producer, i64)> {
        let first = |slot, id| self.slots.get(&slot).map_or(-1, |it| it.describe(id).1);
        self.open().map(move |(slot, producer)| (slot, producer, first(slot, producer.id)))
    }

    /// See [`PartitionTransactions::is_unanswered`].
    pub(super) fn is_unanswered(&self, slot: Slot, producer_id: i64) -> bool {
        self.slots.get(&slot).is_some_and(|it| it.is_unanswered(producer_id))
    }
}
