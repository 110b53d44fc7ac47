//! One load core: members, connections and timers on one executor. Everything happens in turns: the
//! pulse (commands, timers, reports) and the connections' tasks each borrow the core for as long as
//! they run, never across a wait.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use crossbeam_channel::{Sender, TryRecvError};
use futures_lite::future::{Future, poll_fn, yield_now};
use glommio::timer::Timer;
use slab::Slab;

use super::clock::Clock;
use super::command::{Command, Sample, Target, Task, TaskError, TaskOutcome, Told};
use super::connections::Connections;
use super::dial::Dialer;
use super::inbox::Inside;
use super::meter::{self, Meter};
use super::seats::Seats;
use super::tasks;
use super::timers::Timers;
use crate::event::Event;
use crate::member::{Nodes, Output, Versions};
use crate::plan::GroupIndex;
use crate::time::Time;
use crate::topics::Topics;

const TELL_EVERY: Duration = Duration::from_millis(80);
/// What a turn does at most before connections have theirs.
const DUE_MAX: usize = 256;
/// So many events wait for a reader that is slow; then the load waits for it.
const EVENTS_MAX: usize = 1 << 20;
/// Different problems that a core tells of in a run.
const PROBLEMS_MAX: usize = 32;

/// What a core is given at its start.
pub(super) struct Setup {
    pub(super) index: usize,
    pub(super) cores: u32,
    pub(super) clock: Clock,
    pub(super) target: Arc<Target>,
    pub(super) versions: Versions,
    /// Where lookups go: bootstrap servers, then brokers.
    pub(super) servers: Vec<(String, u16)>,
    /// The topics that any core has learned of.
    pub(super) learned: Arc<Mutex<Arc<Topics>>>,
    pub(super) commands: Inside,
    pub(super) told: Sender<Told>,
}

/// The core, and what its tasks use beside it.
pub(super) struct Shared {
    pub(super) core: RefCell<Core>,
    pub(super) dialer: Dialer,
}

pub(super) struct Core {
    pub(super) me: Weak<Shared>,
    pub(super) index: usize,
    pub(super) cores: u32,
    pub(super) clock: Clock,
    pub(super) target: Arc<Target>,
    pub(super) versions: Versions,
    pub(super) topics: Arc<Topics>,
    pub(super) nodes: Nodes,
    pub(super) random: fastrand::Rng,
    pub(super) seats: Seats,
    pub(super) connections: Connections,
    pub(super) output: Output,
    pub(super) events: Vec<Event>,
    pub(super) meter: Meter,
    timers: Timers<Due>,
    later: Slab<Command>,
    pulse: Pulse,
    tell_at: Time,
    told_traffic: (u64, u64),
    /// All so far, and those that are still to be told.
    known_problems: BTreeSet<String>,
    problems: Vec<String>,
    done: Vec<(u64, Result<TaskOutcome, TaskError>)>,
    learned: Arc<Mutex<Arc<Topics>>>,
    commands: Inside,
    told: Sender<Told>,
}

/// What a timer is for, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Due {
    Member(u32),
    Connection(usize),
    Command(usize),
    /// A request that had no connection to go to.
    Unsent(usize),
}

/// When the pulse goes on, and how to make it go on earlier.
#[derive(Default)]
struct Pulse {
    at: Time,
    waker: Option<Waker>,
}

/// Carries out commands until the last one.
pub(super) async fn run(setup: Setup, dialer: Dialer) {
    let shared = Rc::new_cyclic(|me| Shared { core: Core::new(setup, me.clone()).into(), dialer });
    loop {
        let turn = shared.core.borrow_mut().turn();
        match turn {
            Turn::Sleep(until) => shared.sleep(until).await,
            Turn::Busy => yield_now().await,
            Turn::End => break,
        }
    }
    shared.core.borrow_mut().last_words();
}

enum Turn {
    Sleep(Time),
    Busy,
    End,
}

impl Shared {
    /// Until then, until something is armed that comes before, or until a command comes.
    async fn sleep(&self, until: Time) {
        let rest = self.core.borrow().clock.until(until);
        if rest.is_zero() {
            return yield_now().await;
        }
        let mut timer = Timer::new(rest);
        poll_fn(|cx| {
            let core = &mut *self.core.borrow_mut();
            if core.pulse.at < until || !core.commands.wait(cx.waker()) {
                return Poll::Ready(());
            }
            core.pulse.waker = Some(cx.waker().clone());
            Pin::new(&mut timer).poll(cx).map(|_| ())
        })
        .await;
    }
}

impl Core {
    fn new(setup: Setup, me: Weak<Shared>) -> Self {
        let mut nodes = Nodes::default();
        let servers = setup.servers.iter().map(|(host, port)| nodes.intern(host, *port)).collect();
        let topics = lock(&setup.learned).clone();
        let seed = setup.target.seed.wrapping_add(setup.index as u64);
        Self {
            me,
            index: setup.index,
            cores: setup.cores,
            clock: setup.clock,
            target: setup.target,
            versions: setup.versions,
            topics,
            nodes,
            random: fastrand::Rng::with_seed(seed),
            seats: Seats::default(),
            connections: Connections::new(servers),
            output: Output::default(),
            events: Vec::new(),
            meter: Meter::default(),
            timers: Timers::default(),
            later: Slab::new(),
            pulse: Pulse::default(),
            tell_at: Time::ZERO,
            told_traffic: (0, 0),
            known_problems: BTreeSet::new(),
            problems: Vec::new(),
            done: Vec::new(),
            learned: setup.learned,
            commands: setup.commands,
            told: setup.told,
        }
    }

