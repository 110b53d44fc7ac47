//! The producers that have committed offsets of a slot's groups in transactions. Decides which
//! producers may write and which markers are stale, by the same rules as partitions. In this file
//! an offset is one of the slot's own partition of `__consumer_offsets`.

use muster_codec::DecodeError;
use muster_codec::messages::DescribedProducer;
use muster_codec::record_batch::{Batch, EndTxnMarker, NO_SEQUENCE, NO_TIMESTAMP};
use muster_storage::ShardLog;
use muster_transactions::message::{Producer, Stamp};
use muster_transactions::partition::{End, PartitionTransactions, Saved};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of producers without an open transaction, in all slots of the server
/// together. If a producer was forgotten, its next write asks the coordinator again, and a marker
/// of it that is repeated has no effect.
const IDLE_MAX: usize = 100_000;

/// The maximum number of aborted transactions that each slot remembers, for readers of
/// `__consumer_offsets`. If there are more, the oldest are forgotten. By then compaction has
/// dropped their offsets.
const ABORTED_MAX: usize = 4_096;

/// The maximum number of producers that one call forgets.
const FORGOTTEN_OF_A_CALL: usize = 16;

/// The producers of a slot.
#[derive(Debug)]
pub(super) struct OffsetProducers {
    /// The maximum number of producers without an open transaction. It must not depend on which
    /// other slots are on the shard, so that the slot's state depends only on its own records.
    idle_max: usize,
    transactions: PartitionTransactions,
    /// The time of each producer's last write.
    written_at: BTreeMap<i64, i64>,
    /// The producers without an open transaction, by the time of their last marker.
    idle: BTreeSet<(i64, i64)>,
}

impl OffsetProducers {
    /// An empty set, for one of the server's `slots` slots.
    pub(super) fn new(slots: u32) -> Self {
        Self {
            idle_max: (IDLE_MAX / slots.max(1) as usize).max(1),
            transactions: PartitionTransactions::default(),
            written_at: BTreeMap::new(),
            idle: BTreeSet::new(),
        }
    }

    /// Loads the producers of the slot from a snapshot.
    ///
    /// # Errors
    /// The bytes were not written by [`Self::write_snapshot`].
    pub(super) fn open_snapshot(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let Saved { transactions, written_at } = Saved::read(bytes)?;
        self.transactions = transactions;
        self.written_at.extend(written_at);
        Ok(())
    }

    /// Applies a batch of the log.
    ///
    /// # Errors
    /// The batch contains a marker that this version cannot read.
    pub(super) fn replay(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        let header = &batch.header;
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        let (producer, offset) = (Producer { id, epoch }, header.base_offset);
        if header.is_control() {
            for record in batch.records()? {
                let Some(marker) = EndTxnMarker::of_record(&record?)? else { continue };
                let EndTxnMarker { outcome, coordinator_epoch } = marker;
                let end = End { producer, outcome, version: 0, coordinator_epoch };
                self.marked(header.max_timestamp, &end, offset, None);
                self.expire(i64::MIN);
            }
        } else if header.is_transactional() && header.records_count > 0 {
            self.transactions.appended(producer, offset, None);
            self.wrote(header.max_timestamp, id);
        }
        Ok(())
    }

    /// Ends the replay of the log. Forgets the producers without an open transaction, because after
    /// a load from a snapshot, which does not contain them, they are not known either.
    pub(super) fn loaded(&mut self) {
        for (_, id) in std::mem::take(&mut self.idle) {
            self.written_at.remove(&id);
            self.transactions.forget(id);
        }
    }

    /// Whether a snapshot can omit this slot's producers.
    pub(super) fn is_settled(&self) -> bool {
        self.transactions.is_settled()
    }

    /// Writes the open and the aborted transactions.
    pub(super) fn write_snapshot(&self, out: &mut Vec<u8>) {
        let written_at = |id| self.written_at.get(&id).copied().unwrap_or(NO_TIMESTAMP);
        self.transactions.write_snapshot(written_at, out);
    }

    /// The transactions of these producers.
    pub(super) fn transactions(&mut self) -> &mut PartitionTransactions {
        &mut self.transactions
    }

    /// Notes that a transaction was opened by a record at `first_offset`.
    pub(super) fn appended(
        &mut self,
        now: i64,
        producer: Producer,
        first_offset: i64,
        stamp: Stamp,
    ) {
        self.transactions.appended(producer, first_offset, Some(stamp));
        self.wrote(now, producer.id);
    }

    /// Notes that offsets were written in a transaction.
    pub(super) fn wrote(&mut self, now: i64, producer_id: i64) {
        if let Some(before) = self.written_at.insert(producer_id, now) {
            self.idle.remove(&(before, producer_id));
        }
    }

