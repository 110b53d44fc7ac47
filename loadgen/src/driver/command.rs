//! The commands to the driver and the reports from it: the whole interface between the cores and
//! the thread that conducts, checks and reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::event::{Event, Stop};
use crate::member::State;
use crate::plan::{GroupIndex, GroupPlan, MemberIndex, MemberPlan, Partition, Workload};
use crate::security::Security;
use crate::time::Time;
use crate::topics::Topics;

/// How to connect to the cluster, and with how many cores and connections.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port` each.
    pub bootstrap: Vec<String>,
    pub client_id: Arc<str>,
    pub security: Security,
    pub connect_timeout: Duration,
    /// `request.timeout.ms`. JoinGroup and SyncGroup get the rebalance timeout on top, as in
    /// clients.
    pub request_timeout: Duration,
    /// CPUs; a core is pinned to each, where the system can.
    pub cores: Vec<usize>,
    /// Members that share a connection. Must be 1 for classic groups: a connection's requests are
    /// answered in order, so a parked JoinGroup would delay the others.
    pub members_per_connection: u32,
    pub seed: u64,
}

/// A command to one core (see `Driver::core_of`).
#[derive(Debug)]
pub enum Command {
    /// Creates the member and starts it at `at`, or restarts one that has stopped.
    Start {
        at: Time,
        member: MemberPlan,
    },
    Stop {
        at: Time,
        member: MemberIndex,
        how: Stop,
    },
    /// Sets the loads of the member from now on.
    Work {
        member: MemberIndex,
        workload: Workload,
    },
    /// A member of the group's protocol continues with the subscription of this plan.
    Subscribe {
        at: Time,
        member: MemberIndex,
        group: Arc<GroupPlan>,
    },
    /// Passes new partition counts to every member of the core.
    Topics(Arc<Topics>),
    /// A task for the core's own connection; its result is in [`CoreReport::done`], with `id`.
    Task {
        id: u64,
        task: Task,
    },
    /// The last command: the core sends its last report and ends.
    End,
}

/// A request of muster-load itself to the cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Creates missing topics, and missing partitions of topics. The result is the cluster's
    /// metadata of them once every partition has a leader.
    EnsureTopics {
        topics: Vec<(Arc<str>, u32)>,
        replication: i16,
    },
    /// Waits until a group of this name has a coordinator: a new cluster creates the offsets topic
    /// first, which may take a while and is no rebalance. With `transactions` a transactional id of
    /// this name, too.
    AwaitCoordinator {
        id: Arc<str>,
        transactions: bool,
    },
    /// Finds topics and groups by the prefix of their names.
    FindLeftovers {
        prefix: Arc<str>,
    },
    DeleteTopics {
        topics: Vec<Arc<str>>,
    },
    DeleteGroup {
        group: GroupIndex,
        id: Arc<str>,
    },
    /// Reads committed offsets; they become [`crate::event::EventKind::Fetched`] of the observer.
    ReadOffsets {
        group: GroupIndex,
        id: Arc<str>,
        partitions: Arc<[Partition]>,
    },
    /// Reads start offsets of a share group; they become
    /// [`crate::event::EventKind::StartOffsets`] of the observer.
    ReadStartOffsets {
        group: GroupIndex,
        id: Arc<str>,
        partitions: Arc<[Partition]>,
    },
    /// Sets configs of a group, each with its value.
    ConfigureGroup {
        id: Arc<str>,
        configs: Vec<(String, String)>,
    },
}

/// A report of a core. Each core sends one at least every 100 ms, so that `until` advances.
#[derive(Debug)]
pub struct CoreReport {
    /// The number of the core, counted from 0.
    pub core: usize,
    /// All events before this moment have been reported.
    pub until: Time,
    /// The events in order of time.
    pub events: Vec<Event>,
    pub sample: Sample,
    pub done: Vec<(u64, Result<TaskOutcome, TaskError>)>,
    /// Set in the last report of a core; an error if it could not continue.
    pub ended: Option<Result<(), String>>,
}

