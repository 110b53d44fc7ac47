//! Plans of groups and members: made from a scenario before they start, and shared by the members,
//! the checks and the report.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A group of the run.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct GroupIndex(pub u32);

/// A member of the run: one simulated process. It keeps its index when it is restarted.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MemberIndex(pub u32);

/// A topic of the run, in the order in which [`crate::topics::Topics`] learned of them.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TopicIndex(pub u32);

/// A partition of a topic. Serialized as `[topic, partition]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(from = "(u32, u32)", into = "(u32, u32)")]
pub struct Partition {
    pub topic: TopicIndex,
    pub number: u32,
}

impl From<(u32, u32)> for Partition {
    fn from((topic, number): (u32, u32)) -> Self {
        Self { topic: TopicIndex(topic), number }
    }
}

impl From<Partition> for (u32, u32) {
    fn from(partition: Partition) -> Self {
        (partition.topic.0, partition.number)
    }
}

/// The properties that all members of a group share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupPlan {
    pub index: GroupIndex,
    /// `group.id`.
    pub id: Arc<str>,
    pub protocol: Protocol,
    pub subscription: Subscription,
    /// `session.timeout.ms` of classic members. For consumer groups the server decides; this is
    /// what it answered before the start, or else the value that the checks assume.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms` of classic members. Consumer group members receive theirs with each
    /// heartbeat; this one says how long it takes until all members have learned of a change.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`: the rebalance timeout that members send.
    pub rebalance_timeout: Duration,
    /// The time that a member takes to give up partitions (the time that a rebalance listener
    /// takes).
    pub revocation_takes: Duration,
    /// Whether a member fetches the committed offsets of the partitions that it gets, as consumers
    /// do.
    pub fetches_on_assignment: bool,
    pub backoff: Backoff,
}

/// How members get their partitions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// JoinGroup and SyncGroup. The first assignor is preferred; the group takes one that all have.
    Classic { assignors: Vec<ClassicAssignor> },
    /// ConsumerGroupHeartbeat (KIP-848). `None` leaves the assignor to the server.
    Consumer { assignor: Option<Arc<str>> },
    /// No membership: offsets are committed and fetched for partitions of the scenario.
    Manual { partitions: Arc<[Partition]> },
    /// No group at all: records are produced.
    Producer(ProducerPlan),
    /// A reader of the records that producers write. It has no group either.
    Reader(ReaderPlan),
    /// ShareGroupHeartbeat (KIP-932): records are acquired and acknowledged.
    Share(SharePlan),
    /// StreamsGroupHeartbeat (KIP-1071): tasks of a topology are assigned.
    Streams(StreamsPlan),
}

impl Protocol {
    /// Whether its clients are members of a group, which has rebalances.
    pub fn has_members(&self) -> bool {
        matches!(
            self,
            Self::Classic { .. } | Self::Consumer { .. } | Self::Share(_) | Self::Streams(_)
        )
    }

    /// Whether it is a group that can be deleted.
    pub fn is_group(&self) -> bool {
        self.commits() || matches!(self, Self::Share(_) | Self::Streams(_))
    }

    /// Whether its clients commit offsets of the group.
    pub fn commits(&self) -> bool {
        match self {
            Self::Classic { .. } | Self::Consumer { .. } | Self::Manual { .. } => true,
            Self::Producer(plan) => {
                matches!(&plan.delivery, Delivery::Transactions(plan) if plan.offsets > 0)
            }
            Self::Reader(_) | Self::Share(_) | Self::Streams(_) => false,
        }
    }
}

/// The records that each producer of a table writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProducerPlan {
    pub partitions: Arc<[Partition]>,
    pub delivery: Delivery,
    /// Records in each batch, and the bytes of the value of each.
    pub records: u32,
    pub record_size: u32,
    /// The time since 1970 at which the run began: records have timestamps.
    pub began: Duration,
    /// Whether readers read its transactions: its records have numbers then.
    pub is_read: bool,
}

/// The partitions that a reader reads, all of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReaderPlan {
    pub partitions: Arc<[Partition]>,
    pub isolation: Isolation,
}

/// The use that the members of a share group make of the records that they acquire.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SharePlan {
    pub acquire: Acquire,
    pub acknowledge: AcknowledgeBy,
    /// `max.poll.records`: the most records of a fetch.
    pub max_records: u32,
    /// The time that a member takes for what a fetch returned, before it acknowledges.
    pub takes: Duration,
    /// Members in a million that are slow, and the time that these take.
    pub slow: u32,
    pub slow_takes: Duration,
    pub poison: Option<Poison>,
    /// `share.delivery.count.limit` of the group.
    pub delivery_limit: u32,
}

/// An application of Kafka Streams: its members are threads.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StreamsPlan {
    pub topology: Arc<Topology>,
    /// Whether each process has an endpoint for interactive queries.
    pub endpoints: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Topology {
    pub subtopologies: Vec<Subtopology>,
}

impl Topology {
    /// The number of tasks of all subtopologies.
    pub fn tasks(&self) -> u32 {
        self.subtopologies.iter().map(|subtopology| subtopology.tasks).sum()
    }
}

