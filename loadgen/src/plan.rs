//! The plans of groups and members. They are made from a scenario before the members start, and
//! shared by the members, the checks and the report.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The index of a group of the run.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct GroupIndex(pub u32);

/// The index of a member of the run, which is one simulated process. A restart keeps the index.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MemberIndex(pub u32);

/// The index of a topic of the run, in the order in which [`crate::topics::Topics`] learned the
/// topics.
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
    /// The session timeout. Classic members send it as `session.timeout.ms`. In all other groups
    /// the server chooses it, and usually reports it before the run starts. If it does not, this is
    /// the value that the checks assume.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms` of classic members. Members of other groups get their interval in
    /// each answer to a heartbeat. In these groups, this is the time after which all members have
    /// learned of a change.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`, the rebalance timeout that members send.
    pub rebalance_timeout: Duration,
    /// How long a member takes to give up partitions, like the rebalance listener of a real client.
    pub revocation_takes: Duration,
    /// Whether a member fetches the committed offsets of newly assigned partitions, as consumers
    /// do.
    pub fetches_on_assignment: bool,
    pub backoff: Backoff,
}

/// How members get their partitions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// JoinGroup and SyncGroup assign them. The member's first assignor is the one that it prefers.
    /// The group uses an assignor that all members have.
    Classic { assignors: Vec<ClassicAssignor> },
    /// ConsumerGroupHeartbeat assigns them (KIP-848). `None` leaves the assignor to the server.
    Consumer { assignor: Option<Arc<str>> },
    /// The client is not a member of the group, but commits and fetches the group's offsets for
    /// these partitions.
    Manual { partitions: Arc<[Partition]> },
    /// No group: the client produces records.
    Producer(ProducerPlan),
    /// No group: the client reads the records that producers write.
    Reader(ReaderPlan),
    /// ShareGroupHeartbeat assigns them (KIP-932). Members acquire and acknowledge records.
    Share(SharePlan),
    /// StreamsGroupHeartbeat assigns the tasks of a topology (KIP-1071).
    Streams(StreamsPlan),
}

impl Protocol {
    /// Whether the clients are members of a group that rebalances.
    pub fn has_members(&self) -> bool {
        matches!(
            self,
            Self::Classic { .. } | Self::Consumer { .. } | Self::Share(_) | Self::Streams(_)
        )
    }

    /// Whether the clients have a group at the coordinator, which can be deleted after the run.
    pub fn is_group(&self) -> bool {
        self.commits() || matches!(self, Self::Share(_) | Self::Streams(_))
    }

    /// Whether the clients commit offsets of the group.
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

/// The records that a producer writes. All producers of one table of the scenario have this plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProducerPlan {
    pub partitions: Arc<[Partition]>,
    pub delivery: Delivery,
    /// The number of records in each batch.
    pub records: u32,
    /// The size of each value in bytes.
    pub record_size: u32,
    /// The time at which the run began, counted from 1970. Records get their timestamps from it.
    pub began: Duration,
    /// Whether readers or members read records of its topics. If so, its records have numbers.
    pub is_read: bool,
}

/// The partitions of a reader, which reads all of them, and its isolation level.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReaderPlan {
    pub partitions: Arc<[Partition]>,
    pub isolation: Isolation,
}

/// How the members of a share group process the records that they acquire.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SharePlan {
    pub acquire: Acquire,
    pub acknowledge: AcknowledgeBy,
    /// `max.poll.records`, the maximum number of records in a fetch.
    pub max_records: u32,
    /// How long a member takes to process the records of a fetch, before it acknowledges them.
    pub takes: Duration,
    /// How many members in a million are slow.
    pub slow: u32,
    /// How long a slow member takes, instead of `takes`.
    pub slow_takes: Duration,
    pub poison: Option<Poison>,
    /// `share.delivery.count.limit` of the group.
    pub delivery_limit: u32,
}

/// An application of Kafka Streams, whose threads are the members.
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
    /// The number of tasks, over all subtopologies.
    pub fn tasks(&self) -> u32 {
        self.subtopologies.iter().map(|subtopology| subtopology.tasks).sum()
    }
}

/// A part of a topology. The number of its tasks is the largest partition count of the topics that
/// it reads. Its id is its index.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Subtopology {
    /// The names of the topics that it reads.
    pub sources: Vec<String>,
    pub changelogs: Vec<InternalTopic>,
    /// The names of the repartition topics that it writes to.
    pub sinks: Vec<String>,
    /// The repartition topics that it reads.
    pub repartitions: Vec<InternalTopic>,
    /// Whether all topics that it reads must have equal partition counts, as for a join.
    pub copartitioned: bool,
    pub tasks: u32,
}

