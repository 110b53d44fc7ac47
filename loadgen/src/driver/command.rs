//! The commands to the driver and the reports from it. This is the whole interface between the
//! cores and the thread that conducts, checks and reports.

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

/// How to reach the cluster, and how many cores and connections to use.
#[derive(Clone, Debug)]
pub struct Target {
    /// Each is `host:port`.
    pub bootstrap: Vec<String>,
    pub client_id: Arc<str>,
    pub security: Security,
    pub connect_timeout: Duration,
    /// `request.timeout.ms`. JoinGroup and SyncGroup get the rebalance timeout in addition: a
    /// broker answers them only after other members have joined, or the leader has synced.
    pub request_timeout: Duration,
    /// The CPUs of the cores: each core is pinned to one, if the system supports it.
    pub cores: Vec<usize>,
    /// The number of members that share a connection. Must be 1 for classic groups: a broker
    /// answers the requests of a connection in order, so a parked JoinGroup would delay the others.
    pub members_per_connection: u32,
    pub seed: u64,
}

/// A command to one core. `Driver::core_of` chooses the core.
#[derive(Debug)]
pub enum Command {
    /// Creates the member and starts it at `at`, or restarts a member that has stopped.
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
    /// Changes the subscription to that of this plan. The member must have the plan's protocol.
    Subscribe {
        at: Time,
        member: MemberIndex,
        group: Arc<GroupPlan>,
    },
    /// New partition counts, for all members of the core.
    Topics(Arc<Topics>),
    /// A task for the core's own connection. The result is in [`CoreReport::done`], with this `id`.
    Task {
        id: u64,
        task: Task,
    },
    /// The last command: the core sends its last report, and its thread ends.
    End,
}

/// A request that muster-load itself sends to the cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Creates missing topics, and adds missing partitions. The result is the metadata of the
    /// topics, once every partition has a leader.
    EnsureTopics {
        topics: Vec<(Arc<str>, u32)>,
        replication: i16,
    },
    /// Waits until the group of this name has a coordinator. A new cluster creates the offsets
    /// topic when it is asked for a first coordinator. This may take a while and must not count as
    /// part of a rebalance. With `transactions` it also waits for the coordinator of a
    /// transactional id of this name.
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
    /// Reads committed offsets, and reports them as [`crate::event::EventKind::Fetched`] of the
    /// observer.
    ReadOffsets {
        group: GroupIndex,
        id: Arc<str>,
        partitions: Arc<[Partition]>,
    },
    /// Reads start offsets of a share group, and reports them as
    /// [`crate::event::EventKind::StartOffsets`] of the observer.
    ReadStartOffsets {
        group: GroupIndex,
        id: Arc<str>,
        partitions: Arc<[Partition]>,
    },
    /// Sets these configs of a group.
    ConfigureGroup {
        id: Arc<str>,
        configs: Vec<(String, String)>,
    },
}

/// A report of a core. Each core sends a report at least every 100 ms, so that `until` advances.
#[derive(Debug)]
pub struct CoreReport {
    /// The number of the core, from 0.
    pub core: usize,
    /// All events before this time have been reported.
    pub until: Time,
    /// The events, sorted by time.
    pub events: Vec<Event>,
    pub sample: Sample,
    pub done: Vec<(u64, Result<TaskOutcome, TaskError>)>,
    /// Set in the last report of a core. An error if the core could not continue.
    pub ended: Option<Result<(), String>>,
}

/// Counts since the last report, and the current state.
#[derive(Debug, Default)]
pub struct Sample {
    /// For each kind of request, the microseconds from the time when a request was due until its
    /// answer. A request without an answer counts as if it were answered when its member next gets
    /// an answer, or ends. A request that was due, but not sent because its member still waited for
    /// another answer, counts until that answer.
    pub round_trips: Vec<(RoundTrip, Histogram<u64>)>,
    /// The same round trips, each without the time by which this machine delayed the request.
    pub undelayed: Vec<(RoundTrip, Histogram<u64>)>,
    /// Microseconds from the write of a request to its answer.
    pub uncorrected: Vec<(RoundTrip, Histogram<u64>)>,
    /// Requests that will not be answered.
    pub unanswered: Vec<(RoundTrip, u64)>,
    /// The ages in microseconds of unanswered requests that were due at least a second ago. They
    /// are sampled less often than reports are sent; a report without a sample has `None`.
    pub waiting: Option<Vec<(RoundTrip, Histogram<u64>)>>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub connections: u32,
    /// For each group, the number of members in each state.
    pub states: Vec<(GroupIndex, State, u32)>,
    /// CPU time of the core's thread since it started.
    pub cpu: Duration,
    pub pace: Pace,
    /// Why connections failed, or answers could not be decoded. Each is one sentence, and is
    /// reported once.
    pub problems: Vec<String>,
}

