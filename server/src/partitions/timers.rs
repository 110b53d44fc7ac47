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
            self.looks_deadline(),
            self.scrub_deadline(),
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
        self.look_at_files(now, out);
        self.scrub(now, out);
    }

    /// Handles the end of an operation of the upkeep.
    pub(super) fn upkeep_done(&mut self, job: UpkeepJob, done: FileDone, out: &mut Effects) {
        match job {
            UpkeepJob::Compact => self.compaction_done(done),
            UpkeepJob::Look(id, file) => self.look_ended(id, &file, &done),
            UpkeepJob::LookForScrub(id, file) => self.looked_for_scrub(id, &file, &done),
            UpkeepJob::Scrub => {
                let data = self.disk.data_of(done, self.scrubbed(), out);
                self.scrub_read_done(data.as_deref());
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
        self.look_at_active(&synced, out);
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
