//! The transactions of one partition, for its leader: the open ones, the aborted ones, and the
//! offset up to which all outcomes are known (`ProducerStateManager`, `ProducerAppendInfo`,
//! `TransactionIndex`). The sequence numbers of batches are checked elsewhere.
//!
//! The rules hold even if messages from the coordinator are lost, repeated or reordered. A verdict
//! (the coordinator's answer to a question) counts only while its question is unanswered. A verdict
//! or marker does not count if a newer one for the same producer has arrived.

mod saved;

pub use saved::Saved;

use crate::message::{Known, Marker, Producer, Stamp};
use crate::state::{EPOCH_PER_TRANSACTION, NO_EPOCH};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::record_batch::TransactionOutcome;

/// The transactions of one partition.
#[derive(Debug, Default)]
pub struct PartitionTransactions {
    producers: BTreeMap<i64, State>,
    /// The first offset of each open transaction, with its producer id.
    open: BTreeSet<(i64, i64)>,
    /// Ended transactions that readers cannot rely on yet: the marker is at or above the high
    /// watermark. Each has the offset of its first record and that of its marker.
    ended: BTreeSet<(i64, i64)>,
    /// Aborted transactions, in the order of their markers.
    aborted: Vec<Aborted>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// The epoch of the last batch or marker; -1 if there was only a question.
    epoch: i16,
    /// The coordinator epoch of the last marker; -1 before the first.
    coordinator_epoch: i32,
    open: Option<Open>,
    /// The number and the epoch of the unanswered question.
    question: Option<(u64, i16)>,
    /// The stamp of the newest marker.
    ended: Stamp,
}

impl Default for State {
    fn default() -> Self {
        let (epoch, coordinator_epoch) = (NO_EPOCH, -1);
        Self { epoch, coordinator_epoch, open: None, question: None, ended: Stamp::default() }
    }
}

impl State {
    /// Checks that the producer is not fenced, and that no transaction from before a load is
    /// unresolved.
    fn check(&self, producer: Producer) -> Result<(), ErrorCode> {
        if producer.epoch < self.epoch {
            Err(ErrorCode::InvalidProducerEpoch)
        } else if self.open.is_some_and(|open| open.since.is_none()) {
            Err(ErrorCode::ConcurrentTransactions)
        } else {
            Ok(())
        }
    }

    /// Whether a marker ends a later transaction than the open one. If so, the open transaction
    /// lacks its own marker, which may be a commit. The slot has reported the open transaction, and
    /// the coordinator's answer will bring that marker.
    fn has_earlier_open(&self, end: &End) -> bool {
        let bump = i32::from(i16::from(end.version) == EPOCH_PER_TRANSACTION);
        self.open.is_some_and(|open| open.since.is_none())
            && i32::from(end.producer.epoch) > i32::from(self.epoch) + bump
    }
}

#[derive(Debug, Clone, Copy)]
struct Open {
    first_offset: i64,
    /// The stamp of the verdict that opened the transaction. None if a load found the transaction
    /// open, until the coordinator has answered the slot's report.
    since: Option<Stamp>,
}

/// A control batch that ends a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub producer: Producer,
    pub outcome: TransactionOutcome,
    /// The version in [`crate::message::Marker`]; 0 if it is not known.
    pub version: i8,
    pub coordinator_epoch: i32,
}

impl End {
    /// The control batch for a marker of the coordinator.
    pub fn of(marker: &Marker) -> Self {
        let Marker { stamp, producer, outcome, version, .. } = *marker;
        Self { producer, outcome, version, coordinator_epoch: stamp.coordinator_epoch }
    }

    /// The abort of a transaction that no coordinator knows.
    pub fn abort_of(producer: Producer, coordinator_epoch: i32) -> Self {
        Self { producer, outcome: TransactionOutcome::Abort, version: 0, coordinator_epoch }
    }
}

/// An aborted transaction, as in Kafka's transaction index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted {
    pub producer_id: i64,
    pub first_offset: i64,
    /// The offset of the marker.
    pub last_offset: i64,
    /// The last stable offset when the transaction ended.
    pub last_stable_offset: i64,
}

/// Whether a transactional batch may be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    Now,
    /// The coordinator must be asked first.
    Ask,
    Refuse(ErrorCode),
}

/// How to treat a marker of the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marking {
    Write,
    /// The marker was written before, or comes too late. The partition does not write it, but
    /// answers as if it had.
    Stale,
    Refuse(ErrorCode),
}

impl PartitionTransactions {
    /// Whether a transactional batch may be appended. Refuses it with INVALID_PRODUCER_EPOCH if its
    /// producer is fenced, and with CONCURRENT_TRANSACTIONS if the producer's open transaction
    /// began before the last load and the coordinator has not said yet whether it has ended. Other
    /// batches are not checked here: while [`Self::is_open`], the caller refuses them with
    /// INVALID_TXN_STATE.
    pub fn may_append(&self, producer: Producer) -> Append {
        let Some(state) = self.producers.get(&producer.id) else { return Append::Ask };
        if let Err(error) = state.check(producer) {
            Append::Refuse(error)
        } else if producer.epoch == state.epoch && state.open.is_some() {
            Append::Now
        } else {
            Append::Ask
        }
    }

