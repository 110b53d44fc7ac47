//! The numbers of a shard's log, of its snapshots, its check and its rewrites.

use muster_counters::{Histogram, counters};

counters! {
    /// The log of a shard since its start.
    #[derive(Copy)]
    pub struct LogCounters in "log" {
        /// Operations that were too large for the log.
        operations_refused: u64 = Counter of Count,
        /// Flushes, by the time for which their first operation waited until they began.
        linger_micros: Histogram = Counter of Microseconds,
        /// Flushes, by the number of their operations.
        flush_operations: Histogram = Counter of Count,
        /// Flushes, by their bytes.
        flush_bytes: Histogram = Counter of Bytes,
        /// Flushes, by the time until they were durable.
        flush_micros: Histogram = Counter of Microseconds,
        /// Passes of compaction that ended.
        compactions: u64 = Counter of Count,
        /// Bytes that compaction removed.
        compacted_bytes: u64 = Counter of Bytes,
    }
}

counters! {
    /// The snapshots of a shard since its start.
    #[derive(Copy)]
    pub struct SnapshotCounters in "snapshots" {
        /// Snapshots that were written.
        written: u64 = Counter of Count,
        /// Snapshots that were given up: a group or id could not be written, or the disk was full.
        given_up: u64 = Counter of Count,
        /// Bytes of the last snapshot.
        file_bytes: u64 = Gauge of Bytes,
    }
}

counters! {
    /// The comparison of states with their records since the shard's start.
    #[derive(Copy)]
    pub struct CheckCounters in "check" {
        /// Groups, transactional ids and share partitions that were compared with the log.
        compared: u64 = Counter of Count,
        /// Bytes of the log that were read for this comparison.
        read_bytes: u64 = Counter of Bytes,
        /// Passes in which each file of the log was checked by its name.
        file_rounds: u64 = Counter of Count,
    }
}

counters! {
    /// Damage of a shard's log, and what became of it.
    #[derive(Copy)]
    pub struct RewriteCounters in "log" {
        /// Times that damage was found in the log of a running shard, or at its start.
        damage_found: u64 = Counter of Count,
        /// Times that the log was rewritten from memory.
        rewritten: u64 = Counter of Count,
        /// 1 while the log is damaged: until it is rewritten.
        damaged: u64 = Gauge of Count,
    }
}
