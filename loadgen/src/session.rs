//! The thread that conducts a run. It receives the reports of the cores, passes them to the checks
//! and the measures, and shows the state of the run. It wakes up every [`TICK`], and does no
//! work per member.

mod clients;
mod signals;
mod view;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loadgen::check::{Checker, Found};
use loadgen::client::Clients;
use loadgen::driver::command::{Command, CoreReport, TaskError, TaskOutcome};
use loadgen::event::Event;
use loadgen::fleet::Engine;
use loadgen::history::{self, Header, Writer};
use loadgen::measure::merge::Merge;
use loadgen::measure::process::Process;
use loadgen::measure::{Measure, Measured};
use loadgen::plan::GroupIndex;
use loadgen::report::live::Live;
use loadgen::report::model;
use loadgen::report::thresholds::Rule;
use loadgen::scenario::{Cause, Conductor, Orders, Status, Trigger};
use loadgen::time::Time;
use signal_hook::iterator::Signals;

use crate::outage::{Outage, Sign};
use crate::outputs::history_header;
use crate::streams::Streams;

const TICK: Duration = Duration::from_millis(50);
/// The maximum number of groups that a sentence names.
const NAMED: usize = 3;
const JUDGE_EVERY: Duration = Duration::from_secs(1);
/// The interval at which the ages of transactions that no reader has read yet are sampled.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const USAGE_EVERY: Duration = Duration::from_secs(1);
/// How long a group must have been stable before its rebalance counts as ended.
const SETTLED: Duration = Duration::from_secs(1);
/// How long to wait for the cores to end.
const ENDING: Duration = Duration::from_secs(10);

/// The parts that a session uses.
pub(crate) struct Tools {
    pub(crate) engine: Engine,
    pub(crate) conductor: Conductor,
    pub(crate) clients: Clients,
    pub(crate) history: Option<Writer>,
    pub(crate) live: Live,
    pub(crate) streams: Streams,
    pub(crate) server: Option<Process>,
    pub(crate) scenario: String,
    /// The description of the run, for its page.
    pub(crate) about: model::Run,
    /// If no broker has answered for this long, the run ends.
    pub(crate) give_up: Duration,
    /// Rules that end the run when one of them is broken, and the time from which on they do so.
    pub(crate) abort: Option<(Duration, Vec<Rule>)>,
}

/// The result of a session.
pub(crate) struct Played {
    pub(crate) measured: Measured,
    pub(crate) found: Found,
    pub(crate) phases: Vec<model::Phase>,
    pub(crate) interrupted: bool,
    /// Whether a signal ended the run.
    pub(crate) by_signal: bool,
    pub(crate) length: Time,
    /// Why the run could not start.
    pub(crate) not_begun: Option<String>,
    /// Why the run could not continue.
    pub(crate) broken: Option<String>,
    /// Whether the run broke because a machine that generated load was lost.
    pub(crate) lost_a_worker: bool,
}

pub(crate) struct Session {
    tools: Tools,
    signals: Signals,
    /// Once this is set, the next signal ends the process at once.
    deadly: Arc<AtomicBool>,
    merge: Merge,
    measure: Measure,
    checker: Checker,
    myself: Option<Process>,
    groups: Vec<GroupIndex>,
    /// When each group was last triggered to rebalance.
    triggered: HashMap<GroupIndex, Time>,
    /// The events of the current tick.
    events: Vec<Event>,
    done: Vec<(u64, Result<TaskOutcome, TaskError>)>,
    orders: Orders,
    cores_ended: usize,
    coordinator_restarted: bool,
    violations_shown: usize,
    phase: u32,
    shown: Instant,
    used: Instant,
    outage: Outage,
    judged: Time,
    looked: Instant,
    interrupts: u32,
    broken: Option<String>,
}

