//! A simulated member: what a real client does to be in a group, commit and fetch offsets, without
//! any I/O. Start here.
//!
//! The owner of a [`Member`] calls it in four ways:
//!
//! - [`Member::start`] and [`Member::stop`]: the simulated process begins and ends;
//! - [`Member::answered`]: exactly once for each request that it asked to send, with the answer, or
//!   with what went wrong;
//! - [`Member::wake`], when the time of [`Member::deadline`] has come. A spurious call does no harm;
//! - [`Member::topics_changed`], when partitions were added to topics.
//!
//! Each of them fills an [`Output`] with requests to send and events to tell of. Time never goes
//! back. A member keeps no order of a hash map and no random number of its own, so that a run can be
//! repeated from its seed.

pub mod assignors;
mod backoff;
mod classic;
mod classic_messages;
mod consumer;
mod coordinator;
mod core;
mod error;
mod io;
mod offset_messages;
mod offsets;
mod owned;
mod repeat;
mod role;
mod schedule;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::ApiKey;

pub use self::io::{
    Answer, Destination, Failure, NodeIndex, Nodes, Outgoing, Request, Response, Versions,
};

use self::core::{Core, Turn};
use self::error::{Fatal, Step, fatal};
use self::offsets::{InFlight, Offsets, Sequel, What, is_fatal};
use self::role::Role;
use crate::event::{Event, EventKind, Stop};
use crate::plan::{MemberPlan, Workload};
use crate::time::Time;
use crate::topics::Topics;

/// What a member is told of the world in each call.
pub struct Context<'a> {
    pub now: Time,
    pub topics: &'a Topics,
    pub versions: &'a Versions,
    pub nodes: &'a mut Nodes,
    pub random: &'a mut fastrand::Rng,
}

/// What a member wants. The owner empties it and hands it in again.
#[derive(Default)]
pub struct Output {
    pub requests: Vec<Outgoing>,
    pub events: Vec<Event>,
}

/// How long a member that leaves waits for answers: the default of `Consumer.close`. What is not
/// done by then is a crash.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// One simulated process in a group.
pub struct Member {
    core: Core,
    role: Role,
    offsets: Offsets,
    workload: Workload,
    life: Life,
}

enum Life {
    Down,
    Up,
    Stopping(Stopping),
    Failed,
}

/// A member on its way out: it gives up its partitions, tells the coordinator, and waits for what
/// is still to be answered.
#[derive(Clone, Copy)]
struct Stopping {
    how: Stop,
    gives_up_at: Time,
    until: Time,
    told: bool,
}

impl Member {
    pub fn new(plan: MemberPlan) -> Self {
        Self {
            role: Role::new(&plan.group.protocol),
            workload: plan.workload,
            core: Core::new(plan),
            offsets: Offsets::default(),
            life: Life::Down,
        }
    }

    pub fn plan(&self) -> &MemberPlan {
        &self.core.plan
    }

    /// The process starts, for the first time or again: it remembers nothing, except what its plan
    /// says. No effect while it runs.
    pub fn start(&mut self, context: &mut Context<'_>, output: &mut Output) {
        if matches!(self.life, Life::Up | Life::Stopping(_)) {
            return;
        }
        let turn = &mut Turn { context, output };
        self.core.restart();
        self.role = Role::new(&self.core.plan.group.protocol);
        self.offsets.restart(self.role.workload(self.workload), turn);
        self.life = Life::Up;
        self.core.emit(turn, EventKind::Started);
        self.role.begin(&mut self.core);
        let step = self.advance(turn);
        self.conclude(step, turn);
    }

    /// The process ends. After a crash at once; else when the coordinator has answered, and at the
    /// latest after 30 s, which then counts as a crash. [`Member::is_done`] tells when its
    /// connection is to be closed. [`Stop::Close`] of a dynamic member is [`Stop::Leave`].
    pub fn stop(&mut self, how: Stop, context: &mut Context<'_>, output: &mut Output) {
        let turn = &mut Turn { context, output };
        match (&self.life, how) {
            (Life::Down | Life::Failed, _) => return,
            (_, Stop::Crash) => return self.crash(turn),
            (Life::Stopping(_), _) => return,
            (Life::Up, _) => {}
        }
        let returns = how == Stop::Close && self.core.plan.instance_id.is_some();
        let takes = match self.core.owned.is_empty() || self.role.is_manual() {
            true => Duration::ZERO,
            false => self.core.group().revocation_takes,
        };
        self.life = Life::Stopping(Stopping {
            how: if returns { Stop::Close } else { Stop::Leave },
            gives_up_at: turn.now() + takes,
            until: turn.now() + takes + CLOSE_TIMEOUT,
            told: false,
        });
        let step = self.advance(turn);
        self.conclude(step, turn);
    }

