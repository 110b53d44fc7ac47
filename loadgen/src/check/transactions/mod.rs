//! The rules of transactions: a reader reads all records of a transaction, or none.
//!
//! A reader reads each partition in order, and reports the offset up to which it has read. The
//! answers to Produce say where the batches of a transaction are. So a reader proves for each batch
//! either that the batch was returned, or that the reader passed it without getting it. A batch
//! that the reader has not passed yet proves nothing.
//!
//! - `transaction-torn`: a reader passed a batch without getting it, although the transaction's
//!   commit was acknowledged or the reader got other records of the transaction. If EndTxn was not
//!   answered, only the second case is judged, because the transaction may have been committed or
//!   aborted.
//! - `aborted-read`: a reader got a record of a transaction that was aborted, or whose producer
//!   never asked to commit it.
//! - `read-before-commit`: a record was returned before EndTxn was sent.
//! - `read-out-of-order`: records of a producer were returned again, or in another order than the
//!   producer wrote them.
//!
//! A reader with `read_uncommitted` may get records of any transaction at any time. For such a
//! reader, `aborted-read` and `read-before-commit` do not apply, and `transaction-torn` is judged
//! only once the commit was acknowledged.
//!
//! A transaction is judged only for readers that had their first positions before EndTxn was sent.
//! A broker places such readers at the first open transaction, so they have all records of the
//! transaction still to read.

mod progress;
mod reader;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;
use std::time::Duration;

use self::progress::{Outcome, Transaction};
use self::reader::Reader;
use super::found::Found;
use crate::event::{Event, EventKind, Returned, Written};
use crate::history::{Group, Kind};
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

/// The end of a reader's wait for a committed transaction: the reader has read all its records, or
/// has ended without reading them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visible {
    /// When EndTxn was called.
    pub called: Time,
    /// When the last of the records arrived, or the reader ended.
    pub at: Time,
    pub was_read: bool,
}

/// A transaction: its producer and its number.
type Id = (MemberIndex, u64);

/// All transactions that are under check. Memory grows with the number of transactions that readers
/// have not passed, not with time.
#[derive(Default)]
pub(super) struct Transactions {
    readers: BTreeMap<MemberIndex, Reader>,
    /// The transactions that are not judged completely: a reader may still get or pass their
    /// records.
    open: BTreeMap<Id, Transaction>,
    /// For each producer, the highest number of those transactions for which it has called EndTxn
    /// or never will.
    newest: BTreeMap<MemberIndex, u64>,
    /// The open transactions by the offset after each of their batches.
    ends: BTreeMap<Partition, BTreeMap<i64, Id>>,
    visible: Vec<Visible>,
}

impl Transactions {
    pub(super) fn observe(&mut self, event: &Event, group: &Group, found: &mut Found) {
        let member = event.member;
        match &event.kind {
            EventKind::TransactionEnding { number, committed, batches } => {
                self.ending(event, (member, *number), *committed, batches, group, found);
            }
            EventKind::TransactionEnded { number, committed } => {
                self.ended(event, (member, *number), *committed, found);
            }
            EventKind::ReadingFrom { isolation, positions } => {
                self.reader_ended(event);
                let reader = Reader::new(&group.id, event.at, *isolation, positions, &self.newest);
                self.readers.insert(member, reader);
            }
            EventKind::Read { records, positions, .. } => {
                records.iter().for_each(|record| self.returned(event, record, found));
                for (partition, to) in positions.iter() {
                    self.passed(event, *partition, *to, found);
                }
            }
            EventKind::Started | EventKind::Stopped { .. } | EventKind::Failed { .. } => {
                match group.protocol {
                    Kind::Producer => self.producer_ended(event, found),
                    Kind::Reader => self.reader_ended(event),
                    Kind::Classic
                    | Kind::Consumer
                    | Kind::Manual
                    | Kind::Share
                    | Kind::Migrating
                    | Kind::Streams => {}
                }
            }
            // Other events do not concern transactions.
            _ => {}
        }
    }

    pub(super) fn take_visible(&mut self) -> Vec<Visible> {
        std::mem::take(&mut self.visible)
    }

    /// For each committed transaction and each reader that has not read all of it, the time since
    /// EndTxn was called.
    pub(super) fn unread(&self, now: Time) -> Vec<Duration> {
        let called = self.open.values().flat_map(|it| it.unread(&self.readers));
        called.map(|called| now.since(called)).collect()
    }

    /// Judges the rest after the last event: a transaction without a call of EndTxn never commits.
    pub(super) fn finish(&mut self, found: &mut Found) {
        let ids: Vec<Id> = self.open.keys().copied().collect();
        for id in ids {
            self.never_ends(id, found);
        }
    }

