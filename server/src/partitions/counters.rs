//! The metrics of a shard's partitions of user topics.

use super::limits::READ_BYTES_IN_FLIGHT_MAX;
use super::partition::Partition;
use super::partition_id::PartitionId;
use super::questions::OpenQuestion;
use super::{Partitions, layout};
use crate::limit_gauges::{Limit, LimitGauges};
use muster_counters::{Copies, counters};
use muster_storage::DamagedPart;
use muster_storage::partition_log::segment_file_name;
use std::path::Path;

counters! {
    /// Appends and reads since the shard's start.
    #[derive(Copy)]
    pub struct PartitionCounters in "partitions" {
        /// Batches that were appended.
        appended_batches: u64 = Counter of Count,
        /// Records that were appended.
        appended_records: u64 = Counter of Count,
        /// Bytes of batches that were appended.
        appended_bytes: u64 = Counter of Bytes,
        /// Batches that were refused because the disk had too little free space.
        refused_batches: u64 = Counter of Count,
        /// Bytes of records in answers to fetches.
        fetched_bytes: u64 = Counter of Bytes,
        /// Reads of files that failed.
        failed_reads: u64 = Counter of Count,
        /// Files of partitions that were found to be removed, replaced or cut short.
        files_lost: u64 = Counter of Count,
        /// Damaged parts of partitions that were found since startup.
        damage_found: u64 = Counter of Count,
        /// Bytes of partitions that were read again, in search of damage.
        scrubbed_bytes: u64 = Counter of Bytes,
        /// Times that all partitions were read again.
        scrubs: u64 = Counter of Count,
        /// Passes of compaction over a partition.
        compactions: u64 = Counter of Count,
        /// Bytes that passes of compaction read.
        compaction_read_bytes: u64 = Counter of Bytes,
        /// Bytes that passes of compaction wrote.
        compaction_written_bytes: u64 = Counter of Bytes,
        /// How long the last pass of compaction took, in ms.
        last_compaction_ms: u64 = Gauge of Count,
    }
}

counters! {
    /// The partitions as they are now.
    #[derive(Copy)]
    pub struct PartitionGauges in "partitions" {
        /// Partitions that are served.
        served: u64 = Gauge of Count,
        /// Partitions that are damaged, and not served.
        offline: u64 = Gauge of Count,
        /// Parts of partitions whose batches cannot be read. The rest of these partitions is
        /// served.
        damaged_parts: u64 = Gauge of Count,
        /// 1 while batches are refused because the disk has too little free space.
        disk_short: u64 = Gauge of Count,
        /// Fetches that are not answered yet.
        waiting_fetches: u64 = Gauge of Count,
        /// Bytes of reads of files in progress.
        reading_bytes: u64 = Gauge of Bytes,
        /// Parts of files that are not sent yet.
        held_parts: u64 = Gauge of Count,
        /// Files that are lost now. If a file is the newest segment of its partition, produces are
        /// refused.
        lost_files: u64 = Gauge of Count,
    }
}

impl Partitions {
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
            lost_files: self.looks.lost() as u64,
        };
        vec![Box::new(self.disk.counters), Box::new(gauges)]
    }

    /// The difference between the accounts of addresses and a recount of what they count: 0 unless
    /// an account is wrong. For checks.
    pub(crate) fn miscounted_shares(&self) -> usize {
        let asked: usize = self.questions.values().map(OpenQuestion::bytes).sum();
        let unwritten: usize = self.table.all().map(|(_, it)| it.unwritten_bytes()).sum();
        let producers: usize = self.table.all().map(|(_, it)| it.producers.len()).sum();
        self.disk.unwritten_bytes().abs_diff(asked + unwritten)
            + self.disk.producers.total().abs_diff(producers)
            + self.fetches.miscounted_shares()
    }

    /// Parts of partitions whose batches cannot be read; dropped ones count until the next sweep.
    pub(crate) fn damaged_parts(&self) -> usize {
        self.damaged_parts
    }

    /// Whether a byte of a segment is in a damaged part: for checks.
    pub(crate) fn is_damaged_at(&self, segment: &Path, at: u64) -> bool {
        let is_in = |part: &DamagedPart| {
            part.bytes.contains(&at) && segment.ends_with(segment_file_name(part.segment))
        };
        let of = self.partition_of(segment);
        of.is_some_and(|(_, partition)| partition.log.damaged().any(is_in))
    }

    /// Whether a segment is served whose file is not known to be lost: for checks.
    pub(crate) fn serves_unlooked(&self, segment: &Path) -> bool {
        self.partition_of(segment).is_some_and(|(id, partition)| {
            let mut served = partition
                .log
                .segments()
                .filter(|base_offset| segment.ends_with(segment_file_name(*base_offset)));
            served.any(|base_offset| !self.is_known_lost(id, base_offset))
        })
    }

    /// The partition that has a segment, if it is served.
    fn partition_of(&self, segment: &Path) -> Option<(PartitionId, &Partition)> {
        let directory = segment.parent()?;
        let id = layout::parse_directory(directory.file_name()?.to_str()?)?;
        let partition = self.table.get(id)?;
        (directory == layout::directory(id)).then_some((id, partition))
    }

    pub(super) fn count_damage(&mut self) {
        let parts = self.table.all().map(|(_, it)| it.log.damaged().count());
        self.damaged_parts = parts.sum();
    }

    /// Whether batches are refused because the disk has too little free space.
    pub(crate) fn is_disk_short(&self) -> bool {
        self.table.identity().space.is_short()
    }

    /// Adds the use of the limits of partitions.
    pub(crate) fn add_limits(&self, gauges: &mut LimitGauges) {
        let io = &self.disk;
        gauges.set(Limit::UnwrittenBytes, io.unwritten_bytes(), io.unwritten_max);
        gauges.set(Limit::ReadBytes, self.reading_bytes(), READ_BYTES_IN_FLIGHT_MAX);
        gauges.set(Limit::Producers, io.producers.total(), io.producers_max);
        self.fetches.add_limits(gauges);
    }
}
