//! The check of one partition.

use super::copies::{Live, PartitionCopy};
use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_coordinator::{Divergence, GroupDigest, NextGroup};
use muster_storage::{LogPartition, Reading, ShardLog};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum number of groups visited in a turn, and of members and offsets in their digests:
/// about 100 microseconds of work. (A single group may have more.)
const LOOKS_MAX: usize = 200;
const ITEMS_MAX: usize = 300;

/// A difference between a group and its log.
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
    copy: PartitionCopy,
    /// The offset after the last record that the check copy contains.
    pub(super) offset: i64,
    /// The end of the partition at the last read.
    pub(super) read_to: i64,
    /// The last group visited, and the last one compared.
    walked_to: Option<Arc<str>>,
    compared_to: Option<Arc<str>>,
    is_walked: bool,
    /// Digests of live groups that are not compared yet.
    taken: VecDeque<Taken>,
    /// The number of compactions when the digests were taken: see [`ShardLog::swaps`].
    swaps: u64,
}

/// The digest of a live group at the end of a block.
#[derive(Debug)]
struct Taken {
    group_id: Arc<str>,
    digest: GroupDigest,
    /// The offset of the partition's next record at that time, and the position of the log's last
    /// operation.
    offset: i64,
    position: u64,
}

impl Round {
    /// Begins a round. `copy` is empty.
    pub(super) fn new(
        partition: LogPartition,
        copy: PartitionCopy,
        log: &ShardLog,
        now: i64,
    ) -> Self {
        Self {
            partition,
            began: now,
            reading: log.begin_reading(now),
            copy,
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
        self.copy.sample().halvings
    }

    /// Whether digests of more live groups are taken before the next read.
    pub(super) fn is_to_look(&self) -> bool {
        let items: usize = self.taken.iter().map(Taken::cost).sum();
        !self.is_walked && self.offset >= self.read_to && items < ITEMS_MAX
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_walked && self.taken.is_empty()
    }

    /// Discards the digests if the log can no longer be replayed to their positions; they are taken
    /// again.
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
        self.copy.replay(&batch.header, batch.records()?)?;
        self.offset = batch.header.next_offset();
        Ok(())
    }

    /// Compares the digests that were taken at the copy's position.
    pub(super) fn compare(&mut self, compared: &mut u64) -> Option<Found> {
        let offset = self.offset;
        while let Some(taken) = self.taken.pop_front_if(|taken| taken.offset == offset) {
            let Taken { group_id, digest, position, .. } = taken;
            self.compared_to = Some(group_id.clone());
            // A group may have left the sample, which may have become smaller.
            if !self.copy.has(&group_id) {
                continue;
            }
            *compared += 1;
            let replayed = self.copy.digest(&group_id).fingerprint;
            if digest.fingerprint != replayed {
                let [live, replayed] =
                    [digest.fingerprint, replayed].map(Option::unwrap_or_default);
                let divergence = Divergence { group_id, live, replayed };
                return Some(Found { position, what: self.copy.name(&divergence) });
            }
        }
        None
    }

    /// Takes digests of the next live groups.
    pub(super) fn take_digests(&mut self, live: &mut Live<'_>, log: &ShardLog) {
        let (offset, position) = (log.log_end_offset(self.partition), log.progress().accepted());
        let looks = Cell::new(0);
        let mut items = 0;
        while items < ITEMS_MAX && looks.get() < LOOKS_MAX {
            let Some(group_id) = self.next_group(live, &looks) else { break };
            self.walked_to = Some(group_id.clone());
            if let Some(digest) = self.copy.digest_live(live, &group_id) {
                let taken = Taken { group_id, digest, offset, position };
                items += taken.cost();
                self.taken.push_back(taken);
            }
        }
    }

    /// The next group of the round, which is live, in the copy, or both.
    fn next_group(&mut self, live: &mut Live<'_>, looks: &Cell<usize>) -> Option<Arc<str>> {
        let Self { copy, walked_to, .. } = self;
        let is_wanted = |id: &str| {
            looks.set(looks.get() + 1);
            copy.has(id)
        };
        let left = LOOKS_MAX.saturating_sub(looks.get());
        let next = copy.next_live(live, walked_to.as_ref(), left, is_wanted);
        match (next, copy.next(walked_to.as_ref())) {
            (NextGroup::Wanted(live), Some(other)) => Some(live.min(other)),
            (NextGroup::Wanted(live), None) => Some(live),
            (NextGroup::Unwanted(live), Some(other)) if other <= live => Some(other),
            (NextGroup::Unwanted(live), _) => {
                *walked_to = Some(live);
                None
            }
            (NextGroup::End, Some(other)) => Some(other),
            (NextGroup::End, None) => {
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
