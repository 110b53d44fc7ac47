//! The membership of a member of a share group: ShareGroupHeartbeat joins, keeps alive, brings
//! assignments and leaves. Nothing is given up before others may have it, so an assignment is
//! adopted at once. The order of requests is that of Kafka's `ShareMembershipManager` and
//! `ShareHeartbeatRequestManager`.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::{
    ApiKey, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::event::EventKind;
use crate::member::State;
use crate::member::consumer_messages::Target;
use crate::member::core::{Core, Turn, shared};
use crate::member::error::{Fatal, Remedy, Step, fatal, remedy};
use crate::member::heartbeats::{self, Heartbeats, JOIN, LEAVE};
use crate::member::io::{Destination, Failure, NodeIndex, Overdue, Regular, Request, Response};
use crate::time::Time;

pub(super) struct Membership {
    /// Chosen once for each simulated process.
    pub(super) member_id: StrBytes,
    epoch: i32,
    in_flight: Option<u32>,
    heartbeats: Heartbeats,
    /// The newest assignment received, if its topics are not all known yet.
    target: Option<Target>,
    /// The next heartbeat has all fields: the last one failed.
    full: bool,
    /// The epoch or the assignment changed since the member was last settled.
    unsettled: bool,
    fenced: bool,
}

impl Membership {
    pub(super) fn new() -> Self {
        Self {
            member_id: StrBytes::new(),
            epoch: JOIN,
            in_flight: None,
            heartbeats: Heartbeats::new(),
            target: None,
            full: true,
            unsettled: true,
            fenced: false,
        }
    }

    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.adopt(core, turn);
        self.keep_alive(core, turn)
    }

    pub(super) fn keep_alive(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        match (self.deadline(core), core.lookup.node()) {
            (Some(due), Some(node)) if due <= turn.now() => self.heartbeat(node, core, turn),
            _ => Ok(()),
        }
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let idle = self.in_flight.is_none() && core.lookup.node().is_some() && self.epoch >= JOIN;
        idle.then(|| self.heartbeats.deadline(self.epoch == JOIN))
    }

    /// The heartbeat that is due, if it can't be sent.
    pub(super) fn overdue(&self, now: Time) -> Option<Overdue> {
        let is_idle = self.epoch > JOIN && self.in_flight.is_none();
        self.heartbeats.overdue(Regular::ShareHeartbeat, now).filter(|_| is_idle)
    }

    pub(super) fn state(&self) -> State {
        heartbeats::state(self.epoch, self.fenced, self.unsettled)
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.in_flight == Some(token)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    pub(super) fn abandon(&mut self) {
        self.in_flight = None;
    }

    /// Sends the last heartbeat, if it is a member.
    pub(super) fn leave(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let Some(node) = core.lookup.node().filter(|_| self.epoch > JOIN) else {
            return Ok(());
        };
        self.epoch = LEAVE;
        let version = core.version(turn, ApiKey::ShareGroupHeartbeat, 1, "")?;
        let request = Request::ShareGroupHeartbeat(self.minimal(core));
        self.in_flight = Some(core.send(turn, node, version, request));
        Ok(())
    }

    /// Handles the answer to the heartbeat that is awaited.
    pub(super) fn answered(
        &mut self,
        sent: Time,
        outcome: Result<Response, Failure>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        self.in_flight = None;
        match outcome {
            Ok(Response::ShareGroupHeartbeat(response)) if response.error_code != 0 => {
                self.refused(&response, core, turn)
            }
            Ok(Response::ShareGroupHeartbeat(_)) if self.epoch == LEAVE => Ok(()),
            Ok(Response::ShareGroupHeartbeat(response)) => self.alive(sent, response, core, turn),
            Ok(_) | Err(_) => {
                self.failed(core, turn);
                core.broke(turn);
                Ok(())
            }
        }
    }

    fn alive(
        &mut self,
        sent: Time,
        response: ShareGroupHeartbeatResponse,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        self.heartbeats.retry.succeeded();
        let epoch = response.member_epoch;
        if epoch <= JOIN {
            let group = &core.group().id;
            return Err(Fatal(format!("a member of group {group} received the epoch {epoch}")));
        }
        let joined = self.epoch == JOIN;
        if joined {
            self.fenced = false;
            core.emit(turn, EventKind::Joined { member_id: shared(&self.member_id), epoch });
        } else if epoch != self.epoch {
            core.emit(turn, EventKind::Epoch { epoch });
        }
        self.unsettled |= joined || epoch != self.epoch;
        self.epoch = epoch;
        core.emit(turn, EventKind::Alive { sent, epoch });
        self.heartbeats.keep_interval(response.heartbeat_interval_ms, turn.now());
        if joined {
            self.heartbeats.begin(turn);
        }
        if let Some(assignment) = response.assignment {
            let assigned = assignment.topic_partitions.into_iter();
            let assigned = assigned.map(|topic| (topic.topic_id, topic.partitions));
            self.target = Some(Target::read(assigned, turn.context.topics));
            self.unsettled = true;
        }
        self.adopt(core, turn);
        Ok(())
    }

    /// Adopts the known topics of the target; it stays while it has unknown ones.
    fn adopt(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if let Some(mut target) = self.target.take() {
            target.resolve(turn.context.topics);
            core.revoke_but(&target.partitions, turn);
            core.adopt(self.epoch, target.partitions.clone(), turn);
            if !target.unknown.is_empty() {
                self.target = Some(target);
            }
        }
        if self.unsettled && self.target.is_none() && self.epoch > JOIN {
            self.unsettled = false;
            core.emit(turn, EventKind::Settled { epoch: self.epoch });
        }
    }

    fn heartbeat(&mut self, node: NodeIndex, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let version = core.version(turn, ApiKey::ShareGroupHeartbeat, 1, "")?;
        self.choose_id(turn);
        let joins = self.epoch == JOIN;
        let mut request = self.minimal(core);
        if joins || self.full {
            let topics = core.group().subscription.topics().iter();
            let known = topics.filter_map(|topic| turn.context.topics.get(*topic));
            let names = known.map(|topic| TopicName(topic.name.clone())).collect();
            request.subscribed_topic_names = Some(names);
            request.rack_id = core.plan.rack.clone();
        }
        if joins {
            core.emit(turn, EventKind::Joining);
        }
        let request = Request::ShareGroupHeartbeat(request);
        let due = if joins { turn.now() } else { self.heartbeats.next };
        let token = core.send_due(turn, Destination::Node(node), version, request, due);
        if !joins {
            Core::repeats(turn, self.heartbeats.interval);
        }
        self.in_flight = Some(token);
        self.heartbeats.next = turn.now() + self.heartbeats.interval;
        self.full = false;
        Ok(())
    }

    fn minimal(&self, core: &Core) -> ShareGroupHeartbeatRequest {
        ShareGroupHeartbeatRequest::default()
            .with_group_id(core.group().id.clone().into())
            .with_member_id(self.member_id.clone())
            .with_member_epoch(self.epoch)
    }

    fn choose_id(&mut self, turn: &mut Turn<'_, '_>) {
        if self.member_id.is_empty() {
            self.member_id = heartbeats::new_member_id(turn);
        }
    }

    /// The coordinator answered with an error.
    fn refused(
        &mut self,
        response: &ShareGroupHeartbeatResponse,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let (api, code) = (ApiKey::ShareGroupHeartbeat, response.error_code);
        let Some(error) = ResponseError::try_from_code(code) else { return Ok(()) };
        if self.epoch != LEAVE && is_fenced(error) {
            self.rejoin(code, core, turn);
            core.failed_once(&mut self.heartbeats.retry, turn);
            return Ok(());
        }
        core.refused(turn, api, code);
        match remedy(error) {
            _ if self.epoch == LEAVE => {}
            Remedy::LookUp => {
                core.lookup.forget();
                self.full = true;
                self.heartbeats.next = turn.now();
            }
            Remedy::Retry => self.failed(core, turn),
            Remedy::GiveUp => {
                let said = response.error_message.as_ref().map(StrBytes::as_str);
                return Err(fatal(api, &core.group().id, error, said));
            }
        }
        Ok(())
    }

    /// Tries again after the back-off, with all fields.
    fn failed(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        self.full = true;
        self.heartbeats.next = turn.now();
        core.failed(&mut self.heartbeats.retry, turn);
    }

    /// It is not a member any more: loses all partitions, and joins again with its own id.
    fn rejoin(&mut self, error: i16, core: &mut Core, turn: &mut Turn<'_, '_>) {
        core.emit(turn, EventKind::Fenced { error });
        core.lose_all(turn);
        let member_id = std::mem::take(&mut self.member_id);
        let heartbeats = self.heartbeats.again();
        *self = Self { member_id, heartbeats, fenced: true, ..Self::new() };
    }
}

fn is_fenced(error: ResponseError) -> bool {
    matches!(error, ResponseError::UnknownMemberId | ResponseError::FencedMemberEpoch)
}
