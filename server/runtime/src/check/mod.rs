//! The running check: the states of a shard's machines are compared with the states to which the
//! shard's log replays. Each state has an id. The states of one id are compared together.
//!
//! The partitions of internal topics are read back from the log one after the other, each from its
//! first record to its last, in slices. This is a *round*. The records of a sample of the ids are
//! replayed to a [`CheckCopy`](crate::CheckCopy). Near the end of the log, digests of the live
//! states are taken, a few in each turn. Each digest is compared when the copy has reached the
//! position that the log had when the digest was taken. If a machine has no copy, its records are
//! read all the same, so that damage is found wherever it is in the log.
//!
//! Compaction continues meanwhile. So a round may read some segments as they were before
//! compaction, and others as they are after it. This mixture replays to the same state, with two
//! exceptions. Tombstones may be missing ([`ShardLog::may_have_missed`]). And the states at
//! positions before the end may differ, so digests of such positions are taken again.

mod differences;
mod names;
mod round;

pub use differences::{Difference, differences};
pub use round::ITEMS_OF_ID_MAX;

use crate::{CheckCounters, TopicSet, Turn};
use muster_codec::DecodeError;
use muster_codec::record_batch::Batches;
use muster_storage::{FileDone, FileId, FileOp, FileToken, LogPartition, ReadPlan, ShardLog};
use names::{Going, NamesCheck};
use round::{Found, Round};
use tracing::warn;

/// The size of a read. To reach the next entry of the log's index, a read may be larger.
const READ_BYTES: usize = 64 << 10;

/// The delay after startup, when other work is more urgent.
const BEGIN_MS: i64 = 1_000;

/// The minimum pause between two rounds. If the last round took longer, the pause is as long as the
/// round.
const REST_MS: i64 = 100;

/// The maximum number of times that the delay is doubled before a reloaded shard is checked again:
/// the delay grows to at most 17 minutes.
const PUT_OFF_MAX: u32 = 10;

/// The running check of a shard.
#[derive(Debug)]
pub struct LogCheck {
    config: CheckConfig,
    names: NamesCheck,
    round: Option<Round>,
    read: Option<ReadPlan>,
    /// The partition of the last round.
    last: Option<LogPartition>,
    /// The halvings of the last round's sample.
    halvings: u32,
    /// The time of the next step, and how many bytes had been written to the log at the last read.
    next_at: i64,
    grown_to: u64,
    found: Option<Found>,
    /// Whether the log cannot be read. Until it is rewritten, there is nothing to compare with.
    is_broken: bool,
    /// The damage that was found and has not been taken.
    damage: Option<String>,
    counters: CheckCounters,
}

/// The part of a check that differs from shard to shard.
#[derive(Debug)]
pub struct CheckConfig {
    /// The number of the shard, for lines in the server's log.
    pub shard: u32,
    pub names: CheckNames,
    /// The maximum rate of reads; 0 switches the check off.
    pub bytes_per_second: u64,
    /// The partitions that the log may have, in the order of their rounds.
    pub partitions: Vec<LogPartition>,
    /// The name of a partition, for descriptions of damage.
    pub name_of: fn(LogPartition) -> String,
}

/// The ids of the check's file operations: `token` for its reads of the log, `file_token` for its
/// looks at files by name, and `file` for the file that these open.
#[derive(Debug, Clone, Copy)]
pub struct CheckNames {
    pub token: FileToken,
    pub file: FileId,
    pub file_token: FileToken,
}

impl LogCheck {
    pub fn new(config: CheckConfig, now: i64) -> Self {
        let CheckNames { file, file_token, .. } = config.names;
        Self {
            names: NamesCheck::new(file, file_token, now),
            config,
            round: None,
            read: None,
            last: None,
            halvings: 0,
            next_at: now.saturating_add(BEGIN_MS),
            grown_to: 0,
            found: None,
            is_broken: false,
            damage: None,
            counters: CheckCounters::default(),
        }
    }

    pub fn owns(&self, token: FileToken) -> bool {
        token == self.config.names.token || self.names.owns(token)
    }

    /// Whether state is checked at all: `state.check.max.bytes.per.second`.
    pub fn is_on(&self) -> bool {
        self.config.bytes_per_second > 0
    }

