//! Members of groups, as muster-load simulates them.

use super::ClassicId;
use super::streams::plan;
use crate::net::LinkId;
use crate::profile::{ClientProfile, MS, SECOND};
use crate::random::Random;
use loadgen::history::Group;
use loadgen::member::{Destination, Member, Versions};
use loadgen::plan::{
    Backoff, ClassicAssignor, GroupIndex, GroupPlan, Load, MemberIndex, MemberPlan, Partition,
    Protocol, Subscription, TopicIndex, Workload,
};
use loadgen::topics::Topics;
use loadgen::wire;
use muster_codec::ApiKey;
use std::sync::Arc;
use std::time::Duration;

/// A member and its connections.
pub(crate) struct SimMember {
    pub(crate) member: Member,
    /// The number of starts and crashes of the member. An answer is dropped if this number has
    /// changed since the request.
    pub(crate) life: u32,
    pub(crate) links: Vec<(Destination, LinkId)>,
    pub(crate) versions: Versions,
    pub(crate) random: Random,
    /// The time of the member's current timer. Timers that come at another time are outdated.
    pub(crate) armed: u64,
    /// When the member started.
    pub(crate) started_at: u64,
    pub(crate) id: ClassicId,
}

impl SimMember {
    pub(crate) fn new(plan: MemberPlan, random: Random) -> Self {
        Self {
            member: Member::new(plan),
            life: 0,
            links: Vec::new(),
            versions: versions(),
            random,
            armed: u64::MAX,
            started_at: 0,
            id: ClassicId::default(),
        }
    }
}

/// The APIs that the members use.
const APIS: [ApiKey; 9] = [
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::SyncGroup,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::StreamsGroupHeartbeat,
];

/// The groups and members of a run; `has_streams` is whether there may be streams groups.
pub(crate) fn new_members(
    profile: &ClientProfile,
    topics: &Topics,
    has_streams: bool,
    random: &mut Random,
) -> (Vec<Group>, Vec<SimMember>) {
    let mut group = |index| group(index, profile, topics, has_streams, random).into();
    let groups: Vec<Arc<GroupPlan>> = (0..profile.groups).map(&mut group).collect();
    let mut members = Vec::new();
    for index in 0..profile.members {
        let group = groups[random.below(u64::from(profile.groups)) as usize].clone();
        let is_streams = matches!(group.protocol, Protocol::Streams(_));
        let may_be_static = !is_streams && !matches!(group.protocol, Protocol::Manual { .. });
        let is_static = random.chance(0.2) && may_be_static;
        let workload = workload(random);
        let workload = if is_streams { of_streams(workload) } else { workload };
        let plan = MemberPlan {
            index: MemberIndex(index),
            client_id: text(format!("m{index}")),
            instance_id: is_static.then(|| text(format!("i{index}"))),
            rack: None,
            process: index % PROCESSES,
            workload,
            group,
        };
        members.push(SimMember::new(plan, random.fork()));
    }
    (groups.iter().map(|plan| Group::of(plan, topics)).collect(), members)
}

/// The number of processes of a streams group.
const PROCESSES: u32 = 3;

const GROUP_PREFIX: &str = "group-";

/// The simulated members' group with this id; None if it is a group of other clients.
pub(crate) fn member_group(id: &str) -> Option<GroupIndex> {
    id.strip_prefix(GROUP_PREFIX)?.parse().ok().map(GroupIndex)
}

fn text(text: String) -> Arc<str> {
    Arc::from(text)
}

fn group(
    index: u32,
    profile: &ClientProfile,
    topics: &Topics,
    has_streams: bool,
    random: &mut Random,
) -> GroupPlan {
    let count = topics.iter().count() as u64;
    let first = random.below(count) as u32;
    let last = random.between(u64::from(first), count - 1) as u32;
    let subscribed: Arc<[TopicIndex]> = (first..=last).map(TopicIndex).collect();
    let micros = Duration::from_micros;
    GroupPlan {
        index: GroupIndex(index),
        id: text(format!("{GROUP_PREFIX}{index}")),
        protocol: protocol(index, &subscribed, topics, has_streams, random),
        subscription: Subscription::Topics(subscribed),
        session_timeout: micros(profile.session_timeout),
        heartbeat_interval: micros(profile.heartbeat_interval),
        rebalance_timeout: micros(profile.rebalance_timeout),
        revocation_takes: micros(random.pick(&[0, 0, 500 * MS])),
        fetches_on_assignment: random.chance(0.7),
        backoff: Backoff { initial: micros(100 * MS), max: micros(SECOND) },
    }
}

fn protocol(
    group: u32,
    subscribed: &[TopicIndex],
    topics: &Topics,
    has_streams: bool,
    random: &mut Random,
) -> Protocol {
    use ClassicAssignor::{CooperativeSticky, Range, RoundRobin, Sticky};
    let classic = |assignors: &[ClassicAssignor]| Protocol::Classic { assignors: assignors.into() };
    let consumer =
        |assignor: Option<&'static str>| Protocol::Consumer { assignor: assignor.map(Arc::from) };
    match random.below(11) {
        0 => classic(&[Range]),
        1 => classic(&[CooperativeSticky]),
        2 => classic(&[Sticky, RoundRobin]),
        3 | 4 => consumer(None),
        5 => consumer(Some("range")),
        6 => consumer(Some("uniform")),
        7..10 if has_streams => Protocol::Streams(plan(group, random)),
        7..10 => consumer(None),
        _ => {
            let of = |topic: &TopicIndex| {
                let topic = *topic;
                (0..topics.partitions(topic)).map(move |number| Partition { topic, number })
            };
            Protocol::Manual { partitions: subscribed.iter().flat_map(of).collect() }
        }
    }
}

fn workload(random: &mut Random) -> Workload {
    let mut load = |rates: &[f64]| {
        let rate = random.pick(rates);
        (rate > 0.0).then_some(Load { rate: Some(rate), in_flight: 1, partitions: 0 })
    };
    Workload {
        commit: load(&[0.0, 0.5, 2.0]),
        fetch: load(&[0.0, 0.2, 1.0]),
        heartbeat: load(&[0.0, 0.0, 1.0]),
        ..Workload::default()
    }
}

/// Members of streams groups commit nothing.
fn of_streams(workload: Workload) -> Workload {
    Workload { commit: None, fetch: None, ..workload }
}

pub(crate) fn is_static_cooperative(sim: &SimMember) -> bool {
    let plan = sim.member.plan();
    let cooperative = match &plan.group.protocol {
        Protocol::Classic { assignors } => assignors.contains(&ClassicAssignor::CooperativeSticky),
        Protocol::Consumer { .. }
        | Protocol::Manual { .. }
        | Protocol::Producer(_)
        | Protocol::Reader(_)
        | Protocol::Share(_)
        | Protocol::Streams(_) => false,
    };
    cooperative && plan.instance_id.is_some()
}

/// The highest version of each API that the members know. The server supports all of them.
fn versions() -> Versions {
    let mut versions = Versions::default();
    for api in APIS {
        versions.set(api, *wire::versions(api).end());
    }
    versions
}
