//! A simulation of a correct coordinator and its members: one clock, one queue of events,
//! connections that delay, lose answers and break, members that crash, pause, close and come back,
//! all from one seed. The protocols are in [`super::consumer`] and [`super::classic`]; this file
//! has what they share. An injected [`Bug`] is the only fault of the coordinator.
//!
//! A connection carries requests and answers in order; those that are under way are lost with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::check::{Checker, Found};
use crate::event::{Event, EventKind, OBSERVER, Stop};
use crate::history::{Group, Kind};
use crate::plan::{GroupIndex, MemberIndex, Partition, TopicIndex};
use crate::time::Time;

/// A bug that is injected into the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bug {
    None,
    /// A partition is assigned while another member has it.
    TwoOwners,
    /// Answers carry an older epoch, now and then.
    EpochBack,
    /// The epoch of a commit is not checked.
    FencedCommit,
    /// A commit is acknowledged and forgotten.
    LostCommit,
    /// A member is removed long before its session ends.
    EarlyEviction,
}

pub(super) const PARTITIONS: u32 = 6;
pub(super) const SESSION: u64 = 2_000;
pub(super) const REBALANCE: u64 = 3_000;
const REQUEST_TIMEOUT: u64 = 2_500;
const HEARTBEAT: u64 = 300;

pub(super) type Set = BTreeSet<u32>;

/// Requests of all protocols. The sender is the slot of the [`Caller`].
#[derive(Clone, Debug)]
pub(super) enum Request {
    Heartbeat { id: u64, epoch: i32, owned: Set },
    Join { id: Option<u64>, owned: Set, owned_in: i32 },
    Sync { id: u64, epoch: i32 },
    Leave { id: u64, comes_back: bool },
    Commit { id: u64, epoch: i32, offsets: BTreeMap<u32, i64> },
    Fetch { partitions: Set },
}

#[derive(Clone, Debug)]
pub(super) enum Response {
    Error(i16),
    Done,
    /// A consumer's heartbeat, or a sync: the whole assignment.
    Assignment {
        epoch: i32,
        partitions: Set,
    },
    Joined {
        id: u64,
        epoch: i32,
    },
    Fetched(BTreeMap<u32, i64>),
}

/// A coordinator: requests in, answers out, some of them later and to others.
pub(super) trait Coordinator {
    /// Handles a request; its answer goes to `out`, now or in a later call.
    fn handle(
        &mut self,
        now: u64,
        from: Caller,
        request: Request,
        out: &mut Vec<(Caller, Response)>,
    );
    /// Ends sessions and rebalances that have timed out.
    fn tick(&mut self, now: u64, out: &mut Vec<(Caller, Response)>);
    /// Starts again with the durable state.
    fn restart(&mut self, now: u64);
    /// The error with which a commit of this member in this epoch has to be refused, if any.
    fn may_commit(&self, id: u64, epoch: i32) -> Result<(), i16>;
}

/// The behaviour of members: what they send, and how they handle answers.
pub(super) trait Behaviour {
    /// Returns the next request, if it is time for one.
    fn next(&mut self, me: &mut Me) -> Option<Request>;
    /// A request was answered, or failed (`None`). Returns after how long to call [`Self::next`].
    fn answered(&mut self, me: &mut Me, sent: u64, response: Option<Response>) -> u64;
    /// The member id and epoch to commit with, while it may commit.
    fn commits(&self) -> Option<(u64, i32)>;
}

/// Which request an answer belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Caller {
    pub(super) slot: usize,
    pub(super) is_static: bool,
    connection: u32,
    request: u64,
    sent: u64,
}

impl Caller {
    /// Unique to the request.
    pub(super) fn number(self) -> u64 {
        self.request
    }
}

/// The state of a member that does not depend on the protocol.
pub(super) struct Me {
    pub(super) index: u32,
    pub(super) now: u64,
    pub(super) owned: Set,
    pub(super) fresh_id: u64,
    pub(super) events: Vec<Event>,
}

impl Me {
    pub(super) fn emit(&mut self, kind: EventKind) {
        self.events.push(event(self.now, self.index, kind));
    }

