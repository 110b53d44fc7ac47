//! Answers about the partitions, for metrics, backups, health checks and tests: their sizes, bounds
//! and open files.

use super::Partitions;
use crate::cluster::{OfflineList, Topic};
use crate::limit_gauges::{Limit, LimitGauges};
use crate::partitions::counters::PartitionGauges;
#[cfg(test)]
use crate::partitions::disk::Disk;
#[cfg(test)]
use crate::partitions::effects::Effects;
use crate::partitions::layout;
use crate::partitions::limits::READ_BYTES_IN_FLIGHT_MAX;
use crate::partitions::locate::Missing;
use crate::partitions::partition::{Bounds, Partition};
use crate::partitions::partition_id::PartitionId;
use crate::partitions::rounds::open_by_slot;
#[cfg(test)]
use crate::partitions::table::Table;
#[cfg(test)]
use crate::partitions::upkeep::Upkeep;
use muster_coordinator::RequestId;
use muster_counters::Copies;
use muster_storage::partition_log::segment_file_name;
use muster_storage::{DamagedPart, FileId, FileKey, FileOp};
use muster_transactions::message::OpenIn;
use std::path::{Path, PathBuf};

impl Partitions {
    /// The number of fetches that are not answered yet.
    pub fn waiting_fetches(&self) -> usize {
        self.reads.waiting_fetches()
    }

    /// The number of fetches of a connection that wait for records.
    pub fn parked_fetches(&self, connection: u64) -> usize {
        self.reads.parked_fetches(connection)
    }

    /// The maximum number of files that are open at one time.
    pub fn open_files_max(&self) -> usize {
        self.disk.files.max()
    }

    /// Opens the files whose parts are being sent, if they are not open, and returns their ids: at
    /// most [`Self::open_files_max`].
    pub fn open_held(&mut self, files: &[FileKey], ops: &mut Vec<FileOp>) -> Vec<FileId> {
        self.disk.files.open_held(files, ops)
    }

    /// The path of a file whose parts are being sent.
    pub fn held_path(&self, file: FileKey) -> Option<PathBuf> {
        self.disk.files.held_path(file)
    }

    /// Releases a part of a file: either it was sent, or it will never be sent.
    pub fn release(&mut self, file: FileKey, ops: &mut Vec<FileOp>) {
        self.disk.files.release(file, ops);
    }

    /// The number of parts of files that are not sent yet.
    pub fn holds(&self) -> usize {
        self.disk.files.holds()
    }

    /// The number of bytes of reads under way.
    pub fn reading_bytes(&self) -> usize {
        self.disk.reading_bytes()
    }

    /// The approximate size of the parked fetches.
    pub fn waiting_bytes(&self) -> usize {
        self.reads.waiting_bytes()
    }

