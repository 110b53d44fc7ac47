//! What a run is worth in numbers: rebalances, pauses, partitions without an owner, latencies, rates
//! over time. Fed with the events of all cores in one order ([`merge`]) and with their samples.

pub mod merge;
pub mod process;

use crate::driver::command::{RoundTrip, Sample};
use crate::event::Event;
use crate::history::Group;
use crate::plan::GroupIndex;
use crate::report::model;
use crate::time::Time;

/// How many members are in each state.
pub type States = [u32; 7];

/// One group, as the conductor needs it to decide what comes next.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct GroupStatus {
    /// Members that were started, and neither ended nor failed.
    pub live: u32,
    /// Of those, how many have all that the newest epoch promises them.
    pub settled: u32,
    /// Partitions that have an owner, and how many there are.
    pub owned: u32,
    pub partitions: u32,
    /// The newest epoch or generation that any member has seen; 0 before the first.
    pub epoch: i32,
    /// Since when every live member is settled at the newest epoch and every partition is owned.
    /// `None` while they are not, and while no member is live.
    pub stable_since: Option<Time>,
    /// A rebalance was triggered (or came by itself) and has not been closed.
    pub rebalancing: bool,
    /// Members that can't go on.
    pub failed: u32,
}

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
    /// Since the last look; only those that there were.
    pub loads: Vec<LoadNow>,
}

/// A kind of round trip since the last look.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoadNow {
    pub of: RoundTrip,
    pub per_second: f64,
    /// Milliseconds.
    pub p50: f64,
    pub p99: f64,
}

/// What goes into the report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    pub rebalances: Vec<model::Rebalance>,
    pub latencies: std::collections::BTreeMap<String, model::Latency>,
    pub pauses: model::Latency,
    pub unowned_partition_seconds: f64,
    pub members: model::Members,
    pub commits: model::Commits,
    pub errors: Vec<model::ErrorCount>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub load_generator: model::Usage,
    pub server: Option<model::Usage>,
    pub series: model::Series,
}

/// Takes in a run and measures it. Each event costs O(1) and the partitions that it names.
#[derive(Default)]
pub struct Measure {}

impl Measure {
    /// Before the first event of the group.
    pub fn expect_group(&mut self, _group: Group) {}

    /// Something was done to the group at `at` that makes it rebalance. Counts from there, also if
    /// events from before are observed later. A rebalance that is still open is closed by it.
    pub fn trigger(&mut self, _group: GroupIndex, _label: &str, _at: Time) {}

    /// The group has been stable for long enough: its rebalance ended at `stable_since`. Without
    /// effect while it is not stable, or nothing is open.
    pub fn close_rebalance(&mut self, _group: GroupIndex) {}

    /// What happened next, in the order of [`merge::Merge`].
    pub fn observe(&mut self, _event: &Event) {}

    /// What a core counted since its last sample.
    pub fn sample(&mut self, _core: usize, _sample: &Sample) {}

    /// The processes now: muster-load itself, and the server where its id is known.
    pub fn usage(&mut self, _own: process::Usage, _server: Option<process::Usage>) {}

    /// All events and samples before `until` are in: closes the steps of the series that ended.
    pub fn advance(&mut self, _until: Time) {}

    pub fn status(&self, _group: GroupIndex) -> Option<GroupStatus> {
        None
    }

    /// How things are; rates and latencies since the last look, which was at most a moment ago.
    pub fn look(&mut self, _now: Time) -> Totals {
        Totals::default()
    }

    /// After the last event.
    pub fn finish(self, _end: Time) -> Measured {
        Measured::default()
    }
}
