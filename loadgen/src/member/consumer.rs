//! A member of a consumer group (KIP-848): one request, ConsumerGroupHeartbeat, joins, keeps alive,
//! fetches assignments, acknowledges them and leaves. The order of requests is that of Kafka's
//! `ConsumerMembershipManager` and `ConsumerHeartbeatRequestManager`.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::consumer_group_heartbeat_response::Assignment;
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::State;
use super::consumer_messages::{OWN_ID, Target, describe, wire};
use super::core::{Core, Turn, detached, shared};
use super::error::{Fatal, Remedy, Step, fatal, remedy};
use super::heartbeats::{self, Heartbeats, JOIN, LEAVE};
use super::io::{Destination, Failure, NodeIndex, Overdue, Regular, Request, Response};
use super::owned::difference;
use crate::event::{EventKind, Stop};
use crate::plan::Partition;
use crate::time::Time;
use crate::topics::Topics;

/// The member epoch of a static member that leaves and will come back.
const LEAVE_FOR_NOW: i32 = -2;

pub(super) struct Consumer {
    /// Chosen once for each simulated process (from version 1), else assigned by the coordinator.
    member_id: StrBytes,
    epoch: i32,
    in_flight: Option<InFlight>,
    heartbeats: Heartbeats,
    /// The next heartbeat is the first since it joined: the one after it is not a whole interval
    /// later.
    first: bool,
    /// The newest assignment received, if it has not been adopted.
    target: Option<Target>,
    reconciling: Option<Reconciling>,
    /// The next heartbeat has all fields: the last one failed.
    full: bool,
    /// The next heartbeat reports the owned partitions, and is sent at once.
    acknowledge: bool,
    /// Partitions were given up, and the coordinator has not answered to the report of it.
    unconfirmed: bool,
    /// The epoch or the assignment changed since the member was last settled.
    unsettled: bool,
    fenced: bool,
}

#[derive(Clone, Copy)]
struct InFlight {
    token: u32,
    incarnation: u32,
    /// Whether it reports the partitions that the member owns.
    reports_owned: bool,
}

/// Partitions are being given up, which takes until this time; then `assigned` is owned.
struct Reconciling {
    until: Time,
    assigned: Vec<Partition>,
}

