//! The check of one partition.

use crate::{CheckCopy, Digest, NextId, Topic};
use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_storage::{LogPartition, Reading, ShardLog};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum number of ids that a turn visits, and of items (parts of states) in the digests that
/// it takes: about 100 microseconds of work. (A single state may have more.)
const LOOKS_MAX: usize = 200;
const ITEMS_MAX: usize = 300;

/// The most items of an id whose digest is taken: less than a millisecond of work. A copy may leave
/// out the same ids, and smaller ones, too ([`CheckCopy::has`](crate::CheckCopy::has)).
pub const ITEMS_OF_ID_MAX: usize = 2_000;

/// A difference between a live state and its log.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) position: u64,
    pub(super) what: String,
}

/// The check of one partition.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) partition: LogPartition,
    pub(super) began: i64,
    pub(super) reading: Reading,
    /// None if the records are only read.
    copy: Option<Box<dyn CheckCopy>>,
    /// How often the size of the sample had been halved when the round began.
    halvings: u32,
    /// The offset after the last record that the check copy contains.
    pub(super) offset: i64,
    /// The end of the partition at the last read.
    pub(super) read_to: i64,
    /// The last id visited, and the last one compared.
    walked_to: Option<Arc<str>>,
    compared_to: Option<Arc<str>>,
    is_walked: bool,
    /// Digests of live states that are not compared yet.
    taken: VecDeque<Taken>,
    /// The number of compactions when the digests were taken: see [`ShardLog::swaps`].
    swaps: u64,
}

/// The digest of a live state at the end of a block.
#[derive(Debug)]
struct Taken {
    id: Arc<str>,
    digest: Digest,
    /// The state of the log when the digest was taken: the offset of the partition's next record,
    /// and the position of the log's last operation.
    offset: i64,
    position: u64,
}

impl Round {
    /// Begins a round. `copy` is empty.
    pub(super) fn new(
        partition: LogPartition,
        (copy, halvings): (Option<Box<dyn CheckCopy>>, u32),
        log: &ShardLog,
        now: i64,
    ) -> Self {
        Self {
            partition,
            began: now,
            reading: log.begin_reading(now),
            copy,
            halvings,
            offset: 0,
            read_to: log.high_watermark(partition),
            walked_to: None,
            compared_to: None,
            is_walked: false,
            taken: VecDeque::new(),
            swaps: log.swaps(),
        }
    }

    /// The halvings of the present sample.
    pub(super) fn halvings(&self) -> u32 {
        self.copy.as_ref().map_or(self.halvings, |copy| copy.halvings())
    }

    /// Whether digests of more live states are taken before the next read.
    pub(super) fn is_to_look(&self) -> bool {
        let items: usize = self.taken.iter().map(Taken::cost).sum();
        !self.is_walked && self.offset >= self.read_to && items < ITEMS_MAX
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_walked && self.taken.is_empty()
    }

    /// Discards the digests if replaying the log no longer leads to the states at their positions:
    /// the copy is past one of them, or the log was compacted. They are taken again.
    pub(super) fn check_taken(&mut self, log: &ShardLog) {
        let is_passed = self.taken.front().is_some_and(|taken| taken.offset < self.offset);
        if is_passed || self.swaps != log.swaps() {
            self.swaps = log.swaps();
            if !self.taken.is_empty() {
                self.taken.clear();
                self.walked_to = self.compared_to.clone();
                self.is_walked = false;
            }
        }
    }

    /// Applies the next batch of the log.
    pub(super) fn replay(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        match &mut self.copy {
            Some(copy) => copy.replay(batch)?,
            None => batch.records()?.try_for_each(|record| record.map(drop))?,
        }
        self.offset = batch.header.next_offset();
        Ok(())
    }

    /// Compares the digests that were taken at the copy's position.
    pub(super) fn compare(&mut self, compared: &mut u64) -> Option<Found> {
        let (offset, copy) = (self.offset, self.copy.as_mut()?);
        while let Some(taken) = self.taken.pop_front_if(|taken| taken.offset == offset) {
            let Taken { id, digest, position, .. } = taken;
            self.compared_to = Some(id.clone());
            // The sample may have become smaller, so that the id is no longer in it.
            if !copy.has(&id) {
                continue;
            }
            *compared += 1;
            let replayed = copy.digest(&id).fingerprint;
            if digest.fingerprint != replayed {
                let [live, replayed] =
                    [digest.fingerprint, replayed].map(Option::unwrap_or_default);
                let noun = copy.noun();
                let what =
                    format!("{noun} {id:?} is {live:016x}, but its records make {replayed:016x}");
                return Some(Found { position, what });
            }
        }
        None
    }

    /// Takes digests of the next live states.
    pub(super) fn take_digests(&mut self, topic: Option<&mut dyn Topic>, log: &ShardLog) {
        let (Some(topic), Some(_)) = (topic, &self.copy) else {
            self.is_walked = true;
            return;
        };
        let (offset, position) = (log.log_end_offset(self.partition), log.progress().accepted());
        let looks = Cell::new(0);
        let mut items = 0;
        while items < ITEMS_MAX && looks.get() < LOOKS_MAX {
            let Some(id) = self.next_id(topic, &looks) else { break };
            self.walked_to = Some(id.clone());
            if let Some(digest) = topic.digest(self.partition.index, &id, ITEMS_OF_ID_MAX) {
                let taken = Taken { id, digest, offset, position };
                items += taken.cost();
                self.taken.push_back(taken);
            }
        }
    }

    /// The next id of the round, which is live, in the copy, or both.
    fn next_id(&mut self, topic: &mut dyn Topic, looks: &Cell<usize>) -> Option<Arc<str>> {
        let Self { copy, walked_to, partition, .. } = self;
        let copy = copy.as_ref()?;
        let is_wanted = |id: &str| {
            looks.set(looks.get() + 1);
            copy.has(id)
        };
        let left = LOOKS_MAX.saturating_sub(looks.get());
        let next = topic.next_id(partition.index, walked_to.as_ref(), left, &is_wanted);
        match (next, copy.next(walked_to.as_ref())) {
            (NextId::Wanted(live), Some(other)) => Some(live.min(other)),
            (NextId::Wanted(live), None) => Some(live),
            (NextId::Unwanted(live), Some(other)) if other <= live => Some(other),
            (NextId::Unwanted(live), _) => {
                *walked_to = Some(live);
                None
            }
            (NextId::End, Some(other)) => Some(other),
            (NextId::End, None) => {
                self.is_walked = true;
                None
            }
        }
    }
}

impl Taken {
    fn cost(&self) -> usize {
        self.digest.items + 1
    }
}
