//! Work of partitions that is due at a time: retention, producers, compaction, recovery points.

use super::jobs::UpkeepJob;
use super::partition::Partition;
use super::rounds::SYNCS_AT_ONCE;
use super::{Effects, Partitions};
use crate::clock::{Times, earliest};
use muster_storage::FileDone;

impl Partitions {
    /// The time at which [`Self::expire`] has something to do, in milliseconds since the epoch.
    pub fn next_deadline(&self) -> Option<i64> {
        earliest([
            self.reads.next_deadline(),
            self.next_sweep,
            self.compactor.next_deadline(),
            self.checkpoint.next_deadline(),
            self.looks.next_deadline(&self.table),
            self.scrubber.next_deadline(&self.table, &self.disk),
        ])
    }

    /// Answers fetches whose deadline has passed, checks retention and idle producers, compacts
    /// partitions, and writes recovery points. A call that comes too early does no harm.
    pub fn expire(&mut self, times: Times, out: &mut Effects) {
        let (now, wall) = (times.now, times.expiry());
        self.reads.expire(&self.table, &mut self.disk, now, out);
        if self.next_sweep.is_some_and(|sweep| sweep <= now) {
            self.schedule_sweep(now);
            self.table.sweep(wall, &mut self.disk, out);
            self.count_damage();
        }
        self.compact(times, out);
        self.checkpoint(now, out);
        self.looks.look_at_files(&self.table, &mut self.disk, now, out);
        self.scrubber.scrub(&self.looks, &self.table, &mut self.disk, now, out);
    }

    /// Handles the end of an operation of the upkeep.
    pub(super) fn upkeep_done(&mut self, job: UpkeepJob, done: FileDone, out: &mut Effects) {
        let Self { table, disk, looks, scrubber, .. } = self;
        match job {
            UpkeepJob::Compact => self.compaction_done(done),
            UpkeepJob::Look(id, file) => looks.look_ended(table, disk, id, &file, &done),
            UpkeepJob::LookForScrub(id, file) => {
                scrubber.looked_for(looks, table, disk, id, &file, &done);
            }
            UpkeepJob::Scrub => {
                let data = disk.data_of(done, scrubber.scrubbed(), out);
                if scrubber.read_done(table, disk, data.as_deref()) {
                    self.count_damage();
                }
            }
            UpkeepJob::Checkpoint => {
                let has_space = !matches!(done, FileDone::NoSpace { .. });
                self.checkpoint_written(has_space, out);
            }
        }
    }

    pub(super) fn schedule_sweep(&mut self, now: i64) {
        let interval = self.table.config().log_retention_check_interval_ms;
        self.next_sweep = (!self.table.is_empty()).then_some(now.saturating_add(interval));
    }

    /// A step of a clean stop, during which nothing more is written: syncs some partitions, and
    /// writes the recovery points when all are synced. The caller calls again when these operations
    /// are done. Returns false if nothing is left.
    pub fn sync_next(&mut self, out: &mut Effects) -> bool {
        let after = self.synced_until;
        let synced = self.table.sync_after(after, SYNCS_AT_ONCE, &mut self.disk, out);
        self.synced_until = synced.last().copied().or(after);
        self.looks.look_at_active(&self.table, &mut self.disk, &synced, out);
        if self.disk.is_quiet() {
            let is_behind =
                |(_, it): (_, &Partition)| !it.has_lost_writes && it.log.is_sync_behind();
            if self.table.all().any(is_behind) {
                return true;
            }
            self.last_checkpoint(out);
        }
        !self.disk.is_quiet()
    }
}