    /// Delays the next step of the check of a shard that was loaded again. The delay grows with the
    /// number of reloads, because a recurring fault must not keep the shard from serving. Returns
    /// the time of the next step.
    pub fn put_off(&mut self, now: i64, reloads: u32) -> i64 {
        self.next_at = now.saturating_add(BEGIN_MS << reloads.min(PUT_OFF_MAX));
        self.next_at
    }

    /// Whether the log is damaged. Then there is nothing with which states can be compared.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    pub fn counters(&self) -> &CheckCounters {
        &self.counters
    }

    /// Takes the difference that was found, so that it is logged once.
    pub fn take_found(&mut self) -> Option<String> {
        let Found { position, what } = self.found.take()?;
        Some(format!("at operation {position} {what} in the log, which is right"))
    }

    /// Whether a clean stop has to wait until the check has looked at all files of the log.
    pub fn awaits_looks(&self) -> bool {
        !self.is_ended(false) && !self.names.is_over()
    }

    /// Takes the damage of the log that was found.
    pub fn take_damage(&mut self) -> Option<String> {
        self.damage.take()
    }

    /// Notes that the log was rewritten: it is read from its beginning again.
    pub fn log_rewritten(&mut self, now: i64) {
        self.is_broken = false;
        self.round = None;
        self.next_at = now.saturating_add(REST_MS);
    }

    /// Continues the check, if it is time. To be called at the end of a turn.
    pub fn turn(
        &mut self,
        log: &mut ShardLog,
        topics: &mut dyn TopicSet,
        turn: Turn,
        ops: &mut Vec<FileOp>,
    ) {
        let going = Going { is_ended: self.is_ended(false), is_stopping: turn.is_stopping };
        self.names.turn(log, turn.now, going, ops);
        self.counters.file_rounds = self.names.rounds();
        if self.waits(log, turn.is_stopping) {
            return;
        }
        let grown = log.written_bytes() - self.grown_to;
        let keeps_up = self.round.is_some() && grown >= READ_BYTES as u64 / 2;
        if turn.now < self.next_at && !keeps_up {
            return;
        }
        let round = self.round.take().or_else(|| self.begin_round(log, topics, turn.now));
        let Some(mut round) = round else {
            self.next_at = turn.now.saturating_add(REST_MS);
            return;
        };
        if log.may_have_missed(&round.reading, turn.now) || round.is_over() {
            return self.end_round(turn.now, &round);
        }
        round.check_taken(log);
        if round.is_to_look() {
            self.look(log, topics, turn.now, &mut round)
        } else {
            self.read_log(log, turn.now, &mut round, ops)
        }
        self.round = Some(round);
    }

    /// The time of the next step of the check if no event comes.
    pub fn deadline(&self, log: &ShardLog, now: i64, is_stopping: bool) -> Option<i64> {
        if self.found.is_some() || self.damage.is_some() {
            return Some(now);
        }
        let of_names = self.names.deadline(self.is_ended(false), now);
        let of_rounds = (!self.waits(log, is_stopping)).then_some(self.next_at);
        [of_names.filter(|_| log.is_recovered()), of_rounds].into_iter().flatten().min()
    }

    /// Takes the completion of a read.
    pub fn done(&mut self, log: &mut ShardLog, now: i64, done: FileDone) {
        if self.names.owns(done.token()) {
            let damage = self.names.done(log, done);
            self.is_broken |= damage.is_some();
            self.damage = damage.or(self.damage.take());
            return;
        }
        let Some(plan) = self.read.take() else { return };
        let is_as_planned = log.end_read(&plan);
        let Some(mut round) = self.round.take() else { return };
        if !is_as_planned {
            return self.end_round(now, &round);
        }
        let replayed = match done {
            FileDone::Read { data, .. } => {
                self.counters.read_bytes += data.len() as u64;
                self.replay_read(log, &mut round, &plan, &data)
            }
            FileDone::ReadFailed { reason, .. } => {
                warn!(
                    "shard {}: the log was not checked because a read failed: {reason}",
                    self.config.shard
                );
                return self.end_round(now, &round);
            }
            FileDone::Written { .. }
            | FileDone::Synced { .. }
            | FileDone::Looked { .. }
            | FileDone::NoSpace { .. }
            | FileDone::Renamed { .. }
            | FileDone::Lost { .. } => {
                unreachable!("the check reads only")
            }
        };
        match replayed {
            Ok(()) => self.round = Some(round),
            Err(error) => {
                self.is_broken = true;
                self.damage = Some(format!(
                    "{} after offset {}: {error}",
                    (self.config.name_of)(round.partition),
                    round.offset
                ));
            }
        }
    }

    /// Whether the check has to wait for an event, which will begin another turn.
    fn waits(&self, log: &ShardLog, is_stopping: bool) -> bool {
        if self.is_ended(is_stopping) || self.read.is_some() || !log.is_recovered() {
            return true;
        }
        self.round.as_ref().is_some_and(|round| {
            if round.is_to_look() {
                !log.is_at_block_end()
            } else {
                !round.is_over() && round.offset >= log.high_watermark(round.partition)
            }
        })
    }

    /// Whether nothing is checked for now.
    fn is_ended(&self, is_stopping: bool) -> bool {
        self.is_broken || self.found.is_some() || is_stopping || !self.is_on()
    }

    /// Begins a round with the next partition that has records.
    fn begin_round(
        &mut self,
        log: &ShardLog,
        topics: &mut dyn TopicSet,
        now: i64,
    ) -> Option<Round> {
        let all = || self.config.partitions.iter().copied();
        let has_records = |partition: &LogPartition| log.high_watermark(*partition) > 0;
        let last = |partition: &LogPartition| self.last.is_some_and(|last| *partition == last);
        let rest = all().skip_while(|it| !last(it)).skip(1);
        let partition = rest.chain(all()).find(has_records)?;
        self.last = Some(partition);
        // The last round may have halved its sample only because its partition is large.
        let halvings = self.halvings.saturating_sub(1);
        let salt = log.log_id() ^ now as u64;
        let topic = topics.get(partition.topic);
        let copy = topic.and_then(|it| it.copy(partition.index, salt, halvings));
        Some(Round::new(partition, (copy, halvings), log, now))
    }

    fn read_log(&mut self, log: &mut ShardLog, now: i64, round: &mut Round, ops: &mut Vec<FileOp>) {
        let (begin, token) = (ops.len(), self.config.names.token);
        round.read_to = log.high_watermark(round.partition);
        self.read = log.read_plan(round.partition, round.offset, READ_BYTES, token, ops);
        let len = |op: &FileOp| if let FileOp::Read { len, .. } = op { u64::from(*len) } else { 0 };
        self.pay(now, log.written_bytes(), ops[begin..].iter().map(len).sum());
    }

    /// Replays the records of a read. Before each batch, compares the digests taken at that
    /// position.
    fn replay_read(
        &mut self,
        log: &ShardLog,
        round: &mut Round,
        plan: &ReadPlan,
        data: &[u8],
    ) -> Result<(), DecodeError> {
        let mut batches = Vec::new();
        plan.extract(data, &mut batches)?;
        let before = round.offset;
        for batch in Batches::new(&batches) {
            let batch = batch?;
            round.check_taken(log);
            self.compare(round);
            round.replay(&batch)?;
        }
        self.compare(round);
        if round.offset > before {
            Ok(())
        } else {
            Err(DecodeError::InvalidBatch("no batch where the index has one"))
        }
    }

    fn compare(&mut self, round: &mut Round) {
        if self.found.is_none() {
            self.found = round.compare(&mut self.counters.compared);
        }
    }

    /// Takes digests of more live states. To be called at the end of a block.
    fn look(&mut self, log: &ShardLog, topics: &mut dyn TopicSet, now: i64, round: &mut Round) {
        round.take_digests(topics.get(round.partition.topic), log);
        self.compare(round);
        self.next_at = now.saturating_add(1);
        // New records are read first.
        round.read_to = log.high_watermark(round.partition);
    }

    /// Delays the next read, so that the check reads no more bytes a second than configured. If the
    /// log grows faster than that, [`Self::turn`] reads without this delay, to catch up with the
    /// log.
    fn pay(&mut self, now: i64, grown: u64, bytes: u64) {
        let ms = bytes * 1_000 / self.config.bytes_per_second.max(1);
        (self.next_at, self.grown_to) = (now.saturating_add_unsigned(ms.max(1)), grown);
    }

    fn end_round(&mut self, now: i64, round: &Round) {
        self.halvings = round.halvings();
        self.next_at = now.saturating_add(REST_MS.max(now - round.began));
    }
}
