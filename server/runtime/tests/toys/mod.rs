//! Two toy machines: sums of the lengths of keys.

#![allow(dead_code, unreachable_pub, reason = "each test has its part of it")]

use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, EndTxnMarker, Producer, TransactionOutcome};
use muster_runtime::{Damage, Machine, Transactional, replayed};
use muster_storage::{KeyRule, TopicRule, TopicRules};
use std::collections::BTreeMap;

const fn rule(number: u8, lingers: bool) -> TopicRule {
    TopicRule { number, lingers, keys: KeyRule::SameKey }
}

pub const TOPICS: TopicRules = TopicRules::new(&[Sum::RULE, Tally::RULE]);

/// A key and a value.
pub type Record<'r> = (&'r [u8], Option<&'r [u8]>);

/// A record with a key of this length.
pub fn record(len: usize) -> Record<'static> {
    (&b"a key that is long enough for each of the tests"[..len], None)
}

/// A sum that has a timer while it is odd, and reports the number of its calls. From 1,000 on it is
/// damaged.
#[derive(Debug, Default)]
pub struct Sum {
    pub sum: i64,
    /// The position up to which a snapshot contains all records.
    pub in_snapshot: u64,
    /// The position of the last operation.
    pub applied_at: u64,
}

impl Machine for Sum {
    const RULE: TopicRule = rule(1, false);

    type Record<'r> = Record<'r>;
    type Held = i64;
    type Shared = u32;

    fn apply(&mut self, operation: &[Record<'_>], position: u64) {
        self.sum += operation.iter().map(|(key, _)| key.len() as i64).sum::<i64>();
        self.applied_at = position;
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        if position <= self.in_snapshot {
            return Ok(false);
        }
        self.sum += sum(batch)?;
        Ok(true)
    }

    fn held(&self) -> i64 {
        self.sum
    }

    fn next_deadline(&self) -> Option<i64> {
        (self.sum % 2 == 1).then_some(self.sum)
    }

    fn settle(&mut self, calls: &mut u32) {
        *calls += 1;
    }

    fn damage(&self) -> Option<Damage> {
        (self.sum >= 1_000).then(|| Damage(format!("a sum of {}", self.sum)))
    }
}

/// A sum to which transactions add when they are committed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub sum: i64,
    pub pending: BTreeMap<i64, i64>,
}

impl Machine for Tally {
    const RULE: TopicRule = rule(0, true);

    type Record<'r> = Record<'r>;
    type Held = i64;
    type Shared = ();

    fn apply(&mut self, operation: &[Record<'_>], _position: u64) {
        self.sum += operation.iter().map(|(key, _)| key.len() as i64).sum::<i64>();
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        let header = &batch.header;
        let producer = Producer { id: header.producer_id, epoch: header.producer_epoch };
        if header.is_control() {
            for record in replayed(batch)? {
                let Some(marker) = EndTxnMarker::of_record(&record?)? else { continue };
                self.end_transaction(producer, marker, position);
            }
        } else if header.is_transactional() {
            *self.pending.entry(producer.id).or_default() += sum(batch)?;
        } else {
            self.sum += sum(batch)?;
        }
        Ok(true)
    }

    fn held(&self) -> i64 {
        self.sum
    }

    fn next_deadline(&self) -> Option<i64> {
        None
    }
}

impl Transactional for Tally {
    fn apply_in_transaction(
        &mut self,
        producer: Producer,
        operation: &[Record<'_>],
        _position: u64,
    ) {
        let sum = operation.iter().map(|(key, _)| key.len() as i64).sum::<i64>();
        *self.pending.entry(producer.id).or_default() += sum;
    }

    fn end_transaction(&mut self, producer: Producer, marker: EndTxnMarker, _position: u64) {
        let pending = self.pending.remove(&producer.id).unwrap_or_default();
        if marker.outcome == TransactionOutcome::Commit {
            self.sum += pending;
        }
    }
}

fn sum(batch: &Batch<'_>) -> Result<i64, DecodeError> {
    replayed(batch)?.map(|record| Ok(record?.key.map_or(0, |key| key.len() as i64))).sum()
}