    /// It can't go on for a reason that only the owner knows, such as a refused password.
    pub fn fail(&mut self, reason: &str, context: &mut Context<'_>, output: &mut Output) {
        if matches!(self.life, Life::Up | Life::Stopping(_)) {
            self.conclude(Err(Fatal(reason.to_owned())), &mut Turn { context, output });
        }
    }

    /// What came of a request. An answer that is not awaited any more has no effect.
    pub fn answered(&mut self, answer: Answer, context: &mut Context<'_>, output: &mut Output) {
        let turn = &mut Turn { context, output };
        let step = self.hear(answer, turn).and_then(|()| self.advance(turn));
        self.conclude(step, turn);
    }

    /// The time of [`Member::deadline`] has come.
    pub fn wake(&mut self, context: &mut Context<'_>, output: &mut Output) {
        let turn = &mut Turn { context, output };
        let step = self.advance(turn);
        self.conclude(step, turn);
    }

    /// [`Context::topics`] differ from those of the last call.
    pub fn topics_changed(&mut self, context: &mut Context<'_>, output: &mut Output) {
        self.wake(context, output);
    }

    /// From now on, and when it is started again, it does this beside being a member.
    pub fn set_workload(
        &mut self,
        workload: Workload,
        context: &mut Context<'_>,
        output: &mut Output,
    ) {
        self.workload = workload;
        if !self.is_done() {
            let turn = &mut Turn { context, output };
            self.offsets.set_workload(self.role.workload(workload), turn);
            self.wake(context, output);
        }
    }

    /// When to call [`Member::wake`] if nothing happens before. May be past: then at once.
    pub fn deadline(&self) -> Option<Time> {
        match &self.life {
            Life::Down | Life::Failed => None,
            Life::Stopping(stopping) if self.core.owned.is_empty() => Some(stopping.until),
            Life::Stopping(stopping) => {
                let heartbeat = self.role.heartbeat_deadline(&self.core);
                Some(heartbeat.unwrap_or(Time::MAX).min(stopping.gives_up_at))
            }
            Life::Up => {
                let lookup = self.core.lookup.deadline();
                let role = self.role.deadline(&self.core);
                let usable = self.core.lookup.node().is_some() && self.role.identity().is_some();
                let load = usable && !self.core.owned.is_empty();
                let load = load.then(|| self.offsets.deadline(&self.core)).flatten();
                lookup.into_iter().chain(role).chain(load).min()
            }
        }
    }

    pub fn state(&self) -> State {
        match self.life {
            Life::Down => State::Down,
            Life::Failed => State::Failed,
            Life::Up | Life::Stopping(_) if self.core.lookup.node().is_none() => State::Searching,
            Life::Up | Life::Stopping(_) => self.role.state(),
        }
    }

    /// It ended or failed: its connection can be closed, and nothing is to be answered.
    pub fn is_done(&self) -> bool {
        matches!(self.life, Life::Down | Life::Failed)
    }

    /// Whether the answer to this request would still have an effect.
    pub fn awaits(&self, token: u32) -> bool {
        !self.is_done()
            && (self.core.lookup.awaits(token)
                || self.role.awaits(token)
                || self.offsets.awaits(token))
    }

    fn conclude(&mut self, step: Step, turn: &mut Turn<'_, '_>) {
        let Err(Fatal(reason)) = step else { return };
        self.offsets.abandon(&self.core, turn);
        self.let_go(turn);
        self.life = Life::Failed;
        self.core.emit(turn, EventKind::Failed { reason: Arc::from(reason) });
    }

    fn crash(&mut self, turn: &mut Turn<'_, '_>) {
        self.offsets.abandon(&self.core, turn);
        self.let_go(turn);
        self.life = Life::Down;
        self.core.emit(turn, EventKind::Stopped { how: Stop::Crash });
    }

