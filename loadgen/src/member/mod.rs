//! A simulated member. It behaves like a real client: it is in a group, commits and fetches
//! offsets, or produces or reads records. But it does no I/O. Start here.
//!
//! The owner of a [`Member`] calls:
//!
//! - [`Member::start`] and [`Member::stop`]: the simulated process begins and ends;
//! - [`Member::answered`]: exactly once for each request of its output, with the answer or the
//!   failure;
//! - [`Member::wake`]: when the time of [`Member::deadline`] has come. A spurious call does no
//!   harm;
//! - [`Member::topics_changed`]: when partitions were added to topics;
//! - [`Member::set_workload`] and [`Member::subscribe`]: its loads or its subscription change;
//! - [`Member::fail`]: it cannot continue, for a reason that only the owner knows.
//!
//! Each call adds requests and events to an [`Output`]. The time of a call is never before that of
//! an earlier call. A member does not depend on the order of a hash map, and takes random numbers
//! only from its caller. So a run can be repeated from its seed.

pub mod assignors;
mod backoff;
mod batches;
mod classic;
mod classic_messages;
mod consumer;
mod consumer_messages;
mod consuming;
mod context;
mod coordinator;
mod core;
mod error;
mod heartbeating;
mod heartbeats;
mod io;
mod leaders;
mod loads;
mod membership;
mod numbered;
mod offset_messages;
mod offsets;
mod owned;
mod producer;
mod reader;
mod reconciling;
mod repeat;
mod role;
mod schedule;
mod share;
mod state;
mod streams;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;
use std::time::Duration;

use muster_codec::ApiKey;

pub use self::context::{Context, Output};
pub(crate) use self::error::error_name;
pub use self::io::{
    Answer, Destination, Failure, NodeIndex, Nodes, Outgoing, Overdue, Regular, Request, Response,
    Span, SpanKind, Versions,
};
pub use self::state::State;

use self::consuming::Consuming;
use self::core::{Core, Turn};
use self::error::{Fatal, Step, fatal};
use self::offsets::{Effect, InFlight, Offsets, Purpose, is_fatal};
use self::role::Role;
use crate::event::{EventKind, Stop};
use crate::plan::{GroupPlan, MemberPlan, Workload};
use crate::time::Time;

/// How long a leaving member waits for answers: the default of `Consumer.close`. After that the
/// member counts as crashed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// One simulated process in a group.
pub struct Member {
    core: Core,
    role: Role,
    offsets: Offsets,
    /// The state for reading records. Most members read none.
    consuming: Option<Box<Consuming>>,
    workload: Workload,
    lifecycle: Lifecycle,
}

enum Lifecycle {
    Down,
    Up,
    Stopping(Stopping),
    Failed,
}

/// The state of a member that stops: it gives up its partitions, leaves, and waits for outstanding
/// answers.
#[derive(Clone, Copy)]
struct Stopping {
    how: Stop,
    gives_up_at: Time,
    until: Time,
    has_left: bool,
}

impl Member {
    pub fn new(plan: MemberPlan) -> Self {
        Self {
            role: Role::new(&plan.group.protocol),
            workload: plan.workload,
            core: Core::new(plan),
            offsets: Offsets::default(),
            consuming: None,
            lifecycle: Lifecycle::Down,
        }
    }

    pub fn plan(&self) -> &MemberPlan {
        &self.core.plan
    }

    /// Starts the process, for the first time or again. Only the plan, the workload and the
    /// counters of the previous process are kept. No effect while the process runs.
    pub fn start(&mut self, context: &mut Context<'_>, output: &mut Output) {
        if matches!(self.lifecycle, Lifecycle::Up | Lifecycle::Stopping(_)) {
            return;
        }
        let turn = &mut Turn { context, output };
        self.core.restart();
        self.role = Role::new(&self.core.plan.group.protocol);
        let workload = self.role.workload(self.workload);
        self.offsets.restart(workload, turn);
        self.consuming = None;
        self.consume(workload.records, turn);
        self.lifecycle = Lifecycle::Up;
        self.core.emit(turn, EventKind::Started);
        self.role.begin(self.workload, &mut self.core, turn);
        let step = self.advance(turn);
        self.conclude(step, turn);
    }

