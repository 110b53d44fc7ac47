//! The figures of the measures, while a run is under way and at its end.

use std::collections::BTreeMap;

use super::{PhaseFigures, States, Waiting};
use crate::driver::command::RoundTrip;
use crate::report::model;

/// The totals over the whole run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    pub groups: u32,
    pub groups_stable: u32,
    pub live: u32,
    pub members: States,
    pub unowned_partitions: u32,
    pub connections: u32,
    /// The number of rebalances that were closed.
    pub rebalances: u64,
    /// The last rebalance that was closed.
    pub last_rebalance: Option<model::Rebalance>,
    pub errors: u64,
    pub commits: model::Commits,
    pub failed: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// The kinds of round trips that occurred since the last `Measure::totals`.
    pub loads: Vec<LoadNow>,
    pub waiting: Waiting,
}

/// The round trips of a kind since the last `Measure::totals`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoadNow {
    pub of: RoundTrip,
    pub per_second: f64,
    /// The 50th percentile of the round trips in milliseconds. `p99` is their 99th percentile.
    pub p50: f64,
    pub p99: f64,
}

/// All measures for the report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    pub rebalances: Vec<model::Rebalance>,
    pub disruptions: Vec<model::Rebalance>,
    pub latencies: BTreeMap<String, model::Latency>,
    pub undelayed: BTreeMap<String, model::Latency>,
    pub uncorrected: BTreeMap<String, model::Latency>,
    /// The phases, in order.
    pub phases: Vec<PhaseFigures>,
    pub unanswered: BTreeMap<String, u64>,
    pub pauses: model::Latency,
    pub unowned_partition_seconds: f64,
    pub members: model::Members,
    pub commits: model::Commits,
    pub transactions: model::Transactions,
    pub shares: model::Shares,
    pub consumed: model::Consumed,
    pub clients: Vec<model::Client>,
    pub errors: Vec<model::ErrorCount>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub load_generator: model::Usage,
    pub pace: model::Pace,
    pub server: Option<model::Usage>,
    pub series: model::Series,
}
