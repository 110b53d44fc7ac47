//! The running check that the groups of a shard are in the state to which its log replays.
//!
//! One partition of `__consumer_offsets` after the other is read back from the log, from its first
//! record to its last, in slices. The records of a sample of its groups are replayed to a
//! [`Replica`]; near the end of the log digests of the live groups are taken, a few in each turn,
//! and compared when the replica has reached the position that the log had then.
//!
//! Compaction continues meanwhile. A round may then read a mixture of segments before and after it;
//! that replays to the same state, except for removed tombstones ([`ShardLog::may_have_missed`])
//! and for positions before the end: digests of those are taken again.

use super::names::LOG_CHECK_TOKEN;
use super::{GroupLog, Shard, Stopping};
use crate::placement::Slot;
use muster_codec::DecodeError;
use muster_codec::record_batch::Batches;
use muster_coordinator::replica::{REPLICA_BYTES_MAX, REPLICA_GROUP_ITEMS_MAX};
use muster_coordinator::{Divergence, GroupDigest, NextGroup, Replica, Sample};
use muster_storage::{FileDone, FileOp, FileToken, LogPartition, ReadPlan, Reading, ShardLog};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use tracing::{error, warn};

#[cfg(test)]
mod tests;

/// The size of a read, which may be larger by an entry of the log's index.
const READ_BYTES: usize = 64 << 10;

/// The delay after a start, which has more urgent work.
const BEGIN_MS: i64 = 1_000;

/// How often that delay is doubled for a shard that was loaded again: up to 17 minutes.
const PUT_OFF_MAX: u32 = 10;

/// The shortest pause between two rounds; otherwise it is as long as the last round.
const REST_MS: i64 = 100;

/// The most groups visited in a turn, and the most members and offsets in their digests: about 100
/// microseconds of work. (A single group may have more.)
const LOOKS_MAX: usize = 200;
const ITEMS_MAX: usize = 300;

/// The running check of a shard.
#[derive(Debug, Default)]
pub(crate) struct LogCheck {
    round: Option<Round>,
    read: Option<ReadPlan>,
    /// The slot of the last round.
    last: Option<Slot>,
    /// Those of the last sample.
    halvings: u32,
    /// When to continue, and the bytes written to the log at the last read.
    next_at: i64,
    grown_to: u64,
    found: Option<Found>,
    /// The log cannot be read: there is nothing to compare with.
    is_broken: bool,
    /// The number of compared groups.
    compared: u64,
}

/// A difference between a group and its log.
#[derive(Debug)]
struct Found {
    position: u64,
    divergence: Divergence,
}

/// The check of one partition.
#[derive(Debug)]
struct Round {
    slot: Slot,
    partition: LogPartition,
    began: i64,
    reading: Reading,
    replica: Replica,
    /// The offset behind the last record that the replica has.
    offset: i64,
    /// The end of the partition at the last read.
    read_to: i64,
    /// The last group visited, and the last one compared.
    walked_to: Option<Arc<str>>,
    compared_to: Option<Arc<str>>,
    is_walked: bool,
    /// Digests of live groups that are not compared yet.
    taken: VecDeque<Taken>,
    /// The count of compactions when they were taken: see [`ShardLog::swaps`].
    swaps: u64,
}

/// The digest of a live group at the end of a block.
#[derive(Debug)]
struct Taken {
    group_id: Arc<str>,
    digest: GroupDigest,
    /// The offset of the partition's next record then, and the position of the log's last
    /// operation.
    offset: i64,
    position: u64,
}

impl LogCheck {
    pub(crate) fn new(now: i64) -> Self {
        Self { next_at: now.saturating_add(BEGIN_MS), ..Self::default() }
    }

    pub(crate) fn owns(&self, token: FileToken) -> bool {
        token == LOG_CHECK_TOKEN
    }

    /// How many groups were compared since the shard's start.
    pub(crate) fn compared(&self) -> u64 {
        self.compared
    }

    /// Takes the difference that was found, to be logged once.
    pub(crate) fn take_found(&mut self) -> Option<String> {
        let Found { position, divergence } = self.found.take()?;
        Some(format!("at operation {position} {divergence} in the log, which is right"))
    }

    /// Charges a read to the rate, which twice the growth of the log may exceed: at its end a round
    /// has to catch up with the log.
    fn pay(&mut self, now: i64, grown: u64, bytes: u64, bytes_per_second: u64) {
        let ms = bytes * 1_000 / bytes_per_second.max(1);
        (self.next_at, self.grown_to) = (now.saturating_add_unsigned(ms.max(1)), grown);
    }

    fn end_round(&mut self, now: i64, round: &Round) {
        self.halvings = round.replica.sample().halvings;
        self.next_at = now.saturating_add(REST_MS.max(now - round.began));
    }
}

