//! The rewrite of the shard's log after damage was found in it. On a single machine the state in
//! memory is the truth, so damage under a running server costs nothing:
//!
//! 1. The log begins another segment, and a snapshot is due: once the snapshot is written, recovery
//!    needs no older block.
//! 2. All state is appended again as records, some in each turn, while clients are served.
//! 3. When these records are durable, a segment without records replaces the older segments, whose
//!    files are kept in the trash
//!    ([`ShardLog::end_rewrite`](muster_storage::ShardLog::end_rewrite)).
//!
//! A kill at any point leaves either the old log and the records after it, or the new log. Until
//! the snapshot is written, the old log is as damaged as it was found.
//!
//! A cluster leaves out the rewrite: its memory may be ahead of the committed records, and a
//! replica is restored from its peers instead.

use super::TurnEnd;
use super::log::GroupLog;
use crate::config::Config;
use crate::placement::{Slot, TransactionsPartition};
use crate::topics;
use crate::trash;
use muster_coordinator::StateWalk;
use muster_counters::counters;
use muster_runtime::NotRestated;
use muster_shares::SharePartitionKey;
use muster_storage::{Pace, ShardLog, Superseded};
use std::path::PathBuf;
use std::sync::Arc;
use tracing::{error, warn};

/// The number of records in a slice: about 100 microseconds of work.
const SLICE_RECORDS: usize = 300;

counters! {
    /// Damage of a shard's log, and what became of it.
    #[derive(Copy)]
    pub struct RewriteCounters in "log" {
        /// Times that damage was found in the log of a running shard, or at its start.
        damage_found: u64 = Counter of Count,
        /// Times that the log was rewritten from memory.
        rewritten: u64 = Counter of Count,
        /// 1 while the log is damaged: until it is rewritten.
        damaged: u64 = Gauge of Count,
    }
}

/// The rewrite of a shard's log.
#[derive(Debug)]
pub(super) struct Rewrite {
    /// The number of the shard, for lines in the server's log.
    shard: u32,
    /// The config from the file and the command line. The records of the image are the differences
    /// from it.
    config: Arc<Config>,
    stage: Option<Stage>,
    pace: Pace,
    /// The bytes written to the log when it began another segment; None once that segment has a
    /// block.
    began_at: Option<u64>,
    /// The damage that was found last.
    found: Option<String>,
    /// The directory in which the replaced files are kept.
    kept_in: PathBuf,
    counters: RewriteCounters,
}

#[derive(Debug)]
enum Stage {
    /// The log has to begin another segment.
    Beginning,
    /// The part of the state that is appended next.
    Appending(Superseded, Part),
    /// The whole state is appended; its last record has this position.
    Flushing(Superseded, u64),
    /// The older segments are being replaced.
    Replacing,
}

/// A part of a shard's state, with the last entry of it that was appended.
#[derive(Debug)]
enum Part {
    Cluster,
    Ids(Option<TransactionsPartition>),
    IdsOf(TransactionsPartition, Option<String>),
    Shares(Option<Slot>),
    SharesOf(Slot, Option<SharePartitionKey>),
    Groups(Option<Slot>),
    GroupsOf(Slot, StateWalk),
}

impl Rewrite {
    pub(super) fn new(shard: u32, config: Arc<Config>) -> Self {
        Self {
            shard,
            config,
            stage: None,
            pace: Pace::default(),
            began_at: None,
            found: None,
            kept_in: PathBuf::new(),
            counters: RewriteCounters::default(),
        }
    }

    /// Begins a rewrite because of damage. If a rewrite is under way, only counts the damage.
    pub(super) fn begin(&mut self, what: &str) {
        let Self { shard, .. } = *self;
        self.counters.damage_found += 1;
        self.counters.damaged = 1;
        error!(
            target: "damage",
            shard,
            "shard {shard}: the log is damaged: {what}. It is rewritten from memory, which has all \
             that was acknowledged"
        );
        self.found = Some(what.to_owned());
        self.stage.get_or_insert(Stage::Beginning);
    }

    /// Notes that the older segments are replaced.
    pub(super) fn ended(&mut self, position: u64) {
        let Self { shard, .. } = *self;
        self.stage = None;
        self.counters.rewritten += 1;
        self.counters.damaged = 0;
        warn!(
            target: "damage",
            shard,
            "shard {shard}: the log is rewritten: nothing of it up to operation {position} is \
             needed any more. The replaced files are kept in {}",
            self.kept_in.display()
        );
    }

    pub(super) fn counters(&self) -> &RewriteCounters {
        &self.counters
    }

