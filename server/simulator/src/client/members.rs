//! Members of groups, as muster-load simulates them, and the comings and goings of them.

use super::links::Ready;
use crate::event::TimedEvent;
use crate::net::{Asked, LinkId, Owner};
use crate::process::FIRST_PORT;
use crate::profile::{ClientProfile, MS, SECOND};
use crate::random::Random;
use crate::world::World;
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupHeartbeatRequest, FindCoordinatorRequest, HeartbeatRequest,
    JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::{Message, StrBytes, VersionRange};
use loadgen::event::{EventKind, Stop};
use loadgen::history::Group;
use loadgen::member::{
    Answer, Context, Destination, Failure, Member, Outgoing, Output, Request, State, Versions,
};
use loadgen::plan::{
    Backoff, ClassicAssignor, GroupIndex, GroupPlan, Load, MemberIndex, MemberPlan, Partition,
    Protocol, Subscription, TopicIndex, Workload,
};
use loadgen::time::Time;
use loadgen::topics::Topics;
use loadgen::wire;
use std::sync::Arc;
use std::time::Duration;

/// A member and its connections.
pub(crate) struct MemberSeat {
    pub(crate) member: Member,
    /// Counts the starts: an answer to a former life is nobody's.
    pub(crate) life: u32,
    pub(crate) links: Vec<(Destination, LinkId)>,
    versions: Versions,
    random: Random,
    /// The timer that is meant; others are from before.
    armed: u64,
    /// In which life of the server it started, and when.
    started_in: u32,
    started_at: u64,
}

const APIS: [(ApiKey, VersionRange); 8] = [
    (ApiKey::FindCoordinator, FindCoordinatorRequest::VERSIONS),
    (ApiKey::JoinGroup, JoinGroupRequest::VERSIONS),
    (ApiKey::SyncGroup, SyncGroupRequest::VERSIONS),
    (ApiKey::Heartbeat, HeartbeatRequest::VERSIONS),
    (ApiKey::LeaveGroup, LeaveGroupRequest::VERSIONS),
    (ApiKey::OffsetCommit, OffsetCommitRequest::VERSIONS),
    (ApiKey::OffsetFetch, OffsetFetchRequest::VERSIONS),
    (ApiKey::ConsumerGroupHeartbeat, ConsumerGroupHeartbeatRequest::VERSIONS),
];

/// The groups and members of a run.
pub(crate) fn seat_members(
    profile: &ClientProfile,
    topics: &Topics,
    random: &mut Random,
) -> (Vec<Group>, Vec<MemberSeat>) {
    let groups: Vec<Arc<GroupPlan>> =
        (0..profile.groups).map(|index| group(index, profile, topics, random).into()).collect();
    let mut seats = Vec::new();
    for index in 0..profile.members {
        let group = groups[random.below(u64::from(profile.groups)) as usize].clone();
        let is_static = random.chance(0.2) && !matches!(group.protocol, Protocol::Manual { .. });
        let plan = MemberPlan {
            index: MemberIndex(index),
            client_id: text(format!("m{index}")),
            instance_id: is_static.then(|| text(format!("i{index}"))),
            rack: None,
            workload: workload(random),
            group,
        };
        seats.push(MemberSeat {
            member: Member::new(plan),
            life: 0,
            links: Vec::new(),
            versions: versions(),
            random: random.fork(),
            armed: u64::MAX,
            started_in: 0,
            started_at: 0,
        });
    }
    (groups.iter().map(|plan| Group::of(plan, topics)).collect(), seats)
}

const GROUP_PREFIX: &str = "group-";

/// The group of members that has this id.
pub(crate) fn member_group(id: &str) -> Option<GroupIndex> {
    id.strip_prefix(GROUP_PREFIX)?.parse().ok().map(GroupIndex)
}

fn text(text: String) -> StrBytes {
    StrBytes::from_string(text)
}

fn group(index: u32, profile: &ClientProfile, topics: &Topics, random: &mut Random) -> GroupPlan {
    let count = topics.iter().count() as u64;
    let first = random.below(count) as u32;
    let last = random.between(u64::from(first), count - 1) as u32;
    let subscribed: Arc<[TopicIndex]> = (first..=last).map(TopicIndex).collect();
    let micros = Duration::from_micros;
    GroupPlan {
        index: GroupIndex(index),
        id: text(format!("{GROUP_PREFIX}{index}")),
        protocol: protocol(&subscribed, topics, random),
        subscription: Subscription::Topics(subscribed),
        session_timeout: micros(profile.session_timeout),
        heartbeat_interval: micros(profile.heartbeat_interval),
        rebalance_timeout: micros(profile.rebalance_timeout),
        revocation_takes: micros(random.pick(&[0, 0, 500 * MS])),
        fetches_on_assignment: random.chance(0.7),
        backoff: Backoff { initial: micros(100 * MS), max: micros(SECOND) },
    }
}