impl Round {
    /// Whether to take digests of more live groups before the next read.
    fn is_to_look(&self) -> bool {
        let items: usize = self.taken.iter().map(Taken::cost).sum();
        !self.is_walked && self.offset >= self.read_to && items < ITEMS_MAX
    }

    fn is_over(&self) -> bool {
        self.is_walked && self.taken.is_empty()
    }

    /// Discards digests of positions that the log can no longer be replayed to; they are taken
    /// again.
    fn check_taken(&mut self, log: &ShardLog) {
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

    /// Compares the digests that were taken at the replica's position.
    fn compare(&mut self, compared: &mut u64) -> Option<Found> {
        let offset = self.offset;
        while let Some(taken) = self.taken.pop_front_if(|taken| taken.offset == offset) {
            let Taken { group_id, digest, position, .. } = taken;
            self.compared_to = Some(group_id.clone());
            // The sample may have become smaller.
            if !self.replica.has(&group_id) {
                continue;
            }
            *compared += 1;
            let replayed = self.replica.digest(&group_id).fingerprint;
            if digest.fingerprint != replayed {
                let [live, replayed] =
                    [digest.fingerprint, replayed].map(Option::unwrap_or_default);
                let divergence = Divergence { group_id, live, replayed };
                return Some(Found { position, divergence });
            }
        }
        None
    }
}

impl Taken {
    fn cost(&self) -> usize {
        self.digest.items + 1
    }
}

impl Shard {
    /// Delays the checks that may cause a reload, the longer the more reloads there were: a
    /// recurring fault must not keep the shard from serving.
    pub fn check_later(&mut self, reloads: u32) {
        let at = self.now.saturating_add(BEGIN_MS << reloads.min(PUT_OFF_MAX));
        self.log_check.next_at = at;
        self.audit.not_before(at);
    }

    /// Continues the check, if it is time. To be called at the end of a turn.
    pub(crate) fn log_check_turn(&mut self) {
        if self.log_check_waits() {
            return;
        }
        let grown = self.groups.log.written_bytes() - self.log_check.grown_to;
        let keeps_up = self.log_check.round.is_some() && grown >= READ_BYTES as u64 / 2;
        if self.now < self.log_check.next_at && !keeps_up {
            return;
        }
        let Some(mut round) = self.log_check.round.take().or_else(|| self.begin_round()) else {
            self.log_check.next_at = self.now.saturating_add(REST_MS);
            return;
        };
        let has_missed = self.groups.log.may_have_missed(&round.reading, self.now);
        if has_missed || round.is_over() {
            return self.log_check.end_round(self.now, &round);
        }
        round.check_taken(&self.groups.log);
        if round.is_to_look() {
            self.look(&mut round)
        } else {
            self.read_log(&mut round)
        }
        self.log_check.round = Some(round);
    }

    /// When to continue the check if no event comes.
    pub(crate) fn log_check_deadline(&self) -> Option<i64> {
        if self.log_check.found.is_some() {
            return Some(self.now);
        }
        (!self.log_check_waits()).then_some(self.log_check.next_at)
    }

    /// Takes the completion of a read.
    pub(crate) fn log_check_done(&mut self, done: FileDone) {
        let Some(plan) = self.log_check.read.take() else { return };
        self.groups.log.end_read(&plan);
        let Some(mut round) = self.log_check.round.take() else { return };
        let replayed = match done {
            FileDone::Read { data, .. } => self.replay_read(&mut round, &plan, &data),
            FileDone::ReadFailed { reason, .. } => {
                warn!(
                    "shard {}: the log was not checked because a read failed: {reason}",
                    self.number
                );
                return self.log_check.end_round(self.now, &round);
            }
            FileDone::Written { .. } | FileDone::Synced { .. } | FileDone::NoSpace { .. } => {
                unreachable!("the check reads only")
            }
        };
        match replayed {
            Ok(()) => self.log_check.round = Some(round),
            Err(error) => {
                self.log_check.is_broken = true;
                error!(
                    "shard {}: {} of the log is damaged behind offset {}: {error}. The \
                     server continues, but will not start again",
                    self.number, round.partition, round.offset
                );
            }
        }
    }

    /// Whether the state of the groups is checked: `state.check.max.bytes.per.second`.
    pub(crate) fn checks_state(&self) -> bool {
        self.common.config.state_check_max_bytes_per_second > 0
    }

    /// Whether the check has to wait for an event, which begins another turn.
    fn log_check_waits(&self) -> bool {
        let LogCheck { round, read, found, is_broken, .. } = &self.log_check;
        let log = &self.groups.log;
        let is_ended = *is_broken || found.is_some() || self.stopping != Stopping::No;
        let is_off = is_ended || !self.checks_state();
        if is_off || read.is_some() || !log.is_recovered() {
            return true;
        }
        round.as_ref().is_some_and(|round| {
            if round.is_to_look() {
                !log.is_at_block_end()
            } else {
                !round.is_over() && round.offset >= log.high_watermark(round.partition)
            }
        })
    }

