//! The members of a core. Only this file calls methods that change a member.

use super::command::Command;
use super::connections::Waiting;
use super::core::{Core, Due, StateCounts};
use super::owed::{Owed, Owing};
use crate::event::{Event, EventKind, Stop};
use crate::member::{Answer, Context, Failure, Member, Outgoing, Output, Response, State};
use crate::plan::{GroupIndex, GroupPlan, MemberIndex, MemberPlan, Workload};
use crate::time::Time;
use crate::topics::Topics;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of members of a core. Higher slots are refused.
const MEMBERS_MAX: u32 = 1 << 24;
/// A member that is still stopping is restarted later. This is how long to wait before each new
/// attempt.
const RESTART_AFTER: Duration = Duration::from_millis(10);

/// The members of a core by slot. A member's slot is its index divided by the number of cores,
/// because the cores get the members round-robin.
#[derive(Default)]
pub(super) struct Members {
    slots: Vec<Option<Box<Entry>>>,
    counts: StateCounts,
}

struct Entry {
    member: Member,
    /// The number of restarts of the member. An answer is dropped if its request was sent before
    /// the last one.
    life: u32,
    stopping: bool,
    /// The time of the current timer. Earlier timers are ignored.
    armed: Time,
    /// The state in which the member is counted.
    state: State,
    owing: Owing,
}

/// The fields of a request's sender that a connection needs.
pub(super) struct Requester {
    pub(super) slot: u32,
    pub(super) life: u32,
    pub(super) client_id: Arc<str>,
    /// The time that is added to the request timeout of JoinGroup and SyncGroup.
    pub(super) rebalance_timeout: Duration,
}

impl Members {
    pub(super) fn states(&self) -> Vec<(GroupIndex, State, u32)> {
        let of_group = |(group, counts): (&GroupIndex, &[u32; 7])| {
            let group = *group;
            let states = STATES.iter().zip(*counts).filter(|(_, count)| *count > 0);
            states.map(move |(state, count)| (group, *state, count)).collect::<Vec<_>>()
        };
        self.counts.iter().flat_map(of_group).collect()
    }

    /// Whether no member of these slots needs a connection.
    pub(super) fn are_done(&self, slots: std::ops::Range<u32>) -> bool {
        slots
            .map(|slot| self.get(slot))
            .all(|entry| entry.is_none_or(|entry| entry.member.is_done()))
    }

    /// The work of members that is overdue: requests that are due and not sent, requests whose
    /// answers were lost, and open transactions.
    pub(super) fn owed(&self, now: Time) -> impl Iterator<Item = Owed> {
        let entries = self.slots.iter().flatten();
        entries.flat_map(move |entry| {
            let unfinished = entry.member.unfinished();
            entry.owing.of(&entry.member, now).chain(unfinished.map(Owed::transaction))
        })
    }

    fn get(&self, slot: u32) -> Option<&Entry> {
        self.slots.get(slot as usize)?.as_deref()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.slots.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Puts a new member into this slot. A previous member must be done.
    fn insert(&mut self, slot: u32, plan: MemberPlan) {
        let at = slot as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        let before = self.slots[at].take();
        let life = before.as_ref().map_or(0, |entry| entry.life.wrapping_add(1));
        if let Some(before) = before {
            self.uncount(before.member.plan().group.index, before.state);
        }
        self.count(plan.group.index, None, State::Down);
        let (member, state) = (Member::new(plan), State::Down);
        let (armed, owing) = (Time::MAX, Owing::default());
        let entry = Entry { member, life, stopping: false, armed, state, owing };
        self.slots[at] = Some(Box::new(entry));
    }

    fn count(&mut self, group: GroupIndex, from: Option<State>, to: State) {
        if let Some(from) = from {
            self.uncount(group, from);
        }
        self.counts.entry(group).or_default()[to as usize] += 1;
    }

    fn uncount(&mut self, group: GroupIndex, from: State) {
        self.counts.entry(group).or_default()[from as usize] -= 1;
    }
}

/// All states, in the order of their numbers.
const STATES: [State; 7] = [
    State::Down,
    State::Searching,
    State::Joining,
    State::Reconciling,
    State::Stable,
    State::Fenced,
    State::Failed,
];

impl Core {
    /// Starts a member. If it is still stopping, waits until it has stopped. If it runs, does
    /// nothing.
    pub(super) fn start_member(&mut self, plan: MemberPlan) {
        let slot = self.slot(plan.index);
        let before = self.members.get(slot).filter(|entry| !entry.member.is_done());
        if let Some(before) = before {
            if before.stopping {
                let at = self.clock.now() + RESTART_AFTER;
                self.schedule(Command::Start { at, member: plan });
            }
            return;
        }
        if slot >= MEMBERS_MAX {
            let at = self.clock.now();
            let kind = EventKind::Failed { reason: "its index is too high".into() };
            return self.events.push(Event {
                at,
                group: plan.group.index,
                member: plan.index,
                kind,
            });
        }
        self.members.insert(slot, plan);
        self.with_member(slot, Member::start);
    }

