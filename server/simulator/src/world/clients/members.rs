//! The starts and stops of members, their timers, requests and answers.

use std::time::Duration;

use super::links::RequestFrame;
use crate::client::{ClassicId, SimMember, is_static_cooperative};
use crate::event::TimedEvent;
use crate::net::{Asked, LinkId, Owner};
use crate::world::{Machine, World};
use loadgen::event::{EventKind, Stop};
use loadgen::member::{
    Answer, Context, Destination, Failure, Member, Outgoing, Output, Request, State,
};
use loadgen::plan::{GroupIndex, Protocol};
use loadgen::time::Time;
use loadgen::wire;
use muster_codec::{ApiKey, DecodeError};

impl<M: Machine> World<M> {
    pub(crate) fn start_member(&mut self, index: u32) {
        let sim = &mut self.clients.members[index as usize];
        if !sim.member.is_done() {
            return;
        }
        sim.life += 1;
        (sim.started_at, sim.id) = (self.sim.now(), ClassicId::default());
        self.hang_up_all(index);
        self.sim.note(format_args!("member {index} starts"));
        self.with_member(index, Member::start);
    }

    pub(crate) fn stop_member(&mut self, index: u32, how: Stop) {
        self.sim.note(format_args!("member {index} stops: {how:?}"));
        if how == Stop::Crash {
            self.clients.members[index as usize].life += 1;
            self.hang_up_all(index);
        }
        self.with_member(index, |member, context, output| member.stop(how, context, output));
    }

    /// Starts or stops a member.
    pub(crate) fn churn(&mut self) {
        if !self.is_chaos() || self.clients.members.is_empty() {
            return;
        }
        let every = self.profile.clients.churn_every;
        let next = self.clients.random.between(0, 2 * every);
        self.sim.after(next, TimedEvent::Churn);
        let index = self.clients.random.below(self.clients.members.len() as u64) as u32;
        if self.clients.members[index as usize].member.is_done() {
            return self.start_member(index);
        }
        let how = self.clients.random.pick(&[Stop::Leave, Stop::Close, Stop::Crash]);
        self.stop_member(index, how);
    }

    pub(crate) fn wake_member(&mut self, index: u32, armed: u64) {
        let now = self.sim.now();
        let sim = &mut self.clients.members[index as usize];
        if sim.armed != armed {
            return;
        }
        sim.armed = u64::MAX;
        match sim.member.deadline() {
            Some(deadline) if deadline.micros() <= now => self.with_member(index, Member::wake),
            _ => self.arm_member(index),
        }
    }

