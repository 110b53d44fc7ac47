//! The groups of a shard: the coordinators of its slots, and the removal of offsets of deleted
//! topics.
//!
//! The coordinators of transactions send markers to the slots that have offsets of a transaction
//! ([`Groups::mark_transaction`]).
//!
//! [`Groups`] is sans-I/O. Its inputs are
//! - the time ([`Groups::advance`]), before all other input of an event or turn;
//! - requests, due timers and images of the cluster, each with the [`Inputs`] of a call. Each call
//!   passes answers to `take`, each with the position that must be durable before it is sent;
//! - the end of a turn ([`Groups::end_turn`]). [`Groups::deadline`] is the time at which the next
//!   turn is needed.
//!
//! Invariants:
//! - Records are written and applied in one place, [`Runtime`]. If the log refuses records, the
//!   request is answered with an error, and the groups of the records return to their durable
//!   state.
//! - While [`Runtime::is_closed`], no request is handled: too many bytes wait for the disk, or
//!   recovered operations are not durable yet. Only work under way continues: markers, and commits
//!   of offsets that wait for a verdict, whose number is limited.
//!
//! A walk over all groups (lists, sweeps, audits, snapshots) visits one slot after the other, in
//! slices. The audit (once a second, in debug builds and in the simulator) shows whether the next
//! snapshot would be right. The version of the topics is a position in shard 0's log, not a time.

mod clock;
mod configs;
mod copy;
mod counters;
mod deleted_topics;
mod events;
mod faults;
mod history;
mod log;
mod machine;
mod offset_producers;
mod offset_questions;
mod reads;
mod requests;
mod reset;
mod slots;
#[cfg(test)]
mod test_access;
mod transactions;
mod turn;
mod views;

#[cfg(test)]
pub(crate) use counters::METRICS;
pub(crate) use history::HISTORY_BYTES_MAX;
pub(crate) use offset_questions::ASKED_BYTES_MAX;
pub(crate) use slots::ListingOfSlots;
pub use slots::Slots;
pub(crate) use transactions::Marked;
pub(crate) use turn::{Inputs, TurnEnd};

use crate::clock::{Times, earliest};
use crate::cluster::{BROKER_RESOURCE, ClusterImage, TOPIC_RESOURCE};
use crate::config::{Config, compaction};
use crate::event::Command;
use crate::mailbox::ToController;
use crate::net::Reply;
use crate::partitions::LogRead;
use crate::placement::{CONTROLLER, Placement, Slot};
use crate::topics::{self, InternalTopic};
use crate::trash;
use deleted_topics::DeletedTopics;
use events::GroupEvents;
use log::GroupLog;
use muster_faults::Fault;
use muster_runtime::{
    Audit, CheckConfig, CheckNames, LogCheck, LogNews, Rewrite, RewriteConfig, Runtime, Snapshots,
    SnapshotsDue, TopicSet, Turn,
};
use muster_storage::snapshot::{SnapshotHeader, WriterConfig};
use muster_storage::{FileDone, FileOp, FileToken, LogExtent, LogPartition, ShardLog};
use offset_questions::OffsetQuestions;
use reads::{Batches, LogReads};
use requests::LateAnswers;
use std::iter;
use std::sync::Arc;
use tracing::{error, warn};
use transactions::MarkersUnderWay;
use turn::AllTopics;

/// The groups of a shard.
pub(crate) struct Groups {
    shard: u32,
    placement: Placement,
    /// The config from the file and the command line.
    config: Arc<Config>,
    log: GroupLog,
    late: LateAnswers,
    /// `producer.id.expiration.ms`.
    producer_expiration_ms: i64,
    /// `transaction.partition.verification.enable`.
    verifies: bool,
    questions: OffsetQuestions,
    markers: MarkersUnderWay,
    open_bytes_max: usize,
    reads: LogReads,
    deleted_topics: DeletedTopics,
    snapshots: Snapshots,
    check: LogCheck,
    rewrite: Rewrite,
    events: GroupEvents,
    /// None if the audit is switched off.
    audit: Option<Audit>,
    /// The reason to make the shard fail although no check found anything.
    given_up: Option<String>,
    is_failed: bool,
    /// File operations to be requested.
    ops: Vec<FileOp>,
}

