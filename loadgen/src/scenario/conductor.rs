//! Conducts a run: is told how things are, and says what is to be done. Without I/O, clock or
//! randomness of its own, so that a scenario can be played through in a test.
//!
//! [`Conductor::tick`] is called a few times a second. First it has the scenario's topics made, then
//! it plays the phases one after the other, and at the end, or as soon as [`Conductor::stop`] was
//! called or the time is over, it winds down. [`Conductor::is_over`] says when.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::protocol::StrBytes;

use super::cast::{Cast, PREFIX, topic_names};
use super::file::Scenario;
use super::phase::Running;
use super::roster::Roster;
use super::tasks::Tasks;
use super::wind_down::WindDown;
use crate::driver::command::{Command, Task, TaskError, TaskOutcome};
use crate::event::{Event, EventKind, OBSERVER, Stop};
use crate::plan::GroupIndex;
use crate::report::model;
use crate::time::Time;
use crate::topics::Topics;

/// What a scenario leaves open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Stands in the names of topics and groups, and tells this run from others.
    pub run: String,
    pub seed: u64,
    /// After this the run winds down.
    pub duration: Duration,
    /// Leaves groups and topics behind.
    pub keep: bool,
}

/// How things are.
pub struct Status<'a> {
    /// What happened since the last tick, in order.
    pub events: &'a [Event],
    /// Tasks that ended since then.
    pub done: &'a [(u64, Result<TaskOutcome, TaskError>)],
    /// Since when a group stands still: all members have what they were promised, and all
    /// partitions an owner. `None` if it does not.
    pub stable_since: &'a dyn Fn(GroupIndex) -> Option<Time>,
}

/// What is to be done. The caller empties it.
#[derive(Default, Debug)]
pub struct Orders {
    pub commands: Vec<Command>,
    /// For the measures: what sets off a rebalance.
    pub triggers: Vec<Trigger>,
    /// What happened by muster-load's own doing.
    pub events: Vec<Event>,
    /// Lines for the user.
    pub notes: Vec<String>,
}

/// Something that makes a group rebalance, or could.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trigger {
    pub at: Time,
    pub group: GroupIndex,
    pub cause: Cause,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The first members of a group start.
    Formation,
    Joined(u32),
    /// Started again after a stop.
    Returned(u32),
    Left(u32),
    Closed(u32),
    Crashed(u32),
    PartitionsAdded,
    CoordinatorRestarted,
    /// The run ends: nothing is to be stable any more.
    WindDown,
}

impl Cause {
    pub fn of_stop(how: Stop, members: u32) -> Self {
        match how {
            Stop::Leave => Self::Left(members),
            Stop::Close => Self::Closed(members),
            Stop::Crash => Self::Crashed(members),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Formation => f.write_str("formation"),
            Self::Joined(members) => write!(f, "{members} joined"),
            Self::Returned(members) => write!(f, "{members} returned"),
            Self::Left(members) => write!(f, "{members} left"),
            Self::Closed(members) => write!(f, "{members} closed"),
            Self::Crashed(members) => write!(f, "{members} crashed"),
            Self::PartitionsAdded => f.write_str("partitions added"),
            Self::CoordinatorRestarted => f.write_str("coordinator restarted"),
            Self::WindDown => f.write_str("wind-down"),
        }
    }
}

pub struct Conductor {
    scenario: Arc<Scenario>,
    settings: Settings,
    part: Part,
    phases: Vec<model::Phase>,
    interrupted: bool,
    failed: Option<String>,
}

/// Which part of the run it is.
enum Part {
    Making { tasks: Tasks, topics: Option<Arc<Topics>> },
    Playing { stage: Box<Stage>, number: usize, round: u32, running: Box<Running>, began: Time },
    Ending { stage: Box<Stage>, wind_down: WindDown },
    Over,
}

/// For the live view.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    pub phase: String,
    /// Counted from 1.
    pub number: u32,
    pub of: u32,
    pub began: Time,
    pub planned: Option<Duration>,
}

