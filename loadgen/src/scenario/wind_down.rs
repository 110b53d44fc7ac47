//! The end of a run, also of one that was interrupted: members leave, committed offsets are read
//! back, and what the run made is deleted.

use std::time::Duration;

use super::cast::topic_names;
use super::conductor::{Cause, Stage};
use crate::driver::command::Task;
use crate::plan::GroupIndex;
use crate::report::model;
use crate::time::Time;

/// How long members have to leave.
const LEAVING: Duration = Duration::from_secs(30);
/// Topics deleted with one request.
const TOPICS_AT_ONCE: usize = 500;

pub(super) struct WindDown {
    step: Step,
    began: Time,
    /// Why not all was checked: offsets were not read back.
    problem: Option<String>,
    /// Who did not leave, what is left behind, and why.
    warnings: Vec<String>,
}

enum Step {
    /// Members leave, and tasks that are under way come to their end.
    Leaving,
    ReadingOffsets,
    DeletingGroups,
    /// Deleted groups must have no offsets left.
    LookingAgain,
    DeletingTopics,
}

impl WindDown {
    pub(super) fn begin(now: Time, stage: &mut Stage) -> Self {
        stage.tasks.forget_waiting();
        stage.roster.stop_all(now);
        for group in groups(stage) {
            if stage.roster.alive(group) > 0 {
                stage.announce(now, group, Cause::WindDown);
            }
        }
        Self { step: Step::Leaving, began: now, problem: None, warnings: Vec::new() }
    }

    pub(super) fn began(&self) -> Time {
        self.began
    }

    /// What the report says of it; nothing if all went well.
    pub(super) fn told(self, now: Time) -> Option<model::Phase> {
        let Self { began, problem, warnings, .. } = self;
        (problem.is_some() || !warnings.is_empty()).then(|| model::Phase {
            name: "wind-down".into(),
            began: began.seconds(),
            ended: now.seconds(),
            problem,
            warnings,
        })
    }

    pub(super) fn step(&self) -> &'static str {
        match self.step {
            Step::Leaving => "members leave",
            Step::ReadingOffsets => "reading offsets back",
            Step::DeletingGroups | Step::LookingAgain => "deleting groups",
            Step::DeletingTopics => "deleting topics",
        }
    }

    /// Whether it is over.
    pub(super) fn tick(&mut self, now: Time, stage: &mut Stage) -> bool {
        for failure in stage.tasks.take_failures() {
            self.went_wrong(failure, stage);
        }
        if stage.tasks.are_left() || self.is_leaving(now, stage) {
            return false;
        }
        self.step = match self.step {
            Step::Leaving => {
                groups(stage).into_iter().for_each(|group| stage.read_offsets(group));
                Step::ReadingOffsets
            }
            Step::ReadingOffsets if stage.settings.keep => return true,
            Step::ReadingOffsets => {
                groups(stage).into_iter().for_each(|group| stage.delete_group(group));
                Step::DeletingGroups
            }
            Step::DeletingGroups => {
                stage.deleted().into_iter().for_each(|group| stage.read_offsets(group));
                Step::LookingAgain
            }
            Step::LookingAgain => {
                delete_topics(stage);
                Step::DeletingTopics
            }
            Step::DeletingTopics => return true,
        };
        false
    }

    fn went_wrong(&mut self, what: String, stage: &mut Stage) {
        stage.orders.notes.push(what.clone());
        match self.step {
            Step::DeletingGroups | Step::DeletingTopics => self.warnings.push(what),
            Step::Leaving | Step::ReadingOffsets | Step::LookingAgain => {
                self.problem.get_or_insert(what);
            }
        }
    }

    fn is_leaving(&mut self, now: Time, stage: &mut Stage) -> bool {
        if !matches!(self.step, Step::Leaving) || !stage.roster.is_moving() {
            return false;
        }
        let patient = now.since(self.began) < LEAVING;
        if !patient {
            let left: u32 = groups(stage).into_iter().map(|g| stage.roster.alive(g)).sum();
            let waited = LEAVING.as_secs();
            let slow = format!("{left} members had not left after {waited} s");
            stage.orders.notes.push(slow.clone());
            self.warnings.push(slow);
        }
        patient
    }
}

/// Those that are or were there.
fn groups(stage: &Stage) -> Vec<GroupIndex> {
    let all = stage.cast.groups().map(|group| group.index);
    all.filter(|&group| stage.roster.was_begun(group) && !stage.is_deleted(group)).collect()
}

fn delete_topics(stage: &mut Stage) {
    let names: Vec<_> = topic_names(&stage.scenario, &stage.settings.run)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    for topics in names.chunks(TOPICS_AT_ONCE) {
        stage.tasks.ask(Task::DeleteTopics { topics: topics.to_vec() });
    }
}