/// Everything that the groups of a shard start with.
pub(crate) struct Setup {
    pub(crate) shard: u32,
    pub(crate) placement: Placement,
    /// The config from the file and the command line.
    pub(crate) config: Arc<Config>,
    pub(crate) slots: Slots,
    pub(crate) log: ShardLog,
    pub(crate) cut_bytes: usize,
    /// Damage in the part of the log before the snapshot, because of which the log has to be
    /// rewritten.
    pub(crate) damage: Option<String>,
    /// The snapshot that was used, if any, and the number of log bytes after it.
    pub(crate) snapshot: (Option<SnapshotHeader>, u64),
    pub(crate) snapshot_writer: WriterConfig,
    pub(crate) check: CheckNames,
    pub(crate) audits: bool,
    /// The size from which on the log counts as full.
    pub(crate) open_bytes_max: usize,
    /// The number of the first question to coordinators of transactions.
    pub(crate) first_number: u64,
}

/// A completed file operation.
pub(crate) enum Completed {
    /// An operation of the log: [`Groups::moved`], and perhaps [`Groups::cluster_flushed`], have
    /// changed.
    Log,
    /// An operation of a snapshot or the check.
    Internal,
    /// A read of an internal topic.
    Read(FileToken, Batches),
    /// An operation that does not belong to the groups.
    Other(FileDone),
}

impl Groups {
    /// The groups of a shard. `config` includes altered configs.
    pub(crate) fn new(setup: Setup, config: &Config, now: i64) -> Self {
        let Setup { shard, placement, config: common, slots, mut log, cut_bytes, .. } = setup;
        setup.snapshot.0.iter().for_each(|snapshot| log.keep_markers_after(snapshot.from));
        let mut rewrite = Rewrite::new(RewriteConfig { shard, place_of: trash::place_of });
        setup.damage.iter().for_each(|what| rewrite.begin(what));
        let rate = common.state_check_max_bytes_per_second.max(0).unsigned_abs();
        let partitions = placement.log_partitions_of(shard).collect();
        let check = CheckConfig {
            shard,
            names: setup.check,
            bytes_per_second: rate,
            partitions: iter::once(topics::CLUSTER)
                .chain(placement.log_partitions_of(shard))
                .collect(),
            name_of: topics::name_of,
        };
        let growth = config.metadata_log_max_record_bytes_between_snapshots;
        let due = SnapshotsDue {
            growth_bytes_min: growth.unsigned_abs(),
            interval_ms: config.metadata_log_max_snapshot_interval_ms,
        };
        Self {
            shard,
            placement,
            config: common,
            open_bytes_max: setup.open_bytes_max,
            producer_expiration_ms: config.producer_id_expiration_ms.into(),
            verifies: config.transaction_partition_verification_enable,
            questions: OffsetQuestions::new(setup.first_number),
            markers: MarkersUnderWay::default(),
            late: LateAnswers::default(),
            log: GroupLog::new(slots, log, partitions, cut_bytes, now),
            reads: LogReads::default(),
            deleted_topics: DeletedTopics::default(),
            snapshots: Snapshots::new(due, setup.snapshot_writer, setup.snapshot, now),
            check: LogCheck::new(check, now),
            rewrite,
            events: GroupEvents::default(),
            audit: (setup.audits && rate > 0).then(|| Audit::new(now)),
            given_up: None,
            is_failed: false,
            ops: Vec::new(),
        }
    }