impl Session {
    /// # Errors
    /// The history can't be written, or signal handlers can't be installed. The error is a sentence
    /// for the user.
    pub(crate) fn begin(mut tools: Tools, seed: u64) -> Result<Self, String> {
        let deadly = Arc::new(AtomicBool::new(false));
        let signals = signals::install_handlers(&deadly)
            .map_err(|error| format!("no handler for Ctrl-C: {error}"))?;
        if let Some(history) = &mut tools.history {
            let header = history_header(tools.scenario.clone(), seed);
            history.header(&header).map_err(|error| error.to_string())?;
        }
        let now = Instant::now();
        Ok(Self {
            signals,
            deadly,
            merge: Merge::new(tools.engine.cores()),
            measure: Measure::default(),
            checker: Checker::default(),
            myself: Process::myself().ok(),
            groups: Vec::new(),
            triggered: HashMap::new(),
            events: Vec::new(),
            done: Vec::new(),
            orders: Orders::default(),
            cores_ended: 0,
            coordinator_restarted: false,
            violations_shown: 0,
            phase: 0,
            shown: now,
            used: now - USAGE_EVERY,
            outage: Outage::new(tools.give_up, now),
            judged: Time::ZERO,
            looked: now,
            interrupts: 0,
            broken: None,
            tools,
        })
    }

    pub(crate) fn play(mut self) -> Played {
        while !self.tools.conductor.is_over() && self.broken.is_none() && self.interrupts < 2 {
            self.receive_for(TICK);
            self.hear_clients();
            self.judge();
            self.handle_signals();
            self.conduct();
            self.watch_outage();
            self.watch_rules();
            self.measure_processes();
            self.show();
        }
        self.end_cores();
        self.finish()
    }

