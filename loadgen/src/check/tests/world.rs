//! A simulation of a correct coordinator and its members from one seed, with one clock and one
//! queue of events. Connections delay and lose answers, and break. Members crash, pause, close and
//! come back. The protocols are in [`super::consumer`] and [`super::classic`]. An injected [`Bug`]
//! is the only fault of the coordinator, apart from restarts. A connection carries requests and
//! answers in order. When a connection breaks, its requests and answers under way are lost.

mod faults;
mod network;
mod protocol;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::check::{Checker, Found};
use crate::event::{Event, EventKind, OBSERVER, Stop};
use crate::history::{Group, Kind};
use crate::plan::GroupIndex;

pub(super) use self::protocol::{
    Behaviour, Bug, Caller, Coordinator, Me, PARTITIONS, REBALANCE, Request, Response, SESSION,
    Set, time,
};
use self::protocol::{HEARTBEAT, REQUEST_TIMEOUT, event, partition};

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
    /// The number of times that the member has started.
    life: u32,
    connection: u32,
    /// Whether the connection loses all requests and answers from now on.
    deaf: bool,
    in_flight: Option<u64>,
    commits: BTreeMap<u64, u32>,
    next_commit: u32,
    /// When a pause of the whole process ends.
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

    /// Runs for this time, and returns the violations that the checker finds.
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
            clock_error: Duration::ZERO,
            delivery_limit: 0,
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
}
