//! The members of a core: the only file that calls them.

use super::command::{Command, RoundTrip};
use super::connections::Waiting;
use super::core::{Core, Due, StateCounts};
use crate::event::{Event, EventKind, Stop};
use crate::member::{Answer, Context, Failure, Member, Outgoing, Output, Response, State};
use crate::plan::{GroupIndex, MemberIndex, MemberPlan, Workload};
use crate::time::Time;
use crate::topics::Topics;
use kafka_protocol::protocol::StrBytes;
use std::sync::Arc;
use std::time::Duration;

/// Members of one core at most; an index beyond is refused.
const SEATS_MAX: u32 = 1 << 24;
/// When to look again whether a member is out that is to be started anew.
const RESTART_AFTER: Duration = Duration::from_millis(10);

/// By slot: the members of a core, close together.
#[derive(Default)]
pub(super) struct Seats {
    seats: Vec<Option<Box<Seat>>>,
    counts: StateCounts,
}

struct Seat {
    member: Member,
    /// Counts the starts: an answer to a former life is nobody's.
    life: u32,
    stopping: bool,
    /// The timer that is meant; others are from before.
    armed: Time,
    /// As it was counted.
    state: State,
}

/// Who asks, as a connection needs to know it.
pub(super) struct Asker {
    pub(super) slot: u32,
    pub(super) life: u32,
    pub(super) client_id: StrBytes,
    /// JoinGroup and SyncGroup may take so much longer.
    pub(super) rebalance_timeout: Duration,
}

impl Seats {
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
        slots.map(|slot| self.get(slot)).all(|seat| seat.is_none_or(|seat| seat.member.is_done()))
    }

    fn get(&self, slot: u32) -> Option<&Seat> {
        self.seats.get(slot as usize)?.as_deref()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut Seat> {
        self.seats.get_mut(slot as usize)?.as_deref_mut()
    }

    /// A new member in this slot, in place of one that is done.
    fn seat(&mut self, slot: u32, plan: MemberPlan) {
        let at = slot as usize;
        if self.seats.len() <= at {
            self.seats.resize_with(at + 1, || None);
        }
        let before = self.seats[at].take();
        let life = before.as_ref().map_or(0, |seat| seat.life.wrapping_add(1));
        if let Some(before) = before {
            self.uncount(before.member.plan().group.index, before.state);
        }
        self.count(plan.group.index, None, State::Down);
        let (member, state) = (Member::new(plan), State::Down);
        let seat = Seat { member, life, stopping: false, armed: Time::MAX, state };
        self.seats[at] = Some(Box::new(seat));
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

/// In the order of their numbers.
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
    /// A member that is still on its way out is waited for; one that runs is left alone.
    pub(super) fn start_member(&mut self, plan: MemberPlan) {
        let slot = self.slot(plan.index);
        let before = self.seats.get(slot).filter(|seat| !seat.member.is_done());
        if let Some(before) = before {
            if before.stopping {
                let at = self.clock.now() + RESTART_AFTER;
                self.schedule(Command::Start { at, member: plan });
            }
            return;
        }
        if slot >= SEATS_MAX {
            let at = self.clock.now();
            let kind = EventKind::Failed { reason: "its index is too high".into() };
            return self.events.push(Event {
                at,
                group: plan.group.index,
                member: plan.index,
                kind,
            });
        }
        self.seats.seat(slot, plan);
        self.with_member(slot, Member::start);
    }

    pub(super) fn stop_member(&mut self, member: MemberIndex, how: Stop) {
        let slot = self.slot(member);
        if let Some(seat) = self.seats.get_mut(slot) {
            seat.stopping = true;
        }
        // Before it is known to be down, which would close them in order.
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

    pub(super) fn take_topics(&mut self, topics: Arc<Topics>) {
        self.topics = topics;
        for slot in 0..self.seats.seats.len() {
            self.with_member(slot as u32, Member::topics_changed);
        }
    }

    /// `at` is the timer that fired.
    pub(super) fn wake_member(&mut self, slot: u32, at: Time) {
        let now = self.clock.now();
        let Some(seat) = self.seats.get_mut(slot).filter(|seat| seat.armed == at) else { return };
        seat.armed = Time::MAX;
        match seat.member.deadline() {
            Some(deadline) if deadline <= now => self.with_member(slot, Member::wake),
            _ => self.arm_member(slot),
        }
    }

    /// Exactly once for each request that was taken from a member, unless it lives no more.
    pub(super) fn answer(&mut self, waiting: Waiting, outcome: Result<Response, Failure>) {
        let alive = |seat: &&Seat| seat.life == waiting.life;
        if self.seats.get(waiting.slot).filter(alive).is_none() {
            return;
        }
        let answer = Answer { token: waiting.token, sent: waiting.sent, outcome };
        self.with_member(waiting.slot, |member, context, output| {
            member.answered(answer, context, output);
        });
    }

    /// Connections are counted, and told to no member, as [`RoundTrip::Connect`].
    pub(super) fn connected(&mut self, asked: Time) {
        let took = self.clock.now().since(asked);
        self.meter.round_trip(RoundTrip::Connect, took);
    }

    pub(super) fn asker(&self, slot: u32) -> Option<Asker> {
        let seat = self.seats.get(slot)?;
        let plan = seat.member.plan();
        let (client_id, rebalance_timeout) = (plan.client_id.clone(), plan.group.rebalance_timeout);
        Some(Asker { slot, life: seat.life, client_id, rebalance_timeout })
    }

    fn with_member(
        &mut self,
        slot: u32,
        call: impl FnOnce(&mut Member, &mut Context<'_>, &mut Output),
    ) {
        let Some(seat) = self.seats.get_mut(slot) else { return };
        let mut output = std::mem::take(&mut self.output);
        let mut context = Context {
            now: self.clock.now(),
            topics: &self.topics,
            versions: &self.versions,
            nodes: &mut self.nodes,
            random: &mut self.random,
        };
        call(&mut seat.member, &mut context, &mut output);
        self.events.append(&mut output.events);
        self.send_all(slot, &mut output.requests);
        self.output = output;
        self.after_call(slot);
    }

    fn send_all(&mut self, slot: u32, requests: &mut Vec<Outgoing>) {
        if requests.is_empty() {
            return;
        }
        let Some(asker) = self.asker(slot) else { return };
        let sent = requests.drain(..).try_for_each(|outgoing| self.send(&asker, &outgoing));
        if let Err(error) = sent {
            let reason = format!("a request cannot be sent: {error}");
            self.with_member(slot, |member, context, output| {
                member.fail(&reason, context, output);
            });
        }
    }

    fn after_call(&mut self, slot: u32) {
        let Some(seat) = self.seats.get_mut(slot) else { return };
        let (group, from, to) = (seat.member.plan().group.index, seat.state, seat.member.state());
        if from != to {
            seat.state = to;
            let done = seat.member.is_done();
            self.seats.count(group, Some(from), to);
            if done {
                self.close_idle(slot);
            }
        }
        self.arm_member(slot);
    }

    /// A timer that comes too early is armed anew when it fires: deadlines mostly move away.
    fn arm_member(&mut self, slot: u32) {
        let Some(seat) = self.seats.get_mut(slot) else { return };
        match seat.member.deadline() {
            Some(deadline) if deadline < seat.armed => {
                seat.armed = deadline;
                self.arm(deadline, Due::Member(slot));
            }
            _ => {}
        }
    }

    fn slot(&self, member: MemberIndex) -> u32 {
        member.0 / self.cores
    }
}
