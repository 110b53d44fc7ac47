//! A member of a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, as in Kafka's
//! `AbstractCoordinator` and `ConsumerCoordinator`. [`super::classic_messages`] builds the
//! requests, and [`rebalance`] joins and syncs.

mod rebalance;

use std::sync::Arc;

use muster_codec::messages::SyncGroupRequestAssignment;
use muster_codec::{ApiKey, ErrorCode};

use super::State;
use super::assignors::NO_GENERATION;
use super::backoff::Retry;
use super::classic_messages as messages;
use super::core::{Core, Turn};
use super::error::{Remedy, Step, fatal, refusal, remedy};
use super::io::{Destination, Failure, NodeIndex, Overdue, Regular, Request, Response};
use super::repeat::Repeat;
use crate::event::EventKind;
use crate::plan::{ClassicAssignor, Partition, TopicIndex};
use crate::time::Time;
use crate::topics::Topics;

pub(super) struct Classic {
    phase: Phase,
    /// Empty until the coordinator has assigned an id.
    pub(super) member_id: Arc<str>,
    pub(super) generation: i32,
    assignor: Option<ClassicAssignor>,
    /// The topics of the member's last JoinGroup.
    joined_to: Option<Arc<[TopicIndex]>>,
    /// The partition counts of the subscribed topics when this member last assigned partitions as
    /// the group's leader.
    assigned_of: Option<Box<[u32]>>,
    /// The last assignment and its generation. A sticky member sends them even after it gave the
    /// partitions up.
    pub(super) last: (Arc<[Partition]>, i32),
    /// The JoinGroup, SyncGroup, Heartbeat or LeaveGroup under way: one at a time.
    in_flight: Option<InFlight>,
    next_heartbeat: Time,
    /// The time when the coordinator last accepted a request of the member.
    last_accepted: Time,
    /// A rebalance is under way or needed, so the member has to join again.
    rejoin: bool,
    fenced: bool,
    leaving: bool,
    retry: Retry,
    repeat: Repeat,
}

#[derive(Clone, Copy)]
struct InFlight {
    token: u32,
    incarnation: u32,
}

