//! Compaction of the partitions of topics with `cleanup.policy=compact`: one partition at a time,
//! the dirtiest first, in slices between requests (Kafka's `LogCleanerManager`).

use super::durably_stable::DurablyStable;
use super::jobs::{Job, UpkeepJob};
use super::partition::Partition;
use super::{Effects, PartitionId, Partitions};
use crate::clock::Times;
use crate::config::{TopicConfig, topic_compaction};
use muster_codec::Wall;
use muster_storage::limits::COMPACTION_SLICE_BYTES;
use muster_storage::partition_log::{
    Cleanable, Compacted, Compaction, CompactionEnd, CompactionRules, Slice,
};
use muster_storage::{CompactionConfig, FileDone, Pace};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{debug, error, warn};

/// The rate of slices. After a slice that exceeded its size limit, the pause is as long as the
/// excess takes at this rate.
const SLICE_BYTES_PER_SECOND: u64 = COMPACTION_SLICE_BYTES as u64 * 1_000;

/// The compaction of a shard's partitions.
#[derive(Debug, Default)]
pub(super) struct Compactor {
    running: Option<Running>,
    pace: Pace,
    /// The time of the next check for a partition that is due.
    check_at: i64,
    /// The partitions with a damaged segment, which are not compacted before the next start.
    damaged: BTreeSet<PartitionId>,
    /// The partitions whose last pass lost the file of its new segment, with the earliest time of
    /// the next pass.
    resting: BTreeMap<PartitionId, i64>,
    /// The durably stable offsets of partitions with transactions.
    stable: BTreeMap<PartitionId, DurablyStable>,
    /// Whether the last pass found no space, which was logged.
    is_disk_full: bool,
    /// Whether there may be partitions of compacted topics.
    are_any: bool,
    /// Whether the server stops.
    is_stopped: bool,
}

#[derive(Debug)]
struct Running {
    id: PartitionId,
    compaction: Compaction,
    config: CompactionConfig,
    /// Whether an operation is under way.
    is_waiting: bool,
    began: i64,
}

impl Compactor {
    /// The durably stable offset of a partition ([`DurablyStable`]), and its last stable offset.
    fn durably_stable(&mut self, id: PartitionId, partition: &Partition) -> (i64, i64) {
        let stable = partition.stable().offset;
        if partition.producers.transactions.is_empty() {
            return (stable, stable);
        }
        let (durable, end) = (partition.durable_offset(), partition.log.high_watermark());
        (self.stable.entry(id).or_default().at(durable, end, stable), stable)
    }

    /// Notes the config of a partition.
    pub(super) fn configured(&mut self, config: &TopicConfig) {
        self.are_any |= config.cleanup_policy.compact;
    }

    /// The time of the next slice or check, in ms; None while an operation is under way.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        match &self.running {
            _ if self.is_stopped => None,
            Some(running) => (!running.is_waiting).then(|| self.pace.next()),
            None => self.are_any.then_some(self.check_at),
        }
    }
}

impl Partitions {
    /// Prevents further slices, and further reads of a scrub, because the server stops.
    pub(crate) fn stop_upkeep(&mut self) {
        self.compactor.is_stopped = true;
        self.scrubber.stop();
    }

    /// Performs a slice if one is due, or begins a pass.
    pub(super) fn compact(&mut self, times: Times, out: &mut Effects) {
        let Times { now, .. } = times;
        if self.compactor.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        if self.compactor.running.is_none() && !self.begin_if_due(times, out) {
            return;
        }
        let grown = self.disk.counters.appended_bytes;
        if self.compactor.pace.allows(now, grown) {
            self.compactor.pace.sliced(now, grown);
            self.compact_slice(now, out);
        }
    }

    /// Continues after an operation of the pass.
    pub(super) fn compaction_done(&mut self, done: FileDone) {
        if let Some(running) = &mut self.compactor.running {
            running.is_waiting = false;
            running.compaction.done(done);
        }
    }

    fn compact_slice(&mut self, now: i64, out: &mut Effects) {
        let Some(mut running) = self.compactor.running.take() else { return };
        if self.table.get(running.id).is_none() {
            return;
        }
        let token = self.disk.token();
        let Running { id, compaction, .. } = &mut running;
        let slice = self.table.compact(*id, compaction, token, &mut self.disk, out);
        let Some(slice) = slice else { return };
        match slice {
            Slice::Pause => {
                let overrun = running.compaction.overrun();
                self.compactor.pace.pay(now, overrun, SLICE_BYTES_PER_SECOND);
            }
            Slice::Wait { bytes } => {
                self.disk.begin(token, Job::Upkeep(UpkeepJob::Compact), &out.ops);
                running.is_waiting = true;
                let rate = running.config.io_bytes_per_second;
                self.compactor.pace.pay(now, bytes, rate);
            }
            Slice::End(end) => return self.compaction_ended(now, &running, end, out),
        }
        self.compactor.running = Some(running);
    }

