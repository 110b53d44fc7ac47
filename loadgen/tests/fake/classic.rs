//! Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiKey, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::broker::Broker;
use super::reply::Reply;
use super::{Bug, Config};

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const ILLEGAL_GENERATION: i16 = 22;
const INCONSISTENT_GROUP_PROTOCOL: i16 = 23;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;
const FENCED_INSTANCE_ID: i16 = 82;

const CONSUMER: StrBytes = StrBytes::from_static_str("consumer");
/// [`Bug::EvictsEarly`] removes a member at the heartbeat after this number of heartbeats.
const HEARTBEATS_BEFORE_EVICTION: u32 = 5;

pub(super) struct ClassicGroup {
    bug: Option<Bug>,
    initial_delay: Duration,
    generation: i32,
    phase: Phase,
    leader: StrBytes,
    protocol: StrBytes,
    members: BTreeMap<StrBytes, Member>,
    /// Ids that were assigned with MEMBER_ID_REQUIRED, but with which no member has joined yet.
    given: BTreeSet<StrBytes>,
    ids: u32,
    /// With [`Bug::AcceptsFencedCommits`], the member whose heartbeats are ignored.
    unheard: Option<StrBytes>,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Empty,
    Joining { not_before: Instant, until: Instant },
    Syncing,
    Stable,
}

struct Member {
    instance: Option<StrBytes>,
    session_timeout: Duration,
    rebalance_timeout: Duration,
    heard: Instant,
    protocols: Vec<JoinGroupRequestProtocol>,
    assignment: Bytes,
    /// Whether the member has received its assignment in this generation.
    served: bool,
    heartbeats: u32,
    join: Option<Reply<JoinGroupRequest>>,
    sync: Option<Reply<SyncGroupRequest>>,
}

impl Broker {
    pub(super) fn join_group(
        &mut self,
        (request, reply): (JoinGroupRequest, Reply<JoinGroupRequest>),
    ) {
        let refusal = self.refusal(ApiKey::JoinGroup);
        if refusal != 0 {
            return refuse_join(reply, refusal, StrBytes::default());
        }
        let group = self.groups.entry(request.group_id.0.clone()).or_default();
        if group.consumer.as_ref().is_some_and(|consumer| !consumer.is_empty()) {
            return refuse_join(reply, INCONSISTENT_GROUP_PROTOCOL, StrBytes::default());
        }
        let classic = group.classic.get_or_insert_with(|| ClassicGroup::new(&self.config));
        classic.join(request, reply, self.now);
    }

