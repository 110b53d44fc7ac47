//! One load core: members, connections and timers on one runtime. All work is done in turns. The
//! main loop (commands, timers, reports) and the tasks of the connections borrow the core for one
//! turn, and never hold it while they wait.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use crossbeam_channel::{Sender, TryRecvError};
use slab::Slab;
use tokio::task::yield_now;

use super::alarm::Alarm;
use super::clock::Clock;
use super::command::{Command, CoreReport, Sample, Target, Task, TaskError, TaskOutcome};
use super::connections::Connections;
use super::dial::Dialer;
use super::inbox::Inside;
use super::members::Members;
use super::meter::{self, Meter};
use super::owed::Owed;
use super::runtime::Tasks;
use super::tasks;
use super::timers::Timers;
use crate::event::Event;
use crate::member::{Nodes, Output, Versions};
use crate::plan::GroupIndex;
use crate::time::Time;
use crate::topics::Topics;

const REPORT_EVERY: Duration = Duration::from_millis(80);
/// How often a core samples the ages of unanswered requests.
const WAITING_EVERY: Duration = Duration::from_secs(1);
/// The maximum number of timers or commands that a turn handles before it goes to the connections.
const DUE_MAX: usize = 256;
/// The maximum number of events in a report that is not sent because the receiver is slow. When it
/// is reached, the core waits for the receiver, and generates no load meanwhile.
const EVENTS_MAX: usize = 1 << 20;
/// The maximum number of different problems that a core reports in a run.
const PROBLEMS_MAX: usize = 32;

/// The parameters of a core.
pub(super) struct Setup {
    pub(super) index: usize,
    pub(super) cores: u32,
    pub(super) clock: Clock,
    pub(super) target: Arc<Target>,
    pub(super) versions: Versions,
    /// The servers for lookups: bootstrap servers first, then brokers.
    pub(super) servers: Vec<(String, u16)>,
    /// The topics that any core has learned.
    pub(super) learned: Arc<Mutex<Arc<Topics>>>,
    pub(super) commands: Inside,
    pub(super) reports: Sender<CoreReport>,
}

/// A core with the tasks and the dialer that work for it.
pub(super) struct Shared {
    pub(super) core: RefCell<Core>,
    pub(super) dialer: Dialer,
    pub(super) tasks: Tasks,
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
    pub(super) members: Members,
    pub(super) connections: Connections,
    pub(super) output: Output,
    pub(super) events: Vec<Event>,
    pub(super) meter: Meter,
    /// How late the timer or the answer is that is being handled now.
    pub(super) late: Duration,
    timers: Timers<Due>,
    later: Slab<Command>,
    main_loop: MainLoop,
    report_at: Time,
    waiting_at: Time,
    reported_traffic: (u64, u64),
    /// All problems so far; `problems` has only those that are not reported yet.
    known_problems: BTreeSet<String>,
    problems: Vec<String>,
    done: Vec<(u64, Result<TaskOutcome, TaskError>)>,
    learned: Arc<Mutex<Arc<Topics>>>,
    commands: Inside,
    reports: Sender<CoreReport>,
}

/// The purpose of a timer. The field is a number: that of a member's slot, of a connection, of a
/// command, or of an unsent request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Due {
    Member(u32),
    Connection(usize),
    Command(usize),
    /// The failure of a request that could not be sent.
    Unsent(usize),
}

/// The time at which the main loop will continue, and the waker that lets it continue earlier.
#[derive(Default)]
struct MainLoop {
    at: Time,
    waker: Option<Waker>,
}

/// Executes commands until the last one.
/// # Errors
/// The timer of the core's alarm can't be made, set or read.
pub(super) async fn run(setup: Setup, dialer: Dialer) -> io::Result<()> {
    let mut alarm = Alarm::new()?;
    let shared = Rc::new_cyclic(|me| {
        let core = Core::new(setup, me.clone()).into();
        Shared { core, dialer, tasks: Tasks::default() }
    });
    loop {
        let turn = shared.core.borrow_mut().timed_turn();
        match turn {
            Turn::Sleep(until) => shared.sleep(until, &mut alarm).await?,
            Turn::Busy => yield_now().await,
            Turn::End => break,
        }
        shared.tasks.join_ended();
    }
    shared.core.borrow_mut().final_report();
    Ok(())
}

