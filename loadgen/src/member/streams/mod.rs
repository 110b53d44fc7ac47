//! A member of a streams group (KIP-1071), which is a thread of Kafka Streams. One request,
//! StreamsGroupHeartbeat, joins with the topology, keeps the member alive, fetches and acknowledges
//! tasks, and leaves. The order of requests is that of Kafka's `StreamsMembershipManager` and
//! `StreamsGroupHeartbeatRequestManager`. The member owns its active tasks. A task is a
//! [`Partition`] whose topic is the index of a subtopology.

mod messages;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use muster_codec::ApiKey;
use muster_codec::messages::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, StreamsGroupStatus,
};

pub(super) use self::messages::Tasks;

use super::core::{Core, Turn};
use super::error::Step;
use super::heartbeating::Heartbeating;
use super::io::{Regular, Request, Response, Span, SpanKind};
use super::membership::{Beat, Beats, Heard, Membership};
use super::reconciling::Reconciling;
use super::text::text;
use crate::event::{EventKind, is_held};
use crate::plan::{Partition, StreamsPlan};
use crate::time::Time;

static BEATS: Beats = Beats {
    api: ApiKey::StreamsGroupHeartbeat,
    least_version: 0,
    regular: Regular::StreamsHeartbeat,
};

/// The shutdown status of a heartbeat that asks all members of the application to end.
const SHUTDOWN_APPLICATION: i8 = 4;
/// Sent while the member has not received a list of endpoints (addresses for interactive queries).
/// Otherwise it sends the epoch of its list.
const NO_ENDPOINTS: i32 = -1;

pub(super) struct Streams {
    plan: StreamsPlan,
    pub(super) membership: Membership,
    /// The newest assignment received, until it has been adopted.
    target: Option<Tasks>,
    reconciling: Reconciling<Tasks>,
    standby: Vec<Partition>,
    warmup: Vec<Partition>,
    statuses: Arc<[i8]>,
    /// The time since which the member has had tasks, but has not been allowed to process.
    held_since: Option<Time>,
    endpoints: i32,
    /// Whether the member's heartbeats request the end of the application.
    asks_for_shutdown: bool,
}

impl Streams {
    pub(super) fn new(plan: &StreamsPlan) -> Self {
        Self {
            plan: plan.clone(),
            membership: Membership::new(&BEATS),
            target: None,
            reconciling: Reconciling::nothing(),
            standby: Vec::new(),
            warmup: Vec::new(),
            statuses: Arc::new([]),
            held_since: None,
            endpoints: NO_ENDPOINTS,
            asks_for_shutdown: false,
        }
    }