impl Consumer {
    pub(super) fn new() -> Self {
        Self {
            member_id: StrBytes::new(),
            epoch: JOIN,
            in_flight: None,
            heartbeats: Heartbeats::new(),
            first: false,
            target: None,
            reconciling: None,
            full: true,
            acknowledge: false,
            unconfirmed: false,
            unsettled: true,
            fenced: false,
        }
    }

    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.reconcile(core, turn);
        self.settle(core, turn);
        self.keep_alive(core, turn)
    }

    /// Sends a heartbeat that is due, without adopting assignments.
    pub(super) fn keep_alive(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let Some(node) = core.lookup.node().filter(|_| self.in_flight.is_none()) else {
            return Ok(());
        };
        let due = self.epoch == JOIN || self.acknowledge || self.heartbeats.next <= turn.now();
        if due && self.heartbeats.retry.ready(turn.now()) {
            self.heartbeat(node, core, turn)?;
        }
        Ok(())
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let reconciled = self.reconciling.as_ref().map(|reconciling| reconciling.until);
        reconciled.into_iter().chain(self.heartbeat_deadline(core)).min()
    }

    pub(super) fn heartbeat_deadline(&self, core: &Core) -> Option<Time> {
        let idle = self.in_flight.is_none() && core.lookup.node().is_some();
        let at_once = self.epoch == JOIN || self.acknowledge;
        idle.then(|| self.heartbeats.deadline(at_once))
    }

    /// The heartbeat that is due, if it can't be sent.
    pub(super) fn overdue(&self, now: Time) -> Option<Overdue> {
        let is_idle = self.epoch > JOIN && self.in_flight.is_none();
        self.heartbeats.overdue(Regular::ConsumerHeartbeat, now).filter(|_| is_idle)
    }

    pub(super) fn state(&self) -> State {
        heartbeats::state(self.epoch, self.fenced, self.unsettled)
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.in_flight.is_some_and(|in_flight| in_flight.token == token)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    /// The id and epoch to commit with, if it is a member.
    pub(super) fn identity(&self) -> Option<(&StrBytes, i32)> {
        (self.epoch > JOIN).then_some((&self.member_id, self.epoch))
    }

    /// A heartbeat that only keeps alive, beside the regular ones.
    pub(super) fn extra_heartbeat(&self, core: &Core, turn: &Turn<'_, '_>) -> Step<(i16, Request)> {
        let version = core.version(turn, ApiKey::ConsumerGroupHeartbeat, 0, "")?;
        Ok((version, Request::ConsumerGroupHeartbeat(self.minimal(core))))
    }

    /// Sends the last heartbeat, if it is a member.
    pub(super) fn leave(&mut self, how: Stop, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let Some(node) = core.lookup.node().filter(|_| self.epoch > JOIN) else {
            return Ok(());
        };
        self.epoch = if how == Stop::Close { LEAVE_FOR_NOW } else { LEAVE };
        let (version, request) = self.extra_heartbeat(core, turn)?;
        let token = core.send(turn, node, version, request);
        let incarnation = core.incarnation;
        self.in_flight = Some(InFlight { token, incarnation, reports_owned: false });
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
        let Some(in_flight) = self.in_flight.take() else { return Ok(()) };
        if self.epoch < JOIN {
            self.left(outcome, core, turn);
            return Ok(());
        }
        match outcome {
            // The member was fenced by another answer since it was sent.
            Ok(_) if in_flight.incarnation != core.incarnation => Ok(()),
            Ok(Response::ConsumerGroupHeartbeat(response)) if response.error_code == 0 => {
                self.unconfirmed &= !in_flight.reports_owned;
                self.alive(sent, response, core, turn)
            }
            Ok(Response::ConsumerGroupHeartbeat(response)) => self.refused(&response, core, turn),
            Ok(_) | Err(_) => {
                self.failed(core, turn);
                core.broke(turn);
                Ok(())
            }
        }
    }

    /// Handles the answer to an extra heartbeat of this incarnation.
    pub(super) fn extra_answered(
        &mut self,
        sent: Time,
        response: ConsumerGroupHeartbeatResponse,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        match response.error_code {
            _ if self.epoch <= JOIN => Ok(()),
            0 => self.alive(sent, response, core, turn),
            _ => self.refused(&response, core, turn),
        }
    }

    /// The lost answer may have had a new assignment, which the coordinator sends once.
    pub(super) fn extra_failed(&mut self) {
        self.full = true;
    }

    fn left(
        &mut self,
        outcome: Result<Response, Failure>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) {
        match outcome {
            Ok(Response::ConsumerGroupHeartbeat(response)) if response.error_code != 0 => {
                core.refused(turn, ApiKey::ConsumerGroupHeartbeat, response.error_code);
            }
            Ok(_) => {}
            Err(_) => core.broke(turn),
        }
    }

    fn alive(
        &mut self,
        sent: Time,
        response: ConsumerGroupHeartbeatResponse,
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
            self.joined(&response, core, turn);
        } else if epoch != self.epoch {
            core.emit(turn, EventKind::Epoch { epoch });
            self.unsettled = true;
        }
        self.epoch = epoch;
        core.emit(turn, EventKind::Alive { sent, epoch });
        self.heartbeats.keep_interval(response.heartbeat_interval_ms, turn.now());
        if joined {
            self.first = true;
            self.heartbeats.begin(turn);
        }
        if let Some(assignment) = response.assignment {
            self.assigned(joined, sent, &assignment, core, turn);
        }
        Ok(())
    }

    fn joined(
        &mut self,
        response: &ConsumerGroupHeartbeatResponse,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) {
        if let Some(id) = response.member_id.as_ref().filter(|id| **id != self.member_id) {
            self.member_id = detached(id);
        }
        core.incarnation = core.incarnation.wrapping_add(1);
        self.fenced = false;
        self.unsettled = true;
        let member_id = shared(&self.member_id);
        core.emit(turn, EventKind::Joined { member_id, epoch: response.member_epoch });
    }

    /// Handles an assignment, which is adopted if it differs from the previous one.
    fn assigned(
        &mut self,
        first: bool,
        sent: Time,
        assignment: &Assignment,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) {
        let assigned = assignment.topic_partitions.iter();
        let assigned = assigned.map(|topic| (topic.topic_id, topic.partitions.clone()));
        let target = Target::read(assigned, turn.context.topics);
        if !first && self.aims_at(&target, core) {
            return;
        }
        if !difference(core.owned.partitions(), &target.partitions).is_empty() {
            core.emit(turn, EventKind::MustRebalance { sent });
        }
        self.target = Some(target);
        self.unsettled = true;
    }

    fn aims_at(&self, target: &Target, core: &Core) -> bool {
        match (&self.target, &self.reconciling) {
            (Some(current), _) => current == target,
            (None, Some(reconciling)) => {
                target.unknown.is_empty() && reconciling.assigned == target.partitions
            }
            (None, None) => {
                target.unknown.is_empty() && core.owned.partitions() == target.partitions
            }
        }
    }

    /// Adopts the known topics of the target: gives up partitions that are not in it (which takes
    /// time), adds new ones, and acknowledges. One target at a time.
    fn reconcile(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if self.reconciling.as_ref().is_some_and(|reconciling| reconciling.until <= turn.now())
            && let Some(reconciling) = self.reconciling.take()
        {
            self.reconciled(reconciling.assigned, core, turn);
        }
        if self.reconciling.is_some() || self.acknowledge || self.epoch <= JOIN {
            return;
        }
        let Some(assigned) = self.next_assignment(core, turn.context.topics) else { return };
        let revokes = !difference(core.owned.partitions(), &assigned).is_empty();
        let takes = core.group().revocation_takes;
        if revokes && !takes.is_zero() {
            self.reconciling = Some(Reconciling { until: turn.now() + takes, assigned });
        } else {
            self.reconciled(assigned, core, turn);
        }
    }

    /// The part of the target that can be adopted now. It stays while it has unknown topics.
    fn next_assignment(&mut self, core: &Core, topics: &Topics) -> Option<Vec<Partition>> {
        let mut target = self.target.take()?;
        if target.unknown.is_empty() {
            return Some(target.partitions);
        }
        let resolved = target.resolve(topics);
        let assigned = target.partitions.clone();
        let waits = !target.unknown.is_empty();
        let changes = resolved || core.owned.partitions() != assigned;
        if waits {
            self.target = Some(target);
        }
        changes.then_some(assigned)
    }

    fn reconciled(&mut self, assigned: Vec<Partition>, core: &mut Core, turn: &mut Turn<'_, '_>) {
        let losses = core.owned.losses();
        core.revoke_but(&assigned, turn);
        self.unconfirmed |= losses != core.owned.losses();
        core.adopt(self.epoch, assigned, turn);
        self.acknowledge = true;
    }

    /// Emits [`EventKind::Settled`] once when the assignment of this epoch is adopted.
    fn settle(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        let busy = self.target.is_some() || self.reconciling.is_some() || self.unconfirmed;
        if self.unsettled && !busy && self.epoch > JOIN {
            self.unsettled = false;
            core.emit(turn, EventKind::Settled { epoch: self.epoch });
        }
    }

    fn heartbeat(&mut self, node: NodeIndex, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let version = core.version(turn, ApiKey::ConsumerGroupHeartbeat, 0, "")?;
        self.choose_id(version, turn);
        let joins = self.epoch == JOIN;
        let mut request = self.minimal(core);
        if joins || self.full {
            describe(&mut request, version, core, turn.context.topics)?;
        }
        let reports_owned = joins || self.full || self.acknowledge;
        if reports_owned {
            request.topic_partitions = Some(wire(core.owned.partitions(), turn.context.topics));
        }
        if joins {
            core.emit(turn, EventKind::Joining);
        }
        let request = Request::ConsumerGroupHeartbeat(request);
        let token = if joins || self.acknowledge {
            core.send(turn, node, version, request)
        } else {
            let due = self.heartbeats.next;
            let token = core.send_due(turn, Destination::Node(node), version, request, due);
            Core::repeats(turn, self.heartbeats.interval);
            token
        };
        let incarnation = core.incarnation;
        self.in_flight = Some(InFlight { token, incarnation, reports_owned });
        let is_first = self.first && !joins;
        if is_first {
            self.heartbeats.begin(turn);
        } else {
            self.heartbeats.next = turn.now() + self.heartbeats.interval;
        }
        (self.full, self.acknowledge, self.first) = (false, false, false);
        Ok(())
    }

    fn minimal(&self, core: &Core) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(core.group().id.clone().into())
            .with_member_id(self.member_id.clone())
            .with_member_epoch(self.epoch)
            .with_instance_id(core.plan.instance_id.clone())
    }

    fn choose_id(&mut self, version: i16, turn: &mut Turn<'_, '_>) {
        if version >= OWN_ID && self.member_id.is_empty() {
            self.member_id = heartbeats::new_member_id(turn);
        }
    }

    /// The coordinator answered with an error.
    fn refused(
        &mut self,
        response: &ConsumerGroupHeartbeatResponse,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let api = ApiKey::ConsumerGroupHeartbeat;
        let code = response.error_code;
        let Some(error) = ResponseError::try_from_code(code) else { return Ok(()) };
        match error {
            ResponseError::UnknownMemberId | ResponseError::FencedMemberEpoch => {
                self.rejoin(code, core, turn);
                core.failed_once(&mut self.heartbeats.retry, turn);
                return Ok(());
            }
            // The Java client gives up; a process supervisor would restart it. So it tries again,
            // until the session of the previous member is over.
            ResponseError::UnreleasedInstanceId => {
                self.rejoin(code, core, turn);
                core.failed(&mut self.heartbeats.retry, turn);
                return Ok(());
            }
            ResponseError::FencedInstanceId => core.emit(turn, EventKind::Fenced { error: code }),
            error => match remedy(error) {
                Remedy::GiveUp => {}
                Remedy::LookUp => {
                    core.refused(turn, api, code);
                    core.lookup.forget();
                    // Sent once the coordinator is found again; the lookup has its own back-off.
                    self.full = true;
                    self.heartbeats.next = turn.now();
                    return Ok(());
                }
                Remedy::Retry => {
                    core.refused(turn, api, code);
                    self.failed(core, turn);
                    return Ok(());
                }
            },
        }
        let said = response.error_message.as_ref().map(StrBytes::as_str);
        Err(fatal(api, &core.group().id, error, said))
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
        core.incarnation = core.incarnation.wrapping_add(1);
        let member_id = std::mem::take(&mut self.member_id);
        let (heartbeats, in_flight) = (self.heartbeats.again(), self.in_flight);
        *self = Self { member_id, heartbeats, in_flight, fenced: true, ..Self::new() };
    }
}