/// Counts since the last report, and the current state.
#[derive(Debug, Default)]
pub struct Sample {
    /// Microseconds from when requests of each kind were due to their answers. Those that were not
    /// answered count until then, or until their member ended; and so do those that were due
    /// meanwhile, but were not sent.
    pub round_trips: Vec<(RoundTrip, Histogram<u64>)>,
    /// As `round_trips`, without the time by which this machine delayed the requests.
    pub undelayed: Vec<(RoundTrip, Histogram<u64>)>,
    /// Microseconds from when requests were written to their answers.
    pub uncorrected: Vec<(RoundTrip, Histogram<u64>)>,
    /// Requests that will not be answered.
    pub unanswered: Vec<(RoundTrip, u64)>,
    /// The ages of requests that were due and are not answered, in microseconds. `None` between
    /// two looks.
    pub waiting: Option<Vec<(RoundTrip, Histogram<u64>)>>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub connections: u32,
    /// The number of members in each state, for each group.
    pub states: Vec<(GroupIndex, State, u32)>,
    /// CPU time of the core's thread since it began.
    pub cpu: Duration,
    pub pace: Pace,
    /// Why connections failed, or answers could not be decoded: a sentence each, reported once.
    pub problems: Vec<String>,
}

/// How well a core itself kept up since its last report. Microseconds.
#[derive(Debug, Default)]
pub struct Pace {
    /// How late timers fired: requests that were due then were sent this much later.
    pub late: Option<Histogram<u64>>,
    /// The time that turns took.
    pub turns: Option<Histogram<u64>>,
    /// How long requests waited to be written.
    pub writing: Option<Histogram<u64>>,
    /// How long answers waited to be read; none if the system does not say.
    pub reading: Option<Histogram<u64>>,
    /// The time in which its thread could run and got no CPU, since it began.
    pub waited: Option<Duration>,
}

/// The kind of request that a latency belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum RoundTrip {
    Connect,
    FindCoordinator,
    JoinGroup,
    SyncGroup,
    Heartbeat,
    /// ConsumerGroupHeartbeat of a member that joins, changes or leaves.
    ConsumerJoin,
    /// ConsumerGroupHeartbeat that only keeps alive or acknowledges.
    ConsumerHeartbeat,
    LeaveGroup,
    Commit,
    Fetch,
    Metadata,
    InitProducerId,
    AddPartitions,
    Produce,
    AddOffsets,
    TxnOffsetCommit,
    EndTxn,
    /// From the first request of a transaction to the answer of EndTxn.
    Transaction,
    /// From the call of EndTxn until a reader has all records of the transaction.
    Visible,
    /// Fetch of a reader, which waits for records.
    Read,
    ListOffsets,
    /// ShareGroupHeartbeat of a member that joins, changes or leaves.
    ShareJoin,
    /// ShareGroupHeartbeat that only keeps alive.
    ShareHeartbeat,
    /// StreamsGroupHeartbeat of a member that joins, changes or leaves.
    StreamsJoin,
    /// StreamsGroupHeartbeat that only keeps alive or acknowledges.
    StreamsHeartbeat,
    /// The time for which a member of a streams group that has tasks must not process.
    Hold,
    /// ShareFetch, which waits for records.
    ShareFetch,
    ShareAcknowledge,
    /// The time from when a record was due to be written to its first acquisition by a member.
    Delivery,
    /// From the end of the member that held a record until another has acquired it.
    RedeliveryCrash,
    /// From the release of a record until a member has acquired it again.
    RedeliveryRelease,
    /// From the end of the lock on a record until a member has acquired it again.
    RedeliveryExpiry,
}