    /// Ends the process. A crash ends it at once. Otherwise it ends when its last requests are
    /// answered, or 30 s after it gave up its partitions, which counts as a crash. The owner can
    /// close its connection once [`Member::is_done`]. [`Stop::Close`] of a dynamic member, and
    /// [`Stop::Shutdown`] outside streams groups, are the same as [`Stop::Leave`].
    pub fn stop(&mut self, how: Stop, context: &mut Context<'_>, output: &mut Output) {
        let turn = &mut Turn { context, output };
        match (&self.lifecycle, how) {
            (Lifecycle::Down | Lifecycle::Failed, _) => return,
            (_, Stop::Crash) => return self.crash(turn),
            (Lifecycle::Stopping(_), _) => return,
            (Lifecycle::Up, Stop::Shutdown) if self.role.ask_for_shutdown() => return,
            (Lifecycle::Up, _) => {}
        }
        self.begin_to_stop(how, turn.now());
        let step = self.advance(turn);
        self.conclude(step, turn);
    }

    /// Ends a member that can't continue for a reason that only the owner knows, such as a refused
    /// password.
    pub fn fail(&mut self, reason: &str, context: &mut Context<'_>, output: &mut Output) {
        if matches!(self.lifecycle, Lifecycle::Up | Lifecycle::Stopping(_)) {
            self.conclude(Err(Fatal(reason.to_owned())), &mut Turn { context, output });
        }
    }

    /// Handles an answer. A late answer, which is no longer awaited, has no effect.
    pub fn answered(&mut self, answer: Answer<'_>, context: &mut Context<'_>, output: &mut Output) {
        let turn = &mut Turn { context, output };
        let step = self.receive(answer, turn).and_then(|()| self.advance(turn));
        self.conclude(step, turn);
    }

    /// Called when the time of [`Member::deadline`] has come.
    pub fn wake(&mut self, context: &mut Context<'_>, output: &mut Output) {
        let turn = &mut Turn { context, output };
        let step = self.advance(turn);
        self.conclude(step, turn);
    }

    /// Called when [`Context::topics`] differ from those of the previous call.
    pub fn topics_changed(&mut self, context: &mut Context<'_>, output: &mut Output) {
        self.wake(context, output);
    }

    /// Sets the loads from now on, for later starts as well.
    pub fn set_workload(
        &mut self,
        workload: Workload,
        context: &mut Context<'_>,
        output: &mut Output,
    ) {
        self.workload = workload;
        if !self.is_done() {
            let turn = &mut Turn { context, output };
            self.role.set_workload(workload, turn);
            let workload = self.role.workload(workload);
            self.offsets.set_workload(workload, turn);
            self.consume(workload.records, turn);
            self.wake(context, output);
        }
    }

    /// Gives the member the topics of this plan as its subscription, now and at later starts. A
    /// plan with another protocol is ignored, because the member would have to restart.
    pub fn subscribe(
        &mut self,
        group: Arc<GroupPlan>,
        context: &mut Context<'_>,
        output: &mut Output,
    ) {
        if group.protocol != self.core.plan.group.protocol {
            return;
        }
        self.core.plan.group = group;
        if !self.is_done() {
            self.role.describe_again();
            self.wake(context, output);
        }
    }

    /// When to call [`Member::wake`] if no other call comes first. If the time is past, the call is
    /// due at once.
    pub fn deadline(&self) -> Option<Time> {
        match &self.lifecycle {
            Lifecycle::Down | Lifecycle::Failed => None,
            Lifecycle::Stopping(stopping) if self.core.owned.is_empty() => {
                let last = self.role.finish_deadline(&self.core).unwrap_or(Time::MAX);
                Some(last.min(stopping.until))
            }
            Lifecycle::Stopping(stopping) => {
                let heartbeat = self.role.heartbeat_deadline(&self.core);
                Some(heartbeat.unwrap_or(Time::MAX).min(stopping.gives_up_at))
            }
            Lifecycle::Up => {
                let lookup = self.role.needs_coordinator(&self.core);
                let lookup = lookup.then(|| self.core.lookup.deadline()).flatten();
                let role = self.role.deadline(&self.core);
                let usable = self.core.lookup.node().is_some() && self.role.identity().is_some();
                let load = usable && !self.core.owned.is_empty();
                let load = load.then(|| self.offsets.deadline(&self.core)).flatten();
                let records = self.consuming.as_ref().and_then(|it| it.deadline(&self.core));
                lookup.into_iter().chain(role).chain(load).chain(records).min()
            }
        }
    }