    /// Begins with the next partition that has records.
    fn begin_round(&mut self) -> Option<Round> {
        let GroupLog { log, slots, .. } = &self.groups;
        let has_records = |slot: &Slot| log.high_watermark(slot.log_partition()) > 0;
        let behind = |last| std::iter::successors(slots.next(last), |slot| slots.next(Some(*slot)));
        let slot = behind(self.log_check.last).chain(behind(None)).find(has_records)?;
        let partition = slot.log_partition();
        self.log_check.last = Some(slot);
        // The sample had to become smaller the last time, perhaps for a single partition.
        let halvings = self.log_check.halvings.saturating_sub(1);
        let sample = Sample { salt: log.log_id() ^ self.now as u64, halvings };
        Some(Round {
            slot,
            partition,
            began: self.now,
            reading: log.begin_reading(self.now),
            replica: Replica::new(self.config.coordinator(), sample, REPLICA_BYTES_MAX),
            offset: 0,
            read_to: log.high_watermark(partition),
            walked_to: None,
            compared_to: None,
            is_walked: false,
            taken: VecDeque::new(),
            swaps: log.swaps(),
        })
    }

    fn read_log(&mut self, round: &mut Round) {
        let mut ops = Vec::new();
        let log = &mut self.groups.log;
        round.read_to = log.high_watermark(round.partition);
        self.log_check.read =
            log.read_plan(round.partition, round.offset, READ_BYTES, LOG_CHECK_TOKEN, &mut ops);
        let len = |op: &FileOp| if let FileOp::Read { len, .. } = op { u64::from(*len) } else { 0 };
        let rate = self.common.config.state_check_max_bytes_per_second.unsigned_abs();
        self.log_check.pay(self.now, log.written_bytes(), ops.iter().map(len).sum(), rate);
        self.commands.extend(ops.into_iter().map(super::Command::File));
    }

    /// Replays the records of a read, and compares in between.
    fn replay_read(
        &mut self,
        round: &mut Round,
        plan: &ReadPlan,
        data: &[u8],
    ) -> Result<(), DecodeError> {
        let mut batches = Vec::new();
        plan.extract(data, &mut batches)?;
        let before = round.offset;
        for batch in Batches::new(&batches) {
            let batch = batch?;
            round.check_taken(&self.groups.log);
            self.compare(round);
            round.replica.replay(batch.records()?)?;
            round.offset = batch.header.next_offset();
        }
        self.compare(round);
        if round.offset > before {
            Ok(())
        } else {
            Err(DecodeError::InvalidBatch("no batch where the index has one"))
        }
    }

    fn compare(&mut self, round: &mut Round) {
        let LogCheck { found, compared, .. } = &mut self.log_check;
        if found.is_none() {
            *found = round.compare(compared);
        }
    }

    /// Takes digests of the next live groups, at the end of a block.
    fn look(&mut self, round: &mut Round) {
        let log = &self.groups.log;
        let (offset, position) = (log.log_end_offset(round.partition), log.progress().accepted());
        let looks = Cell::new(0);
        let mut items = 0;
        while items < ITEMS_MAX && looks.get() < LOOKS_MAX {
            let Some(group_id) = self.next_group(round, &looks) else { break };
            round.walked_to = Some(group_id.clone());
            let digest = self.groups.slots.on(round.slot, |coordinator, _| {
                coordinator.digest(&group_id, REPLICA_GROUP_ITEMS_MAX)
            });
            if let Some(digest) = digest {
                let taken = Taken { group_id, digest, offset, position };
                items += taken.cost();
                round.taken.push_back(taken);
            }
        }
        self.compare(round);
        self.log_check.next_at = self.now.saturating_add(1);
        // New records are read first.
        round.read_to = self.groups.log.high_watermark(round.partition);
    }

    /// The next group of the round that is loaded, in the replica, or both.
    fn next_group(&mut self, round: &mut Round, looks: &Cell<usize>) -> Option<Arc<str>> {
        let Round { slot, replica, walked_to, .. } = round;
        let is_wanted = |id: &str| {
            looks.set(looks.get() + 1);
            replica.has(id)
        };
        let left = LOOKS_MAX.saturating_sub(looks.get());
        let live = self.groups.slots.on(*slot, |coordinator, _| {
            coordinator.next_group(walked_to.as_ref(), left, is_wanted)
        });
        match (live, replica.next_group(walked_to.as_ref())) {
            (NextGroup::Wanted(live), Some(other)) => Some(live.min(other)),
            (NextGroup::Wanted(live), None) => Some(live),
            (NextGroup::Unwanted(live), Some(other)) if other <= live => Some(other),
            (NextGroup::Unwanted(live), _) => {
                *walked_to = Some(live);
                None
            }
            (NextGroup::End, Some(other)) => Some(other),
            (NextGroup::End, None) => {
                round.is_walked = true;
                None
            }
        }
    }
}
