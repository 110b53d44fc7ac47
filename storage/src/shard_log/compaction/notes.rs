//! The notes of a pass on the records that it compares: the newest record of each key, and the
//! transactions.
//!
//! A record of a transaction counts only when the commit marker is read. It is then noted with its
//! own offset.

use super::transactions::{OpenTransaction, Place, Transactions};
use crate::log_partition::LogPartition;
use crate::newest::{KeyHash, NEW_MEMORY_COST, Newest, Noted};
use crate::raw_record::RawRecord;
use crate::topic_rules::TopicRules;
use muster_codec::record_batch::{BatchHeader, TransactionOutcome};
use muster_codec::wire::Result;

/// The error when there is no memory for another record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

#[derive(Debug)]
pub(super) struct Notes {
    topics: TopicRules,
    newest: Newest,
    transactions: Transactions,
    /// Records of the last committed transaction that are still to be noted.
    committed: Vec<(KeyHash, i64)>,
    /// The end of the noted blocks, set when the memory is full. After this place only the markers
    /// of open transactions are noted.
    cut: Option<Place>,
}

impl Notes {
    /// Empty notes for at most `keys` keys, in at most `bytes` bytes.
    pub(super) fn new(topics: TopicRules, log_id: u64, keys: u64, bytes: usize) -> Self {
        let newest = Newest::new(log_id, keys, bytes);
        let transactions = Transactions::new(bytes);
        Self { topics, newest, transactions, committed: Vec::new(), cut: None }
    }

    /// Begins a batch of a block.
    pub(super) fn batch(&mut self, partition: LogPartition, header: &BatchHeader, place: Place) {
        let is_noted = self.cut.is_none_or(|cut| place < cut);
        if header.is_transactional() && !header.is_control() && is_noted {
            self.transactions.batch(partition, header, place);
        }
    }

    /// Notes a record of the batch. Returns the amount of work, in records.
    ///
    /// # Errors
    /// Outer: the key of a marker cannot be read. Inner: the memory is full.
    pub(super) fn record(
        &mut self,
        partition: LogPartition,
        header: &BatchHeader,
        record: &RawRecord<'_>,
    ) -> Result<std::result::Result<usize, Full>> {
        let (Some(key), offset) = (record.key, record.offset(header)) else { return Ok(Ok(1)) };
        if header.is_control() {
            let outcome = TransactionOutcome::of_key(key)?;
            return Ok(
                outcome.map_or(Ok(1), |outcome| self.end(partition, header, outcome, offset))
            );
        }
        let rule = &self.topics.of(partition.topic).keys;
        if self.cut.is_some() || rule.is_update(key) {
            return Ok(Ok(1));
        }
        let key = self.hash(partition, key);
        if header.is_transactional() {
            self.transactions.record(partition, header.producer_id, key, offset);
            return Ok(if self.transactions.is_full() { Err(Full) } else { Ok(1) });
        }
        Ok(self.note(key, offset))
    }

    /// Ends a transaction. If it was committed, [`Self::note_committed`] has to note its records.
    fn end(
        &mut self,
        partition: LogPartition,
        header: &BatchHeader,
        outcome: TransactionOutcome,
        offset: i64,
    ) -> std::result::Result<usize, Full> {
        debug_assert!(self.committed.is_empty(), "the last transaction is not noted");
        self.committed = self.transactions.end(partition, header.producer_id, outcome, offset);
        if self.transactions.is_full() { Err(Full) } else { Ok(1) }
    }

    /// Notes one record of the last committed transaction, and returns the amount of work, in
    /// records. Call it until it returns None, before another record is read. If there is no memory
    /// for a record, compaction keeps the older records of the record's key.
    pub(super) fn note_committed(&mut self) -> Option<std::result::Result<usize, Full>> {
        let (key, offset) = self.committed.pop()?;
        Some(self.note(key, offset))
    }

    fn note(&mut self, key: KeyHash, offset: i64) -> std::result::Result<usize, Full> {
        match self.newest.note(key, offset) {
            Noted::InPlace => Ok(1),
            Noted::InNewMemory => Ok(1 + NEW_MEMORY_COST),
            Noted::Full => Err(Full),
        }
    }

    /// Notes that the memory is full: blocks from `cut` on are left to the next pass.
    pub(super) fn full_at(&mut self, cut: Place) {
        if self.cut.is_none() {
            self.cut = Some(cut);
            self.transactions.forget_from(cut);
        }
    }

    /// Whether nothing is left to be noted.
    pub(super) fn is_complete(&self) -> bool {
        self.cut.is_some() && !self.transactions.has_open()
    }

    pub(super) fn cut(&self) -> Option<Place> {
        self.cut
    }

    /// See [`Transactions::first_open`].
    pub(super) fn first_open(&self) -> Option<(Place, OpenTransaction)> {
        self.transactions.first_open()
    }

    /// See [`Transactions::is_aborted`].
    pub(super) fn is_aborted(&self, partition: LogPartition, header: &BatchHeader) -> bool {
        self.transactions.is_aborted(partition, header)
    }

    /// The offset of the newest record that replaces older records of this key.
    pub(super) fn newest_of(&self, partition: LogPartition, key: &[u8]) -> Option<i64> {
        self.newest.get(self.hash(partition, key))
    }

    /// The hash of a partition and of the key by which a record is compared.
    fn hash(&self, partition: LogPartition, key: &[u8]) -> KeyHash {
        let [first, rest] = self.topics.of(partition.topic).keys.compared(key);
        self.newest.hash([&partition.to_bytes(), first, rest])
    }

    /// Frees a part of the memory. Returns true when nothing is left.
    pub(super) fn free(&mut self, bytes: usize) -> bool {
        self.newest.free(bytes)
    }
}
