//! A simplified form of the state that the server gets by the replay of a log, with transactions
//! and share state.

use super::{Replayed, SHARE_STATE};
use muster_codec::record_batch::{Batch, EndTxnMarker, TransactionOutcome};
use std::collections::BTreeMap;

type Key = (i32, Vec<u8>);

/// A value written in an open transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pending {
    producer_id: i64,
    value: Vec<u8>,
    /// Whether a later record with the same key is committed.
    is_superseded: bool,
}

/// The committed values by key, and the values of open transactions in the order of their records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    values: BTreeMap<Key, Vec<u8>>,
    pending: BTreeMap<Key, Vec<Pending>>,
    /// The updates since each share partition's snapshot, and the end offset of each partition of
    /// share state.
    updates: BTreeMap<Key, Vec<Vec<u8>>>,
    share_ends: BTreeMap<i32, i64>,
}

/// A value to be written as a record.
pub struct Entry {
    pub partition: i32,
    pub key: Vec<u8>,
    /// The producer id, if the value belongs to an open transaction.
    pub producer: Option<i64>,
    pub value: Vec<u8>,
}

impl Entry {
    fn new((partition, key): (i32, &Vec<u8>), producer: Option<i64>, value: &[u8]) -> Self {
        Self { partition, key: key.clone(), producer, value: value.to_vec() }
    }
}

impl State {
    /// The state of a whole log.
    pub fn of(replayed: &[Replayed]) -> Self {
        let mut state = Self::default();
        replayed.iter().for_each(|batch| state.replay(batch));
        state
    }

    /// The number of committed values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The whole state as a list of values. Records of these values, in this order, reproduce the
    /// state.
    pub fn entries(&self) -> Vec<Entry> {
        let pending = |is_superseded: bool| {
            self.pending.iter().flat_map(move |((partition, key), all)| {
                let wanted = all.iter().filter(move |it| it.is_superseded == is_superseded);
                wanted.map(|it| Entry::new((*partition, key), Some(it.producer_id), &it.value))
            })
        };
        let values = self.values.iter();
        let values = values.map(|((at, key), value)| Entry::new((*at, key), None, value));
        pending(true).chain(values).chain(pending(false)).collect()
    }

    /// Applies a batch.
    pub fn replay(&mut self, replayed: &Replayed) {
        let (partition, batch) = (replayed.partition, Batch::read(&replayed.bytes).unwrap());
        let producer_id = batch.header.producer_id;
        let known_to = self.share_ends.get(&partition).copied().unwrap_or(0);
        if partition >= SHARE_STATE {
            self.share_ends.insert(partition, known_to.max(batch.header.next_offset()));
        }
        for record in batch.records().unwrap() {
            let record = record.unwrap();
            let key = record.key.unwrap();
            if partition >= SHARE_STATE {
                // Compaction may put records from before and after a snapshot's position into one
                // block. So some of these records may be in the state already; they are skipped.
                if batch.offset(&record) >= known_to {
                    self.put_share(partition, key, record.value);
                }
            } else if batch.header.is_control() {
                let marker = EndTxnMarker::of_record(&record).unwrap().unwrap();
                self.end(partition, producer_id, marker.outcome);
            } else if batch.header.is_transactional() {
                self.put_in_transaction(partition, producer_id, key, record.value.unwrap());
            } else {
                self.put(partition, key, record.value);
            }
        }
    }

    /// Applies a record of share state.
    fn put_share(&mut self, partition: i32, key: &[u8], value: Option<&[u8]>) {
        let of = (partition, key[2..].to_vec());
        match (&key[..2], value) {
            ([0, 0], value) => {
                self.updates.remove(&of);
                self.put(partition, key, value);
            }
            ([0, 1], Some(value)) => self.updates.entry(of).or_default().push(value.to_vec()),
            (_, None) => {}
            (_, Some(_)) => panic!("{key:?}"),
        }
    }

    /// Applies a record outside of transactions. It supersedes all earlier records of its key.
    pub fn put(&mut self, partition: i32, key: &[u8], value: Option<&[u8]>) {
        let key = (partition, key.to_vec());
        match value {
            Some(value) => {
                let pending = self.pending.get_mut(&key).into_iter().flatten();
                pending.for_each(|it| it.is_superseded = true);
                self.values.insert(key, value.to_vec());
            }
            None => {
                self.pending.remove(&key);
                self.values.remove(&key);
            }
        }
    }

    pub fn put_in_transaction(
        &mut self,
        partition: i32,
        producer_id: i64,
        key: &[u8],
        value: &[u8],
    ) {
        let pending = self.pending.entry((partition, key.to_vec())).or_default();
        pending.retain(|it| it.producer_id != producer_id);
        pending.push(Pending { producer_id, value: value.to_vec(), is_superseded: false });
    }

    /// Ends the transaction of a producer. If two commits wrote the same key, the later record
    /// counts.
    pub fn end(&mut self, partition: i32, producer_id: i64, outcome: TransactionOutcome) {
        for (key, pending) in &mut self.pending {
            let at = pending.iter().position(|it| it.producer_id == producer_id);
            let Some(at) = at.filter(|_| key.0 == partition) else { continue };
            let ended = pending.remove(at);
            if outcome == TransactionOutcome::Commit {
                pending[..at].iter_mut().for_each(|it| it.is_superseded = true);
                if !ended.is_superseded {
                    self.values.insert(key.clone(), ended.value);
                }
            }
        }
        self.pending.retain(|_, pending| !pending.is_empty());
    }
}
