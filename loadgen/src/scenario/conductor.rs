//! Conducts a run: gets the status of the run, and returns orders. It has no I/O and no clock, and
//! takes random numbers only from the seed, so a test can run a scenario in virtual time.
//!
//! [`Conductor::tick`] is called many times a second. It first orders the creation of the
//! scenario's topics, and then plays one phase after the other. After the last phase, after
//! [`Conductor::stop`], or when the time is over, it winds down. Then [`Conductor::is_over`]
//! returns true.

use std::sync::Arc;
use std::time::Duration;

use super::file::Scenario;
use super::orders::{Orders, Settings, Status};
use super::phase::Running;
use super::run_plan::{PREFIX, RunPlan, group_configs, topic_names};
use super::run_state::RunState;
use super::tasks::Tasks;
use super::wind_down::WindDown;
use crate::driver::command::{Command, Task, TaskOutcome};
use crate::report::model;
use crate::time::Time;
use crate::topics::Topics;

pub struct Conductor {
    scenario: Arc<Scenario>,
    settings: Settings,
    stage: Stage,
    phases: Vec<model::Phase>,
    interrupted: bool,
    failed: Option<String>,
}

/// The stages of a run.
enum Stage {
    Preparing { tasks: Tasks, topics: Option<Arc<Topics>> },
    Playing { state: Box<RunState>, number: usize, round: u32, running: Box<Running>, began: Time },
    Ending { state: Box<RunState>, wind_down: WindDown },
    Over,
}

/// The current phase, for the live view.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    pub phase: String,
    /// The number of the phase, from 1.
    pub number: u32,
    pub of: u32,
    pub began: Time,
    pub planned: Option<Duration>,
}

impl Conductor {
    /// `scenario` must be valid.
    pub fn new(scenario: Scenario, settings: Settings) -> Self {
        let mut tasks = Tasks::default();
        let topics = topic_names(&scenario, &settings.run);
        tasks.ask(Task::EnsureTopics { topics, replication: scenario.replication });
        for (id, configs) in group_configs(&scenario, &settings.run) {
            tasks.ask(Task::ConfigureGroup { id, configs });
        }
        let (id, transactions) = (format!("{PREFIX}{}", settings.run), scenario.has_transactions());
        tasks.ask(Task::AwaitCoordinator { id: id.into(), transactions });
        Self {
            scenario: Arc::new(scenario),
            settings,
            stage: Stage::Preparing { tasks, topics: None },
            phases: Vec::new(),
            interrupted: false,
            failed: None,
        }
    }