    /// The requests that are due but can't be sent, at most one of each kind: the one that has been
    /// due for longest. A stopping member has none.
    pub fn overdue(&self, now: Time) -> impl Iterator<Item = Overdue> {
        let up = matches!(self.lifecycle, Lifecycle::Up);
        let heartbeat = self.role.overdue(&self.core, now);
        let beat = match self.role {
            Role::Classic(_) => Regular::Heartbeat,
            Role::Consumer(_)
            | Role::Manual
            | Role::Producer(_)
            | Role::Reader(_)
            | Role::Share(_) => Regular::ConsumerHeartbeat,
            Role::Streams(_) => Regular::StreamsHeartbeat,
        };
        let loads = self.role.identity().map(|_| self.offsets.overdue(&self.core, beat, now));
        heartbeat.into_iter().chain(loads.into_iter().flatten()).filter(move |_| up)
    }

    /// When the open transaction was due.
    pub fn unfinished(&self) -> Option<Time> {
        self.role.unfinished().filter(|_| !self.is_done())
    }

    pub fn state(&self) -> State {
        match self.lifecycle {
            Lifecycle::Down => State::Down,
            Lifecycle::Failed => State::Failed,
            Lifecycle::Up | Lifecycle::Stopping(_)
                if self.core.lookup.node().is_none() && self.role.needs_coordinator(&self.core) =>
            {
                State::Searching
            }
            Lifecycle::Up | Lifecycle::Stopping(_) => self.role.state(),
        }
    }