/// A part of a topology, with a task for each partition of its sources. Its id is its place.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Subtopology {
    /// Names of topics.
    pub sources: Vec<String>,
    pub changelogs: Vec<InternalTopic>,
    /// Names of the repartition topics that it writes to.
    pub sinks: Vec<String>,
    /// The repartition topics that it reads.
    pub repartitions: Vec<InternalTopic>,
    /// Whether all topics that the part reads must have the same number of partitions, as for a
    /// join.
    pub copartitioned: bool,
    pub tasks: u32,
}

/// A topic that the coordinator has created for the application.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InternalTopic {
    pub name: String,
    /// 0 if the coordinator decides their number.
    pub partitions: u32,
}

/// Records that no member can process, one in this number of each partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Poison {
    pub one_in: u32,
    pub how: PoisonIs,
}

/// The end that a member gives a record that it cannot process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoisonIs {
    /// The record is released each time, until it reaches the delivery limit.
    #[default]
    Released,
    Rejected,
}

/// `share.acquire.mode`, with its number in ShareFetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acquire {
    /// Up to the end of a batch in the log.
    #[default]
    BatchOptimized = 0,
    /// No more than the member asked for.
    RecordLimit = 1,
}

/// The requests by which a member acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AcknowledgeBy {
    /// A ShareAcknowledge for each batch that was acquired.
    #[default]
    Batch,
    /// A ShareAcknowledge for each record.
    Record,
    /// The member's next ShareFetch acknowledges all records (the implicit mode of the Java
    /// client).
    Fetch,
}

/// `isolation.level`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    #[default]
    ReadCommitted,
    ReadUncommitted,
}

/// The guarantee that a producer asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// No producer id: a batch that is sent again may be there twice.
    Plain,
    /// `enable.idempotence`: batches have sequence numbers.
    Idempotent,
    /// Each round of batches is a transaction. The transactional id is the client id.
    Transactions(TransactionPlan),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TransactionPlan {
    pub version: TransactionVersion,
    /// `transaction.timeout.ms`.
    pub timeout: Duration,
    /// The number of partitions whose offsets are committed in each transaction.
    pub offsets: u32,
    /// Transactions in a million that are aborted.
    pub aborts: u32,
}

/// The protocol of transactions, by the cluster's `transaction.version`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TransactionVersion {
    /// AddPartitionsToTxn and AddOffsetsToTxn come first.
    One,
    /// Produce and TxnOffsetCommit add their partitions, each EndTxn raises the epoch (KIP-890).
    Two,
}

/// Assignors of the classic protocol, which the leader runs, with their names in Kafka.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassicAssignor {
    Range,
    #[serde(rename = "roundrobin")]
    RoundRobin,
    Sticky,
    CooperativeSticky,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subscription {
    Topics(Arc<[TopicIndex]>),
    /// Consumer protocol: resolved by the server. Classic: by the member, whole names.
    Regex {
        pattern: Arc<str>,
        matches: Arc<[TopicIndex]>,
    },
}

impl Subscription {
    /// The topics that are subscribed to, by name or by a pattern.
    pub fn topics(&self) -> &Arc<[TopicIndex]> {
        match self {
            Self::Topics(topics) | Self::Regex { matches: topics, .. } => topics,
        }
    }
}

/// `retry.backoff.ms` and `retry.backoff.max.ms`: doubled for each failure, with 20 % jitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backoff {
    pub initial: Duration,
    pub max: Duration,
}

/// One member: its group, and the properties that are its own.
#[derive(Clone, Debug)]
pub struct MemberPlan {
    pub index: MemberIndex,
    pub group: Arc<GroupPlan>,
    pub client_id: Arc<str>,
    /// `group.instance.id` of static members.
    pub instance_id: Option<Arc<str>>,
    pub rack: Option<Arc<str>>,
    /// The process to which the member belongs as a thread. In a group without threads each member
    /// is a process.
    pub process: u32,
    pub workload: Workload,
}

/// The loads of a member. They run only while it owns partitions.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// Commits the positions of all its partitions, which advance by one each time.
    pub commit: Option<Load>,
    /// Reads the committed offsets of all its partitions.
    pub fetch: Option<Load>,
    /// Consumes the records of all its partitions, and commits how far it has read.
    pub records: Option<Fetching>,
    /// Heartbeats beside those that keep the membership alive.
    pub heartbeat: Option<Load>,
    /// Transactions of a producer; requests, if it is not transactional.
    pub produce: Option<Load>,
}

/// A stream of fetches of records.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fetching {
    pub load: Load,
    /// The most bytes of an answer.
    pub bytes: u32,
}

/// A stream of requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Load {
    /// An open loop: requests a second, on a schedule that does not wait for answers. `None`: a
    /// closed loop, where each answer triggers the next request.
    pub rate: Option<f64>,
    /// The maximum of requests in flight. In an open loop requests beyond it wait, and their
    /// latency counts from when they were due.
    pub in_flight: u32,
    /// Partitions in each request; 0 means all owned partitions.
    pub partitions: u32,
}
