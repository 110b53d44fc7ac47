//! The rewrite of the shard's log after damage was found in it. On a single machine the state in
//! memory is the truth, so damage of the log of a running server costs nothing:
//!
//! 1. The log begins another segment, and a snapshot is due. Once the snapshot is written, recovery
//!    does not need the older blocks.
//! 2. All state is appended again as records, some in each turn, while clients are served.
//! 3. When these records are durable, a segment without records replaces the older segments. Their
//!    files are kept in the trash
//!    ([`ShardLog::end_rewrite`](muster_storage::ShardLog::end_rewrite)).
//!
//! If the process is killed at any point, the disk has either the old log and the records after it,
//! or the new log. Until the snapshot is written, the old log is as damaged as it was found.
//!
//! A cluster does without the rewrite: its memory may be ahead of the committed records, and a
//! replica is restored from its peers instead.

use crate::{Restating, RewriteCounters, Runtime, TopicSet, Turn};
use muster_storage::{Pace, ShardLog, Superseded};
use std::path::{Path, PathBuf};
use tracing::{error, warn};

/// The number of records in a slice: about 100 microseconds of work.
const SLICE_RECORDS: usize = 300;

/// The part of a rewrite that differs from shard to shard.
#[derive(Debug)]
pub struct RewriteConfig {
    /// The number of the shard, for lines in the server's log.
    pub shard: u32,
    /// Returns the path in the trash for a file or directory, which is replaced at the given time.
    pub place_of: fn(&Path, i64) -> PathBuf,
}

/// The rewrite of a shard's log.
#[derive(Debug)]
pub struct Rewrite {
    config: RewriteConfig,
    stage: Option<Stage>,
    pace: Pace,
    /// How many bytes had been written to the log when it began another segment. None once that
    /// segment has a block.
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
    /// The state is being appended.
    Appending(Superseded, Restating),
    /// The whole state is appended; its last record has this position.
    Flushing(Superseded, u64),
    /// The older segments are being replaced.
    Replacing,
}

impl Rewrite {
    pub fn new(config: RewriteConfig) -> Self {
        Self {
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
    pub fn begin(&mut self, what: &str) {
        let RewriteConfig { shard, .. } = self.config;
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
    pub fn ended(&mut self, position: u64) {
        let RewriteConfig { shard, .. } = self.config;
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

    pub fn counters(&self) -> &RewriteCounters {
        &self.counters
    }

    /// Whether a rewrite is under way.
    pub fn is_under_way(&self) -> bool {
        self.stage.is_some()
    }

    /// A description of the damage that was found since the shard was loaded: how often, and the
    /// last damage. A disk that lost data once may do so again.
    pub fn trouble(&self) -> Option<String> {
        let what = self.found.as_ref()?;
        let became = match (&self.stage, self.counters.damaged) {
            (Some(_), _) => "is being rewritten from memory",
            (None, 0) => "was rewritten from memory",
            (None, _) => "could not be rewritten: see the log",
        };
        let times = self.counters.damage_found;
        Some(format!("damage of the log was found {times} times; the log {became}; last: {what}"))
    }

    /// Continues the rewrite, before the log is polled. Returns true when a snapshot is due. Then
    /// the new segment has a block, so a snapshot that begins now has the state of all older
    /// segments.
    pub fn turn(&mut self, runtime: &mut Runtime, topics: &mut dyn TopicSet, turn: Turn) -> bool {
        // A stage is large, so it is moved only if a rewrite is under way, which is rare.
        if self.stage.is_none() {
            return false;
        }
        let Some(stage) = self.stage.take() else { return false };
        let written = runtime.log().written_bytes();
        self.stage = match stage {
            Stage::Beginning => match runtime.log_mut().begin_rewrite() {
                Some(superseded) => {
                    self.began_at = Some(written);
                    Some(Stage::Appending(superseded, Restating::new(topics)))
                }
                None => Some(Stage::Beginning),
            },
            Stage::Appending(superseded, restating) => {
                let may_append = turn.is_stopping || self.pace.allows(turn.now, written);
                if may_append && !runtime.log().is_full() {
                    self.pace.sliced(turn.now, written);
                    self.append(runtime, topics, turn.now, superseded, restating)
                } else {
                    Some(Stage::Appending(superseded, restating))
                }
            }
            Stage::Flushing(superseded, position) => {
                Some(if runtime.log().progress().flushed() >= position {
                    self.kept_in = self.kept_in(runtime.log(), turn.now);
                    runtime.log_mut().end_rewrite(superseded, self.kept_in.clone());
                    Stage::Replacing
                } else {
                    Stage::Flushing(superseded, position)
                })
            }
            Stage::Replacing => Some(Stage::Replacing),
        };
        self.began_at.take_if(|began_at| written > *began_at).is_some()
    }

    /// The directory for files that are replaced at this time.
    fn kept_in(&self, log: &ShardLog, now: i64) -> PathBuf {
        let damaged = format!("damaged-at-{}", log.progress().accepted());
        (self.config.place_of)(&log.directory().join(damaged), log.wall(now))
    }

    /// The time when the rewrite needs another turn without further events.
    pub fn deadline(&self, now: i64) -> Option<i64> {
        match self.stage {
            Some(Stage::Beginning) => Some(now.saturating_add(1)),
            Some(Stage::Appending(..)) => Some(self.pace.next()),
            Some(Stage::Flushing(..) | Stage::Replacing) | None => None,
        }
    }

    /// Appends the next slice of the state; returns the next stage.
    fn append(
        &self,
        runtime: &mut Runtime,
        topics: &mut dyn TopicSet,
        now: i64,
        superseded: Superseded,
        mut restating: Restating,
    ) -> Option<Stage> {
        let before = runtime.log().progress().accepted();
        let appended = restating.append(topics, runtime.log_mut(), now, SLICE_RECORDS);
        if runtime.log().progress().accepted() > before {
            runtime.appended();
        }
        match appended {
            Ok(true) => Some(Stage::Appending(superseded, restating)),
            Ok(false) => Some(Stage::Flushing(superseded, runtime.log().progress().accepted())),
            Err(why) => {
                let RewriteConfig { shard, .. } = self.config;
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