    pub(super) fn assigned(&mut self, epoch: i32, added: &Set) {
        if !added.is_empty() {
            self.owned.extend(added);
            self.emit(EventKind::Assigned { epoch, partitions: partitions(added) });
        }
    }

    pub(super) fn revoked(&mut self, gone: &Set) {
        if !gone.is_empty() {
            self.owned.retain(|one| !gone.contains(one));
            self.emit(EventKind::Revoked { partitions: partitions(gone) });
        }
    }

    pub(super) fn lost(&mut self) {
        let gone = std::mem::take(&mut self.owned);
        if !gone.is_empty() {
            self.emit(EventKind::Lost { partitions: partitions(&gone) });
        }
    }
}

fn event(at: u64, member: u32, kind: EventKind) -> Event {
    Event { at: time(at), group: GroupIndex(0), member: MemberIndex(member), kind }
}

/// The world counts in milliseconds, members in microseconds.
pub(super) fn time(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

fn partitions(set: &Set) -> Arc<[Partition]> {
    set.iter().map(|number| partition(*number)).collect()
}

fn partition(number: u32) -> Partition {
    Partition { topic: TopicIndex(0), number }
}

enum Step {
    Wake { slot: usize, life: u32 },
    Arrive { from: Caller, request: Request },
    Answer { to: Caller, response: Response },
    TimedOut { from: Caller },
    Commit { slot: usize, life: u32 },
    Fault,
    Start { slot: usize },
    Tick,
    Read,
}

struct Slot<B> {
    me: Me,
    behaviour: B,
    is_static: bool,
    up: bool,
    /// Counts its starts.
    life: u32,
    connection: u32,
    /// Whether the connection loses all requests and answers from now on.
    deaf: bool,
    in_flight: Option<u64>,
    commits: BTreeMap<u64, u32>,
    next_commit: u32,
    /// The end of a pause of the whole process.
    paused_until: u64,
    last_arrival: u64,
    last_answer: u64,
}

pub(super) struct World<C, B> {
    random: fastrand::Rng,
    bug: Bug,
    now: u64,
    queue: BTreeMap<(u64, u64), Step>,
    count: u64,
    coordinator: C,
    make: fn() -> B,
    slots: Vec<Slot<B>>,
    offsets: BTreeMap<u32, i64>,
    next_offset: i64,
    pub(super) events: Vec<Event>,
    kind: Kind,
    restarted: Vec<u64>,
}

impl<C: Coordinator, B: Behaviour> World<C, B> {
    pub(super) fn new(seed: u64, bug: Bug, kind: Kind, coordinator: C, make: fn() -> B) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = random.usize(2..6);
        let slot = |index: usize| Slot {
            me: Me {
                index: index as u32,
                now: 0,
                owned: Set::new(),
                fresh_id: 0,
                events: Vec::new(),
            },
            behaviour: make(),
            is_static: index.is_multiple_of(3),
            up: false,
            life: 0,
            connection: 0,
            deaf: false,
            in_flight: None,
            commits: BTreeMap::new(),
            next_commit: 0,
            paused_until: 0,
            last_arrival: 0,
            last_answer: 0,
        };
        let slots = (0..count).map(slot).collect();
        let mut world = Self {
            random,
            bug,
            now: 0,
            queue: BTreeMap::new(),
            count: 0,
            coordinator,
            make,
            slots,
            offsets: BTreeMap::new(),
            next_offset: 0,
            events: Vec::new(),
            kind,
            restarted: Vec::new(),
        };
        for slot in 0..count {
            let at = world.random.u64(0..3000);
            world.later(at, Step::Start { slot });
        }
        [Step::Tick, Step::Read, Step::Fault].into_iter().for_each(|step| world.later(50, step));
        world
    }

    /// Runs for this time, and returns what the checker finds.
    pub(super) fn judge(mut self, millis: u64) -> Found {
        while let Some(((at, _), step)) = self.queue.pop_first() {
            if at > millis {
                break;
            }
            self.now = at;
            self.step(step);
        }
        let mut checker = Checker::default();
        checker.expect_group(Group {
            index: GroupIndex(0),
            id: "world".into(),
            protocol: self.kind,
            session_timeout: Duration::from_millis(SESSION),
            rebalance_timeout: Duration::from_millis(REBALANCE),
            partitions: PARTITIONS,
        });
        let mut restarted = self.restarted.iter().peekable();
        for event in &self.events {
            while let Some(at) = restarted.next_if(|at| time(**at) <= event.at) {
                checker.coordinator_restarted(time(*at));
            }
            checker.observe(event);
        }
        checker.finish()
    }

    fn later(&mut self, after: u64, step: Step) {
        self.count += 1;
        self.queue.insert((self.now + after, self.count), step);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Wake { slot, life } => self.wake(slot, life),
            Step::Arrive { from, request } => self.arrive(from, request),
            Step::Answer { to, response } => self.answer(to, response),
            Step::TimedOut { from } => self.timed_out(from),
            Step::Commit { slot, life } => self.commit(slot, life),
            Step::Fault => self.fault(),
            Step::Start { slot } => self.start(slot),
            Step::Tick => {
                let mut out = Vec::new();
                self.coordinator.tick(self.now, &mut out);
                self.answers(out);
                self.later(20, Step::Tick);
            }
            Step::Read => self.read(),
        }
    }

    fn start(&mut self, at: usize) {
        let fresh_id = self.random.u64(1..);
        let slot = &mut self.slots[at];
        if slot.up {
            return;
        }
        (slot.up, slot.life, slot.behaviour) = (true, slot.life + 1, (self.make)());
        (slot.paused_until, slot.me.fresh_id) = (0, fresh_id);
        let life = slot.life;
        self.reconnect(at);
        self.with_member(at, |me, _| me.emit(EventKind::Started));
        self.later(1, Step::Wake { slot: at, life });
        self.later(10, Step::Commit { slot: at, life });
    }

    fn with_member<T>(&mut self, at: usize, act: impl FnOnce(&mut Me, &mut B) -> T) -> T {
        let slot = &mut self.slots[at];
        slot.me.now = self.now;
        let result = act(&mut slot.me, &mut slot.behaviour);
        self.events.append(&mut slot.me.events);
        result
    }

    /// Opens a new connection: requests and answers under way on the old one are lost.
    fn reconnect(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        slot.connection += 1;
        (slot.deaf, slot.in_flight) = (false, None);
        (slot.last_arrival, slot.last_answer) = (self.now, self.now);
        let commits = std::mem::take(&mut slot.commits);
        self.with_member(at, |me, _| {
            commits.values().for_each(|id| me.emit(EventKind::CommitUnknown { id: *id }));
        });
    }

    fn wake(&mut self, at: usize, life: u32) {
        let slot = &self.slots[at];
        if !slot.up || slot.life != life || slot.in_flight.is_some() {
            return;
        }
        if slot.paused_until > self.now {
            let after = slot.paused_until - self.now;
            return self.later(after, Step::Wake { slot: at, life });
        }
        if let Some(request) = self.with_member(at, |me, behaviour| behaviour.next(me)) {
            let number = self.send(at, request);
            self.slots[at].in_flight = Some(number);
        }
    }

    fn send(&mut self, at: usize, request: Request) -> u64 {
        self.count += 1;
        let delay =
            if self.random.u8(..) < 8 { self.random.u64(..1500) } else { self.random.u64(1..20) };
        let slot = &mut self.slots[at];
        let from = Caller {
            slot: at,
            is_static: slot.is_static,
            connection: slot.connection,
            request: self.count,
            sent: self.now,
        };
        slot.last_arrival = slot.last_arrival.max(self.now + delay);
        let after = slot.last_arrival - self.now;
        let waits = match request {
            Request::Join { .. } | Request::Sync { .. } => REQUEST_TIMEOUT + REBALANCE,
            _ => REQUEST_TIMEOUT,
        };
        self.later(after, Step::Arrive { from, request });
        self.later(waits, Step::TimedOut { from });
        from.request
    }

    fn lives(&self, caller: Caller) -> bool {
        let slot = &self.slots[caller.slot];
        slot.up && slot.connection == caller.connection
    }

    fn arrive(&mut self, from: Caller, request: Request) {
        // The last requests of a member that left or crashed may arrive or not; those of a
        // connection that was replaced do not.
        if self.slots[from.slot].connection != from.connection || self.random.u8(..) < 1 {
            self.slots[from.slot].deaf = true;
        }
        if self.slots[from.slot].deaf {
            return;
        }
        let mut out = Vec::new();
        match request {
            Request::Commit { id, epoch, offsets } => {
                let response = self.handle_commit(id, epoch, offsets);
                out.push((from, response));
            }
            Request::Fetch { partitions } => {
                let found = partitions.iter().map(|one| (*one, self.committed(*one)));
                out.push((from, Response::Fetched(found.collect())));
            }
            request => self.coordinator.handle(self.now, from, request, &mut out),
        }
        self.answers(out);
    }

    fn handle_commit(&mut self, id: u64, epoch: i32, offsets: BTreeMap<u32, i64>) -> Response {
        match self.coordinator.may_commit(id, epoch) {
            Err(error) if self.bug != Bug::FencedCommit => Response::Error(error),
            _ => {
                if self.bug != Bug::LostCommit || self.random.u8(..) > 30 {
                    self.offsets.extend(offsets);
                }
                Response::Done
            }
        }
    }

    fn committed(&self, partition: u32) -> i64 {
        self.offsets.get(&partition).copied().unwrap_or(-1)
    }

    fn answers(&mut self, out: Vec<(Caller, Response)>) {
        for (to, response) in out {
            let slow = self.random.u8(..) < 10;
            let delay = if slow { self.random.u64(..2400) } else { self.random.u64(1..20) };
            let slot = &mut self.slots[to.slot];
            slot.last_answer = slot.last_answer.max(self.now + delay);
            let after = slot.last_answer - self.now;
            self.later(after, Step::Answer { to, response });
        }
    }

    fn answer(&mut self, to: Caller, mut response: Response) {
        if !self.lives(to) || self.slots[to.slot].deaf {
            return;
        }
        if self.random.u8(..) < 2 {
            self.slots[to.slot].deaf = true;
            return;
        }
        let slot = &mut self.slots[to.slot];
        if slot.paused_until > self.now {
            let after = slot.paused_until - self.now;
            return self.later(after, Step::Answer { to, response });
        }
        if let Some(id) = slot.commits.remove(&to.request) {
            return self.with_member(to.slot, |me, _| match response {
                Response::Error(error) => {
                    let refused = (0..PARTITIONS).map(|n| (partition(n), error)).collect();
                    me.emit(EventKind::CommitAnswered { id, refused });
                }
                _ => me.emit(EventKind::CommitAnswered { id, refused: Arc::from([]) }),
            });
        }
        if let Response::Fetched(offsets) = response {
            let offsets = offsets.iter().map(|(one, value)| (partition(*one), *value)).collect();
            let kind = EventKind::Fetched { sent: time(to.sent), offsets };
            return self.with_member(to.slot, |me, _| me.emit(kind));
        }
        if slot.in_flight != Some(to.request) {
            return;
        }
        slot.in_flight = None;
        if let (Bug::EpochBack, Response::Assignment { epoch, .. }) = (self.bug, &mut response)
            && self.random.u8(..) < 20
        {
            *epoch = (*epoch - 3).max(1);
        }
        self.deliver(to, Some(response));
    }

    fn deliver(&mut self, of: Caller, response: Option<Response>) {
        let after =
            self.with_member(of.slot, |me, behaviour| behaviour.answered(me, of.sent, response));
        let life = self.slots[of.slot].life;
        self.later(after.min(HEARTBEAT), Step::Wake { slot: of.slot, life });
    }

    fn timed_out(&mut self, from: Caller) {
        let slot = &self.slots[from.slot];
        let waited =
            slot.in_flight == Some(from.request) || slot.commits.contains_key(&from.request);
        if !self.lives(from) || !waited {
            return;
        }
        if slot.paused_until > self.now {
            let after = slot.paused_until + 1 - self.now;
            return self.later(after, Step::TimedOut { from });
        }
        self.broke(from.slot);
    }

    fn broke(&mut self, at: usize) {
        let in_flight = self.slots[at].in_flight;
        self.reconnect(at);
        self.with_member(at, |me, _| me.emit(EventKind::Disconnected));
        if in_flight.is_some() {
            let after = self.with_member(at, |me, behaviour| behaviour.answered(me, me.now, None));
            let life = self.slots[at].life;
            self.later(after.clamp(10, HEARTBEAT), Step::Wake { slot: at, life });
        }
    }

    fn commit(&mut self, at: usize, life: u32) {
        let slot = &self.slots[at];
        if !slot.up || slot.life != life {
            return;
        }
        let (owned, paused) = (slot.me.owned.clone(), slot.paused_until > self.now);
        if let Some((id, epoch)) = slot.behaviour.commits()
            && !owned.is_empty()
            && !paused
        {
            self.next_offset += 1;
            let offsets: BTreeMap<_, _> =
                owned.iter().map(|one| (*one, self.next_offset)).collect();
            let commit = slot.next_commit;
            self.slots[at].next_commit += 1;
            let sent = offsets.iter().map(|(one, value)| (partition(*one), *value)).collect();
            self.with_member(at, |me, _| {
                me.emit(EventKind::CommitSent { id: commit, epoch, offsets: sent })
            });
            let request = self.send(at, Request::Commit { id, epoch, offsets });
            self.slots[at].commits.insert(request, commit);
            if self.random.bool() {
                self.send(at, Request::Fetch { partitions: owned });
            }
        }
        let after = self.random.u64(20..250);
        self.later(after, Step::Commit { slot: at, life });
    }

    /// The observer's connection never fails; its reads take some time.
    fn read(&mut self) {
        let began = self.now.saturating_sub(self.random.u64(0..5));
        let offsets = (0..PARTITIONS).map(|one| (partition(one), self.committed(one))).collect();
        let kind = EventKind::Fetched { sent: time(began), offsets };
        self.events.push(Event { member: OBSERVER, ..event(self.now, 0, kind) });
        let after = self.random.u64(50..400);
        self.later(after, Step::Read);
    }

    fn fault(&mut self) {
        let at = self.random.usize(..self.slots.len());
        match self.random.u8(..12) {
            0..3 => self.stop(at, Stop::Crash),
            3..5 => self.stop(at, Stop::Leave),
            5 if self.slots[at].is_static => self.stop(at, Stop::Close),
            6..8 => self.slots[at].deaf = true,
            8..10 => self.slots[at].paused_until = self.now + self.random.u64(100..5000),
            10 => self.restart(),
            _ => {}
        }
        let after = self.random.u64(100..2500);
        self.later(after, Step::Fault);
    }

    fn stop(&mut self, at: usize, how: Stop) {
        let after = self.random.u64(10..4000);
        self.later(after, Step::Start { slot: at });
        if !self.slots[at].up || self.slots[at].paused_until > self.now {
            return;
        }
        let id = self.slots[at].behaviour.commits().map(|(id, _)| id);
        self.with_member(at, |me, _| match how {
            Stop::Crash => me.lost(),
            Stop::Leave | Stop::Close => me.revoked(&me.owned.clone()),
        });
        if let Some(id) = id.filter(|_| how != Stop::Crash) {
            self.send(at, Request::Leave { id, comes_back: how == Stop::Close });
        }
        self.with_member(at, |me, _| me.emit(EventKind::Stopped { how }));
        self.slots[at].up = false;
        self.slots[at].commits.clear();
    }

    fn restart(&mut self) {
        self.coordinator.restart(self.now);
        self.restarted.push(self.now);
        for at in 0..self.slots.len() {
            if self.slots[at].up && self.slots[at].paused_until <= self.now {
                self.broke(at);
            } else {
                self.slots[at].deaf = true;
            }
        }
    }
}
