//! A producer, transactional or not. It finds its coordinator and the leaders of its partitions,
//! gets a producer id, and writes one round of batches after the other, as in the Java client
//! (`TransactionManager`, `Sender`). Offsets are committed after the records of the transaction are
//! acknowledged, as in Kafka Streams.

mod batch;
mod calls;
mod messages;
mod round;
mod verdict;
mod writes;

use std::iter;

use self::batch::ProducerId;
use self::calls::Call;
use self::round::{BatchState, Round, Stage};
use super::State;
use super::backoff::Retry;
use super::coordinator::{Key, Lookup};
use super::core::{Core, Turn};
use super::error::Step;
use super::io::{Answer, Overdue, Regular};
use super::leaders::Leaders;
use super::owned::sorted;
use super::schedule::Schedule;
use crate::event::EventKind;
use crate::plan::{Delivery, Load, Partition, ProducerPlan, TransactionPlan};
use crate::time::Time;

pub(super) struct Producer {
    partitions: Vec<Partition>,
    plan: ProducerPlan,
    /// The value of every record.
    value: Vec<u8>,
    identity: Identity,
    leaders: Leaders,
    /// The coordinator of the group whose offsets the transactions commit.
    group: Lookup,
    schedule: Option<Schedule>,
    /// Whether the producer has been ready to produce at some time since it started. Until then, no
    /// round counts as due.
    was_ready: bool,
    /// The next sequence number of each partition.
    sequences: Vec<i32>,
    round: Option<Round>,
    calls: Vec<(u32, Call)>,
    retry: Retry,
    /// The offset of the last commit.
    offset: i64,
}

/// The state of the producer id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Identity {
    /// A producer id has to be requested. The field is the producer's former id, if it asks for
    /// this id with a higher epoch.
    Needed(Option<ProducerId>),
    Known(ProducerId),
    /// A producer without idempotence needs no id.
    Unused,
}

impl Producer {
    pub(super) fn new(plan: &ProducerPlan) -> Self {
        let partitions = sorted(plan.partitions.to_vec());
        let identity = match plan.delivery {
            Delivery::Plain => Identity::Unused,
            Delivery::Idempotent | Delivery::Transactions(_) => Identity::Needed(None),
        };
        Self {
            leaders: Leaders::of(partitions.len()),
            sequences: vec![0; partitions.len()],
            partitions,
            value: Vec::new(),
            plan: plan.clone(),
            identity,
            group: Lookup::default(),
            schedule: None,
            was_ready: false,
            round: None,
            calls: Vec::new(),
            retry: Retry::default(),
            offset: 0,
        }
    }

    pub(super) fn set_load(&mut self, load: Option<Load>, turn: &mut Turn<'_, '_>) {
        if self.value.is_empty() {
            self.value = letters(self.plan.record_size, turn.context.random);
        }
        let (now, under_way) = (turn.now(), u32::from(self.round.is_some()));
        let random = &mut *turn.context.random;
        self.schedule = load.and_then(|load| Schedule::new(load, under_way, now, random));
    }

    /// Sends the requests that are due.
    pub(super) fn advance(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.prepare(core, turn)?;
        if self.is_ready() {
            self.begin(core, turn);
        }
        self.work(core, turn)
    }

    /// Continues the current round, but begins none.
    pub(super) fn finish(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        if self.transactions().is_some() {
            core.search(turn)?;
        }
        self.prepare(core, turn)?;
        self.work(core, turn)
    }

    /// Handles the answer to a request of the producer. The next call sends the requests that the
    /// answer allows.
    pub(super) fn answered(
        &mut self,
        answer: Answer<'_>,
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        let of_leaders = self.leaders.answered(answer, &self.partitions, core, turn);
        let Some(answer) = of_leaders else { return Ok(()) };
        if self.group.awaits(answer.token) {
            let key = Key::Group(core.group().id.clone());
            return core.found_for(&key, &mut self.group, answer.outcome, turn);
        }
        match self.take(answer.token) {
            Some(Call::Identify) => self.identified(answer, core, turn),
            Some(Call::Step) => self.stepped(answer, core, turn),
            Some(Call::Produce) => self.produced(answer, core, turn),
            None => Ok(()),
        }
    }

    /// Gives up all requests in flight: their answers will be ignored. An open transaction counts
    /// as unanswered.
    pub(super) fn abandon(&mut self, turn: &mut Turn<'_, '_>) {
        let round = self.round.take().filter(|_| self.transactions().is_some());
        turn.output.spans.extend(round.map(|round| round.span(turn.context.now, false)));
        self.calls.clear();
    }

    pub(super) fn deadline(&self, core: &Core) -> Option<Time> {
        let next = self.schedule.as_ref().filter(|_| self.round.is_none() && self.is_ready());
        let next = next.and_then(Schedule::deadline).map(|due| due.max(self.retry.until()));
        let others = [self.prepare_deadline(core), self.work_deadline(core)];
        others.into_iter().flatten().chain(next).min()
    }

    pub(super) fn finish_deadline(&self, core: &Core) -> Option<Time> {
        self.round.as_ref()?;
        let lookup = self.transactions().and_then(|_| core.lookup.deadline());
        let others = [self.prepare_deadline(core), self.work_deadline(core)];
        others.into_iter().flatten().chain(lookup).min()
    }

    pub(super) fn overdue(&self, now: Time) -> Option<Overdue> {
        let (due, every) = self.schedule.as_ref().filter(|_| self.was_ready)?.overdue(now)?;
        let of = match self.plan.delivery {
            Delivery::Transactions(_) => Regular::Transaction,
            Delivery::Plain | Delivery::Idempotent => Regular::Produce,
        };
        Some(Overdue { of, due, every })
    }

