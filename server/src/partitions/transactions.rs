//! The transactions of a partition. The places of their first batches are kept, because a
//! `read_committed` fetch ends at the first transaction whose outcome is not known.

use muster_codec::ErrorCode;
use muster_faults::Fault;
use muster_storage::BatchPlace;
use muster_transactions::message::{Known, Producer, Stamp};
use muster_transactions::partition::{Aborted, Append, End, Marking, PartitionTransactions};
use std::collections::BTreeMap;

/// Wraps [`PartitionTransactions`]. A method without a comment calls the method of the same name.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    all: PartitionTransactions,
    /// The places of transactions' first batches, by offset. Those below the last stable offset are
    /// dropped.
    first: BTreeMap<i64, BatchPlace>,
}

/// The end of the records that a `read_committed` fetch may return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stable {
    /// The last stable offset: the outcome of each transaction below it is known.
    pub offset: i64,
    /// The batch at the last stable offset, if a transaction begins there. If it is None, either
    /// all readable records are stable, or none is: then an open transaction began before the start
    /// of the log.
    pub end: Option<BatchPlace>,
}

impl Transactions {
    pub(super) fn is_open(&self, producer_id: i64) -> bool {
        self.all.is_open(producer_id)
    }

    /// Whether the partition knows no producer with a transaction.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn is_unanswered(&self, producer_id: i64) -> bool {
        self.all.is_unanswered(producer_id)
    }

    pub(super) fn reported(
        &mut self,
        producer: Producer,
        known: Known,
        stamp: Stamp,
    ) -> Option<End> {
        self.all.reported(producer, known, stamp)
    }

    pub(super) fn open(&self) -> impl Iterator<Item = Producer> {
        self.all.open()
    }

    pub(super) fn may_append(&self, producer: Producer) -> Append {
        let append = self.all.may_append(producer);
        if append == Append::Ask && Fault::UnaskedAppend.is_injected() {
            return Append::Now;
        }
        append
    }

    pub(super) fn ask(&mut self, producer: Producer, number: u64) {
        self.all.ask(producer, number);
    }

    pub(super) fn refused(&mut self, producer: Producer, number: u64) {
        self.all.refused(producer, number);
    }

    pub(super) fn admit(
        &mut self,
        producer: Producer,
        number: u64,
        stamp: Stamp,
    ) -> Result<(), ErrorCode> {
        match self.all.admit(producer, number, stamp) {
            Err(ErrorCode::InvalidTxnState) if Fault::StaleYes.is_injected() => Ok(()),
            admitted => admitted,
        }
    }

    pub(super) fn appended(
        &mut self,
        producer: Producer,
        first_offset: i64,
        place: BatchPlace,
        since: Option<Stamp>,
    ) {
        if !self.is_open(producer.id) {
            self.first.insert(first_offset, place);
        }
        self.all.appended(producer, first_offset, since);
    }

    pub(super) fn may_mark(&self, end: &End, stamp: Option<Stamp>) -> Marking {
        self.all.may_mark(end, stamp)
    }

    pub(super) fn marked(&mut self, end: &End, offset: i64, stamp: Option<Stamp>) {
        self.all.marked(end, offset, stamp);
    }

    pub(super) fn forget(&mut self, producer_id: i64) {
        self.all.forget(producer_id);
    }

    /// Notes the new high watermark: records below it can be read.
    pub(super) fn high_watermark_is(&mut self, high_watermark: i64) {
        self.all.high_watermark_is(high_watermark);
        let stable = self.all.last_stable_offset(high_watermark, 0);
        self.first = self.first.split_off(&stable);
    }

    pub(super) fn log_starts_at(&mut self, log_start: i64) {
        self.all.log_starts_at(log_start);
    }

    /// The last stable offset, with the batch at it.
    pub(super) fn stable(&self, high_watermark: i64, log_start: i64) -> Stable {
        if Fault::StableTooFar.is_injected() {
            return Stable { offset: high_watermark, end: None };
        }
        let offset = self.all.last_stable_offset(high_watermark, log_start);
        Stable { offset, end: self.first.get(&offset).copied() }
    }

    pub(super) fn aborted(&self, from: i64, end: i64) -> impl Iterator<Item = &Aborted> {
        self.all.aborted(from, end)
    }

    pub(super) fn forget_aborted(&mut self, markers: &[i64]) {
        self.all.forget_aborted(markers);
    }

    /// The coordinator epoch of the producer's last marker, and the first offset of its open
    /// transaction. Each is -1 if there is none.
    pub(super) fn describe(&self, producer_id: i64) -> (i32, i64) {
        self.all.describe(producer_id)
    }
}