    /// Notes that a marker was written.
    pub(super) fn marked(&mut self, now: i64, end: &End, offset: i64, stamp: Option<Stamp>) {
        self.transactions.marked(end, offset, stamp);
        self.transactions.keep_aborted(ABORTED_MAX);
        let id = end.producer.id;
        self.wrote(now, id);
        self.idle.insert((now, id));
    }

    /// Notes that readers can now read the slot's partition up to `end`. Returns its last stable
    /// offset.
    pub(super) fn flushed(&mut self, end: i64) -> i64 {
        self.transactions.high_watermark_is(end);
        self.transactions.last_stable_offset(end, ShardLog::LOG_START_OFFSET)
    }

    /// If the batch at `offset` belongs to an aborted transaction of this producer, returns the
    /// first offset of that transaction and the producer.
    pub(super) fn aborted(&self, producer_id: i64, offset: i64) -> Option<(i64, i64)> {
        let mut all = self.transactions.aborted(offset, offset + 1);
        let found = all.find(|it| it.producer_id == producer_id)?;
        Some((found.first_offset, producer_id))
    }

    /// Forgets producers without an open transaction, from the oldest marker on, but only a few in
    /// one call: those whose last marker is not newer than `until`, and those that are too many.
    pub(super) fn expire(&mut self, until: i64) {
        for _ in 0..FORGOTTEN_OF_A_CALL {
            let Some((since, id)) = self.idle.first().copied() else { return };
            if since > until && self.idle.len() <= self.idle_max {
                return;
            }
            self.idle.pop_first();
            self.written_at.remove(&id);
            self.transactions.forget(id);
        }
    }

    /// Describes all known producers, for DescribeProducers.
    pub(super) fn describe(&self) -> Vec<DescribedProducer> {
        let describe = |Producer { id, epoch }| {
            let (coordinator_epoch, current_txn_start_offset) = self.transactions.describe(id);
            let last_timestamp = self.written_at.get(&id).copied();
            DescribedProducer {
                producer_id: id,
                producer_epoch: epoch.into(),
                last_sequence: NO_SEQUENCE,
                last_timestamp: last_timestamp.unwrap_or(NO_TIMESTAMP),
                coordinator_epoch,
                current_txn_start_offset,
            }
        };
        self.transactions.known().map(describe).collect()
    }

    /// The producers with an open transaction.
    pub(super) fn open(&self) -> impl Iterator<Item = Producer> {
        self.transactions.open()
    }

    /// The producers with an open transaction, each with the transaction's first offset, for
    /// checks.
    pub(super) fn places(&self) -> impl Iterator<Item = (Producer, i64)> {
        self.open().map(|producer| (producer, self.transactions.describe(producer.id).1))
    }

    /// See [`PartitionTransactions::is_unanswered`].
    pub(super) fn is_unanswered(&self, producer_id: i64) -> bool {
        self.transactions.is_unanswered(producer_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::record_batch::TransactionOutcome;

    #[test]
    fn idle_producers_that_are_too_many_or_too_old_are_forgotten_from_the_oldest_on() {
        let mut producers = OffsetProducers::new((IDLE_MAX / 2) as u32);
        let known = |producers: &OffsetProducers| -> Vec<i64> {
            producers.describe().into_iter().map(|it| it.producer_id).collect()
        };
        let outcome = TransactionOutcome::Commit;
        for (at, id) in [(1, 7), (2, 8), (3, 9)] {
            let producer = Producer { id, epoch: 0 };
            producers.appended(at, producer, at, Stamp::default());
            let end = End { producer, outcome, version: 0, coordinator_epoch: 0 };
            producers.marked(at, &end, at, None);
        }
        assert_eq!(known(&producers), [7, 8, 9]);
        producers.expire(i64::MIN);
        assert_eq!(known(&producers), [8, 9]);
        producers.expire(2);
        assert_eq!(known(&producers), [9]);
    }

    #[test]
    fn the_last_stable_offset_is_the_first_open_one_and_what_was_aborted_before_is_known() {
        let [aborted, open, dropped] = [7, 8, 9].map(|id| Producer { id, epoch: 0 });
        let outcome = TransactionOutcome::Abort;
        let mut producers = OffsetProducers::new(1);
        for (at, producer) in [(0, dropped), (1, aborted), (4, open)] {
            producers.appended(0, producer, at, Stamp::default());
        }
        for (at, producer) in [(2, aborted), (3, dropped)] {
            let end = End { producer, outcome, version: 0, coordinator_epoch: 0 };
            producers.marked(0, &end, at, None);
        }
        assert_eq!(producers.flushed(2), 0, "no marker can be read");
        assert_eq!(producers.flushed(3), 0, "one marker can be read");
        assert_eq!(producers.flushed(6), 4);
        let of = |id, offset| producers.aborted(id, offset);
        assert_eq!([of(7, 1), of(9, 0), of(8, 4)], [Some((1, 7)), Some((0, 9)), None]);
    }
}