fn protocol(subscribed: &[TopicIndex], topics: &Topics, random: &mut Random) -> Protocol {
    use ClassicAssignor::{CooperativeSticky, Range, RoundRobin, Sticky};
    let classic = |assignors: &[ClassicAssignor]| Protocol::Classic { assignors: assignors.into() };
    let consumer = |assignor: Option<&'static str>| Protocol::Consumer {
        assignor: assignor.map(StrBytes::from_static_str),
    };
    match random.below(8) {
        0 => classic(&[Range]),
        1 => classic(&[CooperativeSticky]),
        2 => classic(&[Sticky, RoundRobin]),
        3 | 4 => consumer(None),
        5 => consumer(Some("range")),
        6 => consumer(Some("uniform")),
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
    }
}

fn is_static_cooperative(seat: &MemberSeat) -> bool {
    let plan = seat.member.plan();
    let cooperative = match &plan.group.protocol {
        Protocol::Classic { assignors } => assignors.contains(&ClassicAssignor::CooperativeSticky),
        Protocol::Consumer { .. } | Protocol::Manual { .. } => false,
    };
    cooperative && plan.instance_id.is_some()
}

/// The highest that both sides know.
fn versions() -> Versions {
    let mut versions = Versions::default();
    for (api, ours) in APIS {
        let theirs = muster_codec::ApiKey::from_key(api as i16).map(|api| *api.versions().end());
        versions.set(api as i16, theirs.map_or(ours.max, |theirs| ours.max.min(theirs)));
    }
    versions
}

impl World {
    pub(crate) fn start_member(&mut self, index: u32) {
        let seat = &mut self.members[index as usize];
        if !seat.member.is_done() {
            return;
        }
        seat.life += 1;
        (seat.started_in, seat.started_at) = (self.process.life, self.queue.now());
        self.hang_up_all(index);
        self.note(format_args!("member {index} starts"));
        self.with_member(index, Member::start);
    }

    pub(crate) fn stop_member(&mut self, index: u32, how: Stop) {
        self.note(format_args!("member {index} stops: {how:?}"));
        if how == Stop::Crash {
            self.members[index as usize].life += 1;
            self.hang_up_all(index);
        }
        self.with_member(index, |member, context, output| member.stop(how, context, output));
    }

    /// A member comes or goes.
    pub(crate) fn churn(&mut self) {
        if !self.is_chaos() || self.members.is_empty() {
            return;
        }
        let every = self.profile.clients.churn_every;
        let next = self.client_random.between(0, 2 * every);
        self.queue.after(next, TimedEvent::Churn);
        let index = self.client_random.below(self.members.len() as u64) as u32;
        if self.members[index as usize].member.is_done() {
            return self.start_member(index);
        }
        let how = self.client_random.pick(&[Stop::Leave, Stop::Close, Stop::Crash]);
        self.stop_member(index, how);
    }

    pub(crate) fn wake_member(&mut self, index: u32, armed: u64) {
        let now = self.queue.now();
        let seat = &mut self.members[index as usize];
        if seat.armed != armed {
            return;
        }
        seat.armed = u64::MAX;
        match seat.member.deadline() {
            Some(deadline) if deadline.micros() <= now => self.with_member(index, Member::wake),
            _ => self.arm_member(index),
        }
    }