impl RoundTrip {
    pub const ALL: [Self; 32] = [
        Self::Connect,
        Self::FindCoordinator,
        Self::JoinGroup,
        Self::SyncGroup,
        Self::Heartbeat,
        Self::ConsumerJoin,
        Self::ConsumerHeartbeat,
        Self::LeaveGroup,
        Self::Commit,
        Self::Fetch,
        Self::Metadata,
        Self::InitProducerId,
        Self::AddPartitions,
        Self::Produce,
        Self::AddOffsets,
        Self::TxnOffsetCommit,
        Self::EndTxn,
        Self::Transaction,
        Self::Visible,
        Self::Read,
        Self::ListOffsets,
        Self::ShareJoin,
        Self::ShareHeartbeat,
        Self::StreamsJoin,
        Self::StreamsHeartbeat,
        Self::Hold,
        Self::ShareFetch,
        Self::ShareAcknowledge,
        Self::Delivery,
        Self::RedeliveryCrash,
        Self::RedeliveryRelease,
        Self::RedeliveryExpiry,
    ];

    /// The name in reports, thresholds and the live view.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FindCoordinator => "find-coordinator",
            Self::JoinGroup => "join",
            Self::SyncGroup => "sync",
            Self::Heartbeat => "heartbeat",
            Self::ConsumerJoin => "consumer-join",
            Self::ConsumerHeartbeat => "consumer-heartbeat",
            Self::LeaveGroup => "leave",
            Self::Commit => "commit",
            Self::Fetch => "offset-fetch",
            Self::Metadata => "metadata",
            Self::InitProducerId => "init-producer-id",
            Self::AddPartitions => "add-partitions",
            Self::Produce => "produce",
            Self::AddOffsets => "add-offsets",
            Self::TxnOffsetCommit => "txn-offset-commit",
            Self::EndTxn => "end-txn",
            Self::Transaction => "transaction",
            Self::Visible => "visible",
            Self::Read => "read",
            Self::ListOffsets => "list-offsets",
            Self::ShareJoin => "share-join",
            Self::ShareHeartbeat => "share-heartbeat",
            Self::StreamsJoin => "streams-join",
            Self::StreamsHeartbeat => "streams-heartbeat",
            Self::Hold => "hold",
            Self::ShareFetch => "share-fetch",
            Self::ShareAcknowledge => "share-acknowledge",
            Self::Delivery => "delivery",
            Self::RedeliveryCrash => "redelivery-crash",
            Self::RedeliveryRelease => "redelivery-release",
            Self::RedeliveryExpiry => "redelivery-expiry",
        }
    }
}

#[derive(Clone, Debug)]
pub enum TaskOutcome {
    /// All topics known so far, with those of the task; members use their indices.
    Topics(Arc<Topics>),
    Found,
    Leftovers(Leftovers),
    Deleted,
    Read,
    Configured,
}

/// Topics and groups with a prefix.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Leftovers {
    pub topics: Vec<Arc<str>>,
    /// The groups; `true` for a group without members.
    pub groups: Vec<(Arc<str>, bool)>,
}

/// One clear sentence, with the remedy if it is known.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TaskError(pub String);

/// The cluster's answers before the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cluster {
    pub cluster_id: Option<String>,
    pub brokers: Vec<(i32, String, u16)>,
    /// Highest common version of each API, by its key.
    pub versions: crate::member::Versions,
    /// One sentence on each broker that cannot be reached where it is advertised.
    pub warnings: Vec<String>,
    /// `None` if no broker answered.
    pub consumer_times: Option<GroupTimes>,
    pub streams_times: Option<GroupTimes>,
    /// The configs that results depend on, of those that brokers report.
    pub configs: BTreeMap<String, String>,
}

/// The times that brokers use for consumer groups (KIP-848), or for streams groups (KIP-1071). If
/// brokers differ, the values that hold for all: the shortest session, the longest interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupTimes {
    /// As in `group.consumer.session.timeout.ms`.
    pub session_timeout: Duration,
    /// As in `group.consumer.heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
}

impl GroupTimes {
    /// The values that hold for both.
    pub fn and(self, other: Option<Self>) -> Self {
        let other = other.unwrap_or(self);
        Self {
            session_timeout: self.session_timeout.min(other.session_timeout),
            heartbeat_interval: self.heartbeat_interval.max(other.heartbeat_interval),
        }
    }
}
