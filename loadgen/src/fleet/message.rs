//! The messages to a worker, and its answers. ([`super::report`] has the content of its reports.)
//! The worker checks each message, so that no order can exceed the limits of a run.

use std::sync::Arc;
use std::time::Duration;

use muster_codec::Uuid;
use serde::{Deserialize, Serialize};

use crate::driver::command::{Cluster, Command, Task};
use crate::event::Stop;
use crate::plan::{
    GroupIndex, GroupPlan, Load, MemberIndex, MemberPlan, ProducerPlan, Protocol, SharePlan,
    Workload,
};
use crate::time::Time;
use crate::topics;

/// The maximum number of members, and of topics, that a worker accepts.
const MEMBERS_MAX: u32 = 10_000_000;
const TOPICS_MAX: usize = 1_000_000;
const IN_FLIGHT_MAX: u32 = 1_000_000;
const RATE_MAX: f64 = 1e7;
/// The maximum size of a batch of records in bytes.
const BATCH_BYTES_MAX: u64 = 16 << 20;
/// The maximum size in bytes of a fetch by a member that consumes.
const FETCH_BYTES_MAX: u32 = 16 << 20;
/// The maximum number of records in a fetch of a share group.
const RECORDS_MAX: u32 = 1_000_000;
/// The minimum heartbeat interval and backoff.
const SPAN_MIN: Duration = Duration::from_millis(1);
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// The size of the run. It is sent before the worker connects to the cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Begin {
    pub seed: u64,
    pub members_per_connection: u32,
    /// The number of members of the whole run.
    pub members: u32,
    /// The number of connections of the whole run.
    pub connections: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    Begin(Begin),
    /// Asks for the time of the worker. The answer repeats `asked`.
    Time {
        asked: Time,
    },
    /// The plan of a group. It is sent before the first `Start` of one of the group's members.
    Group(GroupPlan),
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
    Subscribe {
        core: usize,
        at: Time,
        member: MemberIndex,
        group: Box<GroupPlan>,
    },
    Topics {
        core: usize,
        topics: Vec<Topic>,
    },
    Task {
        core: usize,
        id: u64,
        task: Task,
    },
    End {
        core: usize,
    },
}

/// The answers of a worker, including reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Ready(Box<Ready>),
    /// The worker does not begin, for this reason.
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
pub(super) struct Member {
    index: MemberIndex,
    pub(super) group: GroupIndex,
    client_id: Arc<str>,
    instance_id: Option<Arc<str>>,
    rack: Option<Arc<str>>,
    process: u32,
    workload: Workload,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Topic {
    name: Arc<str>,
    id: [u8; 16],
    partitions: u32,
}

impl Begin {
    /// Returns this message for worker `number`, with a seed of its own: members of consumer groups
    /// choose random ids from the seed, and two workers must not choose the same ids.
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

/// # Errors
/// A value of the plan is out of bounds.
pub(super) fn check_group(plan: &GroupPlan) -> Result<(), String> {
    let spans = [plan.heartbeat_interval, plan.backoff.initial, plan.backoff.max];
    let long = [plan.session_timeout, plan.rebalance_timeout, plan.revocation_takes];
    let bounded = spans.iter().all(|span| (SPAN_MIN..=SPAN_MAX).contains(span))
        && long.iter().all(|span| *span <= SPAN_MAX);
    if !bounded {
        return Err(format!("a time of group {} is out of bounds", plan.id));
    }
    match &plan.protocol {
        Protocol::Classic { assignors } if assignors.is_empty() => {
            Err(format!("group {} has no assignor", plan.id))
        }
        Protocol::Producer(producer) => check_producer(producer),
        Protocol::Share(share) => check_share(share),
        Protocol::Classic { .. }
        | Protocol::Consumer { .. }
        | Protocol::Manual { .. }
        | Protocol::Reader(_)
        | Protocol::Streams(_) => Ok(()),
    }
}

impl Member {
    fn of(plan: &MemberPlan) -> Self {
        Self {
            index: plan.index,
            group: plan.group.index,
            client_id: plan.client_id.clone(),
            instance_id: plan.instance_id.clone(),
            rack: plan.rack.clone(),
            process: plan.process,
            workload: plan.workload,
        }
    }

