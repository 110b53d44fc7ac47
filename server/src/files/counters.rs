//! The metrics of a shard's files.

use muster_counters::counters;

counters! {
    /// Operations since the shard's start.
    #[derive(Copy)]
    pub struct FileCounters in "files" {
        /// Files that were opened.
        opens: u64 = Counter of Count,
        /// File operations that a thread carried out because they may wait: opens, truncations,
        /// renames.
        calls: u64 = Counter of Count,
        /// Times that an open waited until fewer files were closing.
        opens_delayed: u64 = Counter of Count,
        /// Writes that were started.
        writes: u64 = Counter of Count,
        /// Bytes of writes that were started.
        written_bytes: u64 = Counter of Bytes,
        /// Reads that were started.
        reads: u64 = Counter of Count,
        /// Syncs that were requested.
        syncs: u64 = Counter of Count,
        /// Syncs that waited for writes.
        syncs_delayed: u64 = Counter of Count,
    }
}

counters! {
    /// The files of a shard as they are now.
    #[derive(Copy)]
    pub struct FileGauges in "files" {
        /// Descriptors of files of the shard: open, or being closed.
        descriptors: u64 = Gauge of Count,
        /// The age of the oldest operation that the disk has not finished.
        oldest_operation_micros: u64 = Gauge of Microseconds,
    }
}