    fn compaction_ended(
        &mut self,
        now: i64,
        running: &Running,
        end: CompactionEnd,
        out: &mut Effects,
    ) {
        let backed_off = now.saturating_add(running.config.backoff_ms.max(1));
        let name = self.table.name_of(running.id);
        match end {
            CompactionEnd::Done(compacted) => {
                let Compacted { bytes_before, bytes_after, .. } = compacted;
                debug!("{name} was compacted from {bytes_before} bytes to {bytes_after}");
                self.count_compaction(&compacted, now - running.began);
                self.compactor.resting.remove(&running.id);
                self.compactor.is_disk_full = false;
                // Another partition may be due.
                self.compactor.check_at = now;
            }
            CompactionEnd::Overtaken => self.compactor.check_at = now,
            CompactionEnd::NoSpace => {
                if !std::mem::replace(&mut self.compactor.is_disk_full, true) {
                    warn!("the disk is full: {name} is not compacted now; will retry later");
                }
                self.compactor.check_at = backed_off;
            }
            CompactionEnd::Gone { reason } => {
                if self.compactor.resting.insert(running.id, backed_off).is_none() {
                    warn!("{name} is not compacted now: {reason}. Will retry later");
                }
                // Another partition may be due.
                self.compactor.check_at = now;
            }
            CompactionEnd::Lost { reason } => {
                // The lost file is one of the compaction: no appended record is known to be lost.
                let happened = self.table.lost_active(running.id, &reason, &mut self.disk);
                self.happened(happened, out);
                self.compactor.check_at = backed_off;
            }
            CompactionEnd::Damaged { suspect, reason } => {
                error!(
                    "{name} is not compacted before the next start: its segment that begins with \
                     offset {} cannot be compacted: {reason}",
                    suspect.segment
                );
                self.compactor.damaged.insert(running.id);
                self.scrubber.suspect(running.id, suspect);
                self.compactor.check_at = backed_off;
            }
        }
    }

    fn count_compaction(&mut self, compacted: &Compacted, took_ms: i64) {
        let counters = &mut self.disk.counters;
        counters.compactions += 1;
        counters.compaction_read_bytes += compacted.bytes_read;
        counters.compaction_written_bytes += compacted.bytes_written;
        counters.last_compaction_ms = took_ms.max(0).unsigned_abs();
    }

    /// Begins a pass over the dirtiest partition that is due, if there is one.
    fn begin_if_due(&mut self, times: Times, out: &mut Effects) -> bool {
        let backoff_ms = self.table.config().log_cleaner_backoff_ms.max(1);
        self.compactor.check_at = times.now.saturating_add(backoff_ms);
        // A pass needs space before it frees any.
        if !self.table.config().log_cleaner_enable || self.is_disk_short() {
            return false;
        }
        let wall = times.expiry().0;
        let mut best: Option<(PartitionId, Cleanable)> = None;
        let (mut is_point_late, mut unsynced) = (false, None);
        self.compactor.are_any = false;
        let Self { table, compactor, .. } = self;
        compactor.resting.retain(|id, _| table.get(*id).is_some());
        compactor.stable.retain(|id, _| table.get(*id).is_some());
        for (id, partition) in table.all() {
            let is_left_out = partition.has_lost_writes || compactor.damaged.contains(&id);
            if !partition.config.cleanup_policy.compact || is_left_out {
                continue;
            }
            compactor.are_any = true;
            let rests = compactor.resting.get(&id).is_some_and(|until| *until > times.now);
            if rests || partition.is_lost {
                continue;
            }
            is_point_late |= partition.log.is_point_late();
            let config = topic_compaction(table.config(), &partition.config, table.placement());
            let (reached, stable) = compactor.durably_stable(id, partition);
            let Some(cleanable) = partition.due(reached, wall, &config) else {
                // The partition would be due if the markers of the last transactions were on stable
                // storage.
                if unsynced.is_none() && partition.due(stable, wall, &config).is_some() {
                    unsynced = Some(id);
                }
                continue;
            };
            if best.is_none_or(|(_, best)| best.ratio < cleanable.ratio) {
                best = Some((id, cleanable));
            }
        }
        if is_point_late {
            self.checkpoint.hurry(times.now);
        }
        if let Some(id) = unsynced
            && self.table.get(id).is_some_and(Partition::may_be_unsynced)
        {
            self.table.sync(id, &mut self.disk, out);
        }
        best.is_some_and(|(id, cleanable)| self.begin_compaction(id, &cleanable, times))
    }

    fn begin_compaction(&mut self, id: PartitionId, cleanable: &Cleanable, times: Times) -> bool {
        let Some(partition) = self.table.get(id) else { return false };
        let config =
            topic_compaction(self.table.config(), &partition.config, self.table.placement());
        let rules =
            partition.compaction_rules(self.table.identity().secret, &config, times.expiry());
        let compaction = partition.log.begin_compaction(cleanable, rules);
        let began = times.now;
        let running = Running { id, compaction, config, is_waiting: false, began };
        self.compactor.running = Some(running);
        true
    }
}

impl Partition {
    /// The inputs of a pass of compaction, apart from the log.
    fn compaction_rules(
        &self,
        secret: u64,
        config: &CompactionConfig,
        wall: Wall,
    ) -> CompactionRules {
        let aborted = self.producers.transactions.aborted(0, i64::MAX);
        let aborted = aborted.map(|it| (it.producer_id, it.first_offset..it.last_offset));
        CompactionRules {
            secret,
            map_bytes: config.map_bytes,
            now: wall.0,
            delete_retention_ms: config.delete_retention_ms,
            aborted: aborted.collect(),
            producers: self.producers.last_batches(),
        }
    }

    /// The segments that may be compacted below an offset, if they are dirty enough.
    fn due(&self, stable: i64, wall: i64, config: &CompactionConfig) -> Option<Cleanable> {
        let cleanable = self.log.cleanable(stable, wall, config)?;
        let is_due = cleanable.is_overdue || cleanable.ratio > config.min_dirty_ratio;
        is_due.then_some(cleanable)
    }
}
