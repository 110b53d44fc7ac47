//! The upkeep of partitions: retention, idle producers, compaction, recovery points, and the search
//! for damage and for lost files. The work is done in steps between requests.

use super::checkpoint::Checkpoint;
use super::compaction::{Compactor, Trouble};
use super::disk::Disk;
use super::effects::Effects;
use super::happened::{Happened, Lost};
use super::jobs::UpkeepJob;
use super::looks::{Looks, LostFile};
use super::partition::Partition;
use super::partition_id::PartitionId;
use super::rounds::SYNCS_AT_ONCE;
use super::scrub::Scrubber;
use super::table::Table;
use crate::clock::{Times, earliest};
use crate::config::TopicConfig;
use muster_storage::{FileDone, Suspect};

#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// The number of damaged parts (whose batches cannot be read) when they were last counted.
    damaged_parts: usize,
    /// The time of the next check of retention and idle producers.
    next_sweep: Option<i64>,
    checkpoint: Checkpoint,
    compactor: Compactor,
    looks: Looks,
    scrubber: Scrubber,
    /// The last partition that a clean stop has synced.
    synced_until: Option<PartitionId>,
}

impl Upkeep {
    /// The time of the next step.
    pub(super) fn next_deadline(&self, table: &Table, disk: &Disk) -> Option<i64> {
        earliest([
            self.next_sweep,
            self.compactor.next_deadline(),
            self.checkpoint.next_deadline(),
            self.looks.next_deadline(table),
            self.scrubber.next_deadline(table, disk),
        ])
    }

    /// Checks retention and idle producers, if it is time.
    pub(super) fn sweep(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        times: Times,
        out: &mut Effects,
    ) {
        if self.next_sweep.is_some_and(|sweep| sweep <= times.now) {
            self.schedule_sweep(table, times.now);
            table.sweep(times.expiry(), disk, out);
            self.count_damage(table);
        }
    }

    /// Performs a slice of a compaction, if it is time.
    pub(super) fn compact(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        times: Times,
        out: &mut Effects,
    ) -> Happened {
        match self.compactor.compact(table, disk, &mut self.checkpoint, times, out) {
            Some(Trouble::Lost(happened)) => return happened,
            Some(Trouble::Unreadable(id, suspect)) => self.scrubber.suspect(id, suspect),
            None => {}
        }
        Happened::Nothing
    }

    /// Writes recovery points, and searches for damage and lost files, if it is time.
    pub(super) fn run(&mut self, table: &mut Table, disk: &mut Disk, now: i64, out: &mut Effects) {
        self.checkpoint.run(table, disk, now, out);
        self.looks.look_at_files(table, disk, now, out);
        self.scrubber.scrub(&self.looks, table, disk, now, out);
    }

    /// Handles the end of an operation.
    pub(super) fn job_done(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        job: UpkeepJob,
        done: FileDone,
        out: &mut Effects,
    ) {
        match job {
            UpkeepJob::Compact => self.compactor.done(done),
            UpkeepJob::Look(id, file) => self.looks.look_ended(table, disk, id, &file, &done),
            UpkeepJob::LookForScrub(id, file) => {
                self.scrubber.looked_for(&mut self.looks, table, disk, id, &file, &done);
            }
            UpkeepJob::Scrub => {
                let data = disk.data_of(done, self.scrubber.scrubbed(), out);
                if self.scrubber.read_done(table, disk, data.as_deref()) {
                    self.count_damage(table);
                }
            }
            UpkeepJob::Checkpoint => {
                let has_space = !matches!(done, FileDone::NoSpace { .. });
                self.checkpoint.written(table, disk, has_space, out);
            }
        }
    }

    /// Notes and counts the loss of a file that a write or a sync did not find. Returns false if
    /// the loss was known before.
    pub(super) fn lost(&mut self, disk: &mut Disk, lost: &Lost) -> bool {
        let file = LostFile { what: lost.reason.clone(), lacks_writes: true };
        self.looks.note_lost(disk, (lost.id, lost.segment), file)
    }

    /// Notes a place that could not be read: it is scrubbed next.
    pub(super) fn suspect(&mut self, id: PartitionId, suspect: Suspect) {
        self.scrubber.suspect(id, suspect);
    }

    /// Notes that the recovery point of a partition has changed.
    pub(super) fn advanced(&mut self) {
        self.checkpoint.advanced();
    }

    /// Notes the config of a partition.
    pub(super) fn configured(&mut self, config: &TopicConfig) {
        self.compactor.configured(config);
    }

    /// Forgets a partition that was removed.
    pub(super) fn removed(&mut self, id: PartitionId) {
        self.looks.forget(id);
    }

    /// Prevents further slices of compactions, and further reads of a scrub, because the server
    /// stops.
    pub(super) fn stop(&mut self) {
        self.compactor.stop();
        self.scrubber.stop();
    }

    /// Performs a step of a clean stop, during which nothing more is written. A step syncs some
    /// partitions. When all are synced, a step writes the recovery points. Returns false if nothing
    /// is left.
    pub(super) fn sync_next(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> bool {
        let after = self.synced_until;
        let synced = table.sync_after(after, SYNCS_AT_ONCE, disk, out);
        self.synced_until = synced.last().copied().or(after);
        self.looks.look_at_active(table, disk, &synced, out);
        if disk.is_quiet() {
            let is_behind =
                |(_, it): (_, &Partition)| !it.has_lost_writes && it.log.is_sync_behind();
            if table.all().any(is_behind) {
                return true;
            }
            self.checkpoint.run_last(table, disk, out);
        }
        !disk.is_quiet()
    }

    #[cfg(test)]
    pub(super) fn sync_from_the_first(&mut self) {
        self.synced_until = None;
    }

    #[cfg(test)]
    pub(super) fn last_checkpoint(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        out: &mut Effects,
    ) {
        self.checkpoint.run_last(table, disk, out);
    }

    #[cfg(test)]
    pub(super) fn scrub(&mut self, table: &Table, disk: &mut Disk, now: i64, out: &mut Effects) {
        self.scrubber.scrub(&self.looks, table, disk, now, out);
    }

    pub(super) fn schedule_sweep(&mut self, table: &Table, now: i64) {
        let interval = table.config().log_retention_check_interval_ms;
        self.next_sweep = (!table.is_empty()).then_some(now.saturating_add(interval));
    }

    /// Schedules the first sweep, if there are partitions now and there were none before.
    pub(super) fn table_changed(&mut self, table: &Table, now: i64) {
        if self.next_sweep.is_none() || table.is_empty() {
            self.schedule_sweep(table, now);
        }
    }

    pub(super) fn count_damage(&mut self, table: &Table) {
        self.damaged_parts = table.all().map(|(_, it)| it.log.damaged().count()).sum();
    }

    /// The number of damaged parts, whose batches cannot be read. A part that no longer belongs to
    /// a log is still counted until the next sweep.
    pub(super) fn damaged_parts(&self) -> usize {
        self.damaged_parts
    }

    /// The number of lost files.
    pub(super) fn lost_files(&self) -> usize {
        self.looks.lost()
    }

    /// Whether the file of a segment is known to be lost.
    pub(super) fn is_known_lost(&self, id: PartitionId, base_offset: i64) -> bool {
        self.looks.is_known_lost(id, base_offset)
    }

    /// A description of the lost files: their number, and the first of them.
    pub(super) fn files_trouble(&self, table: &Table) -> Option<String> {
        self.looks.trouble(table)
    }
}