    pub(super) fn begin(&self, core: &Core, turn: &mut Turn<'_, '_>) {
        core.emit(turn, EventKind::InProcess { process: core.plan.process });
    }

    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.reconcile(core, turn);
        let busy = self.target.is_some() || !self.reconciling.is_idle() || is_held(&self.statuses);
        self.membership.settle(busy, core, turn);
        self.keep_alive(core, turn)
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        self.reconciling.until().into_iter().chain(self.membership.deadline(core)).min()
    }

    /// Whether the coordinator asks all members to end.
    pub(super) fn is_to_end(&self) -> bool {
        self.statuses.contains(&SHUTDOWN_APPLICATION)
    }

    /// Asks the coordinator, with the next heartbeat, to end all members of the application.
    pub(super) fn ask_for_shutdown(&mut self) {
        self.asks_for_shutdown = true;
    }

    /// Takes the statuses of an answer. Returns true if they allow the member to process and the
    /// previous statuses did not, or the other way round.
    fn hold(
        &mut self,
        statuses: &[StreamsGroupStatus<'_>],
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) -> bool {
        let codes = || statuses.iter().map(|status| status.status_code);
        if codes().eq(self.statuses.iter().copied()) {
            return false;
        }
        let was_held = is_held(&self.statuses);
        self.statuses = codes().collect();
        core.emit(turn, EventKind::Statuses { codes: Arc::clone(&self.statuses) });
        let is_held = is_held(&self.statuses);
        match self.held_since.take() {
            Some(since) if is_held => self.held_since = Some(since),
            Some(since) => turn.output.spans.push(hold(since, turn.context.now)),
            None => self.held_since = (is_held && !core.owned.is_empty()).then(|| turn.now()),
        }
        was_held != is_held
    }

    /// Handles the assignment in an answer. It becomes the target if it differs from the member's
    /// latest assignment. It also does so if `changed` says that the permission to process has
    /// changed: then the member adopts its latest assignment once more.
    fn assigned(
        &mut self,
        changed: bool,
        sent: Time,
        target: Option<Tasks>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) {
        let owned = self.owned(core);
        let current = self.target.as_ref().or(self.reconciling.assigned()).unwrap_or(&owned);
        let target = match target {
            Some(target) if changed || *current != target => target,
            None if changed => current.clone(),
            Some(_) | None => return,
        };
        if owned.exceed(&target) {
            core.emit(turn, EventKind::MustRebalance { sent });
        }
        self.target = Some(target);
        self.membership.unsettle();
    }

    /// Adopts the target. The member gives up its active tasks that are not in the target (which
    /// takes time), takes all tasks of the target, and acknowledges. Only then does it adopt a
    /// newer target.
    fn reconcile(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if let Some(assigned) = self.reconciling.done(turn.now()) {
            self.reconciled(assigned, core, turn);
        }
        let membership = &self.membership;
        let waits = !self.reconciling.is_idle() || membership.is_acknowledging();
        if waits || !membership.is_member() {
            return;
        }
        let Some(assigned) = self.target.take() else { return };
        let revokes = tasks::any_besides(core.owned.partitions(), &assigned.active);
        let takes = if revokes { core.group().revocation_takes } else { Duration::ZERO };
        if let Some(assigned) = self.reconciling.begin(assigned, takes, turn.now()) {
            self.reconciled(assigned, core, turn);
        }
    }

    fn reconciled(&mut self, assigned: Tasks, core: &mut Core, turn: &mut Turn<'_, '_>) {
        if self.owned(core).exceed(&assigned) {
            self.membership.gave_up();
        }
        core.revoke_but(&assigned.active, turn);
        if (&self.standby, &self.warmup) != (&assigned.standby, &assigned.warmup) {
            (self.standby, self.warmup) = (assigned.standby, assigned.warmup);
            let partitions = self.standby.iter().chain(&self.warmup).copied().collect();
            let epoch = self.membership.epoch;
            core.emit(turn, EventKind::Standbys { epoch, partitions });
        }
        core.adopt(self.membership.epoch, assigned.active, turn);
        self.membership.acknowledge();
    }

    fn owned(&self, core: &Core) -> Tasks {
        let active = core.owned.partitions().to_vec();
        Tasks { active, standby: self.standby.clone(), warmup: self.warmup.clone() }
    }

    /// Forgets the assignment and all tasks, which the member has lost.
    fn lose(&mut self) {
        (self.target, self.reconciling) = (None, Reconciling::nothing());
        (self.standby, self.warmup) = (Vec::new(), Vec::new());
        (self.statuses, self.endpoints) = (Arc::new([]), NO_ENDPOINTS);
        self.held_since = None;
    }

    fn minimal(&self, core: &Core) -> StreamsGroupHeartbeatRequest<'static> {
        StreamsGroupHeartbeatRequest {
            group_id: text(&core.group().id),
            member_id: text(&self.membership.member_id),
            member_epoch: self.membership.epoch,
            endpoint_information_epoch: self.endpoints,
            shutdown_application: self.asks_for_shutdown,
            ..StreamsGroupHeartbeatRequest::default()
        }
    }
}

impl Heartbeating for Streams {
    type Answer<'a> = StreamsGroupHeartbeatResponse<'a>;

    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn membership_mut(&mut self) -> &mut Membership {
        &mut self.membership
    }

    fn request(&mut self, _: i16, core: &Core, turn: &mut Turn<'_, '_>) -> Step<Request> {
        self.membership.choose_id(turn);
        let mut request = self.minimal(core);
        if self.membership.joins() {
            messages::describe(&mut request, &self.plan, core);
        }
        if self.membership.reports_owned() {
            messages::report(&mut request, &self.owned(core));
        }
        Ok(request.into())
    }

    fn minimal_request(&self, core: &Core) -> Request {
        self.minimal(core).into()
    }

    fn answer(response: Response<'_>) -> Option<StreamsGroupHeartbeatResponse<'_>> {
        match response {
            Response::StreamsGroupHeartbeat(answer) => Some(answer),
            _ => None,
        }
    }

    fn beat<'a>(answer: &'a StreamsGroupHeartbeatResponse<'_>) -> Beat<'a> {
        Beat {
            error: answer.error_code,
            said: answer.error_message.as_deref(),
            member_id: Some(&*answer.member_id).filter(|id| !id.is_empty()),
            epoch: answer.member_epoch,
            interval_ms: answer.heartbeat_interval_ms,
        }
    }

    fn take(
        &mut self,
        heard: Heard,
        sent: Time,
        answer: Option<StreamsGroupHeartbeatResponse<'_>>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        match (heard, answer) {
            (Heard::Alive { joined }, Some(answer)) => {
                self.endpoints = answer.endpoint_information_epoch;
                let changed = self.hold(answer.status.as_deref().unwrap_or_default(), core, turn);
                let target = tasks::read(&answer, &self.plan.topology, core)?;
                self.assigned(joined || changed, sent, target, core, turn);
            }
            (Heard::Out, _) => self.lose(),
            (Heard::Alive { .. } | Heard::Nothing, _) => {}
        }
        Ok(())
    }
}

fn hold(since: Time, until: Time) -> Span {
    let (due, began, ended) = (since, since, until);
    let (of, delayed) = (SpanKind::Hold, Duration::ZERO);
    Span { of, due, began, ended, delayed, answered: true, count: 1 }
}
