//! Toy machines: two kinds of sums of the lengths of keys, and labels.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test has its part of it")]

mod head_file;
mod labels;

pub use head_file::{HEAD_FILE, HeadFile};
pub use labels::{Label, Labels};

use muster_codec::record_batch::{Batch, EndTxnMarker, Producer, TransactionOutcome};
use muster_codec::{DecodeError, Reader};
use muster_runtime::{
    Audited, CheckCopy, Damage, Digest, Machine, NextId, Opened, Runtime, SectionAt, Slots, Topic,
    TopicSet, Transactional, damaged, replayed,
};
use muster_storage::snapshot::Part;
use muster_storage::{
    KeyRule, LogConfig, Recovered, ShardLog, TopicRule, TopicRules, UNPARTITIONED,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

const fn rule(number: u8, lingers: bool) -> TopicRule {
    TopicRule { number, lingers, keys: KeyRule::SameKey }
}

/// The toys have no machine of the first topic, which has the node's own records in a cluster.
pub const TOPICS: TopicRules =
    TopicRules::new(&[rule(UNPARTITIONED, false), Sum::RULE, Tally::RULE, Labels::RULE]);

pub const DIRECTORY: &str = "shard-0";

/// A log whose segments and blocks are so small that a few records fill them.
pub fn small_log() -> LogConfig {
    LogConfig {
        dir: DIRECTORY.into(),
        log_id: 1,
        segment_bytes: 32 << 10,
        first_segment_bytes: 32 << 10,
        block_bytes: 512,
        operation_bytes_max: 256,
        open_bytes_max: 8 << 10,
        topics: TOPICS,
        ..LogConfig::default()
    }
}

/// The runtime of an empty log.
pub fn runtime(config: LogConfig) -> Runtime {
    Runtime::new(ShardLog::new(config, Recovered::default()), Vec::new())
}

/// The machines of all partitions of each topic.
#[derive(Debug)]
pub struct Toys {
    pub sums: Slots<Sum>,
    pub tallies: Slots<Tally>,
    pub labels: Slots<Labels>,
}

/// The number of partitions. A slice of a snapshot ends before it has all of them.
pub const PARTITIONS: u32 = 40;

impl Toys {
    pub fn new() -> Self {
        Self::not_knowing(None)
    }

    /// Machines of a version whose tallies do not know records with keys of this length.
    pub fn not_knowing(unknown: Option<usize>) -> Self {
        let tally = move || Tally { unknown, ..Tally::default() };
        Self {
            sums: Slots::new(1..=PARTITIONS, 0, Sum::default),
            tallies: Slots::new(1..=PARTITIONS, (), tally),
            labels: Slots::new(1..=PARTITIONS, (), Labels::default),
        }
    }
}

impl TopicSet for Toys {
    fn rules(&self) -> TopicRules {
        TOPICS
    }

    fn get(&mut self, number: u8) -> Option<&mut dyn Topic> {
        match number {
            0 => Some(&mut self.tallies),
            1 => Some(&mut self.sums),
            2 => Some(&mut self.labels),
            _ => None,
        }
    }
}

/// A key and a value.
pub type Record<'r> = (&'r [u8], Option<&'r [u8]>);

/// A record with a key of this length.
pub fn record(len: usize) -> Record<'static> {
    (&b"a key that is long enough for each of the tests"[..len], None)
}

/// A sum with a number of records. It has a timer while it is odd, and is damaged from 1,000 on. It
/// counts its calls in the shared value. The sum is one section of a snapshot, written piece by
/// piece. The number of records is another section, written at once.
#[derive(Debug, Default)]
pub struct Sum {
    pub sum: i64,
    pub records: i64,
    /// For the sum, and for the number of records: the position up to which the loaded snapshot has
    /// all records.
    in_snapshot: [u64; 2],
    /// The position of the last operation.
    pub applied_at: u64,
    /// Whether a read-only call has found damage.
    pub is_found_damaged: Cell<bool>,
}

/// The bytes of one unit of a sum in a snapshot: a sum of 3 is written as three times these bytes.
pub const ONE: [u8; 1 << 10] = [1; 1 << 10];

