//! Compaction of the partitions of topics with `cleanup.policy=compact`: one partition at a time,
//! the dirtiest first, in slices between requests (Kafka's `LogCleanerManager`).

use super::checkpoint::Checkpoint;
use super::disk::Disk;
use super::durably_stable::DurablyStable;
use super::effects::Effects;
use super::happened::Happened;
use super::jobs::{Job, UpkeepJob};
use super::partition::Partition;
use super::partition_id::PartitionId;
use super::table::Table;
use crate::clock::Times;
use crate::config::{TopicConfig, topic_compaction};
use muster_codec::Wall;
use muster_storage::limits::COMPACTION_SLICE_BYTES;
use muster_storage::partition_log::{
    Cleanable, Compacted, Compaction, CompactionEnd, CompactionRules, Slice,
};
use muster_storage::{CompactionConfig, FileDone, Pace, Suspect};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{debug, error, warn};

/// The rate by which pauses between slices are computed. If a slice was longer than its size limit,
/// the pause lasts as long as the excess takes at this rate.
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
    /// Partitions whose last pass failed because its directory or its new segment was missing. Each
    /// has the earliest time of its next pass.
    resting: BTreeMap<PartitionId, i64>,
    /// The durably stable offsets of partitions with transactions.
    stable: BTreeMap<PartitionId, DurablyStable>,
    /// Whether the last pass failed for lack of space. This was logged.
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

/// A failure that ended a compaction. The caller has to handle it.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The new segment was lost after the removal of the segments that it replaces.
    Lost(Happened),
    /// A place cannot be read.
    Unreadable(PartitionId, Suspect),
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

impl Compactor {
    /// Prevents further slices, because the server stops.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Performs a slice if one is due, or begins a pass.
    pub(super) fn compact(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        checkpoint: &mut Checkpoint,
        times: Times,
        out: &mut Effects,
    ) -> Option<Trouble> {
        let Times { now, .. } = times;
        if self.next_deadline().is_none_or(|at| at > now) {
            return None;
        }
        if self.running.is_none() && !self.begin_if_due(table, disk, checkpoint, times, out) {
            return None;
        }
        let grown = disk.counters.appended_bytes;
        if self.pace.allows(now, grown) {
            self.pace.sliced(now, grown);
            return self.compact_slice(table, disk, now, out);
        }
        None
    }

    /// Continues after an operation of the pass.
    pub(super) fn done(&mut self, done: FileDone) {
        if let Some(running) = &mut self.running {
            running.is_waiting = false;
            running.compaction.done(done);
        }
    }

    fn compact_slice(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        now: i64,
        out: &mut Effects,
    ) -> Option<Trouble> {
        let mut running = self.running.take()?;
        table.get(running.id)?;
        let token = disk.token();
        let Running { id, compaction, .. } = &mut running;
        let slice = table.compact(*id, compaction, token, disk, out);
        match slice? {
            Slice::Pause => {
                let overrun = running.compaction.overrun();
                self.pace.pay(now, overrun, SLICE_BYTES_PER_SECOND);
            }
            Slice::Wait { bytes } => {
                disk.begin(token, Job::Upkeep(UpkeepJob::Compact), &out.ops);
                running.is_waiting = true;
                let rate = running.config.io_bytes_per_second;
                self.pace.pay(now, bytes, rate);
            }
            Slice::End(end) => return self.ended(table, disk, now, &running, end),
        }
        self.running = Some(running);
        None
    }

