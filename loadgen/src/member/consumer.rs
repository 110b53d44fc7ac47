//! A member of a consumer group (KIP-848). One request, ConsumerGroupHeartbeat, joins, keeps the
//! member alive, fetches and acknowledges assignments, and leaves. The order of requests is that of
//! Kafka's `ConsumerMembershipManager` and `ConsumerHeartbeatRequestManager`.

use std::time::Duration;

use muster_codec::ApiKey;
use muster_codec::messages::{
    ConsumerGroupHeartbeatAssignment as Assignment, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
};

use super::consumer_messages::{OWN_ID, Target, describe, wire};
use super::core::{Core, Turn};
use super::error::Step;
use super::heartbeating::Heartbeating;
use super::heartbeats::LEAVE;
use super::io::{Regular, Request, Response};
use super::membership::{Beat, Beats, Heard, Membership};
use super::owned::difference;
use super::reconciling::Reconciling;
use super::text::text;
use crate::event::{EventKind, Stop};
use crate::plan::Partition;
use crate::time::Time;
use crate::topics::Topics;

/// The member epoch of a static member that leaves and will come back.
const LEAVE_FOR_NOW: i32 = -2;

static BEATS: Beats = Beats {
    api: ApiKey::ConsumerGroupHeartbeat,
    least_version: 0,
    regular: Regular::ConsumerHeartbeat,
};

pub(super) struct Consumer {
    pub(super) membership: Membership,
    /// The newest assignment from the coordinator, until the member has adopted all of it.
    target: Option<Target>,
    reconciling: Reconciling<Vec<Partition>>,
}

impl Consumer {
    pub(super) fn new() -> Self {
        let (membership, reconciling) = (Membership::new(&BEATS), Reconciling::nothing());
        Self { membership, target: None, reconciling }
    }

    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.reconcile(core, turn);
        let busy = self.target.is_some() || !self.reconciling.is_idle();
        self.membership.settle(busy, core, turn);
        self.keep_alive(core, turn)
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        self.reconciling.until().into_iter().chain(self.membership.deadline(core)).min()
    }

    /// Handles an assignment. It becomes the target if it is the `first` one since the member
    /// joined, or differs from the assignment before it.
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
        self.membership.unsettle();
    }

    fn aims_at(&self, target: &Target, core: &Core) -> bool {
        let Some(current) = &self.target else {
            let assigned = self.reconciling.assigned();
            let aim = assigned.map_or(core.owned.partitions(), |assigned| assigned);
            return target.unknown.is_empty() && aim == target.partitions;
        };
        current == target
    }

    /// Adopts the partitions of the target whose topics are known. The member gives up its
    /// partitions that are not in the target (which takes time), adds the new ones, and
    /// acknowledges. Only then does it adopt a newer target.
    fn reconcile(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if let Some(assigned) = self.reconciling.done(turn.now()) {
            self.reconciled(assigned, core, turn);
        }
        let membership = &self.membership;
        let waits = !self.reconciling.is_idle() || membership.is_acknowledging();
        if waits || !membership.is_member() {
            return;
        }
        let Some(assigned) = self.next_assignment(core, turn.context.topics) else { return };
        let revokes = !difference(core.owned.partitions(), &assigned).is_empty();
        let takes = if revokes { core.group().revocation_takes } else { Duration::ZERO };
        if let Some(assigned) = self.reconciling.begin(assigned, takes, turn.now()) {
            self.reconciled(assigned, core, turn);
        }
    }

    /// Returns the part of the target that can be adopted now. While some of its topics are
    /// unknown, the target stays for a later call.
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
        if losses != core.owned.losses() {
            self.membership.gave_up();
        }
        core.adopt(self.membership.epoch, assigned, turn);
        self.membership.acknowledge();
    }

    fn minimal(&self, core: &Core) -> ConsumerGroupHeartbeatRequest<'static> {
        ConsumerGroupHeartbeatRequest {
            group_id: text(&core.group().id),
            member_id: text(&self.membership.member_id),
            member_epoch: self.membership.epoch,
            instance_id: core.plan.instance_id.as_deref().map(text),
            ..ConsumerGroupHeartbeatRequest::default()
        }
    }
}

impl Heartbeating for Consumer {
    type Answer<'a> = ConsumerGroupHeartbeatResponse<'a>;

    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn membership_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }

    fn request(&mut self, version: i16, core: &Core, turn: &mut Turn<'_, '_>) -> Step<Request> {
        if version >= OWN_ID {
            self.membership.choose_id(turn);
        }
        let mut request = self.minimal(core);
        if self.membership.is_full() {
            describe(&mut request, version, core, turn.context.topics)?;
        }
        if self.membership.reports_owned() {
            request.topic_partitions = Some(wire(core.owned.partitions(), turn.context.topics));
        }
        Ok(Request::ConsumerGroupHeartbeat(request))
    }

    fn minimal_request(&self, core: &Core) -> Request {
        Request::ConsumerGroupHeartbeat(self.minimal(core))
    }

    fn answer(response: Response<'_>) -> Option<ConsumerGroupHeartbeatResponse<'_>> {
        match response {
            Response::ConsumerGroupHeartbeat(answer) => Some(answer),
            _ => None,
        }
    }

    fn beat<'a>(answer: &'a ConsumerGroupHeartbeatResponse<'_>) -> Beat<'a> {
        Beat {
            error: answer.error_code,
            said: answer.error_message.as_deref(),
            member_id: answer.member_id.as_deref(),
            epoch: answer.member_epoch,
            interval_ms: answer.heartbeat_interval_ms,
        }
    }

    fn take(
        &mut self,
        heard: Heard,
        sent: Time,
        answer: Option<ConsumerGroupHeartbeatResponse<'_>>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        match heard {
            Heard::Alive { joined } => {
                if let Some(assignment) = answer.and_then(|answer| answer.assignment) {
                    self.assigned(joined, sent, &assignment, core, turn);
                }
            }
            Heard::Out => (self.target, self.reconciling) = (None, Reconciling::nothing()),
            Heard::Nothing => {}
        }
        Ok(())
    }
}

/// The epoch of the last heartbeat, which leaves the group.
pub(super) fn last_epoch(how: Stop) -> i32 {
    if how == Stop::Close { LEAVE_FOR_NOW } else { LEAVE }
}