    /// The directories of all partitions, whether or not they exist.
    pub(crate) fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.table.directories()
    }

    /// The files that may still grow, each with its written length.
    pub(crate) fn growing_files(&self) -> impl Iterator<Item = (PathBuf, u64)> {
        self.table.all().flat_map(|(_, partition)| partition.log.growing())
    }

    /// The bounds of a partition that is served; None for any other partition.
    pub(crate) fn served_bounds(&self, id: PartitionId) -> Option<Bounds> {
        self.table.served_bounds(id)
    }

    /// The bounds of the `count` partitions of user topics that follow `id`. If `id` is None, those
    /// of the first `count` partitions.
    pub(crate) fn bounds_after(
        &self,
        id: Option<PartitionId>,
        count: usize,
    ) -> Vec<(PartitionId, Bounds)> {
        let page = self.table.after(id).take(count);
        page.map(|(id, partition)| (id, partition.bounds())).collect()
    }

    /// The number of offline partitions.
    pub fn offline(&self) -> usize {
        self.table.offline().len()
    }

    /// The offline partitions, in order.
    pub fn offline_list(&self) -> OfflineList {
        self.table.offline().list()
    }

    /// Whether any partition has lost a write, for example of a marker.
    pub(crate) fn have_lost_writes(&self) -> bool {
        self.table.all().any(|(_, partition)| partition.has_lost_writes)
    }

    /// All open transactions, for checks.
    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = OpenIn> {
        open_by_slot(&self.table).into_values().flatten()
    }

    /// Copies of the counters and gauges of the partitions, for metrics.
    pub(crate) fn numbers(&self) -> Copies {
        let gauges = PartitionGauges {
            served: self.table.len() as u64,
            offline: self.offline() as u64,
            damaged_parts: self.damaged_parts() as u64,
            disk_short: u64::from(self.is_disk_short()),
            waiting_fetches: self.waiting_fetches() as u64,
            reading_bytes: self.reading_bytes() as u64,
            held_parts: self.holds() as u64,
            lost_files: self.upkeep.lost_files() as u64,
        };
        vec![Box::new(self.disk.counters), Box::new(gauges)]
    }

    /// For checks: counts again what the accounts of addresses count, and returns the difference.
    /// It is 0 unless an account is wrong.
    pub(crate) fn miscounted_shares(&self) -> usize {
        let asked = self.produces.asked_bytes();
        let unwritten: usize = self.table.all().map(|(_, it)| it.unwritten_bytes()).sum();
        let producers: usize = self.table.all().map(|(_, it)| it.producers.len()).sum();
        self.disk.unwritten_bytes().abs_diff(asked + unwritten)
            + self.disk.producers.total().abs_diff(producers)
            + self.reads.miscounted_shares()
    }

    /// The number of damaged parts, whose batches cannot be read. A part that no longer belongs to
    /// a log is still counted until the next sweep.
    pub(crate) fn damaged_parts(&self) -> usize {
        self.upkeep.damaged_parts()
    }

    /// Whether a byte of a segment is in a damaged part: for checks.
    pub(crate) fn is_damaged_at(&self, segment: &Path, at: u64) -> bool {
        let is_in = |part: &DamagedPart| {
            part.bytes.contains(&at) && segment.ends_with(segment_file_name(part.segment))
        };
        let of = self.partition_of(segment);
        of.is_some_and(|(_, partition)| partition.log.damaged().any(is_in))
    }

    /// For checks: whether a segment is served and its file is not known to be lost.
    pub(crate) fn serves_unlooked(&self, segment: &Path) -> bool {
        self.partition_of(segment).is_some_and(|(id, partition)| {
            let mut served = partition
                .log
                .segments()
                .filter(|base_offset| segment.ends_with(segment_file_name(*base_offset)));
            served.any(|base_offset| !self.upkeep.is_known_lost(id, base_offset))
        })
    }

    /// The partition that has a segment, if it is served.
    fn partition_of(&self, segment: &Path) -> Option<(PartitionId, &Partition)> {
        let directory = segment.parent()?;
        let id = layout::parse_directory(directory.file_name()?.to_str()?)?;
        let partition = self.table.get(id)?;
        (directory == layout::directory(id)).then_some((id, partition))
    }

    /// Whether batches are refused because the disk has too little free space.
    pub(crate) fn is_disk_short(&self) -> bool {
        self.table.identity().space.is_short()
    }

    /// Adds gauges that show how much of the limits of partitions is used.
    pub(crate) fn add_limits(&self, gauges: &mut LimitGauges) {
        let io = &self.disk;
        gauges.set(Limit::UnwrittenBytes, io.unwritten_bytes(), io.unwritten_max);
        gauges.set(Limit::ReadBytes, self.reading_bytes(), READ_BYTES_IN_FLIGHT_MAX);
        gauges.set(Limit::Producers, io.producers.total(), io.producers_max);
        self.reads.add_limits(gauges);
    }

    /// A description of the lost files: their number, and the first of them.
    pub(crate) fn files_trouble(&self) -> Option<String> {
        self.upkeep.files_trouble(&self.table)
    }

    /// Whether a request is a fetch that waits for records, and its deadline has not passed.
    pub(crate) fn is_parked(&self, request: RequestId, now: i64) -> bool {
        self.reads.is_parked(request, now)
    }

    /// The high watermark of a partition; None if this shard does not have the partition.
    pub(crate) fn share_end(&self, id: PartitionId) -> Option<i64> {
        self.table.get(id).map(|partition| partition.bounds().high_watermark)
    }

    /// The id and the bounds of a partition that this shard leads.
    pub(crate) fn share_partition(
        &self,
        topic: &Topic,
        index: i32,
    ) -> Result<(PartitionId, Bounds), Missing> {
        let id = self.table.locate(topic, index)?;
        Ok((id, self.table.bounds(id)))
    }

    /// The approximate number of readable bytes from an offset on; None if the log does not contain
    /// the offset.
    pub(crate) fn share_bytes(
        &self,
        id: PartitionId,
        offset: i64,
        reads_committed: bool,
    ) -> Option<u64> {
        let partition = self.table.get(id)?;
        partition.available(partition.behind_damage(offset), reads_committed)
    }
}

/// For tests.
#[cfg(test)]
impl Partitions {
    pub(in crate::partitions) fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(in crate::partitions) fn disk_mut(&mut self) -> &mut Disk {
        &mut self.disk
    }

    pub(in crate::partitions) fn table(&self) -> &Table {
        &self.table
    }

    pub(in crate::partitions) fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    pub(in crate::partitions) fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }

    pub(in crate::partitions) fn upkeep_mut(&mut self) -> &mut Upkeep {
        &mut self.upkeep
    }

    pub(crate) fn last_checkpoint(&mut self, out: &mut Effects) {
        self.upkeep.last_checkpoint(&mut self.table, &mut self.disk, out);
    }

    pub(crate) fn scrub(&mut self, now: i64, out: &mut Effects) {
        self.upkeep.scrub(&self.table, &mut self.disk, now, out);
    }

    pub(crate) fn waiting_lookups(&self) -> usize {
        self.reads.waiting_lookups()
    }
}