    /// Whether no producer is known.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Whether the producer has an open transaction.
    pub fn is_open(&self, producer_id: i64) -> bool {
        self.producers.get(&producer_id).is_some_and(|state| state.open.is_some())
    }

    /// Notes that the coordinator is asked whether the producer may append. The question replaces
    /// an earlier one.
    pub fn ask(&mut self, producer: Producer, number: u64) {
        let state = self.producers.entry(producer.id).or_default();
        state.question = Some((number, producer.epoch));
    }

    /// Notes that the coordinator has refused, or has not answered in time.
    pub fn refused(&mut self, producer: Producer, number: u64) {
        let Some(state) = self.producers.get_mut(&producer.id) else { return };
        state.question.take_if(|(asked, _)| *asked == number);
        if state.question.is_none() && state.epoch == NO_EPOCH {
            self.producers.remove(&producer.id);
        }
    }

    /// Forgets an expired producer, unless it has an unanswered question. Must not be called while
    /// it [`Self::is_open`].
    pub fn forget(&mut self, producer_id: i64) {
        debug_assert!(!self.is_open(producer_id));
        if self.producers.get(&producer_id).is_some_and(|state| state.question.is_none()) {
            self.producers.remove(&producer_id);
        }
    }

    /// Checks a positive verdict of the coordinator, before the append of the batch that waited for
    /// it.
    ///
    /// # Errors
    /// - The errors of [`Self::may_append`].
    /// - INVALID_TXN_STATE if the transaction has ended meanwhile, if the question was dropped, or
    ///   if a question with another epoch replaced it.
    /// - NETWORK_EXCEPTION, as in Kafka, if a later question with the same epoch replaced this one.
    /// - CONCURRENT_TRANSACTIONS while a transaction with an earlier epoch is open.
    pub fn admit(
        &mut self,
        producer: Producer,
        number: u64,
        stamp: Stamp,
    ) -> Result<(), ErrorCode> {
        let Some(state) = self.producers.get_mut(&producer.id) else {
            return Err(ErrorCode::InvalidTxnState);
        };
        state.check(producer)?;
        if state.open.is_some() && state.epoch < producer.epoch {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        match state.question {
            Some((asked, epoch)) if epoch == producer.epoch && asked > number => {
                return Err(ErrorCode::NetworkException);
            }
            question if question != Some((number, producer.epoch)) || stamp <= state.ended => {
                return Err(ErrorCode::InvalidTxnState);
            }
            _ => {}
        }
        state.question = None;
        Ok(())
    }

    /// Notes a transactional batch at `first_offset`. `since` is the stamp of the
    /// coordinator's answer that allowed the batch, or None if the batch was found at a load.
    pub fn appended(&mut self, producer: Producer, first_offset: i64, since: Option<Stamp>) {
        let state = self.producers.entry(producer.id).or_default();
        state.epoch = producer.epoch;
        if state.open.is_none() {
            state.open = Some(Open { first_offset, since });
            self.open.insert((first_offset, producer.id));
        }
    }

    /// How to treat a marker. `stamp` is None if an administrator sends it.
    pub fn may_mark(&self, end: &End, stamp: Option<Stamp>) -> Marking {
        let End { producer, version, coordinator_epoch, .. } = *end;
        let Some(state) = self.producers.get(&producer.id) else { return Marking::Write };
        let is_older = |stamp: Stamp| {
            let since = state.open.and_then(|open| open.since);
            stamp <= state.ended || since.is_some_and(|since| stamp < since)
        };
        let is_late = match i16::from(version) == EPOCH_PER_TRANSACTION {
            false => producer.epoch < state.epoch,
            // A marker with the epoch of the producer's last batch or marker repeats the last
            // marker. But it is late if the next transaction is open already.
            _ => {
                let is_next_open = state.open.is_some() && state.epoch < i16::MAX;
                producer.epoch < state.epoch || (producer.epoch == state.epoch && is_next_open)
            }
        };
        if stamp.is_none() && is_late {
            return Marking::Refuse(ErrorCode::InvalidProducerEpoch);
        }
        if coordinator_epoch < state.coordinator_epoch {
            return Marking::Refuse(ErrorCode::TransactionCoordinatorFenced);
        }
        match stamp {
            Some(stamp) if is_late || is_older(stamp) => Marking::Stale,
            Some(_) if state.has_earlier_open(end) => {
                Marking::Refuse(ErrorCode::ConcurrentTransactions)
            }
            Some(_) | None => Marking::Write,
        }
    }

    /// Notes a marker at `offset`. It was written just now, or a load has found it in the log.
    pub fn marked(&mut self, end: &End, offset: i64, stamp: Option<Stamp>) {
        let End { producer, outcome, version, coordinator_epoch } = *end;
        let state = self.producers.entry(producer.id).or_default();
        (state.epoch, state.coordinator_epoch) = (producer.epoch, coordinator_epoch);
        state.ended = stamp.unwrap_or_default().max(state.ended);
        // A question with the epoch of the marker belongs to the next transaction.
        let has_epochs = i16::from(version) == EPOCH_PER_TRANSACTION;
        state.question.take_if(|(_, epoch)| !has_epochs || *epoch < producer.epoch);
        let Some(Open { first_offset, .. }) = state.open.take() else { return };
        self.open.remove(&(first_offset, producer.id));
        self.ended.insert((first_offset, offset));
        if outcome == TransactionOutcome::Abort {
            self.aborted.push(Aborted {
                producer_id: producer.id,
                first_offset,
                last_offset: offset,
                last_stable_offset: self.open.first().map_or(offset + 1, |(first, _)| *first),
            });
        }
    }

    /// The last stable offset. Each transaction with records below it has ended, and its marker can
    /// be read.
    pub fn last_stable_offset(&self, high_watermark: i64, log_start: i64) -> i64 {
        let open = self.open.first().map(|(first, _)| *first);
        let ended = self.ended.iter().find(|(_, marker)| *marker >= high_watermark);
        let unstable = [open, ended.map(|(first, _)| *first)].into_iter().flatten();
        unstable.fold(high_watermark, i64::min).max(log_start)
    }

    /// Sets the high watermark. Markers below it can be read.
    pub fn high_watermark_is(&mut self, high_watermark: i64) {
        self.ended.retain(|(_, marker)| *marker >= high_watermark);
    }

    /// The aborted transactions that overlap the offsets from `from` up to, but without, `end`.
    pub fn aborted(&self, from: i64, end: i64) -> impl Iterator<Item = &Aborted> {
        let first = self.aborted.partition_point(|it| it.last_offset < from);
        self.aborted[first..].iter().filter(move |it| it.first_offset < end)
    }

    /// Forgets the oldest aborted transactions if there are more than `max`.
    pub fn keep_aborted(&mut self, max: usize) {
        if self.aborted.len() > max {
            let kept = max - max / 8;
            self.aborted.drain(..self.aborted.len() - kept);
        }
    }

    /// Forgets the aborted transactions whose markers were at these offsets (ascending): compaction
    /// has removed these markers, and all records of the transactions.
    pub fn forget_aborted(&mut self, markers: &[i64]) {
        if !markers.is_empty() {
            self.aborted.retain(|it| markers.binary_search(&it.last_offset).is_err());
        }
    }

    /// Notes that the log now begins at `log_start`. Open transactions stay open.
    pub fn log_starts_at(&mut self, log_start: i64) {
        let gone = self.aborted.partition_point(|it| it.last_offset < log_start);
        self.aborted.drain(..gone);
    }

    /// The coordinator epoch of the last marker, and the first offset of the open transaction. Each
    /// is -1 if there is none.
    pub fn describe(&self, producer_id: i64) -> (i32, i64) {
        let state = self.producers.get(&producer_id).copied().unwrap_or_default();
        (state.coordinator_epoch, state.open.map_or(-1, |open| open.first_offset))
    }

    /// The producers that have written a batch or a marker.
    pub fn known(&self) -> impl Iterator<Item = Producer> {
        let known = self.producers.iter().filter(|(_, state)| state.epoch != NO_EPOCH);
        known.map(|(id, state)| Producer { id: *id, epoch: state.epoch })
    }

    /// The producers of all open transactions, for a report.
    pub fn open(&self) -> impl Iterator<Item = Producer> {
        self.producers
            .iter()
            .filter_map(|(id, state)| state.open.map(|_| Producer { id: *id, epoch: state.epoch }))
    }

    /// Whether this producer has an open transaction that was reported, but not answered by the
    /// coordinator yet. Until the coordinator answers, the slot answers no sync for the producer,
    /// because the marker of an earlier commit may be missing.
    pub fn is_unanswered(&self, producer_id: i64) -> bool {
        let state = self.producers.get(&producer_id);
        state.and_then(|state| state.open).is_some_and(|open| open.since.is_none())
    }

    /// Handles the coordinator's answer about a reported transaction. Returns the marker to write.
    pub fn reported(&mut self, producer: Producer, known: Known, stamp: Stamp) -> Option<End> {
        let state = self.producers.get_mut(&producer.id)?;
        let open = state.open.as_mut()?;
        let is_late = stamp <= state.ended || open.since.is_some_and(|since| stamp < since);
        if state.epoch != producer.epoch || is_late {
            return None;
        }
        match known {
            Known::Open => {
                open.since = Some(stamp);
                None
            }
            Known::Decided { producer, outcome, version } => {
                let coordinator_epoch = stamp.coordinator_epoch;
                Some(End { producer, outcome, version, coordinator_epoch })
            }
        }
    }
}