    fn receive_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.tools.engine.receive(left) {
                Some(report) => self.take(report),
                None => break,
            }
            if left.is_zero() {
                break;
            }
        }
    }

    fn take(&mut self, mut report: CoreReport) {
        self.merge.push(&mut report);
        self.measure.sample(report.core, &report.sample);
        if !report.sample.uncorrected.is_empty() {
            self.outage.answered(Instant::now());
        }
        report.sample.problems.iter().for_each(|problem| self.tools.live.note(problem));
        self.done.append(&mut report.done);
        if let Some(ended) = report.ended {
            self.cores_ended += 1;
            if let Err(why) = ended {
                self.broken.get_or_insert(why);
            }
        }
    }

    /// Passes the events to the checks and measures.
    fn judge(&mut self) {
        for event in self.merge.ready() {
            if let Some(Err(error)) = self.tools.history.as_mut().map(|file| file.event(&event)) {
                self.broken.get_or_insert(error.to_string());
                self.tools.history = None;
            }
            self.checker.observe(&event);
            self.measure.observe(&event);
            self.events.push(event);
        }
        self.measure_visible();
        self.measure.advance(self.merge.until().min(self.tools.engine.now()));
        let violations = &self.checker.found().violations;
        for violation in violations.iter().skip(self.violations_shown) {
            let (rule, group) = (&violation.rule, &violation.group);
            self.tools.live.note(&format!("VIOLATION {rule}: {group}: {}", violation.what));
        }
        self.violations_shown = violations.len();
    }

    fn measure_visible(&mut self) {
        let unread = (self.looked.elapsed() >= LOOK_EVERY).then(|| {
            self.looked = Instant::now();
            self.checker.unread(self.tools.engine.now())
        });
        self.measure.visible(&self.checker.take_visible(), unread.as_deref());
        self.measure.redelivered(&self.checker.take_redelivered());
    }

    /// Handles new signals. The first one winds the run down, the second ends it at once, and the
    /// third ends the process.
    fn handle_signals(&mut self) {
        let before = self.interrupts;
        self.interrupts += self.signals.pending().count() as u32;
        if before == 0 && self.interrupts > 0 {
            self.tools.conductor.stop();
            self.tools.live.note(
                "Ending: members leave, groups and topics are deleted. Ctrl-C again ends at once.",
            );
            self.name_unsettled();
        }
        if self.interrupts > 1 {
            self.tools.clients.kill_all();
            self.deadly.store(true, Ordering::SeqCst);
            let made = self.tools.conductor.prefix();
            self.tools.live.note(&format!(
                "Ended at once: groups and topics that were not deleted stay; their names begin \
                 with {made}"
            ));
        }
    }

    /// When the run is interrupted: shows the names of groups that were rebalancing and not stable.
    /// The report has no times for their rebalances.
    fn name_unsettled(&self) {
        let Some(plan) = self.tools.conductor.plan() else { return };
        let unsettled = |group: &&GroupIndex| {
            let status = self.measure.status(**group);
            status.is_some_and(|status| status.rebalancing && status.stable_since.is_none())
        };
        let unsettled: Vec<_> = self.groups.iter().filter(unsettled).collect();
        let names = unsettled.iter().take(NAMED).map(|group| plan.group(**group).id.to_string());
        let names = Vec::from_iter(names).join(", ");
        let more = match unsettled.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if !unsettled.is_empty() {
            self.tools.live.note(&format!("Not settled when it ended: {names}{more}."));
        }
    }

    fn conduct(&mut self) {
        let now = self.tools.engine.now();
        let measure = &self.measure;
        let stable_since = |group| measure.status(group).and_then(|status| status.stable_since);
        let status = Status { events: &self.events, done: &self.done, stable_since: &stable_since };
        let mut orders = std::mem::take(&mut self.orders);
        let was_playing = self.tools.conductor.is_playing();
        self.tools.conductor.tick(now, &status, &mut orders);
        self.events.clear();
        self.done.clear();
        self.expect_groups();
        if was_playing {
            let ending = !self.tools.conductor.is_playing();
            self.close_rebalances(now, ending);
            if ending {
                self.measure.end_phases(now.min(self.merge.until()));
            }
        }
        orders.triggers.drain(..).for_each(|trigger| self.trigger(trigger));
        orders.events.drain(..).for_each(|event| self.merge.insert(event));
        orders.notes.drain(..).for_each(|note| self.tools.live.note(&note));
        orders.commands.drain(..).for_each(|command| self.send(command));
        self.orders = orders;
        self.order_clients();
        self.write_phase(now);
    }

    /// Announces the groups to checks and measures as soon as they are known. Later calls do
    /// nothing.
    fn expect_groups(&mut self) {
        let (Some(plan), Some(topics)) =
            (self.tools.conductor.plan(), self.tools.conductor.topics())
        else {
            return;
        };
        if !self.groups.is_empty() {
            return;
        }
        let mut headers = Vec::new();
        headers.extend(topics.iter().map(|(index, topic)| {
            let (name, partitions) = ((*topic.name).into(), topic.partitions);
            Header::Topic(history::Topic { index, name, partitions })
        }));
        let clock_error = self.tools.engine.clock_error();
        for group in plan.groups() {
            let group = history::Group { clock_error, ..plan.described(group.index, topics) };
            self.checker.expect_group(group.clone());
            self.measure.expect_group(group.clone());
            self.groups.push(group.index);
            headers.push(Header::Group(group));
        }
        headers.iter().for_each(|header| self.write(header));
    }

    fn trigger(&mut self, trigger: Trigger) {
        let Trigger { at, group, cause } = trigger;
        let rebalances = self.measure.status(group).is_some_and(|status| status.rebalancing);
        match cause {
            // Rebalances of the wind-down are not measured.
            Cause::WindDown => return,
            // The current rebalance began when these members stopped. Their return belongs to it.
            Cause::Returned(_) if rebalances => return,
            Cause::CoordinatorRestarted => self.restarted(at),
            _ => {}
        }
        self.triggered.insert(group, at);
        self.measure.trigger(group, &cause.to_string(), at);
    }

    /// Closes the rebalance of each group that has been stable for long enough. At the end of a run
    /// it also closes the rebalance of each group without members. If the run was not interrupted,
    /// all stable groups then count, even if they became stable just now.
    fn close_rebalances(&mut self, now: Time, ending: bool) {
        let Some(plan) = self.tools.conductor.plan() else { return };
        for &group in &self.groups {
            let Some(status) = self.measure.status(group) else { continue };
            // The group may still seem stable just after a trigger, because it has not reacted yet.
            let triggered = self.triggered.get(&group).copied().unwrap_or_default();
            let since = status.stable_since.map(|since| since.max(triggered));
            // If the scenario came to its end, all planned actions were done.
            let whole = ending && !self.tools.conductor.interrupted();
            let settles_in =
                if whole { Duration::ZERO } else { plan.settles_in(group).max(SETTLED) };
            let settled = since.is_some_and(|since| now.since(since) >= settles_in);
            // Before the end, members that left may be planned to come back.
            let emptied = ending && status.live == 0;
            if status.rebalancing && (settled || emptied) {
                self.measure.close_rebalance(group);
            }
        }
    }

    fn restarted(&mut self, at: Time) {
        if !self.coordinator_restarted {
            self.coordinator_restarted = true;
            self.checker.coordinator_restarted(at);
            self.write(&Header::CoordinatorRestarted { at });
        }
    }

    fn write_phase(&mut self, now: Time) {
        let ended = self.tools.conductor.phases().len() as u32;
        if self.tools.conductor.is_playing() && ended + 1 > self.phase {
            self.phase = ended + 1;
            self.measure.begin_phase(now.min(self.merge.until()));
            self.coordinator_restarted = false;
            let place = self.tools.conductor.place(now);
            self.write(&Header::Phase { at: place.began, name: place.phase.into() });
        }
    }

    fn write(&mut self, header: &Header) {
        if let Some(Err(error)) = self.tools.history.as_mut().map(|file| file.header(header)) {
            self.broken.get_or_insert(error.to_string());
            self.tools.history = None;
        }
    }

    fn send(&mut self, command: Command) {
        let engine = &mut self.tools.engine;
        let core = match &command {
            Command::Start { member, .. } => engine.core_of(member.index),
            Command::Stop { member, .. }
            | Command::Work { member, .. }
            | Command::Subscribe { member, .. } => engine.core_of(*member),
            Command::Task { id, .. } => engine.core_of_task(*id),
            Command::Topics(topics) => {
                let topics = topics.clone();
                let cores = 0..engine.cores();
                return cores.for_each(|core| engine.send(core, Command::Topics(topics.clone())));
            }
            Command::End => {
                return (0..engine.cores()).for_each(|core| engine.send(core, Command::End));
            }
        };
        engine.send(core, command);
    }

    /// Ends the run if the cluster has not answered for too long. Shows a note before.
    fn watch_outage(&mut self) {
        if self.tools.conductor.awaits_restart() {
            return self.outage.answered(Instant::now());
        }
        match self.outage.check(self.measure.waiting().longest, Instant::now()) {
            Some(Sign::Silent(sentence)) => self.tools.live.note(&sentence),
            Some(Sign::Gone(sentence)) => {
                let made = self.tools.conductor.prefix();
                self.broken.get_or_insert(format!(
                    "{sentence}: the run ended; its groups and topics stay, their names begin \
                     with {made}"
                ));
            }
            None => {}
        }
    }

    /// Judges the rules once a second, while the phases run.
    fn watch_rules(&mut self) {
        let now = self.tools.engine.now();
        let Some((after, rules)) = &self.tools.abort else { return };
        if now.since(self.judged) < JUDGE_EVERY || !self.tools.conductor.is_playing() {
            return;
        }
        self.judged = now;
        let omitted = self.checker.found().omitted + self.checker.found().violations.len() as u64;
        let so_far = model::Report { violations_omitted: omitted, ..self.measure.so_far() };
        let broken = rules.iter().find(|rule| rule.is_broken_early(&so_far));
        if let Some(rule) = broken.filter(|_| now.since(Time::ZERO) >= *after) {
            self.tools.live.note(&format!("Ending: {rule} is broken."));
            self.tools.conductor.stop();
            self.tools.abort = None;
        }
    }

    fn measure_processes(&mut self) {
        if self.used.elapsed() < USAGE_EVERY {
            return;
        }
        self.used = Instant::now();
        let own = self.myself.and_then(|process| process.usage().ok()).unwrap_or_default();
        let server = self.tools.server.map(|process| process.usage());
        if let Some(Err(error)) = &server {
            self.tools
                .live
                .note(&format!("the server's process can't be measured any more: {error}"));
            self.tools.server = None;
        }
        self.measure.usage(own, server.and_then(Result::ok));
    }

    fn end_cores(&mut self) {
        self.end_clients();
        self.send(Command::End);
        let until = Instant::now() + ENDING;
        while self.cores_ended < self.tools.engine.cores() && Instant::now() < until {
            self.receive_for(TICK);
        }
        self.judge();
    }

    fn finish(mut self) -> Played {
        let length = self.tools.engine.now();
        if let Some(Err(error)) = self.tools.history.take().map(Writer::finish) {
            self.broken.get_or_insert(error.to_string());
        }
        self.tools.live.finish();
        let measured = self.measure.finish(length);
        let mut phases = self.tools.conductor.phases().to_vec();
        for (phase, figures) in phases.iter_mut().zip(&measured.phases) {
            figures.add_to(phase);
        }
        Played {
            measured,
            found: self.checker.finish(),
            phases,
            interrupted: self.tools.conductor.interrupted(),
            by_signal: self.interrupts > 0,
            length,
            not_begun: self.tools.conductor.failed().map(str::to_owned),
            broken: self.broken,
            lost_a_worker: self.tools.engine.has_lost_a_worker(),
        }
    }
}
