//! Metrics of the groups of a shard and of their records in its log.

use muster_counters::counters;

/// The descriptions of the numbers of groups and rebalances.
#[cfg(test)]
pub(crate) const METRICS: &[&[muster_counters::Metric]] = &[
    RecordCounters::METRICS,
    LoadGauges::METRICS,
    super::events::RebalanceCounters::METRICS,
    super::events::RebalanceGauges::METRICS,
];

counters! {
    /// The records of groups in the log of a shard, since its start.
    #[derive(Copy)]
    pub struct RecordCounters in "log" {
        /// Records of groups that the log accepted.
        records: u64 = Counter of Count,
    }
}

counters! {
    /// The groups of a shard as they are now.
    #[derive(Copy)]
    pub struct LoadGauges in "log" {
        /// Groups that are not loaded from the snapshot yet.
        unloaded_groups: u64 = Gauge of Count,
        /// Partitions of __consumer_offsets that the shard coordinates.
        coordinators: u64 = Gauge of Count,
    }
}