    /// Delays the checks that may cause a reload.
    pub(crate) fn check_later(&mut self, now: i64, reloads: u32) {
        let at = self.check.put_off(now, reloads);
        self.audit.iter_mut().for_each(|audit| audit.not_before(at));
    }

    /// Makes the shard fail at the end of this turn, as if a check had found something.
    pub(crate) fn give_up(&mut self, reason: &str) {
        self.given_up = Some(reason.to_owned());
    }

    /// Rewrites the damaged log from memory.
    pub(crate) fn rewrite(&mut self, what: &str) {
        self.rewrite.begin(what);
    }

    /// The extent of the log that a backup copies.
    pub(crate) fn begin_backup(&mut self) -> LogExtent {
        self.log.begin_backup()
    }

    /// Advances the time of the groups.
    pub(crate) fn advance(&mut self, times: Times) {
        self.log.advance(times);
    }

    /// Fires the timers that were due at `handled_until`, one slot per call. All input up to that
    /// time has been handled.
    pub(crate) fn expire(
        &mut self,
        handled_until: i64,
        mut inputs: Inputs<'_>,
        mut take: impl FnMut(Reply<'static>),
    ) {
        let Some(slot) = self.log.due(handled_until) else { return };
        let now = std::mem::replace(&mut inputs.times.now, handled_until);
        let output = self.log.expire(slot, inputs.again());
        inputs.times.now = now;
        let forgotten = now.saturating_sub(self.producer_expiration_ms);
        self.slots_mut().on_producers(slot, |it| it.expire(forgotten));
        let Self { log, late, .. } = self;
        log.write(slot, inputs, output, |reply| late.join(reply, &mut take));
    }

    /// Continues the removal of the offsets of deleted topics by a slice. The first call also finds
    /// topics for which the previous process may not have finished the removal.
    pub(crate) fn forget_slice(&mut self, mut inputs: Inputs<'_>, mut take: impl FnMut(Reply<'_>)) {
        if !self.deleted_topics.has_begun() {
            self.deleted_topics.begin(&mut self.log, inputs.again(), None, &mut take);
        }
        if self.has_to_forget() {
            self.deleted_topics.forget_some(&mut self.log, inputs, &mut take);
        }
    }