    /// Calls back at `at` for `due`.
    pub(super) fn arm(&mut self, at: Time, due: Due) {
        self.timers.arm(at, due);
        if at < self.pulse.at {
            self.pulse.at = at;
            if let Some(waker) = self.pulse.waker.take() {
                waker.wake();
            }
        }
    }

    fn turn(&mut self) -> Turn {
        if !self.take_commands() {
            return Turn::End;
        }
        let busy = self.run_timers();
        let now = self.clock.now();
        if now >= self.tell_at {
            self.tell_at = now + TELL_EVERY;
            self.tell(None);
        }
        let next = self.timers.next().unwrap_or(Time::MAX);
        self.pulse.at = next.min(self.tell_at);
        if busy { Turn::Busy } else { Turn::Sleep(self.pulse.at) }
    }

    /// Whether more are due than one turn takes.
    fn run_timers(&mut self) -> bool {
        for _ in 0..DUE_MAX {
            let Some((at, due)) = self.timers.pop(self.clock.now()) else { return false };
            match due {
                Due::Member(slot) => self.wake_member(slot, at),
                Due::Connection(number) => self.check_patience(number, at),
                Due::Unsent(number) => self.answer_unsent(number),
                Due::Command(number) => {
                    let command = self.later.remove(number);
                    self.obey(command);
                }
            }
        }
        true
    }

    /// False after the last command.
    fn take_commands(&mut self) -> bool {
        for _ in 0..DUE_MAX {
            match self.commands.take() {
                Ok(Command::End) | Err(TryRecvError::Disconnected) => return false,
                Ok(command) => self.schedule(command),
                Err(TryRecvError::Empty) => break,
            }
        }
        true
    }

    /// Commands with a time wait for it, in the order in which they came.
    pub(super) fn schedule(&mut self, command: Command) {
        match &command {
            Command::Start { at, .. } | Command::Stop { at, .. } => {
                let at = *at;
                let number = self.later.insert(command);
                self.arm(at, Due::Command(number));
            }
            _ => self.obey(command),
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Start { member, .. } => self.start_member(member),
            Command::Stop { member, how, .. } => self.stop_member(member, how),
            Command::Work { member, workload } => self.set_workload(member, workload),
            Command::Topics(topics) => self.take_topics(topics),
            Command::Task { id, task } => self.start_task(id, task),
            // Seen when it was received.
            Command::End => {}
        }
    }

    fn start_task(&mut self, id: u64, task: Task) {
        let Some(shared) = self.me.upgrade() else { return };
        let job = async move {
            let result = tasks::carry_out(&shared, task).await;
            shared.core.borrow_mut().done.push((id, result.map_err(TaskError)));
        };
        spawn(job);
    }

    /// Adds to what all cores know.
    pub(super) fn learn(&mut self, topics: Vec<crate::topics::Topic>) -> Arc<Topics> {
        let mut learned = lock(&self.learned);
        let known = Arc::make_mut(&mut learned);
        for topic in topics {
            known.learn(topic);
        }
        Arc::clone(&learned)
    }

    /// Who can be asked for anything: host and port of each.
    pub(super) fn servers(&self) -> Vec<(String, u16)> {
        let servers = self.connections.servers().iter();
        let address = |node| self.nodes.address(node).map(|(host, port)| (host.to_owned(), port));
        servers.filter_map(|node| address(*node)).collect()
    }

    /// Tells of it, the first time.
    pub(super) fn problem(&mut self, problem: String) {
        if self.known_problems.len() < PROBLEMS_MAX && self.known_problems.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }

    fn tell(&mut self, ended: Option<Result<(), String>>) {
        let told = Told {
            core: self.index,
            until: self.clock.now(),
            events: std::mem::take(&mut self.events),
            sample: self.sample(),
            done: std::mem::take(&mut self.done),
            ended,
        };
        // Nobody listens any more: the channel of commands says so too.
        let _ = if told.events.len() >= EVENTS_MAX || told.ended.is_some() {
            self.told.send(told).map_err(|_| ())
        } else {
            self.told.try_send(told).map_err(|refused| self.keep(refused.into_inner()))
        };
    }

    /// For the next time.
    fn keep(&mut self, told: Told) {
        self.events = told.events;
        self.done = told.done;
        self.meter.put_back(told.sample.round_trips);
        self.problems = told.sample.problems;
        self.told_traffic.0 -= told.sample.bytes_sent;
        self.told_traffic.1 -= told.sample.bytes_received;
    }

    fn sample(&mut self) -> Sample {
        let traffic = self.me.upgrade().map(|shared| {
            let traffic = &shared.dialer.traffic;
            (traffic.sent.get(), traffic.received.get())
        });
        let before = self.told_traffic;
        self.told_traffic = traffic.unwrap_or(before);
        Sample {
            round_trips: self.meter.take(),
            bytes_sent: self.told_traffic.0 - before.0,
            bytes_received: self.told_traffic.1 - before.1,
            connections: self.connections.established(),
            states: self.seats.states(),
            cpu: meter::thread_cpu(),
            problems: std::mem::take(&mut self.problems),
        }
    }

    fn last_words(&mut self) {
        self.connections.end_all();
        self.tell(Some(Ok(())));
    }
}

/// Starts a task that may borrow the core: glommio would poll it at once, within this turn.
pub(super) fn spawn(task: impl Future<Output = ()> + 'static) {
    let later = async {
        yield_now().await;
        task.await;
    };
    glommio::spawn_local(later).detach();
}

/// A panic of another core does not spoil the topics.
fn lock(learned: &Mutex<Arc<Topics>>) -> std::sync::MutexGuard<'_, Arc<Topics>> {
    learned.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Members of a group by state, in the order of `State`.
pub(super) type StateCounts = BTreeMap<GroupIndex, [u32; 7]>;
