//! The state of a partition's producers (KIP-98): epochs, last sequences, and transactions.
//!
//! The rules are those of Kafka's `ProducerStateManager` and `ProducerAppendInfo`. The state
//! changes as soon as a batch is accepted, before it is written, because the producer's next batch
//! may be checked before the write is done. This is safe. If a write fails, the process ends. If
//! the file of a write no longer exists, the partition takes no further batch before the next
//! start.

use super::asked::Asked;
use super::limits::{PRODUCER_ACTIVE_MS, PRODUCERS_LOADED_MAX};
use super::transactions::Transactions;
use hashbrown::HashMap;
use muster_codec::ErrorCode;
use muster_codec::Wall;
use muster_codec::record_batch::{BatchHeader, NO_SEQUENCE, NO_TIMESTAMP};
use muster_fairness::{Address, Holders};
use muster_storage::BatchPlace;
use muster_storage::partition_log::LastOfProducer;
use muster_transactions::message::{Producer as Writer, QuestionKind, Stamp};
use muster_transactions::partition::End;
use std::collections::{BTreeMap, VecDeque};

/// The number of last batches that are kept for each producer, to recognise duplicates. It is the
/// number of requests that an idempotent producer may have in flight
/// (`max.in.flight.requests.per.connection`).
const BATCHES_KEPT: usize = 5;

/// The maximum number of producers that are forgotten at once to make room for others.
const ROOM: usize = 1_024;

/// The time until the next search for room, after a search that found none.
const LOOK_AGAIN_MS: i64 = 1_000;

/// Stands for the missing epoch of a producer.
const NO_EPOCH: i16 = -1;

/// The producer's part of a batch header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequenced {
    pub producer_id: i64,
    pub epoch: i16,
    pub base_sequence: i32,
    pub last_offset_delta: i32,
    pub is_transactional: bool,
}

/// The time at which a batch came, and the address of its client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub wall: Wall,
    /// The address of the client; the default address at recovery, and for markers.
    pub address: Address,
}

/// The place of a batch in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub base_offset: i64,
    pub last_offset: i64,
    /// The timestamp of the batch's newest record, in milliseconds since the epoch.
    pub timestamp: i64,
}

/// The treatment of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Append,
    /// The batch was appended before, at this place.
    Duplicate(Stored),
    Refuse(ErrorCode),
}

/// The producers of one partition.
#[derive(Debug, Default)]
pub(super) struct Producers {
    by_id: HashMap<i64, Producer>,
    /// Used while the log is loaded: when there are this many producers, idle ones are removed. It
    /// is greater than the limit if too many producers have open transactions, because these are
    /// not removed.
    many: usize,
    /// The time of the last search that found no room for a new producer.
    full_at: Option<Wall>,
    asked: Asked,
    pub transactions: Transactions,
}

/// A producer in the form of DescribeProducers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Described {
    pub id: i64,
    pub epoch: i16,
    /// -1 if the producer has written nothing at this epoch.
    pub last_sequence: i32,
    pub last_timestamp: i64,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    /// The last batches, all of the current epoch, the newest at the back.
    batches: VecDeque<Batch>,
    /// The timestamp of the newest batch or marker.
    last_timestamp: i64,
    /// The time of the last append, for expiry.
    last_append: i64,
    /// Whether the producer has sent a second batch.
    came_again: bool,
    /// The address whose share counts the producer.
    address: Address,
}

#[derive(Debug, Clone, Copy)]
struct Batch {
    base_sequence: i32,
    last_sequence: i32,
    stored: Stored,
}

impl Producers {
    /// Decides the treatment of a batch.
    pub(super) fn check(&self, batch: &Sequenced) -> Verdict {
        let known = self.by_id.get(&batch.producer_id);
        if let Some(duplicate) = known.and_then(|producer| producer.find(batch)) {
            return Verdict::Duplicate(duplicate);
        }
        // Kafka accepts any first sequence of an unknown producer, because its earlier records may
        // have been deleted. But the sequence must be 0 if the batch adds its partition to a
        // transaction.
        let is_next = match known {
            Some(producer) if batch.epoch < producer.epoch => {
                return Verdict::Refuse(ErrorCode::InvalidProducerEpoch);
            }
            Some(producer) => producer.epoch == NO_EPOCH || producer.expects(batch),
            None if batch.epoch < NO_EPOCH => {
                return Verdict::Refuse(ErrorCode::InvalidProducerEpoch);
            }
            None => batch.base_sequence == 0 || !self.asked.adds(batch.producer_id),
        };
        if !is_next || self.asked.is_overtaking(batch) {
            Verdict::Refuse(ErrorCode::OutOfOrderSequenceNumber)
        } else if !batch.is_transactional && self.transactions.is_open(batch.producer_id) {
            Verdict::Refuse(ErrorCode::InvalidTxnState)
        } else {
            Verdict::Append
        }
    }

