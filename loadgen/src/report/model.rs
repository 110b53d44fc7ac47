//! The result of a run, which `--json` writes and `compare` reads. Durations are in milliseconds
//! unless a name says otherwise. Times are seconds since the start of the run.

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

/// The value of [`Report::format`]. It is raised when older readers would misread newer files.
pub const FORMAT: u32 = 2;

/// The name of `offset-fetch` in format 1, which has no other differences.
const FORMER_FETCH: &str = "fetch";
const FETCH: &str = "offset-fetch";

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub format: u32,
    pub run: Run,
    pub phases: Vec<Phase>,
    pub rebalances: Vec<Rebalance>,
    /// The rebalances. Overlapping rebalances count as one, from the first trigger until the group
    /// is stable.
    #[serde(default)]
    pub disruptions: Vec<Rebalance>,
    /// The latencies of each kind of round trip, by the name of its
    /// [`crate::driver::command::RoundTrip`] (`commit`, `heartbeat`, `join`, ...). A latency lasts
    /// from the time when the request was due to its answer. A request without an answer counts
    /// with its age. So do requests that came due while another one waited for its answer, and so
    /// could not be sent.
    pub latencies: BTreeMap<String, Latency>,
    /// The same latencies without the delays of the load machine. They show how far `latencies` can
    /// be trusted: see [`Pace::blurs`].
    #[serde(default)]
    pub undelayed: BTreeMap<String, Latency>,
    /// The latencies without the correction for coordinated omission: from the write of a request
    /// to its answer.
    #[serde(default)]
    pub uncorrected: BTreeMap<String, Latency>,
    /// The number of requests that were sent and never answered.
    #[serde(default)]
    pub unanswered: BTreeMap<String, u64>,
    /// The times for which a member had no partitions though it should have had some.
    pub pauses: Latency,
    /// The partition-seconds without an owner, over partitions that a group should have consumed.
    pub unowned_partition_seconds: f64,
    pub members: Members,
    pub commits: Commits,
    #[serde(default, skip_serializing_if = "Transactions::are_none")]
    pub transactions: Transactions,
    #[serde(default, skip_serializing_if = "Shares::are_none")]
    pub shares: Shares,
    #[serde(default, skip_serializing_if = "Consumed::are_none")]
    pub consumed: Consumed,
    /// The real clients beside the members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Client>,
    pub errors: Vec<ErrorCount>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub load_generator: Usage,
    /// How well muster-load itself kept up.
    #[serde(default)]
    pub pace: Pace,
    /// Set with `--server-pid`.
    pub server: Option<Usage>,
    pub series: Series,
    pub violations: Vec<Violation>,
    /// The number of further violations, which `violations` does not list.
    #[serde(rename = "violations_untold")]
    pub violations_omitted: u64,
    pub thresholds: Vec<Threshold>,
}

/// Sums saturate here, because a result file may come from another program, with any counts.
impl Report {
    /// Converts a report of an earlier format to the current format.
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

    /// A report with the figures of one phase only: its round trips, pauses, partitions without an
    /// owner and time steps, and the rebalances that began in it.
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

    /// The number of answers with an error code, except codes that are part of the protocol.
    pub fn error_count(&self) -> u64 {
        let errors = self.errors.iter().filter(|error| !error.is_expected());
        errors.fold(0, |sum, error| sum.saturating_add(error.count))
    }

    pub fn broken_thresholds(&self) -> u64 {
        self.thresholds.iter().filter(|threshold| !threshold.held).count() as u64
    }

    /// The number of phases that did not end as they should.
    pub fn problem_count(&self) -> u64 {
        self.phases.iter().filter(|phase| phase.problem.is_some()).count() as u64
    }

    /// Whether the load machine was fast enough. If not, the figures describe the machine, not the
    /// cluster.
    pub fn kept_up(&self) -> bool {
        self.pace.bound.is_none_or(|bound| self.pace.late.p99 <= bound)
    }

    /// Whether the coordinator violated a guarantee, a threshold was broken, or a phase had a
    /// problem. This decides the exit status.
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
    /// The program and its version, such as `muster-load 0.1.0`.
    pub tool: String,
    pub command: Vec<String>,
    /// The time of the start in UTC, in the format of RFC 3339.
    pub started_at: String,
    pub duration_seconds: f64,
    /// Set if a signal, a duration or a broken rule ended the run before the end of the scenario.
    pub interrupted: bool,
    pub seed: u64,
    pub scenario: String,
    pub description: String,
    pub bootstrap: String,
    pub cluster_id: Option<String>,
    pub brokers: u32,
    /// The free text of `--label`, by which `compare` names the run.
    pub label: Option<String>,
    pub host: String,
    pub cores: u32,
    pub groups: u32,
    pub members: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub producers: u32,
    pub partitions: u32,
    /// The number of this run among those of `--repeat`, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<u32>,
    /// The configs that the brokers report, and the configs of the groups.
    #[serde(default)]
    pub configs: BTreeMap<String, String>,
    #[serde(default)]
    pub group_configs: Vec<GroupConfigs>,
    /// The machines that generated the load. Empty if this machine did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Worker>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Worker {
    pub address: String,
    pub host: String,
    pub cores: u32,
    /// The maximum error of the times of the worker's events, in milliseconds.
    pub clock_error: f64,
}