/// The progress of writing a section of a [`Sum`].
pub enum Walk {
    /// The part of the section that is written already, and the number of [`ONE`]s to write.
    Sum(Part, i64),
    Records,
}

impl Machine for Sum {
    const RULE: TopicRule = rule(1, false);
    const SECTIONS: &'static [&'static str] = &["the sum", "the number of records"];
    const READS_FIND_DAMAGE: bool = true;

    type Record<'r> = Record<'r>;
    type Held = i64;
    type Walk = Walk;
    /// The records that were passed.
    type Restating = i64;
    type Place = i64;
    type Shared = u32;

    fn apply(&mut self, operation: &[Record<'_>], position: u64) {
        self.sum += operation.iter().map(|(key, _)| key.len() as i64).sum::<i64>();
        self.records += operation.len() as i64;
        self.applied_at = position;
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        let is_new = self.in_snapshot.map(|in_snapshot| position > in_snapshot);
        if is_new[0] {
            self.sum += sum(batch)?;
        }
        if is_new[1] {
            self.records += i64::from(batch.header.records_count);
        }
        Ok(is_new.contains(&true))
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

    fn begin_after(&mut self, position: u64) {
        self.in_snapshot = [position; 2];
    }

    fn begin_section(&self, section: u8, at: SectionAt) -> Option<Walk> {
        match section {
            0 if self.sum > 0 => Some(Walk::Sum(Part::of(at.file_at, &[]), self.sum)),
            1 if self.records > 0 => Some(Walk::Records),
            _ => None,
        }
    }

    fn write_section(
        &mut self,
        walk: &mut Walk,
        at: SectionAt,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage> {
        if let Some(damage) = self.damage() {
            return Err(damage);
        }
        let Walk::Sum(part, left) = walk else {
            let number = self.records.to_be_bytes();
            return Ok(Some(at.whole(out, |out| out.extend(number))));
        };
        for _ in 0..bytes.div_ceil(ONE.len()).min(*left as usize) {
            *part = part.followed_by(&ONE);
            out.extend(ONE);
            *left -= 1;
        }
        Ok((*left == 0).then_some(*part))
    }

    fn open_section(&mut self, section: u8, opened: Opened<'_>) -> Result<(), Damage> {
        self.in_snapshot[usize::from(section)] = opened.from;
        let bytes = opened.bytes()?;
        if section == 0 {
            self.sum = (bytes.len() / ONE.len()) as i64;
        } else {
            self.records = Reader::new(bytes).i64().map_err(damaged)?;
        }
        Ok(())
    }

    /// The first record has a key as long as the sum; the others, up to the number of records, have
    /// empty keys.
    fn restate(
        &mut self,
        passed: &mut i64,
        count: usize,
        take: &mut dyn FnMut(Option<Producer>, &Record<'_>),
    ) -> Result<bool, Damage> {
        if let Some(damage) = self.damage() {
            return Err(damage);
        }
        for _ in 0..count.min((self.records - *passed) as usize) {
            take(None, &record(if *passed == 0 { self.sum as usize } else { 0 }));
            *passed += 1;
        }
        Ok(*passed < self.records)
    }

    /// Each record counts as a state. All are right, except the last one if the sum is odd.
    fn audit_after(&mut self, after: Option<&i64>) -> Option<Audited<i64>> {
        let next = after.map_or(1, |after| after + 1);
        let is_wrong = next == self.records && self.sum % 2 == 1;
        let found = if is_wrong { Err(format!("a sum of {}", self.sum)) } else { Ok(()) };
        (next <= self.records).then_some((next, found))
    }

    fn damage(&self) -> Option<Damage> {
        (self.sum >= 1_000 || self.is_found_damaged.get())
            .then(|| Damage(format!("a sum of {}", self.sum)))
    }
}

/// A sum to which transactions add when they are committed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub sum: i64,
    pub pending: BTreeMap<i64, i64>,
    /// The first offset of a producer's aborted transaction.
    pub aborted: BTreeMap<i64, i64>,
    /// The position up to which a snapshot contains all records.
    in_snapshot: u64,
    /// See [`Toys::not_knowing`].
    pub unknown: Option<usize>,
}

impl Machine for Tally {
    const RULE: TopicRule = rule(0, true);
    const SECTIONS: &'static [&'static str] = &["the tally"];

    type Record<'r> = Record<'r>;
    type Held = i64;
    type Walk = ();
    type Restating = ();
    type Place = ();
    type Shared = ();

    fn apply(&mut self, operation: &[Record<'_>], _position: u64) {
        self.sum += operation.iter().map(|(key, _)| key.len() as i64).sum::<i64>();
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        if position <= self.in_snapshot {
            return Ok(false);
        }
        for record in replayed(batch)? {
            if self.unknown.is_some() && record?.key.map(<[u8]>::len) == self.unknown {
                return Err(DecodeError::InvalidBatch("a record of a later version"));
            }
        }
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

    fn begin_after(&mut self, position: u64) {
        self.in_snapshot = position;
    }

    /// A partition that ever had records has a section.
    fn begin_section(&self, _section: u8, at: SectionAt) -> Option<()> {
        (at.log_end > 0).then_some(())
    }

    fn write_section(
        &mut self,
        (): &mut (),
        at: SectionAt,
        _bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage> {
        let pending = self.pending.iter().flat_map(|(producer, sum)| [*producer, *sum]);
        let numbers = [self.sum].into_iter().chain(pending);
        Ok(Some(at.whole(out, |out| numbers.for_each(|it| out.extend(it.to_be_bytes())))))
    }

    fn aborted(&self, producer_id: i64, offset: i64) -> Option<(i64, i64)> {
        let first = self.aborted.get(&producer_id)?;
        (*first <= offset).then_some((*first, producer_id))
    }

    fn restate(
        &mut self,
        (): &mut (),
        _count: usize,
        take: &mut dyn FnMut(Option<Producer>, &Record<'_>),
    ) -> Result<bool, Damage> {
        if self.sum > 0 {
            take(None, &record(self.sum as usize));
        }
        for (id, sum) in &self.pending {
            take(Some(Producer { id: *id, epoch: 0 }), &record(*sum as usize));
        }
        Ok(false)
    }

    fn copy(&self, _salt: u64, halvings: u32) -> Option<Box<dyn CheckCopy>> {
        Some(Box::new(TallyCopy(Self::default(), halvings)))
    }

    fn next_id(
        &mut self,
        after: Option<&Arc<str>>,
        visits: usize,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> NextId {
        NextId::among(self.ids(after).into_iter(), after, visits, is_wanted)
    }

    fn digest(&mut self, id: &str, _items_max: usize) -> Option<Digest> {
        let sum = if id == SUM { self.sum } else { self.pending.values().sum() };
        Some(Digest { fingerprint: Some(sum.unsigned_abs()), items: 1 })
    }

    fn open_section(&mut self, _section: u8, opened: Opened<'_>) -> Result<(), Damage> {
        self.in_snapshot = opened.from;
        let mut reader = Reader::new(opened.bytes()?);
        self.sum = reader.i64().map_err(damaged)?;
        while !reader.rest().is_empty() {
            let (producer, sum) = (reader.i64().map_err(damaged)?, reader.i64().map_err(damaged)?);
            self.pending.insert(producer, sum);
        }
        Ok(())
    }
}

/// The ids of the two states of a tally.
const PENDING: &str = "pending";
const SUM: &str = "sum";

impl Tally {
    fn ids(&self, after: Option<&Arc<str>>) -> Vec<&'static str> {
        let all = [PENDING, SUM].into_iter();
        all.filter(|id| after.is_none_or(|after| **after < **id)).collect()
    }
}

/// A tally that is replayed from the log, and the halvings of its sample.
#[derive(Debug)]
struct TallyCopy(Tally, u32);

impl CheckCopy for TallyCopy {
    fn noun(&self) -> &'static str {
        "tally"
    }

    fn halvings(&self) -> u32 {
        self.1
    }

    fn has(&self, _id: &str) -> bool {
        true
    }

    fn replay(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        self.0.replay(batch, 1).map(drop)
    }

    fn next(&self, after: Option<&Arc<str>>) -> Option<Arc<str>> {
        self.0.ids(after).first().map(|id| Arc::from(*id))
    }

    fn digest(&mut self, id: &str) -> Digest {
        Machine::digest(&mut self.0, id, usize::MAX).unwrap()
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
