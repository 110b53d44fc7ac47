//! The metrics of a shard's partitions of user topics.

use muster_counters::counters;

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
