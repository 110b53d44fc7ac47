//! The upkeep of a shard's log: the rewrite after damage, snapshots, the running check and the
//! audit.

use crate::{
    Audit, CheckConfig, CheckCounters, LoadedSnapshot, LogCheck, LogNews, Rewrite, RewriteConfig,
    RewriteCounters, Runtime, SnapshotCounters, Snapshots, SnapshotsDue, TopicSet, Turn,
};
use muster_faults::Fault;
use muster_storage::snapshot::WriterConfig;
use muster_storage::{FileDone, FileOp, ShardLog};
use tracing::error;

/// The config of the upkeep of a log.
#[derive(Debug)]
pub struct UpkeepConfig {
    pub due: SnapshotsDue,
    pub snapshot_writer: WriterConfig,
    pub snapshot: LoadedSnapshot,
    pub check: CheckConfig,
    /// Whether states are audited.
    pub audits: bool,
    pub rewrite: RewriteConfig,
    /// Damage that was found in the part of the log that the snapshot covers. The log has to be
    /// rewritten.
    pub damage: Option<String>,
}

/// The upkeep of a shard's log.
#[derive(Debug)]
pub struct Upkeep {
    /// The number of the shard, for lines in the server's log.
    shard: u32,
    snapshots: Snapshots,
    check: LogCheck,
    rewrite: Rewrite,
    audit: Option<Audit>,
    /// If the shard has to fail although no check found anything: the reason.
    given_up: Option<String>,
    is_failed: bool,
}

impl Upkeep {
    /// The upkeep of a log, at a time.
    pub fn new(config: UpkeepConfig, log: &mut ShardLog, now: i64) -> Self {
        let UpkeepConfig { due, snapshot_writer, snapshot, check, audits, rewrite, damage } =
            config;
        snapshot.header.iter().for_each(|snapshot| log.keep_markers_after(snapshot.from));
        let shard = check.shard;
        let mut rewrite = Rewrite::new(rewrite);
        damage.iter().for_each(|what| rewrite.begin(what));
        Self {
            shard,
            snapshots: Snapshots::new(due, snapshot_writer, snapshot, now),
            check: LogCheck::new(check, now),
            rewrite,
            audit: audits.then(|| Audit::new(now)),
            given_up: None,
            is_failed: false,
        }
    }

    /// Delays the checks that may cause a reload.
    pub fn check_later(&mut self, now: i64, reloads: u32) {
        let at = self.check.put_off(now, reloads);
        self.audit.iter_mut().for_each(|audit| audit.not_before(at));
    }

    /// Makes the shard fail at the end of this turn, as if a check had found something.
    pub fn give_up(&mut self, reason: &str) {
        self.given_up = Some(reason.to_owned());
    }

    /// Rewrites the damaged log from memory.
    pub fn rewrite(&mut self, what: &str) {
        self.rewrite.begin(what);
    }

    /// The first part of the end of a turn: checks whether a fault was found in the machines. If
    /// so, nothing of this turn may be written to the log or answered, and no turn follows.
    pub fn find_faults(
        &mut self,
        now: i64,
        topics: &mut dyn TopicSet,
        ops: &mut Vec<FileOp>,
    ) -> bool {
        let audited = self.audit.as_mut().map_or(Ok(()), |audit| audit.turn(now, topics));
        if let Err(what) = audited {
            self.fail(format!("{what}; it is loaded again from the log"), ops);
        }
        if let Some(damage) = topics.damage() {
            let words = "it is loaded again without it";
            let path = self.snapshots.path();
            let path = path.display();
            self.fail(format!("the snapshot is damaged: {damage} ({path}); {words}"), ops);
        }
        if let Some(reason) = self.given_up.take() {
            self.fail(format!("{reason}; it is loaded again from the log"), ops);
        }
        if let Some(found) = self.check.take_found() {
            self.fail(format!("{found}; it is loaded again from it"), ops);
        }
        self.is_failed
    }

    fn fail(&mut self, reason: String, ops: &mut Vec<FileOp>) {
        if std::mem::replace(&mut self.is_failed, true) {
            return;
        }
        error!("shard {}: {reason}", self.shard);
        ops.extend(self.snapshots.put_aside());
    }

    /// Whether the shard must not continue: see [`Self::find_faults`].
    pub fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// The second part of the end of a turn: polls the log, and continues the rewrite, the snapshot
    /// and the check.
    pub fn turn(
        &mut self,
        runtime: &mut Runtime,
        topics: &mut dyn TopicSet,
        turn: Turn,
        ops: &mut Vec<FileOp>,
    ) {
        let is_due = self.rewrite.turn(runtime, topics, turn);
        if is_due && !Fault::UnwrittenSnapshot.is_injected() {
            self.snapshots.want();
        }
        let news = runtime.poll(turn.now, ops);
        if let Some(LogNews::Rewritten(position)) = news {
            self.rewrite.ended(position);
            self.check.log_rewritten(turn.now);
        }
        if let Some(LogNews::Damaged(what)) = &news {
            self.rewrite.begin(what);
        }
        if let Some(what) = self.check.take_damage() {
            self.rewrite.begin(&what);
        }
        self.snapshots.turn(runtime.log_mut(), topics, turn, ops);
        self.check.turn(runtime.log_mut(), topics, turn, ops);
    }

    /// Takes the completion of a file operation of a snapshot or the check.
    ///
    /// # Errors
    /// The operation belongs to neither. The completion is returned.
    pub fn done(
        &mut self,
        log: &mut ShardLog,
        now: i64,
        done: FileDone,
        ops: &mut Vec<FileOp>,
    ) -> Result<(), FileDone> {
        if self.snapshots.owns(done.token()) {
            self.snapshots.done(log, now, done, ops);
        } else if self.check.owns(done.token()) {
            self.check.done(log, now, done);
        } else {
            return Err(done);
        }
        Ok(())
    }

    /// The times when the next turn is needed without further events.
    pub fn deadlines(&self, log: &ShardLog, now: i64, is_stopping: bool) -> [Option<i64>; 3] {
        [
            self.snapshots.deadline(log),
            self.check.deadline(log, now, is_stopping),
            // A full log gets its next turn when a part of it is written.
            self.rewrite.deadline(now).filter(|_| !log.is_full()),
        ]
    }

    /// Whether a stop has to wait for the snapshot that is due or under way, for the look at all
    /// files of the log, or for the rewrite of the log. (Without the snapshot the next start would
    /// replay for longer than the snapshot takes to write.)
    pub fn has_to_end(&self, log: &ShardLog, now: i64) -> bool {
        self.rewrite.is_under_way()
            || self.check.awaits_looks()
            || self.has_snapshot_to_write(log, Turn { now, is_stopping: true })
    }

    /// Whether a snapshot is due or under way.
    pub fn has_snapshot_to_write(&self, log: &ShardLog, turn: Turn) -> bool {
        self.snapshots.has_some_to_write(log, turn)
    }

    /// A description of the damage that was found in the log: see [`Rewrite::trouble`].
    pub fn trouble(&self) -> Option<String> {
        self.rewrite.trouble()
    }

    /// Whether the check has given up because it could not read the log.
    pub fn is_log_broken(&self) -> bool {
        self.check.is_broken()
    }

    pub fn counters(&self) -> (&SnapshotCounters, &CheckCounters, &RewriteCounters) {
        (self.snapshots.counters(), self.check.counters(), self.rewrite.counters())
    }
}