    /// Whether the member ended or failed. Its connection can then be closed, and its requests need
    /// no answers.
    pub fn is_done(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Down | Lifecycle::Failed)
    }

    /// Whether the answer to this request would still have an effect.
    pub fn awaits(&self, token: u32) -> bool {
        !self.is_done()
            && (self.core.lookup.awaits(token)
                || self.role.awaits(token)
                || self.offsets.awaits(token)
                || self.consuming.as_ref().is_some_and(|it| it.awaits(token)))
    }

    fn conclude(&mut self, step: Step, turn: &mut Turn<'_, '_>) {
        let Err(Fatal(reason)) = step else { return };
        self.role.abandon(turn);
        self.offsets.abandon(&self.core, turn);
        self.consuming.iter_mut().for_each(|it| it.abandon());
        self.release_all(turn);
        self.lifecycle = Lifecycle::Failed;
        self.core.emit(turn, EventKind::Failed { reason: Arc::from(reason) });
    }

    fn crash(&mut self, turn: &mut Turn<'_, '_>) {
        self.role.abandon(turn);
        self.offsets.abandon(&self.core, turn);
        self.consuming.iter_mut().for_each(|it| it.abandon());
        self.release_all(turn);
        self.lifecycle = Lifecycle::Down;
        self.core.emit(turn, EventKind::Stopped { how: Stop::Crash });
    }

    /// Gives up all partitions. A manual member reports no event, because nothing was assigned to
    /// it.
    fn release_all(&mut self, turn: &mut Turn<'_, '_>) {
        match self.role.is_manual() {
            true => drop(self.core.owned.clear()),
            false => self.core.lose_all(turn),
        }
    }

    fn advance(&mut self, turn: &mut Turn<'_, '_>) -> Step {
        match self.lifecycle {
            Lifecycle::Down | Lifecycle::Failed => Ok(()),
            Lifecycle::Up if self.role.is_to_end() => {
                self.begin_to_stop(Stop::Leave, turn.now());
                self.advance(turn)
            }
            Lifecycle::Up => {
                if self.role.needs_coordinator(&self.core) {
                    self.core.search(turn)?;
                }
                let (before, identity) = (turn.output.requests.len(), self.who_commits());
                self.role.advance(&mut self.core, turn)?;
                self.commit_given_up(identity.as_ref(), before, turn)?;
                if let Some(consuming) = &mut self.consuming {
                    consuming.advance(&mut self.core, turn)?;
                }
                self.work(turn)
            }
            Lifecycle::Stopping(stopping) => self.wind_down(stopping, turn),
        }
    }

    fn begin_to_stop(&mut self, how: Stop, now: Time) {
        let returns = how == Stop::Close && self.core.plan.instance_id.is_some();
        let takes = match self.core.owned.is_empty() || self.role.is_manual() {
            true => Duration::ZERO,
            false => self.core.group().revocation_takes,
        };
        self.lifecycle = Lifecycle::Stopping(Stopping {
            how: if returns { Stop::Close } else { Stop::Leave },
            gives_up_at: now + takes,
            until: now + takes + CLOSE_TIMEOUT,
            has_left: false,
        });
    }

    fn wind_down(&mut self, stopping: Stopping, turn: &mut Turn<'_, '_>) -> Step {
        if turn.now() < stopping.gives_up_at && !self.core.owned.is_empty() {
            return self.role.keep_alive(&mut self.core, turn);
        }
        let (before, identity) = (turn.output.requests.len(), self.who_commits());
        match self.role.is_manual() {
            true => drop(self.core.owned.clear()),
            false => self.core.revoke_all(turn),
        }
        self.commit_given_up(identity.as_ref(), before, turn)?;
        if turn.now() >= stopping.until {
            self.crash(turn);
            return Ok(());
        }
        if !self.role.is_idle() {
            self.role.finish(&mut self.core, turn)?;
        }
        if !self.role.is_idle() {
            return Ok(());
        }
        if !stopping.has_left {
            self.lifecycle = Lifecycle::Stopping(Stopping { has_left: true, ..stopping });
            self.role.leave(stopping.how, &mut self.core, turn)?;
        }
        let has_read = self.consuming.as_ref().is_none_or(|it| it.is_idle());
        if self.role.is_idle() && self.offsets.is_idle() && has_read {
            self.lifecycle = Lifecycle::Down;
            self.core.emit(turn, EventKind::Stopped { how: stopping.how });
        }
        Ok(())
    }

    fn receive(&mut self, answer: Answer<'_>, turn: &mut Turn<'_, '_>) -> Step {
        if self.is_done() {
            return Ok(());
        }
        if self.core.lookup.awaits(answer.token) {
            return self.core.found(answer.outcome, turn);
        }
        if self.role.awaits(answer.token) {
            return self.role.answered(answer, &mut self.core, turn);
        }
        if let Some(consuming) = self.consuming.as_mut().filter(|it| it.awaits(answer.token)) {
            return consuming.answered(answer, &mut self.core, turn);
        }
        match self.offsets.take(answer.token) {
            Some(in_flight) => self.load_answered(in_flight, answer.sent, answer.outcome, turn),
            None => Ok(()),
        }
    }

    fn load_answered(
        &mut self,
        in_flight: InFlight,
        sent: Time,
        outcome: Result<Response<'_>, Failure>,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let current = in_flight.incarnation == self.core.incarnation;
        if in_flight.purpose == Purpose::Heartbeat {
            return match outcome {
                Ok(response) if current => {
                    self.role.extra_answered(sent, response, &mut self.core, turn)
                }
                Ok(_) => Ok(()),
                Err(_) => {
                    self.offsets.heartbeat_failed(&self.core, turn);
                    self.role.extra_failed();
                    self.core.broke(turn);
                    Ok(())
                }
            };
        }
        let core = &mut self.core;
        match self.offsets.answered(in_flight.purpose, sent, outcome, core, turn)? {
            Effect::Nothing => Ok(()),
            Effect::LookUp => {
                core.lookup.forget();
                Ok(())
            }
            Effect::Broke => {
                core.broke(turn);
                Ok(())
            }
            Effect::CommitRefused(error) if is_fatal(error) => {
                Err(fatal(ApiKey::OffsetCommit, &core.group().id, error, None))
            }
            Effect::CommitRefused(error) if current => {
                self.role.commit_refused(error, sent, core, turn)
            }
            Effect::CommitRefused(_) => Ok(()),
        }
    }
}
