//! The aborted and the open transactions in the part of the log that a pass compares. A transaction
//! is open until its marker is found.

use crate::log_partition::LogPartition;
use crate::newest::KeyHash;
use muster_codec::record_batch::{BatchHeader, TransactionOutcome};
use std::collections::BTreeMap;

/// Identifies a block of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The index of the block's segment among the sources of the pass.
    pub(super) source: usize,
    /// The byte position of the block in its segment.
    pub(super) block: u32,
}

/// A producer's transaction in a partition that no marker has ended so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::shard_log) struct OpenTransaction {
    pub(in crate::shard_log) partition: LogPartition,
    pub(in crate::shard_log) producer_id: i64,
    pub(in crate::shard_log) first_offset: i64,
}

/// The minimum memory for transactions, in bytes.
const BYTES_MIN: usize = 64 << 10;

/// The approximate memory of an open transaction, of an aborted transaction, and of a record of an
/// open transaction.
const OPEN_BYTES: usize = 128;
const ABORTED_BYTES: usize = 96;
const RECORD_BYTES: usize = size_of::<(KeyHash, i64)>();

#[derive(Debug)]
struct Open {
    /// The block that contains the first records of the transaction.
    since: Place,
    first_offset: i64,
    records: Vec<(KeyHash, i64)>,
}

/// The transactions found so far. A producer has at most one open transaction in a partition.
#[derive(Debug)]
pub(super) struct Transactions {
    open: BTreeMap<(LogPartition, i64), Open>,
    /// The first offset of each aborted transaction, by partition, producer id and marker offset.
    aborted: BTreeMap<(LogPartition, i64, i64), i64>,
    bytes: usize,
    bytes_max: usize,
}

impl Transactions {
    /// Begins without transactions. `map_bytes` is the memory for keys. Transactions may use
    /// additional memory, half as much as that.
    pub(super) fn new(map_bytes: usize) -> Self {
        let bytes_max = (map_bytes / 2).max(BYTES_MIN);
        Self { open: BTreeMap::new(), aborted: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Whether there is no memory for more transactions.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// Notes a transactional batch.
    pub(super) fn batch(&mut self, partition: LogPartition, header: &BatchHeader, place: Place) {
        let known = self.open.len();
        let new = || Open { since: place, first_offset: header.base_offset, records: Vec::new() };
        self.open.entry((partition, header.producer_id)).or_insert_with(new);
        self.bytes += OPEN_BYTES * (self.open.len() - known);
    }

    /// Notes a record of the last batch.
    pub(super) fn record(
        &mut self,
        partition: LogPartition,
        producer_id: i64,
        key: KeyHash,
        offset: i64,
    ) {
        if let Some(open) = self.open.get_mut(&(partition, producer_id)) {
            open.records.push((key, offset));
            self.bytes += RECORD_BYTES;
        }
    }

    /// Notes a marker. Returns the records that it commits.
    pub(super) fn end(
        &mut self,
        partition: LogPartition,
        producer_id: i64,
        outcome: TransactionOutcome,
        offset: i64,
    ) -> Vec<(KeyHash, i64)> {
        let Some(ended) = self.open.remove(&(partition, producer_id)) else { return Vec::new() };
        self.bytes -= OPEN_BYTES + RECORD_BYTES * ended.records.len();
        match outcome {
            TransactionOutcome::Commit => ended.records,
            TransactionOutcome::Abort => {
                self.bytes += ABORTED_BYTES;
                self.aborted.insert((partition, producer_id, offset), ended.first_offset);
                Vec::new()
            }
        }
    }

    /// Forgets open transactions that begin at or after `cut`, because the blocks from there on are
    /// not rewritten.
    pub(super) fn forget_from(&mut self, cut: Place) {
        self.open.retain(|_, open| open.since < cut);
    }

    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The first block with records of an open transaction, and that transaction.
    pub(super) fn first_open(&self) -> Option<(Place, OpenTransaction)> {
        let found = self.open.iter().min_by_key(|(_, open)| open.since);
        found.map(|(&(partition, producer_id), open)| {
            let first_offset = open.first_offset;
            (open.since, OpenTransaction { partition, producer_id, first_offset })
        })
    }

    /// Whether the transaction of a batch was aborted. If not, and if it is not open, it was
    /// committed.
    pub(super) fn is_aborted(&self, partition: LogPartition, header: &BatchHeader) -> bool {
        let (producer_id, offset) = (header.producer_id, header.base_offset);
        let after = (partition, producer_id, offset)..=(partition, producer_id, i64::MAX);
        self.aborted.range(after).next().is_some_and(|(_, first)| *first <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newest::Newest;
    use muster_codec::record_batch::{BatchBuilder, Producer};

    const PARTITION: LogPartition = LogPartition { topic: 0, index: 3 };

    fn batch(producer_id: i64, offset: i64) -> BatchHeader {
        let mut builder = BatchBuilder::default();
        builder.append(0, &(&b"k"[..], Some(&b"v"[..])));
        let producer = Producer { id: producer_id, epoch: 0 };
        BatchHeader::read(builder.seal_in_transaction(offset, 0, producer)).unwrap()
    }

    fn place(block: u32) -> Place {
        Place { source: 0, block }
    }

    #[test]
    fn each_transaction_of_a_producer_has_an_outcome_of_its_own() {
        let mut all = Transactions::new(0);
        let newest = Newest::new(1, 1, 1);
        let key = newest.hash([b"k"]);
        let ends =
            [TransactionOutcome::Abort, TransactionOutcome::Commit, TransactionOutcome::Abort];
        for (at, outcome) in (0..).zip(ends) {
            all.batch(PARTITION, &batch(7, at * 10), place(0));
            all.record(PARTITION, 7, key, at * 10);
            let committed = all.end(PARTITION, 7, outcome, at * 10 + 5);
            let expected = if at == 1 { vec![(key, 10)] } else { Vec::new() };
            assert_eq!(committed, expected);
        }
        let aborted = |producer, offset| all.is_aborted(PARTITION, &batch(producer, offset));
        assert_eq!([0, 10, 20, 30].map(|at| aborted(7, at)), [true, false, true, false]);
        assert!(!aborted(8, 0));
        assert!(!all.has_open());
    }

    #[test]
    fn the_first_block_of_an_open_transaction_is_known() {
        let mut all = Transactions::new(0);
        all.batch(PARTITION, &batch(7, 0), place(512));
        all.batch(PARTITION, &batch(8, 1), place(1_024));
        all.batch(PARTITION, &batch(7, 2), place(2_048));
        assert_eq!(all.first_open().unwrap().0, place(512));
        all.end(PARTITION, 7, TransactionOutcome::Commit, 3);
        let (since, open) = all.first_open().unwrap();
        assert_eq!((since, open.producer_id, open.first_offset), (place(1_024), 8, 1));
        all.forget_from(place(1_024));
        assert_eq!(all.first_open(), None);
    }
}
