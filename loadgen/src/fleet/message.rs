//! Messages to a worker, and its answers before it reports. The worker checks what it is sent: an
//! order must not cost it more than the run may.

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::protocol::StrBytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::driver::command::{Cluster, Command, Task};
use crate::event::Stop;
use crate::plan::{
    self, Backoff, ClassicAssignor, GroupIndex, GroupPlan, Load, MemberIndex, MemberPlan,
    Partition, ProducerPlan, ReaderPlan, SharePlan, StreamsPlan, TopicIndex, Workload,
};
use crate::time::Time;
use crate::topics;

/// The most members, connections and topics that a worker takes on.
const MEMBERS_MAX: u32 = 10_000_000;
const TOPICS_MAX: usize = 1_000_000;
const IN_FLIGHT_MAX: u32 = 1_000_000;
const RATE_MAX: f64 = 1e7;
/// The bytes of the records of a batch.
const BATCH_BYTES_MAX: u64 = 16 << 20;
/// The records of a fetch of a share group.
const RECORDS_MAX: u32 = 1_000_000;
/// The shortest heartbeat interval and backoff.
const SPAN_MIN: Duration = Duration::from_millis(1);
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// The size of the run, before the worker connects.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Begin {
    pub seed: u64,
    pub members_per_connection: u32,
    /// The members of the whole run, and its connections.
    pub members: u32,
    pub connections: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    Begin(Begin),
    /// Asks for the time of the worker; the answer has `asked`, too.
    Time {
        asked: Time,
    },
    /// Stands before the first start of one of its members.
    Group(Group),
    Start {
        core: usize,
        at: Time,
        member: Member,
    },
    Stop {
        core: usize,
        at: Time,
        member: MemberIndex,
        how: Stop,
    },
    Work {
        core: usize,
        member: MemberIndex,
        workload: Workload,
    },
    Topics {
        core: usize,
        topics: Vec<Topic>,
    },
    Task {
        core: usize,
        id: u64,
        task: Job,
    },
    End {
        core: usize,
    },
}

