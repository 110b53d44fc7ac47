//! The figures of the measures, while a run is under way and at its end.

use std::collections::BTreeMap;

use super::{PhaseFigures, States, Waiting};
use crate::driver::command::RoundTrip;
use crate::report::model;

/// The run as a whole.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    pub groups: u32,
    pub groups_stable: u32,
    pub live: u32,
    pub members: States,
    pub unowned_partitions: u32,
    pub connections: u32,
    /// Rebalances that were closed, and the last of them.
    pub rebalances: u64,
    pub last_rebalance: Option<model::Rebalance>,
    pub errors: u64,
    pub commits: model::Commits,
    pub failed: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// The round trips since the last `Measure::totals`, of the kinds that occurred.
    pub loads: Vec<LoadNow>,
    pub waiting: Waiting,
}

/// A kind of round trip since the last `Measure::totals`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoadNow {
    pub of: RoundTrip,
    pub per_second: f64,
    /// Milliseconds.
    pub p50: f64,
    pub p99: f64,
}

/// The measures that go into the report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    pub rebalances: Vec<model::Rebalance>,
    pub disruptions: Vec<model::Rebalance>,
    pub latencies: BTreeMap<String, model::Latency>,
    pub undelayed: BTreeMap<String, model::Latency>,
    pub uncorrected: BTreeMap<String, model::Latency>,
    /// The phases in their order.
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