    /// Applies the new image, which is in the inputs; `before` is the previous one.
    pub(crate) fn image_changed(
        &mut self,
        config: &Config,
        before: &ClusterImage,
        inputs: Inputs<'_>,
        mut take: impl FnMut(Reply<'_>),
    ) {
        let image = inputs.image;
        self.producer_expiration_ms = config.producer_id_expiration_ms.into();
        self.verifies = config.transaction_partition_verification_enable;
        self.deleted_topics.begin(&mut self.log, inputs, Some(before), &mut take);
        let (slots, log) = self.log.parts();
        slots.configure(config, Some(before), image);
        let is_other = |of_type| !image.reconfigured(before, of_type).is_empty();
        if [BROKER_RESOURCE, TOPIC_RESOURCE].into_iter().any(is_other) {
            log.set_compaction(compaction(config, image, self.placement.shards));
        }
    }

    /// The log, for the records of all internal topics.
    pub(crate) fn runtime(&mut self) -> &mut Runtime {
        self.log.runtime()
    }

    /// The position up to which the cluster's operations are durable.
    pub(crate) fn cluster_flushed(&self) -> u64 {
        self.log().progress_of(topics::CLUSTER).flushed()
    }

    /// Plans a read of an internal topic; false if there is nothing to read.
    pub(crate) fn read_log(&mut self, read: LogRead, out: &mut Vec<Command>) -> bool {
        let (_, log) = self.log.parts();
        let is_planned = self.reads.begin(log, read, &mut self.ops);
        self.request_ops(out);
        is_planned
    }

    /// Takes the completion of a file operation.
    pub(crate) fn file_done(
        &mut self,
        now: i64,
        done: FileDone,
        out: &mut Vec<Command>,
    ) -> Completed {
        if self.log().owns(done.token()) {
            if let Some(took_ms) = self.log.done(done) {
                warn!(target: "disk", shard = self.shard, took_ms, "a flush of the log was slow");
            }
            return Completed::Log;
        }
        if self.snapshots.owns(done.token()) {
            self.snapshots.done(self.log.parts().1, now, done, &mut self.ops);
            self.request_ops(out);
        } else if self.check.owns(done.token()) {
            self.check.done(self.log.parts().1, now, done);
        } else {
            let (slots, log) = self.log.parts();
            return match self.reads.take((&*slots, log), done) {
                Ok((token, batches)) => Completed::Read(token, batches),
                Err(done) => Completed::Other(done),
            };
        }
        Completed::Internal
    }

    /// The partitions in which the last operation of the log made operations durable, at first all
    /// partitions; each with the position up to which its operations are durable.
    pub(crate) fn moved(&self) -> impl Iterator<Item = (LogPartition, u64)> {
        let flushed = |partition| self.log().progress_of(partition).flushed();
        self.log.moved().iter().map(move |partition| (*partition, flushed(*partition)))
    }

    /// The partitions of [`Self::moved`], each with its high watermark and its last stable offset.
    pub(crate) fn moved_ends(&mut self) -> Vec<(LogPartition, i64, i64)> {
        let Self { log, .. } = self;
        let ends = (0..log.moved().len()).map(|at| {
            let partition = log.moved()[at];
            let end = log.log().high_watermark(partition);
            let slot = Slot(partition.index);
            let stable = match InternalTopic::of(partition) {
                InternalTopic::ConsumerOffsets => {
                    log.parts().0.on_producers(slot, |it| it.flushed(end))
                }
                InternalTopic::Cluster
                | InternalTopic::TransactionState
                | InternalTopic::ShareState => end,
            };
            (partition, end, stable)
        });
        ends.collect()
    }

    /// Ends a turn, first part: returns whether the groups are in an unexpected state. If so,
    /// nothing of this turn is written to the log or answered, and this turn is the last.
    pub(crate) fn find_faults(
        &mut self,
        now: i64,
        others: &mut dyn TopicSet,
        out: &mut Vec<Command>,
    ) -> bool {
        let topics = &mut AllTopics { slots: self.log.parts().0, others };
        let audited = self.audit.as_mut().map_or(Ok(()), |audit| audit.turn(now, topics));
        let damage = topics.damage();
        if let Err(what) = audited {
            self.fail(format!("{what}; it is loaded again from the log"), out);
        }
        if let Some(damage) = damage {
            let words = "it is loaded again without it";
            let path = self.snapshots.path();
            let path = path.display();
            self.fail(format!("the snapshot is damaged: {damage} ({path}); {words}"), out);
        }
        if let Some(reason) = self.given_up.take() {
            self.fail(format!("{reason}; it is loaded again from the log"), out);
        }
        if let Some(found) = self.check.take_found() {
            self.fail(format!("{found}; it is loaded again from it"), out);
        }
        self.is_failed
    }

    fn fail(&mut self, reason: String, out: &mut Vec<Command>) {
        if std::mem::replace(&mut self.is_failed, true) {
            return;
        }
        error!("shard {}: {reason}", self.shard);
        out.extend(self.snapshots.put_aside().map(Command::File));
    }

    /// Ends a turn, second part: reports durable removals of deleted topics, and requests file
    /// operations for the log, the snapshot and the check.
    pub(crate) fn end_turn(&mut self, turn: &mut TurnEnd<'_>, out: &mut Vec<Command>) {
        while let Some(version) = self.deleted_topics.next_durable(&self.log) {
            let message = ToController::Forgotten { from: self.shard, version };
            out.push(Command::mail(CONTROLLER, message));
        }
        let events = self.log.parts().0.take_events();
        self.events.take(turn, self.shard, events);
        self.poll_log(turn);
        let (slots, log) = self.log.parts();
        let topics = &mut AllTopics { slots, others: turn.others };
        let end = Turn { now: turn.now, is_stopping: turn.is_stopping };
        self.snapshots.turn(log, topics, end, &mut self.ops);
        self.check.turn(log, topics, end, &mut self.ops);
        self.request_ops(out);
    }

    /// Polls the log, and continues or begins its rewrite.
    fn poll_log(&mut self, turn: &mut TurnEnd<'_>) {
        let end = Turn { now: turn.now, is_stopping: turn.is_stopping };
        let (slots, runtime) = self.log.with_runtime();
        let topics = &mut AllTopics { slots, others: turn.others };
        let is_due = self.rewrite.turn(runtime, topics, end);
        if is_due && !Fault::UnwrittenSnapshot.is_injected() {
            self.snapshots.want();
        }
        let news = self.log.poll(turn.now, &mut self.ops);
        if let Some(LogNews::Rewritten(position)) = news {
            self.rewrite.ended(position);
            self.check.log_rewritten(turn.now);
        }
        if let Some(LogNews::Damaged(what)) = &news {
            self.rewrite(what);
        }
        if let Some(what) = self.check.take_damage() {
            self.rewrite(&what);
        }
    }

    fn request_ops(&mut self, out: &mut Vec<Command>) {
        out.extend(self.ops.drain(..).map(Command::File));
    }

    /// The time when the next turn is needed. While input `is_blocked`, no timer is due, because
    /// timers must not expire a member whose input cannot be read.
    pub(crate) fn deadline(&self, now: i64, is_stopping: bool, is_blocked: bool) -> Option<i64> {
        let log = self.log();
        earliest([
            self.log.expiry_deadline().filter(|_| !is_blocked),
            log.next_deadline(),
            self.has_to_forget().then_some(now),
            self.snapshots.deadline(log),
            self.check.deadline(log, now, is_stopping),
            // A full log gets its next turn when a part of it is written.
            self.rewrite.deadline(now).filter(|_| !log.is_full()),
        ])
    }

    /// Whether a removal of offsets has to continue at once.
    fn has_to_forget(&self) -> bool {
        self.deleted_topics.are_under_way() && !self.is_closed()
    }

    /// Whether no request may be handled now. Either too many bytes wait for the disk, or
    /// operations found at the start are not durable yet, and answers would reveal them.
    pub(crate) fn is_closed(&self) -> bool {
        self.log().is_full() || !self.log().is_recovered()
    }

    /// Whether all accepted operations are durable.
    pub(crate) fn is_flushed(&self) -> bool {
        let progress = self.log().progress();
        progress.accepted() == progress.flushed()
    }

    /// Whether the shard must not continue: see [`Self::find_faults`].
    pub(crate) fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// Whether a stop that began at a given time has to wait for the snapshot that is due or under
    /// way, for the look at all files of the log, or for the rewrite of the log. (Without the
    /// snapshot the next start would replay for longer than the snapshot takes to write.)
    pub(crate) fn awaits_snapshot(&self, stop_began: i64, now: i64) -> bool {
        let patience = self.config.snapshot_on_stop_max_ms;
        let has_work = self.rewrite.is_under_way()
            || self.check.awaits_looks()
            || self.has_snapshot_to_write(now);
        has_work && now < stop_began.saturating_add(patience)
    }

    fn has_snapshot_to_write(&self, now: i64) -> bool {
        self.snapshots.has_some_to_write(self.log(), now)
    }

    /// The transactions with pending offsets, each with its first offset, for checks.
    pub(crate) fn open_places(&self) -> impl Iterator<Item = (Slot, (i64, i16), i64)> {
        let all = self.slots().producers_from(Slot(0));
        all.flat_map(|(slot, producers)| {
            producers.places().map(move |(it, first)| (slot, (it.id, it.epoch), first))
        })
    }
}
