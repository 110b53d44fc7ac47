//! The numbers of a shard's log, its snapshots and its checks.

use muster_counters::{Histogram, counters};

/// The descriptions of the numbers of log, snapshots, checks and rebalances.
#[cfg(test)]
pub(crate) const METRICS: &[&[muster_counters::Metric]] = &[
    LogCounters::METRICS,
    LogGauges::METRICS,
    SnapshotCounters::METRICS,
    CheckCounters::METRICS,
    super::rewrite::RewriteCounters::METRICS,
    super::events::RebalanceCounters::METRICS,
    super::events::RebalanceGauges::METRICS,
];

counters! {
    /// The log of a shard since its start.
    #[derive(Copy)]
    pub struct LogCounters in "log" {
        /// Records of groups that the log accepted.
        records: u64 = Counter of Count,
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
    /// The groups and the log of a shard as they are now.
    #[derive(Copy)]
    pub struct LogGauges in "log" {
        /// Bytes that wait for the next flush.
        unsubmitted_bytes: u64 = Gauge of Bytes,
        /// Groups that are not loaded from the snapshot yet.
        unloaded_groups: u64 = Gauge of Count,
        /// Partitions of __consumer_offsets that the shard coordinates.
        coordinators: u64 = Gauge of Count,
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
    /// The comparison of groups with their records since the shard's start.
    #[derive(Copy)]
    pub struct CheckCounters in "check" {
        /// Groups and transactional ids that were compared with the log.
        compared: u64 = Counter of Count,
        /// Bytes of the log that were read for this comparison.
        read_bytes: u64 = Counter of Bytes,
        /// Passes in which each file of the log was checked by its name.
        file_rounds: u64 = Counter of Count,
    }
}

/// A span of time to be measured when it has ended: of the flush under way, or of the operations
/// that wait for the next one.
#[derive(Debug, Default)]
pub(super) struct FlushClock {
    /// The present time, in microseconds.
    now: u64,
    began: Option<u64>,
}

impl FlushClock {
    pub(super) fn advance(&mut self, micros: u64) {
        self.now = micros;
    }

    /// Begins, unless it has begun.
    pub(super) fn begin(&mut self) {
        self.began.get_or_insert(self.now);
    }

    /// The time since it began.
    pub(super) fn so_far(&self) -> u64 {
        self.began.map_or(0, |began| self.now.saturating_sub(began))
    }

    /// The time that it took, if it had begun.
    pub(super) fn end(&mut self) -> Option<u64> {
        self.began.take().map(|began| self.now.saturating_sub(began))
    }
}
