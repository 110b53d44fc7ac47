//! The result of a run, which `--json` writes and `compare` reads. Times are in milliseconds unless
//! a name says otherwise; moments are seconds since the start of the run.

mod counts;
mod latency;
mod pace;
mod rebalance;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::disruptions::disruptions;

pub use self::counts::{Commits, Consumed, Shares, Spread, Transactions};
pub use self::latency::Latency;
pub use self::pace::{LoadCore, Pace};
pub use self::rebalance::Rebalance;

/// The value of [`Report::format`]; raised when older readers would misread newer files.
pub const FORMAT: u32 = 2;

/// In format 1 `offset-fetch` was `fetch`; nothing else differs.
const FORMER_FETCH: &str = "fetch";
const FETCH: &str = "offset-fetch";

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub format: u32,
    pub run: Run,
    pub phases: Vec<Phase>,
    pub rebalances: Vec<Rebalance>,
    /// The same rebalances, where those that overlap are one: from the first trigger until the
    /// group was stable.
    #[serde(default)]
    pub disruptions: Vec<Rebalance>,
    /// The latencies by the name of the [`crate::driver::command::RoundTrip`] (`commit`,
    /// `heartbeat`, `join`, ...), from the time when a request was due to its answer. A request
    /// without an answer counts with its age, and so does a request that could not be sent
    /// meanwhile.
    pub latencies: BTreeMap<String, Latency>,
    /// The same latencies without the delays of this machine. They serve to judge the others: see
    /// [`Pace::blurs`].
    #[serde(default)]
    pub undelayed: BTreeMap<String, Latency>,
    /// The latencies without this correction: from the writing of a request to its answer.
    #[serde(default)]
    pub uncorrected: BTreeMap<String, Latency>,
    /// Requests that were sent and never answered.
    #[serde(default)]
    pub unanswered: BTreeMap<String, u64>,
    /// Each time that a member had no partitions though it should have had some.
    pub pauses: Latency,
    /// Partition-seconds in which a partition that a group should have consumed had no owner.
    pub unowned_partition_seconds: f64,
    pub members: Members,
    pub commits: Commits,
    #[serde(default, skip_serializing_if = "Transactions::are_none")]
    pub transactions: Transactions,
    #[serde(default, skip_serializing_if = "Shares::are_none")]
    pub shares: Shares,
    #[serde(default, skip_serializing_if = "Consumed::are_none")]
    pub consumed: Consumed,
    /// Real clients beside the members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Client>,
    pub errors: Vec<ErrorCount>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub load_generator: Usage,
    /// How well the load generator itself kept up.
    #[serde(default)]
    pub pace: Pace,
    /// Set with `--server-pid`.
    pub server: Option<Usage>,
    pub series: Series,
    pub violations: Vec<Violation>,
    /// The number of violations beyond those in `violations`.
    #[serde(rename = "violations_untold")]
    pub violations_omitted: u64,
    pub thresholds: Vec<Threshold>,
}

/// Counts of a foreign file may have any value, so sums saturate.
impl Report {
    /// Turns a report of an earlier format into one of this format.
    pub fn renewed(mut self) -> Self {
        rename_fetch(&mut self.latencies);
        for point in &mut self.series.points {
            rename_fetch(&mut point.rates);
            rename_fetch(&mut point.p99);
        }
        if self.disruptions.is_empty() {
            self.disruptions = disruptions(&self.rebalances, true);
        }
        self.format = FORMAT;
        self
    }

    pub fn violation_count(&self) -> u64 {
        self.violations_omitted.saturating_add(self.violations.len() as u64)
    }