    pub(super) fn tell_member(
        &mut self,
        index: u32,
        life: u32,
        asked: Asked,
        outcome: Result<&[u8], Failure>,
    ) {
        if self.members[index as usize].life != life {
            return;
        }
        let Asked { api, version, token, sent, .. } = asked;
        let outcome = outcome.map(|frame| wire::read_response(api, version, frame));
        let outcome = match outcome {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                return self.violate(format_args!("an answer that cannot be read: {error}"));
            }
            Err(failure) => Err(failure),
        };
        let answer = Answer { token, sent: Time::from_micros(sent), outcome };
        self.with_member(index, |member, context, output| member.answered(answer, context, output));
    }

    fn with_member(
        &mut self,
        index: u32,
        call: impl FnOnce(&mut Member, &mut Context<'_>, &mut Output),
    ) {
        let mut output = Output::default();
        let seat = &mut self.members[index as usize];
        let mut context = Context {
            now: Time::from_micros(self.queue.now()),
            topics: &self.topics,
            versions: &seat.versions,
            nodes: &mut self.nodes,
            random: seat.random.generator(),
        };
        call(&mut seat.member, &mut context, &mut output);
        for event in &output.events {
            if let EventKind::Failed { reason } = &event.kind
                && !self.may_be_fenced(index, reason)
                && !self.may_be_forgotten(index, reason)
            {
                self.violate(format_args!("member {index} cannot go on: {reason}"));
            }
            self.judge_event(event);
        }
        for outgoing in output.requests {
            self.send_for_member(index, outgoing);
        }
        if self.members[index as usize].member.is_done() {
            self.hang_up_all(index);
        }
        self.arm_member(index);
    }

    /// As in Kafka, a static member that joins while a rebalance is prepared gets its new id before
    /// that is durable; after a restart of the server the former one holds.
    fn may_be_fenced(&self, index: u32, reason: &str) -> bool {
        let seat = &self.members[index as usize];
        let is_static = seat.member.plan().instance_id.is_some();
        is_static && reason.contains("FENCED_INSTANCE_ID") && seat.started_in < self.process.life
    }

    /// As in Kafka, a group that is empty goes with its last offset; a member that does not know
    /// yet that its session ended finds no group any more.
    fn may_be_forgotten(&self, index: u32, reason: &str) -> bool {
        let seat = &self.members[index as usize];
        let group = seat.member.plan().group.id.as_str();
        reason.contains("GROUP_ID_NOT_FOUND") && self.judge.facts.went_since(group, seat.started_at)
    }

    /// Whether a group is cooperative and has a static member that came back.
    pub(crate) fn may_stay_half_rebalanced(&self, group: GroupIndex) -> bool {
        let came_back = |seat: &&MemberSeat| {
            seat.life > 1 && seat.member.state() == State::Stable && is_static_cooperative(seat)
        };
        self.members_of(group).any(|(_, seat)| came_back(&seat))
    }

    /// A member of the group goes, so that what it owned and what nobody owns is given out.
    pub(crate) fn shrink_group(&mut self, group: GroupIndex) {
        let running = |(_, seat): &(u32, &MemberSeat)| seat.member.state() == State::Stable;
        let first = self.members_of(group).find(running).map(|(index, _)| index);
        if let Some(index) = first {
            self.stop_member(index, Stop::Leave);
        }
    }

    fn members_of(&self, group: GroupIndex) -> impl Iterator<Item = (u32, &MemberSeat)> {
        let seats = self.members.iter().enumerate();
        let seats = seats.filter(move |(_, seat)| seat.member.plan().group.index == group);
        seats.map(|(index, seat)| (index as u32, seat))
    }

    fn send_for_member(&mut self, index: u32, outgoing: Outgoing) {
        let link = self.member_link(index, outgoing.to);
        let seat = &self.members[index as usize];
        let plan = seat.member.plan();
        let profile = &self.profile.clients;
        let patience = match outgoing.request {
            Request::JoinGroup(_) | Request::SyncGroup(_) => profile.rebalance_timeout,
            _ => 0,
        };
        let patience = patience + profile.request_timeout;
        let correlation = self.network.correlation();
        let (version, token) = (outgoing.version, outgoing.token);
        let header = wire::Header { version, correlation, client_id: &plan.client_id };
        let mut frame = Vec::new();
        let api = wire::api_key(&outgoing.request);
        if let Err(error) = wire::write_request(&mut frame, &header, &outgoing.request) {
            return self.violate(format_args!("a request that cannot be written: {error}"));
        }
        self.ask(link, Ready { api, version, token, correlation, frame, patience });
    }

    /// The connection to use, made if there is none.
    fn member_link(&mut self, index: u32, to: Destination) -> LinkId {
        let seat = &self.members[index as usize];
        if let Some((_, link)) = seat.links.iter().find(|(known, _)| *known == to) {
            return *link;
        }
        let owner = Owner::Member { member: index, life: seat.life };
        let shard = match to {
            Destination::Any => self.client_random.below(u64::from(self.process_shards)) as u32,
            Destination::Node(node) => {
                let port = self.nodes.address(node).map_or(FIRST_PORT, |(_, port)| port);
                u32::from(port - FIRST_PORT)
            }
        };
        let link = self.network.connect(&mut self.queue, owner, shard);
        self.members[index as usize].links.push((to, link));
        link
    }

    fn hang_up_all(&mut self, index: u32) {
        let links = std::mem::take(&mut self.members[index as usize].links);
        links.into_iter().for_each(|(_, link)| self.hang_up(link));
    }

    /// A timer that comes too early is armed anew when it fires: deadlines mostly move away.
    fn arm_member(&mut self, index: u32) {
        let seat = &mut self.members[index as usize];
        if let Some(deadline) = seat.member.deadline()
            && deadline.micros() < seat.armed
        {
            seat.armed = deadline.micros();
            let armed = seat.armed;
            self.queue.at(armed, TimedEvent::Member { member: index, armed });
        }
    }

    /// Members that are at rest in their groups.
    pub(crate) fn stable_members(&self) -> usize {
        self.members.iter().filter(|seat| seat.member.state() == State::Stable).count()
    }

    /// Members that run, and are not as they should be. One that failed was judged when it did.
    pub(crate) fn unsettled(&self) -> Vec<(u32, State)> {
        let seats = self.members.iter().enumerate();
        let states = seats.map(|(index, seat)| (index as u32, seat.member.state()));
        let settled = |state: &State| matches!(state, State::Down | State::Failed | State::Stable);
        states.filter(|(_, state)| !settled(state)).collect()
    }
}