impl Conductor {
    /// `scenario` has been validated.
    pub fn new(scenario: Scenario, settings: Settings) -> Self {
        let mut tasks = Tasks::default();
        let topics = topic_names(&scenario, &settings.run);
        tasks.ask(Task::EnsureTopics { topics, replication: scenario.replication });
        tasks.ask(Task::AwaitCoordinator { id: format!("{PREFIX}{}", settings.run).into() });
        Self {
            scenario: Arc::new(scenario),
            settings,
            part: Part::Making { tasks, topics: None },
            phases: Vec::new(),
            interrupted: false,
            failed: None,
        }
    }

    pub fn tick(&mut self, now: Time, status: &Status<'_>, orders: &mut Orders) {
        self.part = match std::mem::replace(&mut self.part, Part::Over) {
            Part::Making { tasks, topics } => self.make(tasks, topics, now, status, orders),
            Part::Playing { mut stage, number, round, running, began } => {
                stage.hear(now, status);
                let part = self.play(stage, number, round, running, began, now, status);
                part.give(now, orders)
            }
            Part::Ending { mut stage, mut wind_down } => {
                stage.hear(now, status);
                if wind_down.tick(now, &mut stage) {
                    stage.give(now, orders);
                    self.phases.extend(wind_down.told(now));
                    Part::Over
                } else {
                    Part::Ending { stage, wind_down }.give(now, orders)
                }
            }
            Part::Over => Part::Over,
        };
    }

    /// Ends the run before its time, in order.
    pub fn stop(&mut self) {
        self.interrupted = true;
    }

    pub fn is_over(&self) -> bool {
        matches!(self.part, Part::Over)
    }

    /// Whether the phases have begun, and the wind-down has not.
    pub fn is_playing(&self) -> bool {
        matches!(self.part, Part::Playing { .. })
    }

    /// Whether the run ended before the scenario was through.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Why the run could not even begin.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// How the names of all its topics and groups begin.
    pub fn prefix(&self) -> String {
        format!("{PREFIX}{}-", self.settings.run)
    }

    /// Those that ended, and the wind-down if something went wrong with it.
    pub fn phases(&self) -> &[model::Phase] {
        &self.phases
    }

    /// `None` before its topics are there.
    pub fn cast(&self) -> Option<&Cast> {
        match &self.part {
            Part::Playing { stage, .. } | Part::Ending { stage, .. } => Some(&stage.cast),
            Part::Making { .. } | Part::Over => None,
        }
    }

    /// As they are now; `None` when there is no cast.
    pub fn topics(&self) -> Option<&Topics> {
        match &self.part {
            Part::Playing { stage, .. } | Part::Ending { stage, .. } => Some(&stage.topics),
            Part::Making { .. } | Part::Over => None,
        }
    }

    pub fn place(&self, now: Time) -> Place {
        let of = self.scenario.phases.len() as u32;
        let at = |phase: &str, number, began| Place {
            phase: phase.to_owned(),
            number,
            of,
            began,
            planned: None,
        };
        match &self.part {
            Part::Making { .. } => at("making topics", 0, Time::ZERO),
            Part::Playing { number, round, running, .. } => Place {
                planned: running.table.lasts.map(|lasts| lasts.0),
                ..at(&in_round(&running.table.name, *round), *number as u32 + 1, running.began)
            },
            Part::Ending { wind_down, .. } => at(wind_down.step(), of, wind_down.began()),
            Part::Over => at("over", of, now),
        }
    }