    pub(super) fn stop_member(&mut self, member: MemberIndex, how: Stop) {
        let slot = self.slot(member);
        let now = self.clock.now();
        let mut owed = Vec::new();
        if let Some(entry) = self.members.get_mut(slot) {
            entry.stopping = true;
            owed.extend(entry.owing.of(&entry.member, now));
            entry.owing = Owing::default();
        }
        owed.into_iter().for_each(|owed| self.meter.owed(owed, now));
        // A member that crashes breaks its connections. This comes first, because connections are
        // closed in an orderly way when their members are down.
        if how == Stop::Crash {
            self.break_connections(slot);
        }
        self.with_member(slot, |member, context, output| member.stop(how, context, output));
    }

    pub(super) fn set_workload(&mut self, member: MemberIndex, workload: Workload) {
        let slot = self.slot(member);
        self.with_member(slot, |member, context, output| {
            member.set_workload(workload, context, output);
        });
    }

    pub(super) fn subscribe_member(&mut self, member: MemberIndex, group: Arc<GroupPlan>) {
        let slot = self.slot(member);
        self.with_member(slot, |member, context, output| {
            member.subscribe(group, context, output);
        });
    }

    pub(super) fn take_topics(&mut self, topics: Arc<Topics>) {
        self.topics = topics;
        for slot in 0..self.members.slots.len() {
            self.with_member(slot as u32, Member::topics_changed);
        }
    }

    /// Wakes the member. `at` is the time of the timer that fired.
    pub(super) fn wake_member(&mut self, slot: u32, at: Time) {
        let now = self.clock.now();
        let Some(entry) = self.members.get_mut(slot).filter(|entry| entry.armed == at) else {
            return;
        };
        entry.armed = Time::MAX;
        match entry.member.deadline() {
            Some(deadline) if deadline <= now => self.with_member(slot, Member::wake),
            _ => self.arm_member(slot),
        }
    }

    /// Passes the outcome of a request to its member. Called exactly once for each request. Drops
    /// the outcome if the member was restarted.
    pub(super) fn answer(&mut self, waiting: Waiting, outcome: Result<Response<'_>, Failure>) {
        let now = self.clock.now();
        self.answer_at(now, Duration::ZERO, waiting, outcome);
    }

    /// Handles an answer that arrived at `arrived`. The load machine delayed its request by
    /// `delayed`.
    pub(super) fn answer_at(
        &mut self,
        arrived: Time,
        delayed: Duration,
        waiting: Waiting,
        outcome: Result<Response<'_>, Failure>,
    ) {
        self.settle(&waiting, outcome.is_ok());
        let alive = |entry: &&Entry| entry.life == waiting.life;
        if self.members.get(waiting.slot).filter(alive).is_none() {
            return;
        }
        let Waiting { token, sent, .. } = waiting;
        let answer = Answer { token, sent, arrived, delayed, outcome };
        self.with_member(waiting.slot, |member, context, output| {
            member.answered(answer, context, output);
        });
    }