    fn ending(
        &mut self,
        event: &Event,
        id: Id,
        commits: bool,
        batches: &Arc<[Written]>,
        group: &Group,
        found: &mut Found,
    ) {
        let before: Vec<Id> = self.open.range((id.0, 0)..id).map(|(id, _)| *id).collect();
        before.into_iter().for_each(|before| self.never_ends(before, found));
        self.newest.insert(id.0, id.1);
        let transaction = self.open.entry(id).or_default();
        transaction.ending(event, commits, batches);
        for (member, reader) in &mut self.readers {
            if event.at > reader.began + group.clock_error {
                transaction.expect(*member, reader, event.at, group.clock_error, found);
            } else {
                transaction.progress.remove(member);
                reader.ignore(id);
            }
        }
        for batch in batches.iter().filter(|batch| batch.offset >= 0) {
            self.ends.entry(batch.partition).or_default().insert(batch.end(), id);
        }
        self.judge_all(event, id, found);
    }

    fn ended(&mut self, event: &Event, id: Id, committed: bool, found: &mut Found) {
        if let Some(transaction) = self.open.get_mut(&id) {
            transaction.ended(event, committed);
            self.judge_all(event, id, found);
        }
    }

    /// Judges records of a transaction that a reader got.
    fn returned(&mut self, event: &Event, record: &Returned, found: &mut Found) {
        let Some(reader) = self.readers.get_mut(&event.member) else { return };
        if !reader.follows(event, record, found) {
            return;
        }
        let id = (record.producer, record.number);
        let is_known = self.newest.get(&id.0).is_some_and(|newest| id.1 <= *newest);
        if is_known && !self.open.contains_key(&id) {
            return reader.is_of_the_past(event, record, found);
        }
        let transaction = self.open.entry(id).or_default();
        if !is_known || transaction.progress.contains_key(&event.member) {
            transaction.returned(event, record);
        }
    }

    /// Judges the transactions whose batches a reader passed when it read up to this offset.
    fn passed(&mut self, event: &Event, partition: Partition, to: i64, found: &mut Found) {
        let Some(reader) = self.readers.get_mut(&event.member) else { return };
        let from = reader.moved(partition, to);
        let Some(ends) = self.ends.get(&partition).filter(|_| from < to) else { return };
        let passed = ends.range((Excluded(from), Included(to)));
        let passed: Vec<Id> = passed.map(|(_, id)| *id).collect();
        for id in passed {
            self.judge(event, id, event.member, found);
            self.drop_if_over(id);
        }
    }

    /// Called when a producer has ended. It will not commit its open transactions, and its
    /// outstanding EndTxn will not be answered.
    fn producer_ended(&mut self, event: &Event, found: &mut Found) {
        let of_producer = (event.member, 0)..=(event.member, u64::MAX);
        let ids: Vec<Id> = self.open.range(of_producer).map(|(id, _)| *id).collect();
        for id in ids {
            self.never_ends(id, found);
            if let Some(transaction) = self.open.get_mut(&id) {
                transaction.unanswered();
            }
            self.drop_if_over(id);
        }
    }

    fn reader_ended(&mut self, event: &Event) {
        if !self.readers.contains_key(&event.member) {
            return;
        }
        for transaction in self.open.values() {
            let unread = transaction.unread_by(event.member, &self.readers);
            let (at, was_read) = (event.at, false);
            self.visible.extend(unread.map(|called| Visible { called, at, was_read }));
        }
        self.readers.remove(&event.member);
        let ids: Vec<Id> = self.open.keys().copied().collect();
        for id in ids {
            if let Some(transaction) = self.open.get_mut(&id) {
                transaction.progress.remove(&event.member);
            }
            self.drop_if_over(id);
        }
    }

    /// Called when the producer can no longer send EndTxn for this transaction. If it has not sent
    /// it yet, the transaction counts as aborted.
    fn never_ends(&mut self, id: Id, found: &mut Found) {
        let Some(transaction) = self.open.get_mut(&id) else { return };
        if transaction.outcome != Outcome::Open {
            return;
        }
        transaction.outcome = Outcome::Aborted;
        let newest = self.newest.entry(id.0).or_default();
        *newest = (*newest).max(id.1);
        for (member, reader) in &self.readers {
            transaction.judge(id, *member, reader, None, found);
        }
        self.drop_if_over(id);
    }

    fn judge_all(&mut self, event: &Event, id: Id, found: &mut Found) {
        let readers: Vec<MemberIndex> = self.readers.keys().copied().collect();
        readers.into_iter().for_each(|reader| self.judge(event, id, reader, found));
        self.drop_if_over(id);
    }

    fn judge(&mut self, event: &Event, id: Id, member: MemberIndex, found: &mut Found) {
        let (Some(transaction), Some(reader)) = (self.open.get_mut(&id), self.readers.get(&member))
        else {
            return;
        };
        transaction.judge(id, member, reader, Some(event), found);
        self.visible.extend(transaction.becomes_visible(member, reader));
    }

    fn drop_if_over(&mut self, id: Id) {
        if !self.open.get(&id).is_some_and(|transaction| transaction.is_over(&self.readers)) {
            return;
        }
        let Some(transaction) = self.open.remove(&id) else { return };
        for batch in transaction.batches.iter() {
            if let Some(ends) = self.ends.get_mut(&batch.partition) {
                ends.remove(&batch.end());
            }
        }
    }
}

impl Written {
    /// The offset after its records.
    fn end(&self) -> i64 {
        self.offset.saturating_add(self.records.into())
    }
}
