//! All metrics of a shard, for the documentation and its test.

use crate::files::{FileCounters, FileGauges};
use crate::groups::METRICS as GROUPS;
use crate::limit_gauges::LimitGauges;
use crate::net::{ClientCounters, ClientGauges, Timings};
use crate::partitions::{PartitionCounters, PartitionGauges};
use crate::reactor::TlsCounters;
use crate::shard::{OF_LOG, ShardCounters};
use crate::shares::{ShareCounters, ShareGauges};
use crate::stall::{StallCounters, StallGauges};
use crate::telemetry::{TelemetryCounters, TelemetryGauges};
use muster_coordinator::{Events, Gauges};
use muster_counters::Metric;

/// All metrics. The parts are in the same order as in a shard's report.
pub(super) fn all() -> impl Iterator<Item = &'static Metric> {
    let parts = [
        ShardCounters::METRICS,
        StallCounters::METRICS,
        StallGauges::METRICS,
        ClientCounters::METRICS,
        Timings::METRICS,
        ClientGauges::METRICS,
        Gauges::METRICS,
        Events::METRICS,
    ];
    let rest = [
        PartitionCounters::METRICS,
        PartitionGauges::METRICS,
        ShareCounters::METRICS,
        ShareGauges::METRICS,
        TelemetryCounters::METRICS,
        TelemetryGauges::METRICS,
        FileCounters::METRICS,
        FileGauges::METRICS,
        TlsCounters::METRICS,
        LimitGauges::METRICS,
    ];
    parts.into_iter().chain(GROUPS.iter().chain(OF_LOG).copied()).chain(rest).flatten()
}