    /// Notes that the coordinator is asked about the first batch of a transaction. `number`
    /// identifies the question.
    pub(super) fn ask(&mut self, wall: Wall, batch: &Sequenced, kind: QuestionKind, number: u64) {
        self.asked.ask(wall, batch, kind);
        self.transactions.ask(batch.producer(), number);
    }

    /// Whether the log has a batch of this producer with a newer epoch, transactional or not.
    pub(super) fn has_newer(&self, producer: Writer) -> bool {
        self.by_id.get(&producer.id).is_some_and(|known| producer.epoch < known.epoch)
    }

    /// Notes a batch that was appended at `place`, or found there at recovery. `since` is the stamp
    /// of the verdict that admitted the batch's transaction. Recovery does not know it, and passes
    /// None.
    pub(super) fn appended(
        &mut self,
        origin: Origin,
        batch: &Sequenced,
        stored: Stored,
        place: BatchPlace,
        since: Option<Stamp>,
    ) {
        let producer = self.known(batch.producer_id, batch.epoch, origin.address);
        producer.push(origin.wall, batch, stored);
        if batch.is_transactional {
            self.asked.appended(batch.producer_id);
            self.transactions.appended(batch.producer(), stored.base_offset, place, since);
        }
    }

    /// Notes a marker that was appended at an offset, or found there at recovery.
    pub(super) fn marked(
        &mut self,
        wall: Wall,
        end: &End,
        offset: i64,
        timestamp: i64,
        stamp: Option<Stamp>,
    ) {
        let producer = self.known(end.producer.id, end.producer.epoch, Address::default());
        producer.begin_epoch(end.producer.epoch);
        (producer.last_append, producer.last_timestamp) = (wall.0, timestamp);
        self.asked.marked(end);
        self.transactions.marked(end, offset, stamp);
    }

    /// Describes all producers, by id.
    pub(super) fn describe(&self) -> Vec<Described> {
        let described = |(id, producer): (&i64, &Producer)| Described {
            id: *id,
            epoch: producer.epoch,
            last_sequence: producer.batches.back().map_or(NO_SEQUENCE, |last| last.last_sequence),
            last_timestamp: producer.last_timestamp,
        };
        let mut all: Vec<_> = self.by_id.iter().map(described).collect();
        all.sort_unstable_by_key(|producer| producer.id);
        all
    }

    /// The last batch or marker of each producer.
    pub(super) fn last_batches(&self) -> BTreeMap<i64, LastOfProducer> {
        let last = |(id, producer): (&i64, &Producer)| {
            let data = |batch: &Batch| LastOfProducer::Data(batch.stored.last_offset);
            let last = producer.batches.back();
            (*id, last.map_or(LastOfProducer::Marker(producer.epoch), data))
        };
        self.by_id.iter().map(last).collect()
    }

    /// Removes producers that have appended nothing for `producer.id.expiration.ms` and have no
    /// open transaction.
    pub(super) fn expire(&mut self, wall: Wall, expiration_ms: i64, holders: &mut Holders) {
        self.asked.expire(wall, expiration_ms);
        self.forget_idle(wall, expiration_ms, holders);
    }

    /// Removes inactive producers, because all partitions together have too many.
    pub(super) fn forget_inactive(&mut self, wall: Wall, holders: &mut Holders) {
        self.forget_idle(wall, PRODUCER_ACTIVE_MS, holders);
    }