    /// If the request failed, keeps it as owed (see `owed.rs`), or records it at once if its member
    /// is done or was restarted. If the request was answered, records the owed requests that wait
    /// no longer because of this answer.
    fn settle(&mut self, waiting: &Waiting, is_answered: bool) {
        let (now, owed) = (self.clock.now(), Owed::by(waiting));
        let needs = |entry: &&mut Entry| entry.life == waiting.life && !entry.member.is_done();
        let entry = self.members.get_mut(waiting.slot).filter(needs);
        if !is_answered && waiting.was_sent() {
            self.meter.unanswered(owed.kind);
        }
        let ended = match (entry, is_answered) {
            (Some(entry), true) => entry.owing.answered(owed.kind),
            (Some(entry), false) => Vec::from_iter(entry.owing.keep(owed)),
            (None, true) => Vec::new(),
            (None, false) => vec![owed],
        };
        ended.into_iter().for_each(|owed| self.meter.owed(owed, now));
    }

    /// Counts an opened connection. Members are not notified.
    pub(super) fn connected(&mut self, asked: Time) {
        let took = self.clock.now().since(asked);
        self.meter.connected(took);
    }

    pub(super) fn requester(&self, slot: u32) -> Option<Requester> {
        let entry = self.members.get(slot)?;
        let plan = entry.member.plan();
        let (client_id, rebalance_timeout) = (plan.client_id.clone(), plan.group.rebalance_timeout);
        Some(Requester { slot, life: entry.life, client_id, rebalance_timeout })
    }

    fn with_member(
        &mut self,
        slot: u32,
        call: impl FnOnce(&mut Member, &mut Context<'_>, &mut Output),
    ) {
        let Some(entry) = self.members.get_mut(slot) else { return };
        let mut output = std::mem::take(&mut self.output);
        let mut context = Context {
            now: self.clock.now(),
            topics: &self.topics,
            versions: &self.versions,
            nodes: &mut self.nodes,
            random: &mut self.random,
        };
        call(&mut entry.member, &mut context, &mut output);
        self.events.append(&mut output.events);
        output.spans.drain(..).for_each(|span| self.meter.span(&span));
        self.send_all(slot, &mut output.requests);
        self.output = output;
        self.after_call(slot);
    }

    fn send_all(&mut self, slot: u32, requests: &mut Vec<Outgoing>) {
        if requests.is_empty() {
            return;
        }
        let Some(requester) = self.requester(slot) else { return };
        let sent = requests.drain(..).try_for_each(|outgoing| self.send(&requester, &outgoing));
        if let Err(error) = sent {
            let reason = format!("a request cannot be sent: {error}");
            self.with_member(slot, |member, context, output| {
                member.fail(&reason, context, output);
            });
        }
    }

    fn after_call(&mut self, slot: u32) {
        let Some(entry) = self.members.get_mut(slot) else { return };
        let (group, from, to) =
            (entry.member.plan().group.index, entry.state, entry.member.state());
        if from != to {
            entry.state = to;
            let done = entry.member.is_done();
            let owed = if done { entry.owing.take() } else { Vec::new() };
            let now = self.clock.now();
            owed.into_iter().for_each(|owed| self.meter.owed(owed, now));
            self.members.count(group, Some(from), to);
            if done {
                self.close_idle(slot);
            }
        }
        self.arm_member(slot);
    }

    /// Arms the member's timer if the deadline is earlier than the current timer. Deadlines mostly
    /// move later: then the timer fires before the deadline, and is armed again.
    fn arm_member(&mut self, slot: u32) {
        let Some(entry) = self.members.get_mut(slot) else { return };
        match entry.member.deadline() {
            Some(deadline) if deadline < entry.armed => {
                entry.armed = deadline;
                self.arm(deadline, Due::Member(slot));
            }
            _ => {}
        }
    }

    fn slot(&self, member: MemberIndex) -> u32 {
        member.0 / self.cores
    }
}
