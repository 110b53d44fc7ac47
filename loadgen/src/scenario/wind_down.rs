//! The end of a run, even of an interrupted one. Members leave, committed offsets are read back,
//! and the groups and topics of the run are deleted.

use std::time::Duration;

use super::cause::Cause;
use super::run_plan::topic_names;
use super::run_state::RunState;
use crate::driver::command::Task;
use crate::plan::GroupIndex;
use crate::report::model;
use crate::time::Time;

/// How long to wait for members to leave.
const LEAVING: Duration = Duration::from_secs(30);
/// The maximum number of topics in a request that deletes topics.
const TOPICS_AT_ONCE: usize = 500;

pub(super) struct WindDown {
    step: Step,
    began: Time,
    /// Why the offsets of some groups could not be read back and checked.
    problem: Option<String>,
    /// The members or clients that did not end in time, and the groups and topics that were not
    /// deleted, with the reasons.
    warnings: Vec<String>,
}

enum Step {
    /// Members leave, and tasks in flight end.
    Leaving,
    ReadingOffsets,
    DeletingGroups,
    /// Checks that deleted groups have no offsets left.
    CheckingDeletion,
    DeletingTopics,
}

impl WindDown {
    pub(super) fn begin(now: Time, state: &mut RunState) -> Self {
        state.tasks.forget_waiting();
        state.members.stop_all(now);
        state.clients.stop(&[], false, &mut state.orders.clients);
        for group in groups(state) {
            if state.members.alive(group) > 0 {
                state.announce(now, group, Cause::WindDown);
            }
        }
        Self { step: Step::Leaving, began: now, problem: None, warnings: Vec::new() }
    }

    pub(super) fn began(&self) -> Time {
        self.began
    }

    /// The wind-down as a phase of the report. `None` if it had no problem and no warning.
    pub(super) fn report(self, now: Time) -> Option<model::Phase> {
        let Self { began, problem, warnings, .. } = self;
        (problem.is_some() || !warnings.is_empty()).then(|| model::Phase {
            name: "wind-down".into(),
            began: began.seconds(),
            ended: now.seconds(),
            problem,
            warnings,
            ..model::Phase::default()
        })
    }

    pub(super) fn step(&self) -> &'static str {
        match self.step {
            Step::Leaving => "members leave",
            Step::ReadingOffsets => "reading offsets back",
            Step::DeletingGroups | Step::CheckingDeletion => "deleting groups",
            Step::DeletingTopics => "deleting topics",
        }
    }

    /// Continues the wind-down. Returns whether it has ended.
    pub(super) fn tick(&mut self, now: Time, state: &mut RunState) -> bool {
        for failure in state.tasks.take_failures() {
            self.went_wrong(failure, state);
        }
        if state.tasks.are_left() || self.is_leaving(now, state) {
            return false;
        }
        self.step = match self.step {
            Step::Leaving => {
                groups(state).into_iter().for_each(|group| state.read_offsets(group));
                Step::ReadingOffsets
            }
            Step::ReadingOffsets if state.settings.keep => return true,
            Step::ReadingOffsets => {
                groups(state).into_iter().for_each(|group| state.delete_group(group));
                Step::DeletingGroups
            }
            Step::DeletingGroups => {
                state.deleted().into_iter().for_each(|group| state.read_offsets(group));
                Step::CheckingDeletion
            }
            Step::CheckingDeletion => {
                delete_topics(state);
                Step::DeletingTopics
            }
            Step::DeletingTopics => return true,
        };
        false
    }

    fn went_wrong(&mut self, what: String, state: &mut RunState) {
        state.orders.notes.push(what.clone());
        match self.step {
            Step::DeletingGroups | Step::DeletingTopics => self.warnings.push(what),
            Step::Leaving | Step::ReadingOffsets | Step::CheckingDeletion => {
                self.problem.get_or_insert(what);
            }
        }
    }

    fn is_leaving(&mut self, now: Time, state: &mut RunState) -> bool {
        let leaving = state.members.is_moving() || state.clients.are_running();
        if !matches!(self.step, Step::Leaving) || !leaving {
            return false;
        }
        let patient = now.since(self.began) < LEAVING;
        if !patient {
            let left: u32 = groups(state).into_iter().map(|g| state.members.alive(g)).sum();
            let waited = LEAVING.as_secs();
            let slow = state.clients.late();
            let slow = slow.map_or(format!("{left} members had not left"), |late| late);
            let slow = format!("{slow} after {waited} s");
            state.orders.notes.push(slow.clone());
            self.warnings.push(slow);
        }
        patient
    }
}

/// The groups that had members, and that the scenario did not delete.
fn groups(state: &RunState) -> Vec<GroupIndex> {
    let all = state.plan.groups().map(|group| group.index);
    all.filter(|&group| state.members.was_begun(group) && !state.is_deleted(group)).collect()
}

fn delete_topics(state: &mut RunState) {
    let names: Vec<_> = topic_names(&state.scenario, &state.settings.run)
        .into_iter()
        .map(|(name, _)| name)
        .chain(state.plan.internal_topics())
        .collect();
    for topics in names.chunks(TOPICS_AT_ONCE) {
        state.tasks.ask(Task::DeleteTopics { topics: topics.to_vec() });
    }
}