/// The delays of a core itself since its last report, in microseconds.
#[derive(Debug, Default)]
pub struct Pace {
    /// How late timers fired. The requests that a timer sends are late by the same time.
    pub late: Option<Histogram<u64>>,
    /// How long turns took.
    pub turns: Option<Histogram<u64>>,
    /// How long requests waited to be written.
    pub writing: Option<Histogram<u64>>,
    /// How long answers waited to be read. `None` if the system does not say.
    pub reading: Option<Histogram<u64>>,
    /// How long the thread has waited for a CPU since it started, although it had work.
    pub waited: Option<Duration>,
}

/// The kind of a round trip or of another measured time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum RoundTrip {
    Connect,
    FindCoordinator,
    JoinGroup,
    SyncGroup,
    Heartbeat,
    /// ConsumerGroupHeartbeat that joins, leaves, or contains the subscription.
    ConsumerJoin,
    /// Any other ConsumerGroupHeartbeat: it keeps the member alive, or acknowledges an assignment.
    ConsumerHeartbeat,
    LeaveGroup,
    Commit,
    /// OffsetFetch. (Fetches of records are `Read` and `ShareFetch`.)
    Fetch,
    Metadata,
    InitProducerId,
    AddPartitions,
    Produce,
    AddOffsets,
    TxnOffsetCommit,
    EndTxn,
    /// From the first request of a transaction to the answer to EndTxn.
    Transaction,
    /// From the call of EndTxn to the time when a reader has all records of the transaction.
    Visible,
    /// Fetch of a reader or a consuming member, which waits for records.
    Read,
    ListOffsets,
    /// ShareGroupHeartbeat that joins, leaves, or contains the subscription.
    ShareJoin,
    /// ShareGroupHeartbeat that only keeps the member alive.
    ShareHeartbeat,
    /// StreamsGroupHeartbeat of a member that joins or leaves.
    StreamsJoin,
    /// StreamsGroupHeartbeat of a member that neither joins nor leaves.
    StreamsHeartbeat,
    /// A streams group did not allow a member to process the tasks that it had: how long this
    /// lasted.
    Hold,
    /// ShareFetch, which waits for records.
    ShareFetch,
    ShareAcknowledge,
    /// From the moment at which a producer begins to write a record until the record arrives at a
    /// member: by its first acquisition in a share group, or by its delivery in other groups.
    Delivery,
    /// From the event that freed a record to the next acquisition of the record. The event is a
    /// crash or a lost session of the member that held it, or a change of the leader.
    RedeliveryCrash,
    /// From the release of a record, or the close of the session that held it, to the record's next
    /// acquisition.
    RedeliveryRelease,
    /// From the expiry of the lock on a record to its next acquisition.
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
    /// All topics known so far, including those of the task. Members refer to a topic by its index
    /// in this list.
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
    /// The groups. `true` means that the group has no members.
    pub groups: Vec<(Arc<str>, bool)>,
}

/// One sentence, with the remedy if it is known.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TaskError(pub String);

/// The properties that the cluster reported before the run began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cluster {
    pub cluster_id: Option<String>,
    pub brokers: Vec<(i32, String, u16)>,
    /// The highest common version of each API.
    pub versions: crate::member::Versions,
    /// For each broker that cannot be reached at its advertised address, one sentence.
    pub warnings: Vec<String>,
    /// `None` if the cluster does not support consumer groups, or if no broker reported both
    /// configs that [`GroupTimes`] has.
    pub consumer_times: Option<GroupTimes>,
    pub streams_times: Option<GroupTimes>,
    /// The configs that results depend on, if the brokers report them.
    pub configs: BTreeMap<String, String>,
}

/// The timeouts that brokers use for consumer groups (KIP-848), or for streams groups (KIP-1071).
/// If brokers differ, these are the values that are safe for all: the shortest session timeout, and
/// the longest heartbeat interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupTimes {
    /// `group.consumer.session.timeout.ms`, or its equivalent for streams groups.
    pub session_timeout: Duration,
    /// `group.consumer.heartbeat.interval.ms`, or its equivalent.
    pub heartbeat_interval: Duration,
}

impl GroupTimes {
    /// The values that are safe for both brokers: the shorter session timeout, and the longer
    /// heartbeat interval.
    pub fn and(self, other: Option<Self>) -> Self {
        let other = other.unwrap_or(self);
        Self {
            session_timeout: self.session_timeout.min(other.session_timeout),
            heartbeat_interval: self.heartbeat_interval.max(other.heartbeat_interval),
        }
    }
}