/// The session timeout, the heartbeat interval and the assignors of a group. The members of a
/// classic group choose these times. In all other groups the server does.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GroupConfigs {
    /// The name of the group table in the scenario. The ids of its groups end with this name, or
    /// with this name and a number.
    pub name: String,
    pub protocol: String,
    /// The assignors by name, the preferred one first. If empty, the default of the protocol.
    pub assignors: Vec<String>,
    pub session_timeout: f64,
    pub heartbeat_interval: f64,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    pub name: String,
    pub began: f64,
    pub ended: f64,
    /// The first problem, for example that the groups did not become stable in time.
    pub problem: Option<String>,
    /// Sentences on the actions that had no effect, because there were no members for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The round trips that ended in this phase, as in [`Report::latencies`], and the ages of the
    /// requests that had no answer at its end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub latencies: BTreeMap<String, Latency>,
    /// The pauses that ended in this phase. A pause that continued after the phase counts with its
    /// length at the end of the phase.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub pauses: Latency,
    #[serde(default)]
    pub unowned_partition_seconds: f64,
    /// The number of records delivered in this phase.
    #[serde(default, skip_serializing_if = "is_none")]
    pub delivered: u64,
    /// The number of records delivered in this phase that had already been delivered before.
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
    /// The maximum number of revocations of a member.
    pub revocations_per_member_max: u64,
    pub disconnected: u64,
    /// muster-load's resident memory in bytes, divided by the highest number of members.
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

/// A real client, as described by the lines that it printed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Client {
    pub name: String,
    pub group: String,
    pub started: f64,
    /// The first rebalance callbacks of the client. `callbacks_count` is the number of all.
    pub callbacks: Vec<Callback>,
    pub callbacks_count: u64,
    /// The number of partitions that the client has now.
    pub partitions: u32,
    /// The highest number of partitions that the client had at one time.
    pub partitions_max: u32,
    /// The time when the client ended. `None` if its end was not seen.
    pub ended: Option<f64>,
    /// How the client ended, such as `exit status 0` or `signal 9`.
    pub how: Option<String>,
}

/// A rebalance callback of a client.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Callback {
    pub at: f64,
    /// `assigned`, `revoked` or `lost`.
    pub event: String,
    /// The number of partitions in the callback.
    pub partitions: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ErrorCount {
    pub api: String,
    pub code: i16,
    pub name: String,
    pub count: u64,
}

/// A code that is not an error: with it, the first answer to JoinGroup assigns a member id
/// (KIP-394).
pub const MEMBER_ID_REQUIRED: i16 = 79;

impl ErrorCount {
    /// Whether members get this error code in the normal course of the protocol.
    pub fn is_expected(&self) -> bool {
        self.code == MEMBER_ID_REQUIRED
    }
}

/// The resources that a process used.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// User and system time of all threads during the run.
    pub cpu_seconds: f64,
    pub memory_bytes: u64,
    pub memory_bytes_max: u64,
}

/// Figures over time, in steps of equal length.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    pub step_seconds: f64,
    pub points: Vec<Point>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// The end of the step.
    pub at: f64,
    /// The number of members in each state: `down`, `searching`, `joining`, `reconciling`,
    /// `stable`, `fenced`, `failed`. While some partitions have no owner, a stable member without
    /// partitions counts as `idle` instead.
    pub members: BTreeMap<String, u32>,
    pub unowned_partitions: u32,
    /// The number of partitions of real clients. `None` if there were no clients yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_partitions: Option<u32>,
    /// Answers per second in this step, by name of the round trip.
    pub rates: BTreeMap<String, f64>,
    /// The p99 in this step, by name of the round trip.
    pub p99: BTreeMap<String, f64>,
    /// The number of cores that the server used in this step. 1.0 is one core all the time.
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
    /// The violation in one sentence.
    pub what: String,
    /// The lines of the history that prove the violation, oldest first.
    pub events: Vec<serde_json::Value>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Threshold {
    /// The rule as written, such as `commit.p99 < 5ms`.
    pub rule: String,
    /// The measured value in the unit of the rule. `None` if nothing was measured.
    pub measured: Option<String>,
    pub held: bool,
}