    /// # Errors
    /// A value of the plan is out of bounds.
    pub(super) fn plan(self, group: Arc<GroupPlan>, begin: &Begin) -> Result<MemberPlan, String> {
        check_member(self.index, begin)?;
        check_workload(&self.workload)?;
        Ok(MemberPlan {
            index: self.index,
            group,
            client_id: self.client_id,
            instance_id: self.instance_id,
            rack: self.rack,
            process: self.process,
            workload: self.workload,
        })
    }
}

pub(super) fn check_member(member: MemberIndex, begin: &Begin) -> Result<(), String> {
    if member.0 < begin.members { Ok(()) } else { Err(format!("there is no member {}", member.0)) }
}

pub(super) fn check_workload(workload: &Workload) -> Result<(), String> {
    let Workload { commit, fetch, records, heartbeat, produce } = *workload;
    let loads = [commit, fetch, records.map(|records| records.load), heartbeat, produce];
    let bounded = |load: &Load| {
        let rate = load.rate.is_none_or(|rate| rate > 0.0 && rate <= RATE_MAX);
        rate && (1..=IN_FLIGHT_MAX).contains(&load.in_flight)
    };
    let bytes = records.is_none_or(|records| (1..=FETCH_BYTES_MAX).contains(&records.bytes));
    if bytes && loads.iter().flatten().all(bounded) {
        Ok(())
    } else {
        Err("a load is out of bounds".into())
    }
}

/// Checks a producer, whose batches are built in memory.
fn check_producer(plan: &ProducerPlan) -> Result<(), String> {
    let bytes = u64::from(plan.records) * u64::from(plan.record_size.max(1));
    if plan.records > 0 && bytes <= BATCH_BYTES_MAX {
        Ok(())
    } else {
        Err("a batch of records is out of bounds".into())
    }
}

/// Checks the limits of a share group: its members hold the records of a whole fetch in memory.
fn check_share(plan: &SharePlan) -> Result<(), String> {
    let spans = [plan.takes, plan.slow_takes];
    if (1..=RECORDS_MAX).contains(&plan.max_records) && spans.iter().all(|it| *it <= SPAN_MAX) {
        Ok(())
    } else {
        Err("the records of a share group are out of bounds".into())
    }
}

impl Order {
    /// Converts a command to an order for `core`. Before a `Start`, its group's plan must be sent.
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
            Command::Subscribe { at, member, group } => {
                let group = Box::new(GroupPlan::clone(group));
                Self::Subscribe { core, at: *at, member: *member, group }
            }
            Command::Topics(all) => Self::Topics { core, topics: Topic::all(all) },
            Command::Task { id, task } => Self::Task { core, id: *id, task: task.clone() },
            Command::End => Self::End { core },
        }
    }
}

impl Topic {
    pub(super) fn all(topics: &topics::Topics) -> Vec<Self> {
        let all = topics.iter().map(|(_, topic)| Self {
            name: topic.name.clone(),
            id: topic.id.0,
            partitions: topic.partitions,
        });
        all.collect()
    }

    /// # Errors
    /// There are too many topics.
    pub(super) fn learned(all: Vec<Self>) -> Result<Arc<topics::Topics>, String> {
        if all.len() > TOPICS_MAX {
            return Err(format!("{} topics are too many", all.len()));
        }
        let mut topics = topics::Topics::default();
        for Self { name, id, partitions } in all {
            topics.learn(topics::Topic { name, id: Uuid(id), partitions });
        }
        Ok(Arc::new(topics))
    }
}