/// A topic that the coordinator creates for the application.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InternalTopic {
    pub name: String,
    /// The partition count. 0 leaves it to the coordinator.
    pub partitions: u32,
}

/// The records that no member can process: in each partition, one of every `one_in` records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Poison {
    pub one_in: u32,
    pub how: PoisonIs,
}

/// How a member acknowledges a record that it cannot process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoisonIs {
    /// The member releases the record each time, until the delivery limit is reached.
    #[default]
    Released,
    Rejected,
}

/// `share.acquire.mode`, with its number in ShareFetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acquire {
    /// The broker may return more records than the member asked for: up to the end of a batch.
    #[default]
    BatchOptimized = 0,
    /// The broker returns no more records than the member asked for.
    RecordLimit = 1,
}

/// The request with which a member acknowledges records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AcknowledgeBy {
    /// A ShareAcknowledge for each acquired batch.
    #[default]
    Batch,
    /// A ShareAcknowledge for each record.
    Record,
    /// The member's next ShareFetch, for all records (the implicit mode of the Java client).
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

/// The guarantee that a producer gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Batches have no producer id. So a batch that is sent again may be written twice.
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
    /// The number of partitions whose offsets each transaction commits.
    pub offsets: u32,
    /// How many transactions in a million are aborted.
    pub aborts: u32,
}

/// The transaction protocol, by the cluster's `transaction.version`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TransactionVersion {
    /// AddPartitionsToTxn and AddOffsetsToTxn add the partitions first.
    One,
    /// Produce and TxnOffsetCommit add their partitions, and each EndTxn raises the epoch
    /// (KIP-890).
    Two,
}

/// The assignors of the classic protocol, which the leader runs. The names are Kafka's.
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
    /// A pattern. In the consumer protocol the server finds the topics that match. In the classic
    /// protocol the member does, and the pattern must match the whole name of a topic.
    Regex {
        pattern: Arc<str>,
        matches: Arc<[TopicIndex]>,
    },
}

impl Subscription {
    /// The subscribed topics. For a pattern, these are the topics that match it.
    pub fn topics(&self) -> &Arc<[TopicIndex]> {
        match self {
            Self::Topics(topics) | Self::Regex { matches: topics, .. } => topics,
        }
    }
}

/// `retry.backoff.ms` and `retry.backoff.max.ms`: the back-off doubles with each failure, and has
/// 20 % jitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backoff {
    pub initial: Duration,
    pub max: Duration,
}

/// The plan of one member: its group, and its own properties.
#[derive(Clone, Debug)]
pub struct MemberPlan {
    pub index: MemberIndex,
    pub group: Arc<GroupPlan>,
    pub client_id: Arc<str>,
    /// `group.instance.id` of static members.
    pub instance_id: Option<Arc<str>>,
    pub rack: Option<Arc<str>>,
    /// The process to which this member belongs. In a streams group, several members may be threads
    /// of one process. In other groups each member is a process of its own.
    pub process: u32,
    pub workload: Workload,
}

/// The loads of a member. All except `produce` run only while the member owns partitions.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// Commits positions of owned partitions. Each commit advances its positions by one.
    pub commit: Option<Load>,
    /// Fetches committed offsets of owned partitions.
    pub fetch: Option<Load>,
    /// Reads the records of all owned partitions. Then `commit` commits the offsets that were read,
    /// instead of positions that advance by one.
    pub records: Option<Fetching>,
    /// Sends heartbeats in addition to those that keep the membership alive.
    pub heartbeat: Option<Load>,
    /// Writes rounds of batches. Each round of a transactional producer is a transaction.
    pub produce: Option<Load>,
}

/// A load of fetches of records.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fetching {
    pub load: Load,
    /// The maximum size of an answer in bytes.
    pub bytes: u32,
}

/// A load of requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Requests per second in an open loop, whose schedule does not wait for answers. `None` for a
    /// closed loop, in which each answer triggers the next request.
    pub rate: Option<f64>,
    /// The maximum number of requests in flight. In an open loop further requests wait, and their
    /// latency counts from when they were due.
    pub in_flight: u32,
    /// The number of partitions in each request. 0 means all owned partitions.
    pub partitions: u32,
}
