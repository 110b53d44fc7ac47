//! Parked operations, which wait for the end of a transaction, for the reports of slots, or for
//! producer ids. Kafka answers with an error instead, and the client retries after a back-off. An
//! operation waits for at most `add.partitions.to.txn.retry.backoff.max.ms`. If its epoch
//! identifies its own transaction, it waits for the end of the previous one for at most
//! [`crate::limits::TRANSACTION_WAIT_MS`].

use crate::limits::{WAITING_BYTES_MAX, WAITING_MAX};
use crate::operation::{Operation, Wait, WaitFor};
use crate::text::Text;
use alloc::collections::{BTreeMap, BTreeSet};
use muster_codec::ErrorCode;

/// A parked operation. `error` is the answer if it waits too long.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) operation: Operation,
    pub(crate) error: ErrorCode,
}

#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// The parked operations by number, in the order of arrival.
    parked: BTreeMap<u64, Waiting>,
    deadlines: BTreeSet<(i64, u64)>,
    by_id: BTreeMap<Text, BTreeSet<u64>>,
    by_others: BTreeSet<u64>,
    /// The operations that may be carried out now.
    ready: BTreeSet<u64>,
    numbers: u64,
    bytes: usize,
}

impl Waits {
    /// Parks an operation.
    ///
    /// # Errors
    /// The operation, if its deadline has passed, or if too many operations or bytes are parked.
    pub(crate) fn park(
        &mut self,
        mut operation: Operation,
        Wait { until, error }: Wait,
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
        match until {
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

    /// Called when the transaction of this id has ended.
    pub(crate) fn transaction_ended(&mut self, id: &str) {
        if let Some(numbers) = self.by_id.remove(id) {
            self.ready.extend(numbers);
        }
    }

    /// Called when all slots have reported, or when producer ids have arrived.
    pub(crate) fn others_arrived(&mut self) {
        self.ready.append(&mut self.by_others);
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The first operation that may be carried out now.
    pub(crate) fn pop_ready(&mut self) -> Option<Operation> {
        let number = self.ready.pop_first()?;
        self.take(number).map(|waiting| waiting.operation)
    }

    /// The next operation whose deadline has passed.
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