    /// Whether a rewrite is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.stage.is_some()
    }

    /// A description of the damage that was found since the shard was loaded: how often, and the
    /// last damage. A disk that lost data once may do so again.
    pub(super) fn trouble(&self) -> Option<String> {
        let what = self.found.as_ref()?;
        let became = match (&self.stage, self.counters.damaged) {
            (Some(_), _) => "is being rewritten from memory",
            (None, 0) => "was rewritten from memory",
            (None, _) => "could not be rewritten: see the log",
        };
        let times = self.counters.damage_found;
        Some(format!("damage of the log was found {times} times; the log {became}; last: {what}"))
    }

    /// Continues the rewrite, before the log is polled. Returns true when a snapshot is due: then
    /// the log has a block in another segment, so the snapshot contains the state of all older
    /// blocks.
    pub(super) fn turn(&mut self, log: &mut GroupLog, turn: &TurnEnd<'_>) -> bool {
        // A stage is large, so it is moved only if a rewrite is under way, which is rare.
        if self.stage.is_none() {
            return false;
        }
        let Some(stage) = self.stage.take() else { return false };
        let written = log.log().written_bytes();
        self.stage = match stage {
            Stage::Beginning => match log.parts().1.begin_rewrite() {
                Some(superseded) => {
                    self.began_at = Some(written);
                    Some(Stage::Appending(superseded, Part::Cluster))
                }
                None => Some(Stage::Beginning),
            },
            Stage::Appending(superseded, part) => {
                let may_append = turn.is_stopping || self.pace.allows(turn.now, written);
                if may_append && !log.log().is_full() {
                    self.pace.sliced(turn.now, written);
                    self.append(log, turn, superseded, part)
                } else {
                    Some(Stage::Appending(superseded, part))
                }
            }
            Stage::Flushing(superseded, position) => {
                Some(if log.log().progress().flushed() >= position {
                    self.kept_in = kept_in(log.log(), turn.now);
                    log.parts().1.end_rewrite(superseded, self.kept_in.clone());
                    Stage::Replacing
                } else {
                    Stage::Flushing(superseded, position)
                })
            }
            Stage::Replacing => Some(Stage::Replacing),
        };
        self.began_at.take_if(|began_at| written > *began_at).is_some()
    }

    /// The time when the rewrite needs another turn without further events.
    pub(super) fn deadline(&self, now: i64) -> Option<i64> {
        match self.stage {
            Some(Stage::Beginning) => Some(now.saturating_add(1)),
            Some(Stage::Appending(..)) => Some(self.pace.next()),
            Some(Stage::Flushing(..) | Stage::Replacing) | None => None,
        }
    }

    /// Appends the next slice of the state; returns the next stage.
    fn append(
        &self,
        log: &mut GroupLog,
        turn: &TurnEnd<'_>,
        superseded: Superseded,
        part: Part,
    ) -> Option<Stage> {
        match part.append(log, turn, &self.config) {
            Ok(Some(part)) => Some(Stage::Appending(superseded, part)),
            Ok(None) => Some(Stage::Flushing(superseded, log.log().progress().accepted())),
            Err(why) => {
                let Self { shard, .. } = *self;
                error!(
                    target: "damage",
                    shard,
                    "shard {shard}: the log was not rewritten: {why}. The next start needs the \
                     last snapshot"
                );
                None
            }
        }
    }
}

impl Part {
    /// Appends a slice of the part; returns the part that is next, or None after the last.
    fn append(
        self,
        log: &mut GroupLog,
        turn: &TurnEnd<'_>,
        config: &Config,
    ) -> Result<Option<Self>, NotRestated> {
        Ok(Some(match self {
            Self::Cluster => {
                for record in
                    turn.others.image().into_iter().flat_map(|image| image.records(config))
                {
                    log.runtime().restate(topics::CLUSTER, turn.now, None, &record)?;
                }
                Self::Ids(None)
            }
            Self::Ids(partition) => match turn.others.transactions().next_with_ids(partition) {
                Some(partition) => Self::IdsOf(partition, None),
                None => Self::Shares(None),
            },
            Self::IdsOf(partition, after) => append_ids(log, turn, partition, after)?,
            Self::Shares(slot) => match log.slots().next(slot) {
                Some(slot) => Self::SharesOf(slot, None),
                None => Self::Groups(None),
            },
            Self::SharesOf(slot, after) => append_shares(log, turn, slot, after)?,
            Self::Groups(slot) => match log.slots().next_with_groups(slot) {
                Some(slot) => Self::GroupsOf(slot, StateWalk::default()),
                None => return Ok(None),
            },
            Self::GroupsOf(slot, mut walk) => {
                if log.restate(slot, turn.now, &mut walk, SLICE_RECORDS)? {
                    Self::GroupsOf(slot, walk)
                } else {
                    Self::Groups(Some(slot))
                }
            }
        }))
    }
}

/// The directory for files that are replaced at this time.
fn kept_in(log: &ShardLog, now: i64) -> PathBuf {
    let damaged = format!("damaged-at-{}", log.progress().accepted());
    trash::place_of(&log.directory().join(damaged), log.wall(now))
}

/// Appends some transactional ids of a partition.
fn append_ids(
    log: &mut GroupLog,
    turn: &TurnEnd<'_>,
    partition: TransactionsPartition,
    after: Option<String>,
) -> Result<Part, NotRestated> {
    let next = || Part::Ids(Some(partition));
    let Some(coordinator) = turn.others.transactions().coordinator(partition) else {
        return Ok(next());
    };
    let mut last = None;
    for id in coordinator.ids_after(after.as_deref()).take(SLICE_RECORDS) {
        if let Ok(Some(record)) = coordinator.record(id, usize::MAX) {
            log.runtime().restate(partition.log_partition(), turn.now, None, &record)?;
        }
        last = Some(id.to_owned());
    }
    match turn.others.transactions().damage() {
        Some(damage) => Err(NotRestated::Snapshot(damage)),
        None => Ok(last.map_or_else(next, |last| Part::IdsOf(partition, Some(last)))),
    }
}

/// Appends some share states of a slot.
fn append_shares(
    log: &mut GroupLog,
    turn: &TurnEnd<'_>,
    slot: Slot,
    after: Option<SharePartitionKey>,
) -> Result<Part, NotRestated> {
    let mut last = None;
    let states = turn.others.shares().states(slot).into_iter();
    let states = states.flat_map(|it| it.restated_after(after.as_ref()));
    for (key, record) in states.take(SLICE_RECORDS) {
        log.runtime().restate(slot.share_state(), turn.now, None, &record)?;
        last = Some(key.clone());
    }
    let next = || Part::Shares(Some(slot));
    Ok(last.map_or_else(next, |last| Part::SharesOf(slot, Some(last))))
}