    /// When the current transaction was due.
    pub(super) fn unfinished(&self) -> Option<Time> {
        self.transactions()?;
        self.round.as_ref().map(|round| round.due)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.round.is_none()
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        let called = self.calls.iter().any(|(called, _)| *called == token);
        called || self.leaders.awaits(token) || self.group.awaits(token)
    }

    pub(super) fn state(&self) -> State {
        match self.identity {
            Identity::Needed(_) => State::Joining,
            Identity::Known(_) | Identity::Unused => State::Stable,
        }
    }

    fn transactions(&self) -> Option<&TransactionPlan> {
        match &self.plan.delivery {
            Delivery::Transactions(plan) => Some(plan),
            Delivery::Plain | Delivery::Idempotent => None,
        }
    }

    fn commits_offsets(&self) -> bool {
        self.transactions().is_some_and(|plan| plan.offsets > 0)
    }

    /// Whether a round can begin.
    fn is_ready(&self) -> bool {
        let found = !self.commits_offsets() || self.group.node().is_some();
        found && self.leaders.are_known() && !matches!(self.identity, Identity::Needed(_))
    }

    /// Requests the ids and leaders that a round needs.
    fn prepare(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        self.leaders.advance(&self.partitions, core, turn)?;
        if self.commits_offsets() && self.group.due(turn.now()) {
            let token = core.ask_for(&Key::Group(core.group().id.clone()), turn)?;
            self.group.asked(token);
        }
        match self.identify_deadline(core) {
            Some(due) if due <= turn.now() => self.identify(core, turn),
            _ => Ok(()),
        }
    }

    fn prepare_deadline(&self, core: &Core) -> Option<Time> {
        let group = self.group.deadline().filter(|_| self.commits_offsets());
        let others = [self.leaders.deadline(), self.identify_deadline(core)];
        others.into_iter().flatten().chain(group).min()
    }

    fn identify_deadline(&self, core: &Core) -> Option<Time> {
        let reachable = self.transactions().is_none() || core.lookup.node().is_some();
        let needed = matches!(self.identity, Identity::Needed(_));
        let due = needed && reachable && !self.is_calling(Call::Identify);
        due.then(|| self.retry.until())
    }

    fn begin(&mut self, core: &Core, turn: &mut Turn<'_, '_>) {
        let (now, random) = (turn.context.now, &mut *turn.context.random);
        let Some(schedule) = &mut self.schedule else { return };
        if !std::mem::replace(&mut self.was_ready, true) {
            schedule.skip(now);
            schedule.cursor = core.plan.index.0;
        }
        if self.round.is_some() || !self.retry.ready(now) {
            return;
        }
        let Some(due) = schedule.next(now) else { return };
        schedule.sent();
        let places = window(self.partitions.len(), schedule);
        let aborts = match &self.plan.delivery {
            Delivery::Transactions(plan) => random.u32(..1_000_000) < plan.aborts,
            Delivery::Plain | Delivery::Idempotent => false,
        };
        let number = if self.plan.is_read { now.micros() } else { 0 };
        self.round = Some(Round::of(places, self.plan.delivery, due, aborts, number));
    }

    /// Whether a request of the round can be sent, except that the back-off may not be over.
    fn can_work(&self, core: &Core) -> bool {
        let Some(round) = &self.round else { return false };
        let due = |batch: &round::Batch| {
            batch.state == BatchState::Due && self.leaders.node(batch.place).is_some()
        };
        match round.stage {
            Stage::Produce => !round.failed && round.batches.iter().any(due),
            _ if self.is_calling(Call::Step) => false,
            Stage::CommitOffsets => self.group.node().is_some(),
            Stage::AddPartitions | Stage::AddOffsets | Stage::End => core.lookup.node().is_some(),
        }
    }

    fn work_deadline(&self, core: &Core) -> Option<Time> {
        self.can_work(core).then(|| self.retry.until())
    }

    fn work(&mut self, core: &mut Core, turn: &mut Turn<'_, '_>) -> Step {
        if !self.retry.ready(turn.now()) || !self.can_work(core) {
            return Ok(());
        }
        match self.round.as_ref().map(|round| round.stage) {
            Some(Stage::Produce) => self.send_batches(core, turn),
            Some(stage) => self.send_step(stage, core, turn),
            None => Ok(()),
        }
    }

    /// Ends the round, and reports the round if it was a transaction.
    fn end(&mut self, ended: Time, core: &Core, turn: &mut Turn<'_, '_>) {
        let Some(round) = self.round.take() else { return };
        if let Some(schedule) = &mut self.schedule {
            schedule.answered();
        }
        if self.transactions().is_some() {
            let (number, committed) = (round.number, !round.aborts);
            core.emit(turn, EventKind::TransactionEnded { number, committed });
            turn.output.spans.push(round.span(ended, true));
        }
    }

    /// Gives the next round another producer id or epoch.
    fn renew(&mut self, identity: Identity) {
        self.identity = identity;
        self.sequences.fill(0);
    }
}

/// The sorted indexes of the next round's partitions. Rounds go through all partitions in a cycle,
/// with as many per round as the load says.
fn window(all: usize, schedule: &mut Schedule) -> Vec<usize> {
    let count = schedule.partitions() as usize;
    if count == 0 || count >= all {
        return (0..all).collect();
    }
    let from = schedule.cursor as usize % all;
    schedule.cursor = ((from + count) % all) as u32;
    let mut places: Vec<usize> = (0..all).cycle().skip(from).take(count).collect();
    places.sort_unstable();
    places
}

/// Random letters. Compression hardly makes them smaller.
fn letters(count: u32, random: &mut fastrand::Rng) -> Vec<u8> {
    iter::repeat_with(|| random.alphabetic() as u8).take(count as usize).collect()
}