    fn make(
        &mut self,
        mut tasks: Tasks,
        mut topics: Option<Arc<Topics>>,
        now: Time,
        status: &Status<'_>,
        orders: &mut Orders,
    ) -> Part {
        tasks.tell(&mut orders.commands);
        let mut refused = false;
        for (id, result) in status.done {
            let makes_topics = matches!(tasks.get(*id), Some(Task::EnsureTopics { .. }));
            match tasks.done(*id, result) {
                Some((_, TaskOutcome::Topics(made))) => topics = Some(made),
                Some(_) => {}
                None => refused |= makes_topics,
            }
        }
        if tasks.are_left() && !refused {
            return Part::Making { tasks, topics };
        }
        let failures = tasks.take_failures();
        let made = match topics {
            Some(topics) => self.stage(tasks, topics),
            None => Err(failures.join("; ")),
        };
        match made {
            Ok(mut stage) => {
                // Without a coordinator members may still find one: they ask again and again.
                orders.notes.extend(failures);
                orders.commands.push(Command::Topics(stage.topics.clone()));
                let first = self.scenario.phases[0].clone();
                let running = Box::new(Running::begin(first, now, &mut stage));
                Part::Playing { stage, number: 0, round: 1, running, began: now }.give(now, orders)
            }
            Err(why) => {
                self.failed = Some(why);
                Part::Over
            }
        }
    }

    fn stage(&self, tasks: Tasks, topics: Arc<Topics>) -> Result<Box<Stage>, String> {
        let cast = Cast::new(&self.scenario, &self.settings.run, &topics)
            .map_err(|problem| problem.to_string())?;
        Ok(Box::new(Stage {
            roster: Roster::new(&cast),
            scenario: self.scenario.clone(),
            settings: self.settings.clone(),
            cast,
            topics,
            tasks,
            random: fastrand::Rng::with_seed(self.settings.seed),
            deleted: BTreeSet::new(),
            orders: Orders::default(),
        }))
    }

    #[allow(clippy::too_many_arguments)] // the parts of Part::Playing
    fn play(
        &mut self,
        mut stage: Box<Stage>,
        number: usize,
        round: u32,
        mut running: Box<Running>,
        began: Time,
        now: Time,
        status: &Status<'_>,
    ) -> Part {
        let out_of_time = now.since(began) >= self.settings.duration;
        let ended = running.tick(now, status, &mut stage);
        if ended.is_none() && !out_of_time && !self.interrupted {
            return Part::Playing { stage, number, round, running, began };
        }
        let mut warnings = running.take_warnings();
        if ended.is_none() {
            warnings.extend(self.cut_short(out_of_time));
        }
        let problem = ended.clone().and_then(Result::err);
        self.phases.push(model::Phase {
            name: in_round(&running.table.name, round),
            began: running.began.seconds(),
            ended: now.seconds(),
            problem,
            warnings,
        });
        let next = self.next(number, round).filter(|_| !out_of_time && !self.interrupted);
        let Some((number, round)) = next else {
            // A scenario that repeats itself is meant to be ended by the time.
            let through = ended.is_some() && self.next(number, round).is_none();
            self.interrupted |= !through && !self.repeats_for_ever();
            let wind_down = WindDown::begin(now, &mut stage);
            return Part::Ending { stage, wind_down };
        };
        let table = self.scenario.phases[number].clone();
        let running = Box::new(Running::begin(table, now, &mut stage));
        Part::Playing { stage, number, round, running, began }
    }

    /// Why a phase ends that has not come to its end, unless it is meant to.
    fn cut_short(&self, out_of_time: bool) -> Option<String> {
        let duration = humantime::format_duration(self.settings.duration);
        match (out_of_time, self.repeats_for_ever()) {
            (true, true) => None,
            (true, false) => Some(format!("cut short: the duration of {duration} is over")),
            (false, _) => Some("cut short: the run was stopped".to_owned()),
        }
    }

    fn repeats_for_ever(&self) -> bool {
        self.scenario.repeat.as_ref().is_some_and(|repeat| repeat.times.is_none())
    }

    /// The phase after this one, and in which round it is.
    fn next(&self, number: usize, round: u32) -> Option<(usize, u32)> {
        if number + 1 < self.scenario.phases.len() {
            return Some((number + 1, round));
        }
        let repeat = self.scenario.repeat.as_ref()?;
        let again = repeat.times.is_none_or(|times| round < times);
        let from = self.scenario.phases.iter().position(|phase| phase.name == repeat.from)?;
        again.then_some((from, round + 1))
    }
}

