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

/// Producers without an open transaction that are kept in all slots of the server together. One
/// that is forgotten is asked about again, and a marker that is repeated ends nothing.
const IDLE_MAX: usize = 100_000;

/// Aborted transactions that are kept of each slot, for readers of `__consumer_offsets`. The oldest
/// are forgotten, whose offsets compaction has dropped by then.
const ABORTED_MAX: usize = 4_096;

/// Producers that are forgotten at once.
const FORGOTTEN_OF_A_CALL: usize = 16;

/// The producers by slot.
#[derive(Debug)]
pub(crate) struct OffsetProducers {
    /// The most producers of a slot that are kept without an open transaction. Each slot has the
    /// same part, whatever slots are on its shard: its state depends on its own records only.
    idle_max: usize,
    slots: BTreeMap<Slot, PartitionTransactions>,
    /// When each wrote last.
    written_at: BTreeMap<(Slot, i64), i64>,
    /// Those without an open transaction, by the time of their last marker.
    idle: BTreeMap<Slot, BTreeSet<(i64, i64)>>,
}

impl OffsetProducers {
    /// Without any, in one of `slots` slots of the server.
    pub(crate) fn new(slots: u32) -> Self {
        let idle_max = (IDLE_MAX / slots.max(1) as usize).max(1);
        Self {
            idle_max,
            slots: BTreeMap::new(),
            written_at: BTreeMap::new(),
            idle: BTreeMap::new(),
        }
    }

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
                self.expire(slot, i64::MIN);
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
        for (slot, idle) in std::mem::take(&mut self.idle) {
            for (_, id) in idle {
                self.written_at.remove(&(slot, id));
                self.of(slot).forget(id);
            }
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
            let idle = self.idle.get_mut(&slot);
            idle.map(|idle| idle.remove(&(before, producer_id)));
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
        self.idle.entry(slot).or_default().insert((now, id));
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

    /// Forgets some producers of a slot whose last marker is from this time or before, or which are
    /// too many.
    pub(super) fn expire(&mut self, slot: Slot, until: i64) {
        let Some(idle) = self.idle.get_mut(&slot) else { return };
        let mut forgotten = Vec::new();
        while let Some((since, id)) = idle.first().copied()
            && (since <= until || idle.len() > self.idle_max)
            && forgotten.len() < FORGOTTEN_OF_A_CALL
        {
            idle.pop_first();
            forgotten.push(id);
        }
        for id in forgotten {
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

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::record_batch::TransactionOutcome;

    #[test]
    fn each_slot_keeps_its_own_part_of_idle_producers_and_forgets_the_oldest() {
        let mut producers = OffsetProducers::new((IDLE_MAX / 2) as u32);
        let known = |producers: &OffsetProducers, slot| -> Vec<i64> {
            producers.describe(slot).into_iter().map(|it| it.producer_id).collect()
        };
        for (at, id) in [(1, 7), (2, 8), (3, 9)] {
            for slot in [Slot(0), Slot(5)] {
                let producer = Producer { id, epoch: 0 };
                producers.appended(at, slot, producer, at, Stamp::default());
                let end = End {
                    producer,
                    outcome: TransactionOutcome::Commit,
                    version: 0,
                    coordinator_epoch: 0,
                };
                producers.marked(at, slot, &end, at, None);
            }
        }
        producers.expire(Slot(5), i64::MIN);
        assert_eq!(known(&producers, Slot(5)), [8, 9]);
        assert_eq!(known(&producers, Slot(0)), [7, 8, 9], "another slot's markers change nothing");
        producers.expire(Slot(0), 2);
        assert_eq!(known(&producers, Slot(0)), [9]);
    }
}