    /// What a manual member works on was never given to it, so it can't lose it.
    fn let_go(&mut self, turn: &mut Turn<'_, '_>) {
        match self.role.is_manual() {
            true => drop(self.core.owned.clear()),
            false => self.core.lose_all(turn),
        }
    }

    fn advance(&mut self, turn: &mut Turn<'_, '_>) -> Step {
        match self.life {
            Life::Down | Life::Failed => Ok(()),
            Life::Up => {
                self.core.search(turn)?;
                self.role.advance(&mut self.core, turn)?;
                self.work(turn)
            }
            Life::Stopping(stopping) => self.wind_up(stopping, turn),
        }
    }

    fn work(&mut self, turn: &mut Turn<'_, '_>) -> Step {
        let Some(identity) = self.role.identity() else {
            self.offsets.hold();
            return Ok(());
        };
        let Some(node) = self.core.lookup.node() else { return Ok(()) };
        self.offsets.advance(identity, &mut self.core, turn)?;
        while let Some(due) = self.offsets.heartbeat_due(turn.now()) {
            let Some((version, request)) = self.role.extra_heartbeat(&self.core, turn)? else {
                break;
            };
            let to = Destination::Node(node);
            let token = self.core.send_due(turn, to, version, request, due);
            self.offsets.heartbeat_sent(token, self.core.incarnation);
        }
        Ok(())
    }

    fn wind_up(&mut self, stopping: Stopping, turn: &mut Turn<'_, '_>) -> Step {
        if turn.now() < stopping.gives_up_at && !self.core.owned.is_empty() {
            return self.role.keep_alive(&mut self.core, turn);
        }
        match self.role.is_manual() {
            true => drop(self.core.owned.clear()),
            false => self.core.revoke_all(turn),
        }
        if turn.now() >= stopping.until {
            self.crash(turn);
            return Ok(());
        }
        if !self.role.is_idle() {
            return Ok(());
        }
        if !stopping.told {
            self.life = Life::Stopping(Stopping { told: true, ..stopping });
            self.role.leave(stopping.how, &mut self.core, turn)?;
        }
        if self.role.is_idle() && self.offsets.is_idle() {
            self.life = Life::Down;
            self.core.emit(turn, EventKind::Stopped { how: stopping.how });
        }
        Ok(())
    }

    fn hear(&mut self, answer: Answer, turn: &mut Turn<'_, '_>) -> Step {
        let Answer { token, sent, outcome } = answer;
        if self.is_done() {
            return Ok(());
        }
        if self.core.lookup.awaits(token) {
            return self.core.found(outcome, turn);
        }
        if self.role.awaits(token) {
            return self.role.answered(sent, outcome, &mut self.core, turn);
        }
        match self.offsets.take(token) {
            Some(in_flight) => self.hear_of_work(in_flight, sent, outcome, turn),
            None => Ok(()),
        }
    }

    fn hear_of_work(
        &mut self,
        in_flight: InFlight,
        sent: Time,
        outcome: Result<Response, Failure>,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let current = in_flight.incarnation == self.core.incarnation;
        if in_flight.what == What::Heartbeat {
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
        match self.offsets.answered(in_flight.what, sent, outcome, core, turn)? {
            Sequel::Nothing => Ok(()),
            Sequel::LookUp => {
                core.lookup.forget();
                Ok(())
            }
            Sequel::Broke => {
                core.broke(turn);
                Ok(())
            }
            Sequel::CommitRefused(error) if is_fatal(error) => {
                Err(fatal(ApiKey::OffsetCommit, &core.group().id, error, None))
            }
            Sequel::CommitRefused(error) if current => {
                self.role.commit_refused(error, sent, core, turn)
            }
            Sequel::CommitRefused(_) => Ok(()),
        }
    }
}

/// Where a member is, for the live view and the timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Not started, or ended.
    Down,
    /// Looks for its coordinator.
    Searching,
    /// Has asked to join, or waits for its assignment.
    Joining,
    /// Gives up partitions, or waits for some that others have to give up.
    Reconciling,
    /// Has all that it was promised.
    Stable,
    /// Was refused as a member, and will join anew.
    Fenced,
    /// Can't go on.
    Failed,
}