    fn forget_idle(&mut self, wall: Wall, idle_ms: i64, holders: &mut Holders) {
        let Self { by_id, transactions, .. } = self;
        by_id.retain(|id, producer| {
            let is_kept = wall.since(producer.last_append) < idle_ms || transactions.is_open(*id);
            if !is_kept {
                transactions.forget(*id);
                holders.release(producer.address, 1);
            }
            is_kept
        });
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn knows(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Removes some inactive producers so that a client can add a producer. The order of removal
    /// is: first those of the client's own address, then those that sent a single batch, then those
    /// that were idle longest. Returns whether any producer was inactive.
    pub(super) fn make_room(&mut self, origin: Origin, holders: &mut Holders) -> bool {
        let Origin { wall, address } = origin;
        if self.full_at.is_some_and(|at| (0..LOOK_AGAIN_MS).contains(&wall.since(at.0))) {
            return false;
        }
        let is_idle = |(id, producer): &(&i64, &Producer)| {
            wall.since(producer.last_append) >= PRODUCER_ACTIVE_MS
                && !self.transactions.is_open(**id)
        };
        let rank = |(id, producer): (&i64, &Producer)| {
            let is_of_other = producer.address != address;
            ((is_of_other, producer.came_again, producer.last_append), *id)
        };
        let idle: Vec<_> = self.by_id.iter().filter(is_idle).map(rank).collect();
        self.full_at = idle.is_empty().then_some(wall);
        let has_idle = !idle.is_empty();
        for id in first(idle, ROOM) {
            self.transactions.forget(id);
            let producer = self.by_id.remove(&id);
            producer.into_iter().for_each(|it| holders.release(it.address, 1));
        }
        has_idle
    }

    /// Releases the shares of all producers, when the partition is removed.
    pub(super) fn release(&self, holders: &mut Holders) {
        self.by_id.values().for_each(|producer| holders.release(producer.address, 1));
    }

    /// Makes room for a producer that was found in the log at startup. In Kafka only time limits
    /// the number of producers. Here, if there are too many, an eighth of the maximum number is
    /// removed: those that were idle longest. Removing an eighth at once makes the cost per
    /// producer constant. A removed producer is unknown when it returns. Producers with open
    /// transactions stay: coordinators limit their number.
    pub(super) fn make_room_at_load(&mut self) {
        const STEP: usize = PRODUCERS_LOADED_MAX / 8;
        if self.by_id.len() < self.many.max(PRODUCERS_LOADED_MAX) {
            return;
        }
        let idle = self.by_id.iter().filter(|(id, _)| !self.transactions.is_open(**id));
        let idle = idle.map(|(id, producer)| (producer.last_append, *id)).collect();
        for id in first(idle, STEP) {
            self.by_id.remove(&id);
            self.transactions.forget(id);
        }
        self.many = self.by_id.len() + STEP;
    }

    fn known(&mut self, id: i64, epoch: i16, address: Address) -> &mut Producer {
        self.by_id.entry(id).or_insert_with(|| Producer {
            epoch,
            batches: VecDeque::new(),
            last_timestamp: NO_TIMESTAMP,
            last_append: 0,
            came_again: false,
            address,
        })
    }
}

impl Producer {
    fn find(&self, batch: &Sequenced) -> Option<Stored> {
        if batch.epoch != self.epoch {
            return None;
        }
        let last_sequence = batch.last_sequence();
        let same = |kept: &&Batch| {
            kept.base_sequence == batch.base_sequence && kept.last_sequence == last_sequence
        };
        self.batches.iter().find(same).map(|kept| kept.stored)
    }

    /// Whether a batch has the next sequence. A new epoch starts at 0. Within an epoch the sequence
    /// counts up, and 0 follows `i32::MAX`.
    fn expects(&self, batch: &Sequenced) -> bool {
        match self.batches.back() {
            Some(last) if batch.epoch == self.epoch => {
                batch.base_sequence == add_to_sequence(last.last_sequence, 1)
            }
            _ => batch.base_sequence == 0,
        }
    }

    fn begin_epoch(&mut self, epoch: i16) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }

    fn push(&mut self, wall: Wall, batch: &Sequenced, stored: Stored) {
        self.came_again |= !self.batches.is_empty();
        self.begin_epoch(batch.epoch);
        if self.batches.len() == BATCHES_KEPT {
            self.batches.pop_front();
        }
        let last_sequence = batch.last_sequence();
        self.batches.push_back(Batch { base_sequence: batch.base_sequence, last_sequence, stored });
        (self.last_append, self.last_timestamp) = (wall.0, stored.timestamp);
    }
}

impl Sequenced {
    /// The producer's part of a header; None for a batch without a producer id.
    pub(super) fn of(header: &BatchHeader) -> Option<Self> {
        header.has_producer_id().then_some(Self {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            last_offset_delta: header.last_offset_delta,
            is_transactional: header.is_transactional(),
        })
    }

    pub(super) fn producer(&self) -> Writer {
        Writer { id: self.producer_id, epoch: self.epoch }
    }

    fn last_sequence(&self) -> i32 {
        add_to_sequence(self.base_sequence, self.last_offset_delta)
    }
}

/// Returns the ids of the `count` producers with the lowest rank, or of all if there are fewer, in
/// any order.
pub(super) fn first<R: Ord>(mut all: Vec<(R, i64)>, count: usize) -> impl Iterator<Item = i64> {
    let count = count.min(all.len());
    if count < all.len() {
        all.select_nth_unstable(count);
    }
    all.into_iter().take(count).map(|(_, id)| id)
}

/// Adds to a sequence, which wraps from `i32::MAX` to 0, as in
/// `DefaultRecordBatch.incrementSequence`.
fn add_to_sequence(sequence: i32, increment: i32) -> i32 {
    sequence.wrapping_add(increment) & i32::MAX
}