    pub(super) fn sync_group(
        &mut self,
        (request, reply): (SyncGroupRequest, Reply<SyncGroupRequest>),
    ) {
        match self.classic(&request.group_id.0) {
            Some((classic, now)) => classic.sync(request, reply, now),
            None => refuse_sync(reply, UNKNOWN_MEMBER_ID),
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        (request, reply): (HeartbeatRequest, Reply<HeartbeatRequest>),
    ) {
        let heartbeat = |(classic, now): (&mut ClassicGroup, _)| {
            classic.heartbeat(&request.member_id, request.generation_id, now)
        };
        let error = self.classic(&request.group_id.0).map_or(UNKNOWN_MEMBER_ID, heartbeat);
        reply.send(HeartbeatResponse::default().with_error_code(error));
    }

    pub(super) fn leave_group(
        &mut self,
        (request, reply): (LeaveGroupRequest, Reply<LeaveGroupRequest>),
    ) {
        let mut group = self.classic(&request.group_id.0);
        let leave = |member: MemberIdentity| {
            let left = group.as_mut().is_some_and(|(classic, now)| {
                let id = classic.id_of(&member.member_id, member.group_instance_id.as_ref());
                classic.remove(&id, *now)
            });
            MemberResponse::default()
                .with_member_id(member.member_id)
                .with_group_instance_id(member.group_instance_id)
                .with_error_code(if left { 0 } else { UNKNOWN_MEMBER_ID })
        };
        let members = request.members.into_iter().map(leave).collect();
        reply.send(LeaveGroupResponse::default().with_members(members));
    }

    fn classic(&mut self, group: &StrBytes) -> Option<(&mut ClassicGroup, Instant)> {
        Some((self.groups.get_mut(group)?.classic.as_mut()?, self.now))
    }
}

impl ClassicGroup {
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    fn new(config: &Config) -> Self {
        Self {
            bug: config.bug,
            initial_delay: config.initial_delay,
            generation: 0,
            phase: Phase::Empty,
            leader: StrBytes::default(),
            protocol: StrBytes::default(),
            members: BTreeMap::new(),
            given: BTreeSet::new(),
            ids: 0,
            unheard: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn join(&mut self, request: JoinGroupRequest, reply: Reply<JoinGroupRequest>, now: Instant) {
        let instance = request.group_instance_id.clone();
        let mut id = request.member_id.clone();
        if id.is_empty() {
            self.ids += 1;
            id = StrBytes::from_string(format!("member-{:04}", self.ids));
            if instance.is_none() {
                self.given.insert(id.clone());
                return refuse_join(reply, MEMBER_ID_REQUIRED, id);
            }
            self.replace_instance(instance.as_ref());
        } else if !self.members.contains_key(&id) && !self.given.remove(&id) {
            return refuse_join(reply, UNKNOWN_MEMBER_ID, StrBytes::default());
        }
        let known = self.members.remove(&id);
        let millis = |millis: i32| Duration::from_millis(millis as u64);
        let member = Member {
            instance,
            session_timeout: millis(request.session_timeout_ms),
            rebalance_timeout: millis(request.rebalance_timeout_ms),
            heard: now,
            protocols: request.protocols,
            assignment: known.map(|known| known.assignment).unwrap_or_default(),
            served: false,
            heartbeats: 0,
            join: Some(reply),
            sync: None,
        };
        self.members.insert(id, member);
        match self.phase {
            Phase::Empty => self.rebalance(now, self.initial_delay),
            Phase::Syncing | Phase::Stable => self.rebalance(now, Duration::ZERO),
            Phase::Joining { .. } => {}
        }
        self.complete_join(now);
    }

    /// The process of this instance restarted: removes the instance's previous member.
    fn replace_instance(&mut self, instance: Option<&StrBytes>) {
        let before = self.members.iter().find(|(_, member)| member.instance.as_ref() == instance);
        let Some(member) = before.map(|(id, _)| id.clone()).and_then(|id| self.members.remove(&id))
        else {
            return;
        };
        member
            .join
            .into_iter()
            .for_each(|join| refuse_join(join, FENCED_INSTANCE_ID, StrBytes::default()));
        member.sync.into_iter().for_each(|sync| refuse_sync(sync, FENCED_INSTANCE_ID));
    }

    fn rebalance(&mut self, now: Instant, delay: Duration) {
        for member in self.members.values_mut() {
            member
                .sync
                .take()
                .into_iter()
                .for_each(|sync| refuse_sync(sync, REBALANCE_IN_PROGRESS));
        }
        let longest = self.members.values().map(|member| member.rebalance_timeout).max();
        let until = now + longest.unwrap_or_default();
        self.phase = Phase::Joining { not_before: now + delay, until };
    }

    /// Completes the join phase if all members have joined or its time is over.
    fn complete_join(&mut self, now: Instant) {
        let Phase::Joining { not_before, until } = self.phase else { return };
        let all = self.members.values().all(|member| member.join.is_some());
        if now < not_before || !(all || now >= until) {
            return;
        }
        self.members.retain(|_, member| member.join.is_some());
        let Some(first) = self.members.keys().next() else {
            self.phase = Phase::Empty;
            return;
        };
        if !self.members.contains_key(&self.leader) {
            self.leader = first.clone();
        }
        let goes_back = self.bug == Some(Bug::EpochGoesBack) && self.generation == 2;
        self.generation += if goes_back { -1 } else { 1 };
        self.phase = Phase::Syncing;
        self.protocol = self.common_protocol();
        self.answer_joins(now);
    }

    /// The leader's first protocol that all members support.
    fn common_protocol(&self) -> StrBytes {
        let has = |member: &Member, name| member.protocols.iter().any(|one| one.name == name);
        let all_have =
            |name: &StrBytes| self.members.values().all(|member| has(member, name.clone()));
        let names = self.members[&self.leader].protocols.iter().map(|one| one.name.clone());
        names.into_iter().find(all_have).unwrap_or_default()
    }

    fn answer_joins(&mut self, now: Instant) {
        let describe = |(id, member): (&StrBytes, &Member)| {
            let metadata = member.protocols.iter().find(|one| one.name == self.protocol);
            JoinGroupResponseMember::default()
                .with_member_id(id.clone())
                .with_group_instance_id(member.instance.clone())
                .with_metadata(metadata.map(|one| one.metadata.clone()).unwrap_or_default())
        };
        let members: Vec<_> = self.members.iter().map(describe).collect();
        for (id, member) in &mut self.members {
            member.heard = now;
            let response = JoinGroupResponse::default()
                .with_generation_id(self.generation)
                .with_protocol_type(Some(CONSUMER))
                .with_protocol_name(Some(self.protocol.clone()))
                .with_leader(self.leader.clone())
                .with_member_id(id.clone())
                .with_members(if *id == self.leader { members.clone() } else { Vec::new() });
            member.join.take().into_iter().for_each(|join| join.send(response.clone()));
        }
    }

    fn sync(&mut self, request: SyncGroupRequest, reply: Reply<SyncGroupRequest>, now: Instant) {
        let error = self.check(&request.member_id, request.generation_id);
        if error != 0 {
            return refuse_sync(reply, error);
        }
        let is_leader = request.member_id == self.leader;
        let differs = self.bug == Some(Bug::AnswersRepeatsDifferently);
        let of_another = self.assignment_of_another(&request.member_id);
        let Some(member) = self.members.get_mut(&request.member_id) else { return };
        member.heard = now;
        match self.phase {
            Phase::Empty | Phase::Joining { .. } => refuse_sync(reply, REBALANCE_IN_PROGRESS),
            Phase::Stable if member.served && differs => {
                answer_sync(reply, &self.protocol, of_another);
            }
            Phase::Stable => {
                member.served = true;
                answer_sync(reply, &self.protocol, member.assignment.clone());
            }
            Phase::Syncing => {
                member.sync = Some(reply);
                if is_leader {
                    self.take_assignments(request.assignments);
                }
            }
        }
    }

    fn assignment_of_another(&self, id: &StrBytes) -> Bytes {
        let other = self.members.iter().find(|(other, _)| *other != id);
        other.map(|(_, member)| member.assignment.clone()).unwrap_or_default()
    }

    fn take_assignments(&mut self, mut assignments: Vec<SyncGroupRequestAssignment>) {
        if let (Some(Bug::AssignsTwice), [first, second, ..]) = (self.bug, &mut assignments[..]) {
            second.assignment = first.assignment.clone();
        }
        for SyncGroupRequestAssignment { member_id, assignment, .. } in assignments {
            if let Some(member) = self.members.get_mut(&member_id) {
                member.assignment = assignment;
            }
        }
        for member in self.members.values_mut() {
            let Some(sync) = member.sync.take() else { continue };
            member.served = true;
            answer_sync(sync, &self.protocol, member.assignment.clone());
        }
        self.phase = Phase::Stable;
    }

    fn heartbeat(&mut self, id: &StrBytes, generation: i32, now: Instant) -> i16 {
        if self.is_unheard(id) {
            return COORDINATOR_LOAD_IN_PROGRESS;
        }
        let error = self.check(id, generation);
        let Some(member) = self.members.get_mut(id).filter(|_| error == 0) else { return error };
        member.heard = now;
        match self.phase {
            Phase::Empty | Phase::Joining { .. } => REBALANCE_IN_PROGRESS,
            Phase::Syncing => 0,
            Phase::Stable => self.keep_or_evict(id, now),
        }
    }

    fn keep_or_evict(&mut self, id: &StrBytes, now: Instant) -> i16 {
        let Some(member) = self.members.get_mut(id) else { return UNKNOWN_MEMBER_ID };
        member.heartbeats += 1;
        if self.bug != Some(Bug::EvictsEarly) || member.heartbeats <= HEARTBEATS_BEFORE_EVICTION {
            return 0;
        }
        self.bug = None;
        self.remove(id, now);
        UNKNOWN_MEMBER_ID
    }

    fn is_unheard(&mut self, id: &StrBytes) -> bool {
        let chooses = self.bug == Some(Bug::AcceptsFencedCommits) && self.phase == Phase::Stable;
        if chooses && self.unheard.is_none() && self.members.len() > 1 {
            self.unheard = Some(id.clone());
        }
        self.unheard.as_ref() == Some(id)
    }

    fn check(&self, id: &StrBytes, generation: i32) -> i16 {
        if !self.members.contains_key(id) {
            UNKNOWN_MEMBER_ID
        } else if generation != self.generation {
            ILLEGAL_GENERATION
        } else {
            0
        }
    }

    /// The error code of a commit. 0 if it is accepted.
    pub(super) fn check_commit(&self, id: &StrBytes, generation: i32) -> i16 {
        match self.phase {
            _ if self.bug == Some(Bug::AcceptsFencedCommits) => 0,
            Phase::Empty if id.is_empty() && generation < 0 => 0,
            Phase::Syncing => REBALANCE_IN_PROGRESS,
            _ => self.check(id, generation),
        }
    }

    fn id_of(&self, id: &StrBytes, instance: Option<&StrBytes>) -> StrBytes {
        let has = |member: &Member| instance.is_some() && member.instance.as_ref() == instance;
        let of_instance = self.members.iter().find(|(_, member)| has(member));
        of_instance.map_or_else(|| id.clone(), |(id, _)| id.clone())
    }

    /// Removes a member, or an id with which no member has joined yet. Returns whether the id was
    /// known.
    fn remove(&mut self, id: &StrBytes, now: Instant) -> bool {
        let Some(member) = self.members.remove(id) else { return self.given.remove(id) };
        member
            .join
            .into_iter()
            .for_each(|join| refuse_join(join, UNKNOWN_MEMBER_ID, StrBytes::default()));
        member.sync.into_iter().for_each(|sync| refuse_sync(sync, UNKNOWN_MEMBER_ID));
        match self.phase {
            _ if self.members.is_empty() => self.phase = Phase::Empty,
            Phase::Syncing | Phase::Stable => self.rebalance(now, Duration::ZERO),
            Phase::Empty | Phase::Joining { .. } => {}
        }
        self.complete_join(now);
        true
    }

    /// Removes members whose session has expired, except members that wait for an answer.
    pub(super) fn expire(&mut self, now: Instant) {
        let silent = |member: &Member| {
            let waits = member.join.is_some() || member.sync.is_some();
            !waits && now >= member.heard + member.session_timeout
        };
        let gone = self.members.iter().filter(|(_, member)| silent(member));
        for id in gone.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.remove(&id, now);
        }
        self.complete_join(now);
    }
}

fn refuse_join(reply: Reply<JoinGroupRequest>, error: i16, id: StrBytes) {
    let response = JoinGroupResponse::default().with_error_code(error).with_generation_id(-1);
    reply.send(response.with_member_id(id).with_protocol_name(Some(StrBytes::default())));
}

fn refuse_sync(reply: Reply<SyncGroupRequest>, error: i16) {
    reply.send(SyncGroupResponse::default().with_error_code(error));
}

fn answer_sync(reply: Reply<SyncGroupRequest>, protocol: &StrBytes, assignment: Bytes) {
    let response = SyncGroupResponse::default()
        .with_protocol_type(Some(CONSUMER))
        .with_protocol_name(Some(protocol.clone()))
        .with_assignment(assignment);
    reply.send(response);
}