    fn ended(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        now: i64,
        running: &Running,
        end: CompactionEnd,
    ) -> Option<Trouble> {
        let backed_off = now.saturating_add(running.config.backoff_ms.max(1));
        let name = table.name_of(running.id);
        match end {
            CompactionEnd::Done(compacted) => {
                let Compacted { bytes_before, bytes_after, .. } = compacted;
                debug!("{name} was compacted from {bytes_before} bytes to {bytes_after}");
                count(disk, &compacted, now - running.began);
                self.resting.remove(&running.id);
                self.is_disk_full = false;
                // Another partition may be due.
                self.check_at = now;
            }
            CompactionEnd::Overtaken => self.check_at = now,
            CompactionEnd::NoSpace => {
                if !std::mem::replace(&mut self.is_disk_full, true) {
                    warn!("the disk is full: {name} is not compacted now; will retry later");
                }
                self.check_at = backed_off;
            }
            CompactionEnd::Gone { reason } => {
                if self.resting.insert(running.id, backed_off).is_none() {
                    warn!("{name} is not compacted now: {reason}. Will retry later");
                }
                // Another partition may be due.
                self.check_at = now;
            }
            CompactionEnd::Lost { reason } => {
                // The lost file is a new segment, which the compaction wrote. So no batch of a
                // waiting request was in it.
                let happened = table.lost_active(running.id, &reason, disk);
                self.check_at = backed_off;
                return Some(Trouble::Lost(happened));
            }
            CompactionEnd::Damaged { suspect, reason } => {
                error!(
                    "{name} is not compacted before the next start: its segment that begins with \
                     offset {} cannot be compacted: {reason}",
                    suspect.segment
                );
                self.damaged.insert(running.id);
                self.check_at = backed_off;
                return Some(Trouble::Unreadable(running.id, suspect));
            }
        }
        None
    }

    /// Begins a pass over the dirtiest partition that is due, if there is one.
    fn begin_if_due(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        checkpoint: &mut Checkpoint,
        times: Times,
        out: &mut Effects,
    ) -> bool {
        let backoff_ms = table.config().log_cleaner_backoff_ms.max(1);
        self.check_at = times.now.saturating_add(backoff_ms);
        // A pass needs space before it frees any.
        if !table.config().log_cleaner_enable || table.identity().space.is_short() {
            return false;
        }
        let wall = times.expiry().0;
        let mut best: Option<(PartitionId, Cleanable)> = None;
        let (mut is_point_late, mut unsynced) = (false, None);
        self.are_any = false;
        self.resting.retain(|id, _| table.get(*id).is_some());
        self.stable.retain(|id, _| table.get(*id).is_some());
        for (id, partition) in table.all() {
            let is_left_out = partition.has_lost_writes || self.damaged.contains(&id);
            if !partition.config.cleanup_policy.compact || is_left_out {
                continue;
            }
            self.are_any = true;
            let rests = self.resting.get(&id).is_some_and(|until| *until > times.now);
            if rests || partition.is_lost {
                continue;
            }
            is_point_late |= partition.log.is_point_late();
            let config = topic_compaction(table.config(), &partition.config, table.placement());
            let (reached, stable) = self.durably_stable(id, partition);
            let Some(cleanable) = partition.due(reached, wall, &config) else {
                // If the markers of the last transactions were on stable storage, the partition
                // would be due.
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
            checkpoint.hurry(times.now);
        }
        if let Some(id) = unsynced
            && table.get(id).is_some_and(Partition::may_be_unsynced)
        {
            table.sync(id, disk, out);
        }
        best.is_some_and(|(id, cleanable)| self.begin(table, id, &cleanable, times))
    }

    fn begin(
        &mut self,
        table: &Table,
        id: PartitionId,
        cleanable: &Cleanable,
        times: Times,
    ) -> bool {
        let Some(partition) = table.get(id) else { return false };
        let config = topic_compaction(table.config(), &partition.config, table.placement());
        let rules = partition.compaction_rules(table.identity().secret, &config, times.expiry());
        let compaction = partition.log.begin_compaction(cleanable, rules);
        let began = times.now;
        let running = Running { id, compaction, config, is_waiting: false, began };
        self.running = Some(running);
        true
    }
}

fn count(disk: &mut Disk, compacted: &Compacted, took_ms: i64) {
    let counters = &mut disk.counters;
    counters.compactions += 1;
    counters.compaction_read_bytes += compacted.bytes_read;
    counters.compaction_written_bytes += compacted.bytes_written;
    counters.last_compaction_ms = took_ms.max(0).unsigned_abs();
}

impl Partition {
    /// Everything that a pass of compaction needs to know besides the log.
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

    /// The segments that may be compacted below an offset, if they are dirty enough or overdue.
    fn due(&self, stable: i64, wall: i64, config: &CompactionConfig) -> Option<Cleanable> {
        let cleanable = self.log.cleanable(stable, wall, config)?;
        let is_due = cleanable.is_overdue || cleanable.ratio > config.min_dirty_ratio;
        is_due.then_some(cleanable)
    }
}