    pub fn tick(&mut self, now: Time, status: &Status<'_>, orders: &mut Orders) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Preparing { tasks, topics } => self.make(tasks, topics, now, status, orders),
            Stage::Playing { mut state, number, round, running, began } => {
                state.observe(now, status);
                let stage = self.play(state, number, round, running, began, now, status);
                stage.hand_over(now, orders)
            }
            Stage::Ending { mut state, mut wind_down } => {
                state.observe(now, status);
                if wind_down.tick(now, &mut state) {
                    state.hand_over(now, orders);
                    self.phases.extend(wind_down.report(now));
                    Stage::Over
                } else {
                    Stage::Ending { state, wind_down }.hand_over(now, orders)
                }
            }
            Stage::Over => Stage::Over,
        };
    }

    /// Ends the phases early, and winds down.
    pub fn stop(&mut self) {
        self.interrupted = true;
    }

    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Whether the run plays the phases: it no longer prepares, and does not wind down yet.
    pub fn is_playing(&self) -> bool {
        matches!(self.stage, Stage::Playing { .. })
    }

    /// Whether the phase waits for a restart of the coordinator. If so, it is normal that the
    /// coordinator does not answer for a while.
    pub fn awaits_restart(&self) -> bool {
        matches!(&self.stage, Stage::Playing { running, .. } if running.table.coordinator_restart)
    }

    /// Whether the run ended before the end of the scenario.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Why the run could not start.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// The prefix of the names of all topics and groups of the run.
    pub fn prefix(&self) -> String {
        format!("{PREFIX}{}-", self.settings.run)
    }

    /// The phases that have ended. They include the wind-down only if it had a problem or a
    /// warning.
    pub fn phases(&self) -> &[model::Phase] {
        &self.phases
    }

    /// The plan of the run. `None` before the topics are created, and after the run.
    pub fn plan(&self) -> Option<&RunPlan> {
        match &self.stage {
            Stage::Playing { state, .. } | Stage::Ending { state, .. } => Some(&state.plan),
            Stage::Preparing { .. } | Stage::Over => None,
        }
    }

    /// The current topics. `None` while there is no plan.
    pub fn topics(&self) -> Option<&Topics> {
        match &self.stage {
            Stage::Playing { state, .. } | Stage::Ending { state, .. } => Some(&state.topics),
            Stage::Preparing { .. } | Stage::Over => None,
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
        match &self.stage {
            Stage::Preparing { .. } => at("creating topics", 0, Time::ZERO),
            Stage::Playing { number, round, running, .. } => Place {
                planned: running.table.lasts.map(|lasts| lasts.0),
                ..at(&in_round(&running.table.name, *round), *number as u32 + 1, running.began)
            },
            Stage::Ending { wind_down, .. } => at(wind_down.step(), of, wind_down.began()),
            Stage::Over => at("over", of, now),
        }
    }

    fn make(
        &mut self,
        mut tasks: Tasks,
        mut topics: Option<Arc<Topics>>,
        now: Time,
        status: &Status<'_>,
        orders: &mut Orders,
    ) -> Stage {
        tasks.send(&mut orders.commands);
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
            return Stage::Preparing { tasks, topics };
        }
        let failures = tasks.take_failures();
        let made = match topics {
            Some(topics) => self.begin_run(tasks, topics),
            None => Err(failures.join("; ")),
        };
        match made {
            Ok(mut state) => {
                // The wait for a coordinator may have failed. The run begins nevertheless, because
                // members repeat their lookups.
                orders.notes.extend(failures);
                orders.commands.push(Command::Topics(state.topics.clone()));
                let first = self.scenario.phases[0].clone();
                let running = Box::new(Running::begin(first, now, &mut state));
                Stage::Playing { state, number: 0, round: 1, running, began: now }
                    .hand_over(now, orders)
            }
            Err(why) => {
                self.failed = Some(why);
                Stage::Over
            }
        }
    }

    fn begin_run(&self, tasks: Tasks, topics: Arc<Topics>) -> Result<Box<RunState>, String> {
        let plan = RunPlan::new(&self.scenario, &self.settings, &topics)
            .map_err(|problem| problem.to_string())?;
        let (scenario, settings) = (self.scenario.clone(), self.settings.clone());
        Ok(Box::new(RunState::new(scenario, settings, plan, topics, tasks)))
    }

    #[allow(clippy::too_many_arguments)] // they are the parts of Stage::Playing
    fn play(
        &mut self,
        mut state: Box<RunState>,
        number: usize,
        round: u32,
        mut running: Box<Running>,
        began: Time,
        now: Time,
        status: &Status<'_>,
    ) -> Stage {
        let out_of_time = now.since(began) >= self.settings.duration;
        let ended = running.tick(now, status, &mut state);
        if ended.is_none() && !out_of_time && !self.interrupted {
            return Stage::Playing { state, number, round, running, began };
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
            ..model::Phase::default()
        });
        let next = self.next(number, round).filter(|_| !out_of_time && !self.interrupted);
        let Some((number, round)) = next else {
            // If the scenario repeats without limit, it is not interrupted when its duration is
            // over.
            let through = ended.is_some() && self.next(number, round).is_none();
            self.interrupted |= !through && !self.repeats_for_ever();
            let wind_down = WindDown::begin(now, &mut state);
            return Stage::Ending { state, wind_down };
        };
        let table = self.scenario.phases[number].clone();
        let running = Box::new(Running::begin(table, now, &mut state));
        Stage::Playing { state, number, round, running, began }
    }

    /// Why a phase ended early. `None` if this is intended.
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

    /// The index of the phase that follows this one, and its round.
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

impl Stage {
    /// Passes on the orders in `state`.
    fn hand_over(mut self, now: Time, orders: &mut Orders) -> Self {
        if let Self::Playing { state, .. } | Self::Ending { state, .. } = &mut self {
            state.hand_over(now, orders);
        }
        self
    }
}

fn in_round(name: &str, round: u32) -> String {
    if round == 1 { name.to_owned() } else { format!("{name} ({round})") }
}