    pub(super) fn notify_member(
        &mut self,
        index: u32,
        life: u32,
        asked: Asked,
        outcome: Result<&[u8], Failure>,
    ) {
        if self.clients.members[index as usize].life != life {
            return;
        }
        let Asked { api, version, token, sent, .. } = asked;
        let outcome = outcome.map(|frame| {
            let api = ApiKey::from_key(api).ok_or(DecodeError::UnknownApiKey(api))?;
            wire::read_response(api, version, frame)
        });
        let outcome = match outcome {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                return self.sim.violate(format_args!("an answer that cannot be read: {error}"));
            }
            Err(failure) => Err(failure),
        };
        let [sent, arrived] = [sent, self.sim.now()].map(Time::from_micros);
        let answer = Answer { token, sent, arrived, delayed: Duration::ZERO, outcome };
        self.with_member(index, |member, context, output| member.answered(answer, context, output));
    }

    fn with_member(
        &mut self,
        index: u32,
        call: impl FnOnce(&mut Member, &mut Context<'_>, &mut Output),
    ) {
        let mut output = Output::default();
        let sim = &mut self.clients.members[index as usize];
        let mut context = Context {
            now: Time::from_micros(self.sim.now()),
            topics: &self.clients.topics,
            versions: &sim.versions,
            nodes: &mut self.clients.nodes,
            random: sim.random.generator(),
        };
        call(&mut sim.member, &mut context, &mut output);
        for event in &output.events {
            self.clients.members[index as usize].id.observe(self.sim.now(), &event.kind);
            if let EventKind::Failed { reason } = &event.kind
                && !self.may_be_fenced(index, reason)
                && !self.may_be_forgotten(index, reason)
                && !self.may_have_gone_tasks(index, reason)
            {
                self.sim.violate(format_args!("member {index} cannot continue: {reason}"));
            }
            self.judge_event(event);
        }
        let sim = &mut self.clients.members[index as usize];
        sim.id.observe_state(sim.member.state());
        for outgoing in output.requests {
            self.send_for_member(index, outgoing);
        }
        if self.clients.members[index as usize].member.is_done() {
            self.hang_up_all(index);
        }
        self.arm_member(index);
    }

    /// Whether Kafka, too, may fence this member. It may if the member is a static member of a
    /// classic group, and the coordinator was loaded before the member's new id was durable.
    pub(crate) fn may_be_fenced(&self, index: u32, reason: &str) -> bool {
        let sim = &self.clients.members[index as usize];
        let plan = sim.member.plan();
        let is_classic = matches!(plan.group.protocol, Protocol::Classic { .. });
        let coordinator = self.node.group_shard(&plan.group.id);
        is_classic
            && plan.instance_id.is_some()
            && reason.contains("FENCED_INSTANCE_ID")
            && sim.id.may_be_lost_at(self.node.loaded_at(coordinator))
    }

    /// Whether the member may find that its group was deleted. As in Kafka, an empty group is
    /// deleted together with its last offset. Its former member may not know yet that its session
    /// has expired.
    fn may_be_forgotten(&self, index: u32, reason: &str) -> bool {
        let sim = &self.clients.members[index as usize];
        let group = sim.member.plan().group.id.as_ref();
        reason.contains("GROUP_ID_NOT_FOUND") && self.judge.went_since(group, sim.started_at)
    }

    /// Whether the member may end because it reports tasks that no longer exist. As in Kafka, this
    /// occurs if a source topic is deleted, and is created again with fewer partitions, between two
    /// heartbeats of a member that had a task for one of the missing partitions.
    fn may_have_gone_tasks(&self, index: u32, reason: &str) -> bool {
        let plan = self.clients.members[index as usize].member.plan();
        let is_streams = matches!(plan.group.protocol, Protocol::Streams(_));
        is_streams && self.profile.clients.meddlers > 0 && reason.contains("no such task")
    }

    /// Whether a group is cooperative and has a static member that came back.
    pub(crate) fn may_stay_half_rebalanced(&self, group: GroupIndex) -> bool {
        let came_back = |sim: &&SimMember| {
            sim.life > 1 && sim.member.state() == State::Stable && is_static_cooperative(sim)
        };
        self.members_of(group).any(|(_, sim)| came_back(&sim))
    }

    /// Stops a member of the group. This causes a rebalance, which assigns the member's partitions
    /// and those that had no owner.
    pub(crate) fn shrink_group(&mut self, group: GroupIndex) {
        let running = |(_, sim): &(u32, &SimMember)| sim.member.state() == State::Stable;
        let first = self.members_of(group).find(running).map(|(index, _)| index);
        if let Some(index) = first {
            self.stop_member(index, Stop::Leave);
        }
    }

    fn members_of(&self, group: GroupIndex) -> impl Iterator<Item = (u32, &SimMember)> {
        let members = self.clients.members.iter().enumerate();
        let members = members.filter(move |(_, sim)| sim.member.plan().group.index == group);
        members.map(|(index, sim)| (index as u32, sim))
    }

    fn send_for_member(&mut self, index: u32, outgoing: Outgoing) {
        let link = self.member_link(index, outgoing.to);
        let sim = &self.clients.members[index as usize];
        let plan = sim.member.plan();
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
        let api = outgoing.request.api_key() as i16;
        if let Err(error) = wire::write_request(&mut frame, &header, &outgoing.request) {
            return self.sim.violate(format_args!("a request that cannot be written: {error}"));
        }
        self.ask(link, RequestFrame { api, version, token, correlation, frame, patience });
    }

    /// The connection to use: an existing connection, or a new one.
    fn member_link(&mut self, index: u32, to: Destination) -> LinkId {
        let sim = &self.clients.members[index as usize];
        if let Some((_, link)) = sim.links.iter().find(|(known, _)| *known == to) {
            return *link;
        }
        let owner = Owner::Member { member: index, life: sim.life };
        let shard = match to {
            Destination::Any => self.node.any(&mut self.clients.random),
            Destination::Node(node) | Destination::Leader(node) => {
                let first = self.node.first_port();
                let port = self.clients.nodes.address(node).map_or(first, |(_, port)| port);
                u32::from(port - first)
            }
        };
        let link = self.network.connect(self.sim.queue(), owner, shard);
        self.clients.members[index as usize].links.push((to, link));
        link
    }

    fn hang_up_all(&mut self, index: u32) {
        let links = std::mem::take(&mut self.clients.members[index as usize].links);
        links.into_iter().for_each(|(_, link)| self.hang_up(link));
    }

    /// Sets the timer of a member if its deadline is now earlier. Deadlines mostly move to later
    /// times: then the timer fires too early, and is set again when it fires.
    fn arm_member(&mut self, index: u32) {
        let sim = &mut self.clients.members[index as usize];
        if let Some(deadline) = sim.member.deadline()
            && deadline.micros() < sim.armed
        {
            sim.armed = deadline.micros();
            let armed = sim.armed;
            self.sim.at(armed, TimedEvent::Member { member: index, armed });
        }
    }

    /// The number of members that have their target assignments.
    pub(crate) fn stable_members(&self) -> usize {
        self.clients.members.iter().filter(|sim| sim.member.state() == State::Stable).count()
    }

    /// The running members that are not stable, except those of hindered groups. Failed members
    /// were reported when they failed.
    pub(crate) fn unsettled(&self) -> Vec<(u32, State)> {
        let members = self.clients.members.iter().enumerate();
        let states = members.map(|(index, sim)| (index as u32, sim.member.state()));
        let settled = |state: &State| matches!(state, State::Down | State::Failed | State::Stable);
        let hindered = self.hindered_groups();
        let unsettled = states.filter(|(_, state)| !settled(state));
        unsettled.filter(|(index, _)| !hindered.contains(&self.group_of(*index))).collect()
    }

    fn group_of(&self, member: u32) -> GroupIndex {
        self.clients.members[member as usize].member.plan().group.index
    }

    pub(crate) fn has_running_members(&self, group: GroupIndex) -> bool {
        let is_down = |state| matches!(state, State::Down | State::Failed);
        self.members_of(group).any(|(_, sim)| !is_down(sim.member.state()))
    }
}