enum Turn {
    Sleep(Time),
    Busy,
    End,
}

impl Shared {
    /// Sleeps until `until`, or until an earlier timer is armed or a command arrives.
    async fn sleep(&self, until: Time, alarm: &mut Alarm) -> io::Result<()> {
        let rest = self.core.borrow().clock.until(until);
        if rest.is_zero() {
            yield_now().await;
            return Ok(());
        }
        alarm.set(rest)?;
        poll_fn(|cx| {
            let core = &mut *self.core.borrow_mut();
            if core.main_loop.at < until || !core.commands.wait(cx.waker()) {
                return Poll::Ready(Ok(()));
            }
            core.main_loop.waker = Some(cx.waker().clone());
            alarm.poll(cx)
        })
        .await
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
            members: Members::default(),
            connections: Connections::new(servers),
            output: Output::default(),
            events: Vec::new(),
            meter: Meter::default(),
            late: Duration::ZERO,
            timers: Timers::default(),
            later: Slab::new(),
            main_loop: MainLoop::default(),
            report_at: Time::ZERO,
            waiting_at: Time::ZERO,
            reported_traffic: (0, 0),
            known_problems: BTreeSet::new(),
            problems: Vec::new(),
            done: Vec::new(),
            learned: setup.learned,
            commands: setup.commands,
            reports: setup.reports,
        }
    }

    /// Arms a timer for `due` at `at`.
    pub(super) fn arm(&mut self, at: Time, due: Due) {
        self.timers.arm(at, due, self.clock.now());
        if at < self.main_loop.at {
            self.main_loop.at = at;
            if let Some(waker) = self.main_loop.waker.take() {
                waker.wake();
            }
        }
    }

    fn timed_turn(&mut self) -> Turn {
        let began = self.clock.now();
        let turn = self.turn();
        self.count_turn(began);
        turn
    }

    /// Counts a turn, which the main loop or the task of a connection has ended.
    pub(super) fn count_turn(&mut self, began: Time) {
        self.meter.turn(self.clock.now().since(began));
    }

    fn turn(&mut self) -> Turn {
        if !self.take_commands() {
            return Turn::End;
        }
        let busy = self.run_timers();
        let now = self.clock.now();
        if now >= self.report_at {
            if self.report_at > Time::ZERO {
                self.meter.late(now.since(self.report_at));
            }
            self.report_at = now + REPORT_EVERY;
            self.report(None);
        }
        let next = self.timers.next().unwrap_or(Time::MAX);
        self.main_loop.at = next.min(self.report_at);
        if busy { Turn::Busy } else { Turn::Sleep(self.main_loop.at) }
    }

    /// Runs timers that are due, at most [`DUE_MAX`]. Returns whether more timers may be due.
    fn run_timers(&mut self) -> bool {
        for _ in 0..DUE_MAX {
            let Some(fired) = self.timers.pop(self.clock.now()) else { return false };
            self.meter.late(fired.late);
            self.late = fired.late;
            self.run_timer(fired.key, fired.at);
            self.late = Duration::ZERO;
        }
        true
    }

    fn run_timer(&mut self, due: Due, at: Time) {
        match due {
            Due::Member(slot) => self.wake_member(slot, at),
            Due::Connection(number) => self.check_patience(number, at),
            Due::Unsent(number) => self.answer_unsent(number),
            Due::Command(number) => {
                let command = self.later.remove(number);
                self.execute(command);
            }
        }
    }

    /// Handles commands. Returns false after the last command.
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

    /// Executes a command, or keeps it until its time if it has one. Commands with equal times run
    /// in the order of arrival.
    pub(super) fn schedule(&mut self, command: Command) {
        match &command {
            Command::Start { at, .. }
            | Command::Stop { at, .. }
            | Command::Subscribe { at, .. } => {
                let at = *at;
                let number = self.later.insert(command);
                self.arm(at, Due::Command(number));
            }
            _ => self.execute(command),
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Start { member, .. } => self.start_member(member),
            Command::Stop { member, how, .. } => self.stop_member(member, how),
            Command::Work { member, workload } => self.set_workload(member, workload),
            Command::Subscribe { member, group, .. } => self.subscribe_member(member, group),
            Command::Topics(topics) => self.take_topics(topics),
            Command::Task { id, task } => self.start_task(id, task),
            // `End` was handled when it arrived.
            Command::End => {}
        }
    }

    fn start_task(&mut self, id: u64, task: Task) {
        let Some(shared) = self.me.upgrade() else { return };
        Rc::clone(&shared).tasks.spawn(async move {
            let result = tasks::carry_out(&shared, task).await;
            shared.core.borrow_mut().done.push((id, result.map_err(TaskError)));
        });
    }

    /// Adds topics to those that all cores know.
    pub(super) fn learn(&mut self, topics: Vec<crate::topics::Topic>) -> Arc<Topics> {
        let mut learned = lock(&self.learned);
        let known = Arc::make_mut(&mut learned);
        for topic in topics {
            known.learn(topic);
        }
        Arc::clone(&learned)
    }

    /// The host and port of each server that can answer lookups.
    pub(super) fn servers(&self) -> Vec<(String, u16)> {
        let servers = self.connections.servers().iter();
        let address = |node| self.nodes.address(node).map(|(host, port)| (host.to_owned(), port));
        servers.filter_map(|node| address(*node)).collect()
    }

    /// Reports a problem, once.
    pub(super) fn problem(&mut self, problem: String) {
        if self.known_problems.len() < PROBLEMS_MAX && self.known_problems.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }

    fn report(&mut self, ended: Option<Result<(), String>>) {
        let report = CoreReport {
            core: self.index,
            until: self.clock.now(),
            events: std::mem::take(&mut self.events),
            sample: self.sample(),
            done: std::mem::take(&mut self.done),
            ended,
        };
        // An error means that the receiver is gone. Then the command channel is closed, too, and
        // ends this core.
        let _ = if report.events.len() >= EVENTS_MAX || report.ended.is_some() {
            self.reports.send(report).map_err(|_| ())
        } else {
            self.reports.try_send(report).map_err(|refused| self.keep(refused.into_inner()))
        };
    }

    /// Keeps the content of a report that could not be sent, for the next report.
    fn keep(&mut self, report: CoreReport) {
        self.events = report.events;
        self.done = report.done;
        let mut sample = report.sample;
        self.problems = std::mem::take(&mut sample.problems);
        self.reported_traffic.0 -= sample.bytes_sent;
        self.reported_traffic.1 -= sample.bytes_received;
        self.meter.put_back(sample);
    }

    fn sample(&mut self) -> Sample {
        let traffic = self.me.upgrade().map(|shared| {
            let traffic = &shared.dialer.traffic;
            (traffic.sent.get(), traffic.received.get())
        });
        let before = self.reported_traffic;
        self.reported_traffic = traffic.unwrap_or(before);
        let now = self.clock.now();
        let waiting = (now >= self.waiting_at).then(|| {
            self.waiting_at = now + WAITING_EVERY;
            self.ages(now).take()
        });
        let mut sample = Sample {
            waiting,
            bytes_sent: self.reported_traffic.0 - before.0,
            bytes_received: self.reported_traffic.1 - before.1,
            connections: self.connections.established(),
            states: self.members.states(),
            cpu: meter::thread_cpu(),
            problems: std::mem::take(&mut self.problems),
            ..Sample::default()
        };
        self.meter.fill(&mut sample);
        sample
    }

    fn final_report(&mut self) {
        let on_their_way: Vec<_> = self.connections.in_flight().map(Owed::by).collect();
        let not_sent: Vec<_> = self.members.owed(self.clock.now()).collect();
        on_their_way.into_iter().for_each(|owed| self.never_answered(owed));
        let now = self.clock.now();
        not_sent.into_iter().for_each(|owed| self.meter.owed(owed, now));
        self.connections.end_all();
        self.report(Some(Ok(())));
    }
}

/// Locks the topics. The topics are consistent even if another core panicked while it held the
/// lock.
fn lock(learned: &Mutex<Arc<Topics>>) -> std::sync::MutexGuard<'_, Arc<Topics>> {
    learned.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The number of members of each group in each state, in the order of `State`.
pub(super) type StateCounts = BTreeMap<GroupIndex, [u32; 7]>;
