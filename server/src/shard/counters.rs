//! The numbers of a shard's turns and of its log.

use muster_counters::{Histogram, counters};

/// The descriptions of the numbers of log, snapshots, check and rewrites.
#[cfg(test)]
pub(crate) const OF_LOG: &[&[muster_counters::Metric]] = &[
    muster_runtime::LogCounters::METRICS,
    LogGauges::METRICS,
    muster_runtime::SnapshotCounters::METRICS,
    muster_runtime::CheckCounters::METRICS,
    muster_runtime::RewriteCounters::METRICS,
];

counters! {
    /// Turns since the shard's start.
    #[derive(Copy)]
    pub struct ShardCounters in "shard" {
        /// Turns of the shard's loop, by the time in which they handled events.
        turn_micros: Histogram = Counter of Microseconds,
        /// Requests that were handled; a long request counts once for each item.
        requests_handled: u64 = Counter of Count,
        /// Times that the wall clock jumped by a second or more.
        clock_steps: u64 = Counter of Count,
        /// Always 1.
        up: u64 = Gauge of Count,
        /// How long the shard took to load, at startup or after a failure.
        load_micros: u64 = Gauge of Microseconds,
    }
}

counters! {
    /// The log of a shard as it is now.
    #[derive(Copy)]
    pub struct LogGauges in "log" {
        /// Bytes that wait for the next flush.
        unsubmitted_bytes: u64 = Gauge of Bytes,
    }
}