/// Answers besides reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Ready(Box<Ready>),
    /// Why the worker does not begin.
    Refused(String),
    Time {
        asked: Time,
        theirs: Time,
    },
    Report(Box<super::report::Report>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) host: String,
    pub(super) cores: usize,
    pub(super) bootstrap: Vec<String>,
    pub(super) cluster: Cluster,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Group {
    index: GroupIndex,
    id: String,
    protocol: Protocol,
    pattern: Option<String>,
    topics: Arc<[TopicIndex]>,
    session_timeout: Duration,
    heartbeat_interval: Duration,
    rebalance_timeout: Duration,
    revocation_takes: Duration,
    fetches_on_assignment: bool,
    backoff: Backoff,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Protocol {
    Classic { assignors: Vec<ClassicAssignor> },
    Consumer { assignor: Option<String> },
    Manual { partitions: Arc<[Partition]> },
    Producer(ProducerPlan),
    Reader(ReaderPlan),
    Share(SharePlan),
    Streams(StreamsPlan),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Member {
    index: MemberIndex,
    pub(super) group: GroupIndex,
    client_id: String,
    instance_id: Option<String>,
    rack: Option<String>,
    process: u32,
    workload: Workload,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Topic {
    name: String,
    id: [u8; 16],
    partitions: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Job {
    EnsureTopics { topics: Vec<(String, u32)>, replication: i16 },
    AwaitCoordinator { id: String, transactions: bool },
    FindLeftovers { prefix: String },
    DeleteTopics { topics: Vec<String> },
    DeleteGroup { group: GroupIndex, id: String },
    ReadOffsets { group: GroupIndex, id: String, partitions: Arc<[Partition]> },
    ReadStartOffsets { group: GroupIndex, id: String, partitions: Arc<[Partition]> },
    ConfigureGroup { id: String, configs: Vec<(String, String)> },
}

impl Begin {
    /// Members of consumer groups choose their own ids at random: no two workers may choose alike.
    pub(super) fn of_worker(&self, number: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(self.seed);
        (0..number).for_each(|_| {
            random.u64(..);
        });
        Self { seed: random.u64(..), ..*self }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.members <= MEMBERS_MAX && self.members_per_connection > 0 {
            Ok(())
        } else {
            Err("it has too many members, or no connections for them".into())
        }
    }
}

impl Group {
    pub(super) fn of(plan: &GroupPlan) -> Self {
        let protocol = match &plan.protocol {
            plan::Protocol::Classic { assignors } => {
                Protocol::Classic { assignors: assignors.clone() }
            }
            plan::Protocol::Consumer { assignor } => {
                Protocol::Consumer { assignor: assignor.as_ref().map(text) }
            }
            plan::Protocol::Manual { partitions } => {
                Protocol::Manual { partitions: Arc::clone(partitions) }
            }
            plan::Protocol::Producer(plan) => Protocol::Producer(plan.clone()),
            plan::Protocol::Reader(plan) => Protocol::Reader(plan.clone()),
            plan::Protocol::Share(plan) => Protocol::Share(plan.clone()),
            plan::Protocol::Streams(plan) => Protocol::Streams(plan.clone()),
        };
        let pattern = match &plan.subscription {
            plan::Subscription::Topics(_) => None,
            plan::Subscription::Regex { pattern, .. } => Some(text(pattern)),
        };
        Self {
            index: plan.index,
            id: text(&plan.id),
            protocol,
            pattern,
            topics: Arc::clone(plan.subscription.topics()),
            session_timeout: plan.session_timeout,
            heartbeat_interval: plan.heartbeat_interval,
            rebalance_timeout: plan.rebalance_timeout,
            revocation_takes: plan.revocation_takes,
            fetches_on_assignment: plan.fetches_on_assignment,
            backoff: plan.backoff,
        }
    }

    /// # Errors
    /// Something of it is out of bounds.
    pub(super) fn plan(self) -> Result<GroupPlan, String> {
        let spans = [self.heartbeat_interval, self.backoff.initial, self.backoff.max];
        let long = [self.session_timeout, self.rebalance_timeout, self.revocation_takes];
        let bounded = spans.iter().all(|span| (SPAN_MIN..=SPAN_MAX).contains(span))
            && long.iter().all(|span| *span <= SPAN_MAX);
        if !bounded {
            return Err(format!("a time of group {} is out of bounds", self.id));
        }
        let protocol = match self.protocol {
            Protocol::Classic { assignors } if assignors.is_empty() => {
                return Err(format!("group {} has no assignor", self.id));
            }
            Protocol::Classic { assignors } => plan::Protocol::Classic { assignors },
            Protocol::Consumer { assignor } => {
                plan::Protocol::Consumer { assignor: assignor.map(Into::into) }
            }
            Protocol::Manual { partitions } => plan::Protocol::Manual { partitions },
            Protocol::Producer(plan) => plan::Protocol::Producer(check_producer(plan)?),
            Protocol::Reader(plan) => plan::Protocol::Reader(plan),
            Protocol::Share(plan) => plan::Protocol::Share(check_share(plan)?),
            Protocol::Streams(plan) => plan::Protocol::Streams(plan),
        };
        let subscription = match self.pattern {
            None => plan::Subscription::Topics(self.topics),
            Some(pattern) => {
                plan::Subscription::Regex { pattern: pattern.into(), matches: self.topics }
            }
        };
        Ok(GroupPlan {
            index: self.index,
            id: self.id.into(),
            protocol,
            subscription,
            session_timeout: self.session_timeout,
            heartbeat_interval: self.heartbeat_interval,
            rebalance_timeout: self.rebalance_timeout,
            revocation_takes: self.revocation_takes,
            fetches_on_assignment: self.fetches_on_assignment,
            backoff: self.backoff,
        })
    }
}

impl Member {
    fn of(plan: &MemberPlan) -> Self {
        Self {
            index: plan.index,
            group: plan.group.index,
            client_id: text(&plan.client_id),
            instance_id: plan.instance_id.as_ref().map(text),
            rack: plan.rack.as_ref().map(text),
            process: plan.process,
            workload: plan.workload,
        }
    }

    /// # Errors
    /// Something of it is out of bounds.
    pub(super) fn plan(self, group: Arc<GroupPlan>, begin: &Begin) -> Result<MemberPlan, String> {
        check_member(self.index, begin)?;
        check_workload(&self.workload)?;
        Ok(MemberPlan {
            index: self.index,
            group,
            client_id: self.client_id.into(),
            instance_id: self.instance_id.map(Into::into),
            rack: self.rack.map(Into::into),
            process: self.process,
            workload: self.workload,
        })
    }
}

pub(super) fn check_member(member: MemberIndex, begin: &Begin) -> Result<(), String> {
    if member.0 < begin.members { Ok(()) } else { Err(format!("there is no member {}", member.0)) }
}

pub(super) fn check_workload(workload: &Workload) -> Result<(), String> {
    let Workload { commit, fetch, heartbeat, produce } = *workload;
    let loads = [commit, fetch, heartbeat, produce];
    let bounded = |load: &Load| {
        let rate = load.rate.is_none_or(|rate| rate > 0.0 && rate <= RATE_MAX);
        rate && (1..=IN_FLIGHT_MAX).contains(&load.in_flight)
    };
    if loads.iter().flatten().all(bounded) { Ok(()) } else { Err("a load is out of bounds".into()) }
}

/// The batches of a producer are made in memory.
fn check_producer(plan: ProducerPlan) -> Result<ProducerPlan, String> {
    let bytes = u64::from(plan.records) * u64::from(plan.record_size.max(1));
    if plan.records > 0 && bytes <= BATCH_BYTES_MAX {
        Ok(plan)
    } else {
        Err("a batch of records is out of bounds".into())
    }
}

/// The records that a fetch acquires are kept, too.
fn check_share(plan: SharePlan) -> Result<SharePlan, String> {
    let spans = [plan.takes, plan.slow_takes];
    if (1..=RECORDS_MAX).contains(&plan.max_records) && spans.iter().all(|it| *it <= SPAN_MAX) {
        Ok(plan)
    } else {
        Err("the records of a share group are out of bounds".into())
    }
}

impl Order {
    /// The order for a command to this core. Its group was sent before.
    pub(super) fn of(core: usize, command: &Command) -> Self {
        match command {
            Command::Start { at, member } => {
                Self::Start { core, at: *at, member: Member::of(member) }
            }
            Command::Stop { at, member, how } => {
                Self::Stop { core, at: *at, member: *member, how: *how }
            }
            Command::Work { member, workload } => {
                Self::Work { core, member: *member, workload: *workload }
            }
            Command::Topics(all) => Self::Topics { core, topics: Topic::all(all) },
            Command::Task { id, task } => Self::Task { core, id: *id, task: Job::of(task) },
            Command::End => Self::End { core },
        }
    }
}

impl Topic {
    pub(super) fn all(topics: &topics::Topics) -> Vec<Self> {
        let all = topics.iter().map(|(_, topic)| Self {
            name: text(&topic.name),
            id: topic.id.into_bytes(),
            partitions: topic.partitions,
        });
        all.collect()
    }

    /// # Errors
    /// There are too many.
    pub(super) fn learned(all: Vec<Self>) -> Result<Arc<topics::Topics>, String> {
        if all.len() > TOPICS_MAX {
            return Err(format!("{} topics are too many", all.len()));
        }
        let mut topics = topics::Topics::default();
        for Self { name, id, partitions } in all {
            let (name, id) = (name.into(), Uuid::from_bytes(id));
            topics.learn(topics::Topic { name, id, partitions });
        }
        Ok(Arc::new(topics))
    }
}

impl Job {
    fn of(task: &Task) -> Self {
        match task {
            Task::EnsureTopics { topics, replication } => Self::EnsureTopics {
                topics: topics.iter().map(|(name, count)| (text(name), *count)).collect(),
                replication: *replication,
            },
            Task::AwaitCoordinator { id, transactions } => {
                Self::AwaitCoordinator { id: text(id), transactions: *transactions }
            }
            Task::FindLeftovers { prefix } => Self::FindLeftovers { prefix: text(prefix) },
            Task::DeleteTopics { topics } => {
                Self::DeleteTopics { topics: topics.iter().map(text).collect() }
            }
            Task::DeleteGroup { group, id } => Self::DeleteGroup { group: *group, id: text(id) },
            Task::ReadOffsets { group, id, partitions } => Self::ReadOffsets {
                group: *group,
                id: text(id),
                partitions: Arc::clone(partitions),
            },
            Task::ReadStartOffsets { group, id, partitions } => Self::ReadStartOffsets {
                group: *group,
                id: text(id),
                partitions: Arc::clone(partitions),
            },
            Task::ConfigureGroup { id, configs } => {
                Self::ConfigureGroup { id: text(id), configs: configs.clone() }
            }
        }
    }

    pub(super) fn task(self) -> Task {
        match self {
            Self::EnsureTopics { topics, replication } => Task::EnsureTopics {
                topics: topics.into_iter().map(|(name, count)| (name.into(), count)).collect(),
                replication,
            },
            Self::AwaitCoordinator { id, transactions } => {
                Task::AwaitCoordinator { id: id.into(), transactions }
            }
            Self::FindLeftovers { prefix } => Task::FindLeftovers { prefix: prefix.into() },
            Self::DeleteTopics { topics } => {
                Task::DeleteTopics { topics: topics.into_iter().map(Into::into).collect() }
            }
            Self::DeleteGroup { group, id } => Task::DeleteGroup { group, id: id.into() },
            Self::ReadOffsets { group, id, partitions } => {
                Task::ReadOffsets { group, id: id.into(), partitions }
            }
            Self::ReadStartOffsets { group, id, partitions } => {
                Task::ReadStartOffsets { group, id: id.into(), partitions }
            }
            Self::ConfigureGroup { id, configs } => Task::ConfigureGroup { id: id.into(), configs },
        }
    }
}

pub(super) fn text(bytes: &StrBytes) -> String {
    bytes.as_str().to_owned()
}
