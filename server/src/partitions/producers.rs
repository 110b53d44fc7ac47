//! The state of a partition's idempotent producers (KIP-98): epochs and the last sequences.
//!
//! The rules are those of Kafka's `ProducerStateManager` and `ProducerAppendInfo` without
//! transactions. State changes when a batch is accepted, not when its write is done, so that
//! pipelined batches are checked against it: a write that fails ends the process.

use super::limits::PRODUCERS_PER_PARTITION_MAX;
use muster_codec::ErrorCode;
use muster_codec::Wall;
use muster_codec::record_batch::BatchHeader;
use std::collections::{HashMap, VecDeque};

/// The last batches of a producer, kept to recognise duplicates; as many as a client may have
/// requests in flight (`max.in.flight.requests.per.connection` of idempotent producers).
const BATCHES_KEPT: usize = 5;

/// The epoch of a producer without one.
const NO_EPOCH: i16 = -1;

/// The producer's part of a batch header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequenced {
    pub producer_id: i64,
    pub epoch: i16,
    pub base_sequence: i32,
    pub last_offset_delta: i32,
}

/// The place of a batch in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub base_offset: i64,
    pub last_offset: i64,
    /// The timestamp of its newest record, in milliseconds since the epoch.
    pub timestamp: i64,
}

/// How to treat a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Append,
    /// It was appended before, at this place.
    Duplicate(Stored),
    Refuse(ErrorCode),
}

/// The producers of one partition.
#[derive(Debug, Default)]
pub(super) struct Producers {
    by_id: HashMap<i64, Producer>,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    /// The newest at the back; all of the current epoch.
    batches: VecDeque<Batch>,
    /// The time of its last append, for expiry.
    last_append: i64,
}

#[derive(Debug, Clone, Copy)]
struct Batch {
    base_sequence: i32,
    last_sequence: i32,
    stored: Stored,
}

impl Producers {
    pub(super) fn check(&self, batch: &Sequenced) -> Verdict {
        // Kafka accepts any first sequence of an unknown producer, whose records may have been
        // deleted.
        let Some(producer) = self.by_id.get(&batch.producer_id) else { return Verdict::Append };
        if let Some(duplicate) = producer.find(batch) {
            return Verdict::Duplicate(duplicate);
        }
        if batch.epoch < producer.epoch {
            return Verdict::Refuse(ErrorCode::InvalidProducerEpoch);
        }
        if producer.epoch == NO_EPOCH || producer.expects(batch) {
            Verdict::Append
        } else {
            Verdict::Refuse(ErrorCode::OutOfOrderSequenceNumber)
        }
    }

    /// Takes a batch that was appended, or found in the log at recovery.
    pub(super) fn appended(&mut self, wall: Wall, batch: &Sequenced, stored: Stored) {
        if !self.by_id.contains_key(&batch.producer_id) {
            self.evict_idle();
        }
        let producer = self.by_id.entry(batch.producer_id).or_insert_with(|| Producer {
            epoch: batch.epoch,
            batches: VecDeque::new(),
            last_append: wall.0,
        });
        producer.push(wall, batch, stored);
    }

    /// Removes producers that have not appended for `producer.id.expiration.ms`.
    pub(super) fn expire(&mut self, wall: Wall, expiration_ms: i64) {
        self.by_id.retain(|_, producer| wall.since(producer.last_append) < expiration_ms);
    }

    /// Kafka limits them by time alone. Here the eighth that was idle longest is removed, at a cost
    /// that is constant per producer; one that returns later is unknown.
    fn evict_idle(&mut self) {
        if self.by_id.len() < PRODUCERS_PER_PARTITION_MAX {
            return;
        }
        let mut idle: Vec<(i64, i64)> =
            self.by_id.iter().map(|(id, producer)| (producer.last_append, *id)).collect();
        let (oldest, _, _) = idle.select_nth_unstable(PRODUCERS_PER_PARTITION_MAX / 8);
        for (_, id) in oldest {
            self.by_id.remove(id);
        }
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

    /// A new epoch starts at 0; otherwise the sequence continues, from `i32::MAX` to 0.
    fn expects(&self, batch: &Sequenced) -> bool {
        match self.batches.back() {
            Some(last) if batch.epoch == self.epoch => {
                batch.base_sequence == add_to_sequence(last.last_sequence, 1)
            }
            _ => batch.base_sequence == 0,
        }
    }

    fn push(&mut self, wall: Wall, batch: &Sequenced, stored: Stored) {
        if batch.epoch != self.epoch {
            self.epoch = batch.epoch;
            self.batches.clear();
        }
        if self.batches.len() == BATCHES_KEPT {
            self.batches.pop_front();
        }
        let last_sequence = batch.last_sequence();
        self.batches.push_back(Batch { base_sequence: batch.base_sequence, last_sequence, stored });
        self.last_append = wall.0;
    }
}

impl Sequenced {
    /// None for a batch without a producer id.
    pub(super) fn of(header: &BatchHeader) -> Option<Self> {
        header.has_producer_id().then_some(Self {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            last_offset_delta: header.last_offset_delta,
        })
    }

    fn last_sequence(&self) -> i32 {
        add_to_sequence(self.base_sequence, self.last_offset_delta)
    }
}

/// Sequences wrap from `i32::MAX` to 0, as `DefaultRecordBatch.incrementSequence`.
fn add_to_sequence(sequence: i32, increment: i32) -> i32 {
    sequence.wrapping_add(increment) & i32::MAX
}