impl Part {
    /// Hands over what is to be done.
    fn give(mut self, now: Time, orders: &mut Orders) -> Self {
        if let Self::Playing { stage, .. } | Self::Ending { stage, .. } = &mut self {
            stage.give(now, orders);
        }
        self
    }
}

fn in_round(name: &str, round: u32) -> String {
    if round == 1 { name.to_owned() } else { format!("{name} ({round})") }
}

/// What phases work with.
pub(super) struct Stage {
    pub(super) scenario: Arc<Scenario>,
    pub(super) settings: Settings,
    pub(super) cast: Cast,
    pub(super) topics: Arc<Topics>,
    pub(super) roster: Roster,
    pub(super) tasks: Tasks,
    pub(super) random: fastrand::Rng,
    pub(super) orders: Orders,
    /// Groups that were deleted on purpose.
    deleted: BTreeSet<GroupIndex>,
}

impl Stage {
    /// Clients without membership have nothing to rebalance.
    pub(super) fn announce(&mut self, at: Time, group: GroupIndex, cause: Cause) {
        if self.cast.has_members(group) {
            self.roster.announce(at, group, cause);
        }
    }

    pub(super) fn read_offsets(&mut self, group: GroupIndex) {
        let id = self.cast.group(group).id.clone();
        let partitions = self.cast.partitions(group, &self.topics);
        self.tasks.ask(Task::ReadOffsets { group, id, partitions });
    }

    pub(super) fn delete_group(&mut self, group: GroupIndex) {
        let id = self.cast.group(group).id.clone();
        self.tasks.ask(Task::DeleteGroup { group, id });
    }

    pub(super) fn deleted(&self) -> Vec<GroupIndex> {
        self.deleted.iter().copied().collect()
    }

    pub(super) fn is_deleted(&self, group: GroupIndex) -> bool {
        self.deleted.contains(&group)
    }

    pub(super) fn grow(&mut self, now: Time, topics: Vec<(StrBytes, u32)>) {
        for group in self.subscribed(&topics) {
            self.announce(now, group, Cause::PartitionsAdded);
        }
        self.tasks.ask(Task::EnsureTopics { topics, replication: self.scenario.replication });
    }

    /// Groups that consume one of these topics.
    fn subscribed(&self, topics: &[(StrBytes, u32)]) -> Vec<GroupIndex> {
        let named = topics.iter().filter_map(|(name, _)| self.topics.named(name));
        let topics: BTreeSet<_> = named.collect();
        let groups = self
            .cast
            .groups()
            .filter(|group| group.subscription.topics().iter().any(|topic| topics.contains(topic)));
        groups.map(|group| group.index).collect()
    }

    fn hear(&mut self, now: Time, status: &Status<'_>) {
        for event in status.events {
            self.roster.hear(now, &self.cast, event);
        }
        for (id, result) in status.done {
            match self.tasks.done(*id, result) {
                Some((Task::EnsureTopics { topics, .. }, TaskOutcome::Topics(now_known))) => {
                    self.grew(now, now_known, &topics);
                }
                Some((Task::DeleteGroup { group, .. }, _)) => {
                    self.deleted.insert(group);
                }
                Some(_) | None => {}
            }
        }
    }

    fn grew(&mut self, now: Time, known: Arc<Topics>, topics: &[(StrBytes, u32)]) {
        self.topics = known;
        self.orders.commands.push(Command::Topics(self.topics.clone()));
        for group in self.subscribed(topics) {
            let partitions = self.cast.partitions(group, &self.topics).len() as u32;
            let kind = EventKind::PartitionsGrew { partitions };
            self.orders.events.push(Event { at: now, group, member: OBSERVER, kind });
        }
    }

    fn give(&mut self, now: Time, orders: &mut Orders) {
        self.roster.tell(now, &self.cast, &mut self.orders);
        self.tasks.tell(&mut self.orders.commands);
        orders.commands.append(&mut self.orders.commands);
        orders.triggers.append(&mut self.orders.triggers);
        orders.events.append(&mut self.orders.events);
        orders.notes.append(&mut self.orders.notes);
    }
}
