//! The changes of partitions that are served.

use super::Table;
use crate::partitions::Effects;
use crate::partitions::disk::Disk;
use crate::partitions::partition::Partition;
use crate::partitions::partition_id::PartitionId;
use muster_codec::Wall;
use muster_storage::partition_log::{Compaction, Slice};
use muster_storage::{DamagedPart, FileToken, Scrub};
use std::ops::Bound::{Excluded, Unbounded};

/// Syncs and upkeep.
impl Table {
    /// Begins a sync. Returns false if there is no such partition.
    pub(crate) fn sync(&mut self, id: PartitionId, disk: &mut Disk, out: &mut Effects) -> bool {
        let partition = self.partitions.get_mut(&id);
        partition.map(|partition| partition.sync(disk, out)).is_some()
    }

    /// Begins syncs of the next `count` unsynced partitions that follow `after`.
    pub(crate) fn sync_after(
        &mut self,
        after: Option<PartitionId>,
        count: usize,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Vec<PartitionId> {
        let rest = self.partitions.range_mut((after.map_or(Unbounded, Excluded), Unbounded));
        let unsynced = rest.filter(|(_, partition)| partition.may_be_unsynced()).take(count);
        let begin = |(id, partition): (&PartitionId, &mut Partition)| {
            partition.sync(disk, out);
            *id
        };
        unsynced.map(begin).collect()
    }

    /// Notes that the present recovery points are being written: of the partitions after `after`,
    /// up to `last`.
    pub(crate) fn points_written(&mut self, after: Option<PartitionId>, last: Option<PartitionId>) {
        let rest = self.partitions.range_mut((after.map_or(Unbounded, Excluded), Unbounded));
        for (_, partition) in rest.take_while(|(id, _)| Some(**id) <= last) {
            partition.point_written = partition.log.recovery_point();
        }
    }

    /// Notes that the file with the recovery points is complete, or was given up.
    pub(crate) fn points_stored(&mut self, are_stored: bool) {
        for partition in self.partitions.values_mut() {
            let stored = partition.point_written.take().filter(|_| are_stored);
            stored.into_iter().for_each(|point| partition.log.point_stored(&point));
        }
    }

    /// Removes records that retention does not keep, and idle producers.
    pub(crate) fn sweep(&mut self, wall: Wall, disk: &mut Disk, out: &mut Effects) {
        let expiration_ms = i64::from(self.config.producer_id_expiration_ms);
        let is_short = disk.producers.is_short(disk.producers_max);
        for partition in self.partitions.values_mut() {
            partition.sweep(wall, disk, out);
            partition.producers.expire(wall, expiration_ms, &mut disk.producers);
            if is_short {
                partition.producers.forget_inactive(wall, &mut disk.producers);
            }
        }
    }

    /// Performs a slice of a compaction; None if there is no such partition.
    pub(crate) fn compact(
        &mut self,
        id: PartitionId,
        compaction: &mut Compaction,
        token: FileToken,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Option<Slice> {
        let partition = self.partitions.get_mut(&id)?;
        let slice = partition.log.compact(compaction, token, &mut disk.files, &mut out.ops);
        partition.producers.transactions.forget_aborted(&compaction.take_dropped_markers());
        Some(slice)
    }

    /// Notes whether the file of a segment was found lost. Returns whether the active segment's
    /// file is lost.
    pub(crate) fn looked(&mut self, id: PartitionId, base_offset: i64, is_lost: bool) -> bool {
        let Some(partition) = self.partitions.get_mut(&id) else { return false };
        let is_active = partition.log.active_segment() == base_offset;
        partition.is_lost = is_active && is_lost || partition.is_lost && !is_active;
        partition.is_lost
    }

    /// Takes the data that a scrub has read; None if the read failed. Returns the damage that was
    /// found.
    pub(crate) fn scrubbed(
        &mut self,
        id: PartitionId,
        scrub: &mut Scrub,
        data: Option<&[u8]>,
    ) -> Vec<DamagedPart> {
        let Some(partition) = self.partitions.get_mut(&id) else { return Vec::new() };
        let Some(data) = data else {
            partition.log.scrub_failed(scrub);
            return Vec::new();
        };
        partition.log.scrubbed(scrub, data)
    }
}
