//! The operations that wait for the end of a transaction, or for the reports of slots. Where Kafka
//! answers CONCURRENT_TRANSACTIONS and the client asks again after a back-off, they wait here, for
//! at most `add.partitions.to.txn.retry.backoff.max.ms`; those that name their transaction by its
//! epoch for [`crate::limits::TRANSACTION_WAIT_MS`].

use crate::limits::{WAITING_BYTES_MAX, WAITING_MAX};
use crate::operation::{Operation, WaitFor};
use crate::text::Text;
use alloc::collections::{BTreeMap, BTreeSet};
use muster_codec::ErrorCode;

/// An operation that waits, and the error if that takes too long.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) operation: Operation,
    pub(crate) error: ErrorCode,
}

#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// The parked requests by number, in the order of arrival.
    parked: BTreeMap<u64, Waiting>,
    deadlines: BTreeSet<(i64, u64)>,
    by_id: BTreeMap<Text, BTreeSet<u64>>,
    by_others: BTreeSet<u64>,
    /// Those that may be done now.
    ready: BTreeSet<u64>,
    numbers: u64,
    bytes: usize,
}

impl Waits {
    /// # Errors
    /// The operation, if its time is over or there are too many.
    pub(crate) fn park(
        &mut self,
        mut operation: Operation,
        (wait_for, error): (WaitFor, ErrorCode),
        now: i64,
        wait_ms: i64,
    ) -> Result<(), Operation> {
        let waited =
            operation.waited.unwrap_or_else(|| (now.saturating_add(wait_ms), self.number()));
        let (deadline, number) = waited;
        let bytes = self.bytes + operation.bytes();
        if deadline <= now || self.parked.len() >= WAITING_MAX || bytes > WAITING_BYTES_MAX {
            return Err(operation);
        }
        operation.waited = Some(waited);
        self.bytes = bytes;
        self.deadlines.insert(waited);
        match wait_for {
            WaitFor::Transaction => {
                self.by_id.entry(operation.id.clone()).or_default().insert(number);
            }
            WaitFor::Others => {
                self.by_others.insert(number);
            }
        }
        let before = self.parked.insert(number, Waiting { operation, error });
        debug_assert!(before.is_none(), "each has a number of its own");
        Ok(())
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The transaction of this id has ended.
    pub(crate) fn transaction_ended(&mut self, id: &str) {
        if let Some(numbers) = self.by_id.remove(id) {
            self.ready.extend(numbers);
        }
    }

    /// All slots have reported, or producer ids have come.
    pub(crate) fn others_arrived(&mut self) {
        self.ready.append(&mut self.by_others);
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The first operation that may be done now.
    pub(crate) fn pop_ready(&mut self) -> Option<Operation> {
        let number = self.ready.pop_first()?;
        self.take(number).map(|waiting| waiting.operation)
    }

    /// The next operation whose time is over.
    pub(crate) fn pop_late(&mut self, now: i64) -> Option<Waiting> {
        let (deadline, number) = *self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        self.ready.remove(&number);
        self.take(number)
    }

    fn take(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.parked.remove(&number)?;
        let operation = &waiting.operation;
        self.bytes -= operation.bytes();
        if let Some(waited) = operation.waited {
            self.deadlines.remove(&waited);
        }
        self.by_others.remove(&number);
        if let Some(numbers) = self.by_id.get_mut(&operation.id) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_id.remove(&operation.id);
            }
        }
        Some(waiting)
    }
}