enum Phase {
    /// The member will send JoinGroup.
    Unjoined,
    /// JoinGroup is in flight.
    Joining,
    /// The member will send SyncGroup with these assignments.
    Joined(Vec<SyncGroupRequestAssignment<'static>>),
    /// SyncGroup is in flight.
    Syncing,
    /// The member will adopt this assignment.
    Synced(Vec<Partition>),
    Stable,
    /// The member gives up partitions, which takes until this time.
    Revoking(Time, Then),
}

enum Then {
    /// The member gives up all partitions (eager), and then joins again.
    Join,
    /// The member gives up the partitions that are not in this new assignment (cooperative), and
    /// then adopts the assignment.
    Adopt(Vec<Partition>),
}

impl Classic {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Unjoined,
            member_id: Arc::default(),
            generation: NO_GENERATION,
            assignor: None,
            joined_to: None,
            assigned_of: None,
            last: (Arc::default(), NO_GENERATION),
            in_flight: None,
            next_heartbeat: Time::ZERO,
            last_accepted: Time::ZERO,
            rejoin: false,
            fenced: false,
            leaving: false,
            retry: Retry::default(),
            repeat: Repeat::default(),
        }
    }

    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.take_up(core, turn);
        self.finish_revocation(core, turn);
        if matches!(self.phase, Phase::Stable) {
            self.rejoin |= self.topics_grew(core, turn.context.topics) || self.differs(core);
            if self.rejoin {
                self.prepare_to_join(core, turn);
            }
        }
        match self.phase {
            Phase::Unjoined => self.join(core, turn),
            Phase::Joined(_) => self.sync(core, turn),
            _ => {
                self.repeat(core, turn)?;
                self.keep_alive(core, turn)
            }
        }
    }

    /// Sends SyncGroup a second time, if this member has to repeat it ([`super::repeat`]). The
    /// repetition must have no effect.
    fn repeat(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let ready = matches!(self.phase, Phase::Stable) && self.in_flight.is_none();
        let Some(node) = core.lookup.node().filter(|_| ready && self.repeat.is_due()) else {
            return Ok(());
        };
        self.repeat.sent();
        let (version, request) = messages::sync(self, Vec::new(), core, turn)?;
        self.send(node, version, request, core, turn);
        Ok(())
    }

    /// Sends a heartbeat if one is due. Heartbeats are due while the member has an assignment, not
    /// while it joins.
    pub(super) fn keep_alive(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        if self.in_flight.is_some() || !self.is_member() || self.heartbeat_time() > turn.now() {
            return Ok(());
        }
        if turn.now().since(self.last_accepted) > core.group().session_timeout {
            core.lookup.forget();
            self.last_accepted = turn.now();
        }
        let Some(node) = core.lookup.node() else { return Ok(()) };
        let (version, request) = self.extra_heartbeat(core, turn)?;
        let (to, due) = (Destination::Node(node), self.next_heartbeat);
        let token = core.send_due(turn, to, version, request, due);
        Core::repeats(turn, core.group().heartbeat_interval);
        self.in_flight = Some(InFlight { token, incarnation: core.incarnation });
        self.next_heartbeat = turn.now() + core.group().heartbeat_interval;
        Ok(())
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let revoked = match self.phase {
            Phase::Revoking(until, _) => Some(until),
            _ => None,
        };
        let request = match self.phase {
            Phase::Unjoined | Phase::Joined(_) => self.idle(core).then(|| self.retry.until()),
            _ => self.heartbeat_deadline(core),
        };
        revoked.into_iter().chain(request).min()
    }

    pub(super) fn heartbeat_deadline(&self, core: &Core) -> Option<Time> {
        (self.is_member() && self.idle(core)).then(|| self.heartbeat_time())
    }

    /// The heartbeat that is due and can't be sent, if there is one.
    pub(super) fn overdue(&self, core: &Core, now: Time) -> Option<Overdue> {
        let due = self.next_heartbeat;
        let is_late = self.is_member() && self.in_flight.is_none() && due < now;
        let every = core.group().heartbeat_interval;
        is_late.then_some(Overdue { of: Regular::Heartbeat, due, every })
    }

    pub(super) fn state(&self) -> State {
        match self.phase {
            Phase::Unjoined | Phase::Joining if self.fenced => State::Fenced,
            Phase::Unjoined | Phase::Joining | Phase::Joined(_) | Phase::Syncing => State::Joining,
            Phase::Synced(_) | Phase::Revoking(..) => State::Reconciling,
            Phase::Stable if self.rejoin => State::Reconciling,
            Phase::Stable => State::Stable,
        }
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.in_flight.is_some_and(|in_flight| in_flight.token == token)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    /// The assignor that the coordinator chose in this generation.
    pub(super) fn assignor(&self) -> Option<ClassicAssignor> {
        self.assignor
    }

    /// The id and generation for commits. `None` while joining, as in Kafka's client.
    pub(super) fn identity(&self) -> Option<(&str, i32)> {
        self.is_member().then_some((&self.member_id, self.generation))
    }

    /// Builds a heartbeat for the load that is sent in addition to the regular heartbeats. Returns
    /// it with its API version.
    pub(super) fn extra_heartbeat(&self, core: &Core, turn: &Turn<'_, '_>) -> Step<(i16, Request)> {
        messages::heartbeat(self, core, turn)
    }

    /// Sends LeaveGroup if the member may be in the group. A static member names its instance id. A
    /// dynamic member that has no member id yet sends nothing, as in Kafka's client.
    pub(super) fn leave(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        let known = !self.member_id.is_empty() || core.plan.instance_id.is_some();
        let Some(node) = core.lookup.node().filter(|_| known) else { return Ok(()) };
        let (version, request) = messages::leave(self, core, turn)?;
        self.send(node, version, request, core, turn);
        self.leaving = true;
        Ok(())
    }

    /// Handles the answer to the request in flight.
    pub(super) fn answered(
        &mut self,
        sent: Time,
        outcome: Result<Response<'_>, Failure>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let sent_as = self.in_flight.take().map(|in_flight| in_flight.incarnation);
        let current = sent_as == Some(core.incarnation);
        match (&self.phase, outcome) {
            (_, Ok(Response::LeaveGroup(response))) if self.leaving => {
                if let Some(code) = messages::left(&response) {
                    core.refused(turn, ApiKey::LeaveGroup, code);
                }
                Ok(())
            }
            (Phase::Joining, Ok(Response::JoinGroup(response))) => {
                self.joined(sent, &response, core, turn)
            }
            (Phase::Syncing, Ok(Response::SyncGroup(response))) => {
                self.synced(sent, &response, core, turn)
            }
            (Phase::Stable, Ok(Response::SyncGroup(response))) if current => {
                let differs = self.repeat.answered(&response, turn.context.topics);
                differs.into_iter().for_each(|event| core.emit(turn, event));
                Ok(())
            }
            (_, Ok(Response::SyncGroup(_))) => Ok(()),
            (_, Ok(Response::Heartbeat(response))) if current => {
                self.heartbeat_answered(sent, response.error_code, core, turn)
            }
            // The member was fenced after it had sent this heartbeat, so the answer no longer
            // matters.
            (_, Ok(Response::Heartbeat(_))) => Ok(()),
            (_, Ok(_) | Err(_)) => {
                self.broke(core, turn);
                Ok(())
            }
        }
    }

    /// Handles the answer to a heartbeat that was sent in the current generation.
    pub(super) fn heartbeat_answered(
        &mut self,
        sent: Time,
        code: i16,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let Some(error) = refusal(code) else {
            self.retry.succeeded();
            self.alive(sent, core, turn);
            return Ok(());
        };
        match error {
            ErrorCode::RebalanceInProgress => {
                self.retry.succeeded();
                self.last_accepted = turn.now();
                self.must_rejoin(sent, core, turn);
                Ok(())
            }
            error if is_fencing(error) => self.fence(ApiKey::Heartbeat, error, core, turn),
            error => {
                self.remedy(ApiKey::Heartbeat, error, core, turn)?;
                self.next_heartbeat = self.retry.until();
                Ok(())
            }
        }
    }

    /// Makes the member join again, because the answer to a request that was sent at `sent` said
    /// that a rebalance is under way.
    pub(super) fn must_rejoin(&mut self, sent: Time, core: &Core, turn: &mut Turn<'_, '_>) {
        let joins = matches!(self.phase, Phase::Revoking(_, Then::Join));
        if self.is_member() && !joins && !self.rejoin {
            core.emit(turn, EventKind::MustRebalance { sent });
            self.rejoin = true;
        }
    }

    /// Handles an error that says that the coordinator no longer accepts the member or its
    /// generation. The member loses its partitions, and joins again. After ILLEGAL_GENERATION it
    /// keeps its id. FENCED_INSTANCE_ID is fatal.
    pub(super) fn fence(
        &mut self,
        api: ApiKey,
        error: ErrorCode,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        core.emit(turn, EventKind::Fenced { error: error.code() });
        core.lose_all(turn);
        if error == ErrorCode::FencedInstanceId {
            return Err(fatal(api, &core.group().id, error, None));
        }
        if error != ErrorCode::IllegalGeneration {
            self.member_id = Arc::default();
        }
        self.generation = NO_GENERATION;
        core.incarnation = core.incarnation.wrapping_add(1);
        self.assigned_of = None;
        self.fenced = true;
        self.phase = Phase::Unjoined;
        core.failed_once(&mut self.retry, turn);
        Ok(())
    }

    fn send(
        &mut self,
        node: NodeIndex,
        version: i16,
        request: Request,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) {
        let token = core.send(turn, node, version, request);
        self.in_flight = Some(InFlight { token, incarnation: core.incarnation });
    }

    fn alive(&mut self, sent: Time, core: &Core, turn: &mut Turn<'_, '_>) {
        self.last_accepted = turn.now();
        let alive = EventKind::Alive { sent, epoch: self.generation };
        core.emit(turn, if core.lookup.is_confirmed() { alive } else { EventKind::Reached });
    }

    /// Whether the member has an assignment in a generation, and is not joining another generation.
    pub(super) fn is_member(&self) -> bool {
        matches!(self.phase, Phase::Stable | Phase::Revoking(..))
    }

    /// Whether the member can send a request now.
    fn idle(&self, core: &Core) -> bool {
        self.in_flight.is_none() && core.lookup.node().is_some()
    }

    fn heartbeat_time(&self) -> Time {
        self.next_heartbeat.max(self.retry.until())
    }

    /// Whether the member's subscription has changed since it joined.
    fn differs(&self, core: &Core) -> bool {
        let topics = core.group().subscription.topics();
        self.joined_to.as_ref().is_some_and(|it| !Arc::ptr_eq(it, topics) && it != topics)
    }

    /// Whether the leader must rejoin to assign new partitions. Only the leader watches the topics.
    fn topics_grew(&self, core: &Core, topics: &Topics) -> bool {
        self.assigned_of.as_ref().is_some_and(|before| {
            let counts = core.group().subscription.topics().iter();
            !counts.map(|topic| topics.partitions(*topic)).eq(before.iter().copied())
        })
    }

    fn broke(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if matches!(self.phase, Phase::Joining | Phase::Syncing) {
            self.phase = Phase::Unjoined;
        }
        core.failed(&mut self.retry, turn);
        self.next_heartbeat = self.retry.until();
        core.broke(turn);
    }

    /// Handles an error that has no specific meaning for the request.
    fn remedy(
        &mut self,
        api: ApiKey,
        error: ErrorCode,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        match remedy(error) {
            Remedy::GiveUp => return Err(fatal(api, &core.group().id, error, None)),
            Remedy::LookUp => core.lookup.forget(),
            Remedy::Retry => {}
        }
        core.refused(turn, api, error.code());
        core.failed(&mut self.retry, turn);
        Ok(())
    }
}

/// Errors by which the coordinator refuses the member, or its generation.
pub(super) fn is_fencing(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration | ErrorCode::FencedInstanceId
    )
}