    pub fn unanswered_count(&self) -> u64 {
        self.unanswered.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The figures of one phase: its round trips, pauses, unowned partitions and steps, and the
    /// rebalances that began in it.
    pub fn of_phase(&self, phase: &Phase) -> Self {
        let within = |at: f64| (phase.began..phase.ended).contains(&at);
        let begun = |all: &[Rebalance]| {
            all.iter().filter(|rebalance| within(rebalance.began)).cloned().collect()
        };
        let points = self.series.points.iter().filter(|point| within(point.at));
        let step_seconds = self.series.step_seconds;
        Self {
            latencies: phase.latencies.clone(),
            rebalances: begun(&self.rebalances),
            disruptions: begun(&self.disruptions),
            pauses: phase.pauses.clone(),
            unowned_partition_seconds: phase.unowned_partition_seconds,
            consumed: Consumed { delivered: phase.delivered, redelivered: phase.redelivered },
            series: Series { step_seconds, points: points.cloned().collect() },
            ..Self::default()
        }
    }

    /// Answers with an error code, without those that the protocol asks for.
    pub fn error_count(&self) -> u64 {
        let errors = self.errors.iter().filter(|error| !error.is_expected());
        errors.fold(0, |sum, error| sum.saturating_add(error.count))
    }

    pub fn broken_thresholds(&self) -> u64 {
        self.thresholds.iter().filter(|threshold| !threshold.held).count() as u64
    }

    /// Phases that did not end as they should.
    pub fn problem_count(&self) -> u64 {
        self.phases.iter().filter(|phase| phase.problem.is_some()).count() as u64
    }

    /// Whether this machine was fast enough for the figures to be the cluster's.
    pub fn kept_up(&self) -> bool {
        self.pace.bound.is_none_or(|bound| self.pace.late.p99 <= bound)
    }

    /// Whether the coordinator violated a guarantee, a threshold was broken or a phase had a
    /// problem: this decides the exit code.
    pub fn failed(&self) -> bool {
        self.violation_count() > 0 || self.broken_thresholds() > 0 || self.problem_count() > 0
    }
}

fn rename_fetch<V>(figures: &mut BTreeMap<String, V>) {
    if let Some(former) = figures.remove(FORMER_FETCH) {
        figures.insert(FETCH.into(), former);
    }
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// `muster-load 0.1.0`.
    pub tool: String,
    pub command: Vec<String>,
    /// RFC 3339, UTC.
    pub started_at: String,
    pub duration_seconds: f64,
    /// Ended by Ctrl-C, or by `--duration` before the end of the scenario.
    pub interrupted: bool,
    pub seed: u64,
    pub scenario: String,
    pub description: String,
    pub bootstrap: String,
    pub cluster_id: Option<String>,
    pub brokers: u32,
    /// Free text of `--label`, by which `compare` names the run.
    pub label: Option<String>,
    pub host: String,
    pub cores: u32,
    pub groups: u32,
    pub members: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub producers: u32,
    pub partitions: u32,
    /// Which of several runs of `--repeat` this is, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<u32>,
    /// The configs that the brokers report, and those of the groups.
    #[serde(default)]
    pub configs: BTreeMap<String, String>,
    #[serde(default)]
    pub group_configs: Vec<GroupConfigs>,
    /// The machines that generated the load, if they were not this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Worker>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Worker {
    pub address: String,
    pub host: String,
    pub cores: u32,
    /// The times of its events may be wrong by this much.
    pub clock_error: f64,
}

/// The part of a group's configuration that its members choose, and its server for consumer groups.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GroupConfigs {
    /// The name in the scenario; the groups made from it have it at the end of theirs.
    pub name: String,
    pub protocol: String,
    /// Empty: the default of the protocol.
    pub assignors: Vec<String>,
    pub session_timeout: f64,
    pub heartbeat_interval: f64,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    pub name: String,
    pub began: f64,
    pub ended: f64,
    /// The first problem, for example that its groups did not settle in time.
    pub problem: Option<String>,
    /// Actions that had no effect, as they had no members to act on: a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Round trips that ended in this phase, as in [`Report::latencies`], and the ages of those
    /// that had no answer at its end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub latencies: BTreeMap<String, Latency>,
    /// Pauses that ended in this phase, and the ages of those that had not at its end.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub pauses: Latency,
    #[serde(default)]
    pub unowned_partition_seconds: f64,
    /// Records that were delivered in this phase, and those of them that had been before.
    #[serde(default, skip_serializing_if = "is_none")]
    pub delivered: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    pub redelivered: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Members {
    pub started: u64,
    pub stopped: u64,
    pub crashed: u64,
    pub fenced: u64,
    pub rejoined: u64,
    pub revocations: u64,
    /// The maximum of revocations of one member.
    pub revocations_per_member_max: u64,
    pub disconnected: u64,
    /// Bytes of resident memory of muster-load for each member at the highest count.
    pub memory_bytes_each: u64,
    /// The first members that could not continue, with the reason.
    pub failed: Vec<FailedMember>,
    pub failed_count: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailedMember {
    pub group: String,
    pub member: u32,
    pub at: f64,
    pub reason: String,
}

/// A real client, by the lines that it printed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Client {
    pub name: String,
    pub group: String,
    pub started: f64,
    /// The rebalance callbacks of the client, the first of them in full.
    pub callbacks: Vec<Callback>,
    pub callbacks_count: u64,
    /// The number of its partitions now, and at most.
    pub partitions: u32,
    pub partitions_max: u32,
    /// `None` if its end was not seen.
    pub ended: Option<f64>,
    /// `exit status 0`, `signal 9`.
    pub how: Option<String>,
}

/// A rebalance callback of a client.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Callback {
    pub at: f64,
    /// `assigned`, `revoked` or `lost`.
    pub event: String,
    /// The number of partitions that it named.
    pub partitions: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ErrorCount {
    pub api: String,
    pub code: i16,
    pub name: String,
    pub count: u64,
}

/// JoinGroup answers with this code to hand out an id (KIP-394): it is no error.
pub const MEMBER_ID_REQUIRED: i16 = 79;

impl ErrorCount {
    /// Whether a member without any trouble has it, too.
    pub fn is_expected(&self) -> bool {
        self.code == MEMBER_ID_REQUIRED
    }
}

/// The resources that a process used.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// User and system, of all threads, during the run.
    pub cpu_seconds: f64,
    pub memory_bytes: u64,
    pub memory_bytes_max: u64,
}

/// Figures over time, in equal steps.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    pub step_seconds: f64,
    pub points: Vec<Point>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// End of the step.
    pub at: f64,
    /// The number of members in each state: `down`, `searching`, `joining`, `reconciling`,
    /// `stable`, `fenced`, `failed`; and `idle`: stable, but without partitions while some have no
    /// owner.
    pub members: BTreeMap<String, u32>,
    pub unowned_partitions: u32,
    /// Partitions of real clients; `None` if there were none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_partitions: Option<u32>,
    /// Answers a second in this step, and their p99, by name of the round trip.
    pub rates: BTreeMap<String, f64>,
    pub p99: BTreeMap<String, f64>,
    /// Cores that the server used in this step: 1.0 is one core all the time.
    pub server_cpu: Option<f64>,
    pub server_memory_bytes: Option<u64>,
}

/// A violation of the protocol by the coordinator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Violation {
    /// `two-owners`, `epoch-went-back`, `fenced-commit-accepted`, `commit-lost`,
    /// `deleted-group-came-back`, `repeat-differed`, ...
    pub rule: String,
    pub at: f64,
    pub group: String,
    /// One sentence.
    pub what: String,
    /// The lines of the history that prove it, oldest first.
    pub events: Vec<serde_json::Value>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Threshold {
    /// As written: `commit.p99 < 5ms`.
    pub rule: String,
    /// The measured value, in the unit of the rule; `None` if there was nothing to measure.
    pub measured: Option<String>,
    pub held: bool,
}
