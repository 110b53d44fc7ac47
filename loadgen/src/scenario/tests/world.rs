//! A cluster in virtual time that executes commands at once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use super::valid;
use crate::driver::command::{Command, Task, TaskError, TaskOutcome};
use crate::event::{Event, EventKind, Stop};
use crate::plan::{GroupIndex, MemberIndex, Protocol};
use crate::scenario::*;
use crate::time::Time;
use crate::topics::{Topic, Topics};

/// Runs a scenario against a cluster that executes commands at once, and logs them. Each tick with
/// orders is a line of the log.
pub(super) struct World {
    pub(super) conductor: Conductor,
    pub(super) now: Time,
    pub(super) topics: Topics,
    pub(super) events: Vec<Event>,
    pub(super) done: Vec<(u64, Result<TaskOutcome, TaskError>)>,
    /// The time since which each group has been stable. A group becomes stable half a second after
    /// a change.
    pub(super) stable: BTreeMap<GroupIndex, Time>,
    pub(super) groups: BTreeMap<MemberIndex, GroupIndex>,
    pub(super) log: String,
    pub(super) starts: u32,
    /// The protocol of the first member.
    pub(super) table: Option<std::mem::Discriminant<Protocol>>,
    pub(super) refuse_topics: bool,
    pub(super) refuse_reading: bool,
    pub(super) refuse_deletion: bool,
}

pub(super) const TICK: Duration = Duration::from_millis(100);

impl World {
    pub(super) fn new(text: &str, keep: bool) -> Self {
        Self::of(valid(text).unwrap(), keep)
    }

    pub(super) fn of(scenario: Scenario, keep: bool) -> Self {
        let settings = Settings {
            run: "r".into(),
            seed: 1,
            duration: Duration::from_secs(100),
            began: Duration::ZERO,
            keep,
        };
        Self {
            conductor: Conductor::new(scenario, settings),
            now: Time::ZERO,
            topics: Topics::default(),
            events: Vec::new(),
            done: Vec::new(),
            stable: BTreeMap::new(),
            groups: BTreeMap::new(),
            log: String::new(),
            starts: 0,
            table: None,
            refuse_topics: false,
            refuse_reading: false,
            refuse_deletion: false,
        }
    }

    pub(super) fn play(mut self) -> Self {
        while !self.conductor.is_over() {
            self.tick();
            assert!(self.now < Time::from_micros(300_000_000), "endless:\n{}", self.log);
        }
        self
    }

    pub(super) fn tick(&mut self) {
        let (events, done) = (std::mem::take(&mut self.events), std::mem::take(&mut self.done));
        let stable = self.stable.clone();
        let stable_since = |group| stable.get(&group).copied();
        let status = Status { events: &events, done: &done, stable_since: &stable_since };
        let mut orders = Orders::default();
        self.conductor.tick(self.now, &status, &mut orders);
        let mut words = Vec::new();
        words.extend(orders.triggers.iter().map(|t| format!("<{}: {}>", t.group.0, t.cause)));
        words.extend(orders.events.iter().map(|event| format!("{:?}", event.kind)));
        words.extend(orders.notes.iter().map(|note| format!("({note})")));
        words.extend(orders.commands.into_iter().map(|command| self.execute(command)));
        if !words.is_empty() {
            writeln!(self.log, "{:.1} {}", self.now.seconds(), words.join(", ")).unwrap();
        }
        self.now = self.now + TICK;
    }

    /// Executes a command. Returns its entry in the log.
    fn execute(&mut self, command: Command) -> String {
        match command {
            Command::Start { member, at } => {
                self.starts += 1;
                self.groups.insert(member.index, member.group.index);
                self.stable.insert(member.group.index, at + TICK * 5);
                let other = self
                    .table
                    .is_some_and(|table| std::mem::discriminant(&member.group.protocol) != table);
                self.table.get_or_insert(std::mem::discriminant(&member.group.protocol));
                format!("start {}{}", member.index.0, if other { " (other protocol)" } else { "" })
            }
            Command::Stop { at, member, how } => {
                let group = self.groups[&member];
                self.stable.insert(group, at + TICK * 5);
                let ends = |one: MemberIndex, of: GroupIndex| match how {
                    Stop::Shutdown => of == group,
                    Stop::Leave | Stop::Close | Stop::Crash => one == member,
                };
                for (member, _) in self.groups.iter().filter(|(one, of)| ends(**one, **of)) {
                    let (member, kind) = (*member, EventKind::Stopped { how });
                    self.events.push(Event { at, group, member, kind });
                }
                format!("{how:?} {}", member.0).to_lowercase()
            }
            Command::Work { member, workload } => {
                let depth = workload.commit.map_or(0, |load| load.in_flight);
                let rate = workload.commit.and_then(|load| load.rate);
                let rate = rate.map_or(String::new(), |rate| format!(" at {rate}"));
                format!("work {} {depth}{rate}", member.0)
            }
            Command::Subscribe { member, group, .. } => {
                let topics = group.subscription.topics().iter().map(|topic| topic.0.to_string());
                format!("subscribe {} to {}", member.0, Vec::from_iter(topics).join(" and "))
            }
            Command::Topics(topics) => format!("topics {}", topics.iter().count()),
            Command::Task { id, task } => {
                let (word, outcome) = self.perform(task);
                self.done.push((id, outcome));
                word
            }
            Command::End => "end".into(),
        }
    }

    fn perform(&mut self, task: Task) -> (String, Result<TaskOutcome, TaskError>) {
        let refused = |what: &str| Err(TaskError(format!("no permission to {what}")));
        match task {
            Task::EnsureTopics { .. } if self.refuse_topics => {
                ("ensure".into(), Err(TaskError("no permission to create topics".into())))
            }
            Task::EnsureTopics { topics, .. } => {
                let word = topics.iter().map(|(name, count)| format!("{}:{count}", name));
                let word = format!("ensure {}", word.collect::<Vec<_>>().join(" "));
                for (name, partitions) in topics {
                    self.topics.learn(Topic { name, id: muster_codec::Uuid::ZERO, partitions });
                }
                (word, Ok(TaskOutcome::Topics(Arc::new(self.topics.clone()))))
            }
            Task::AwaitCoordinator { id, .. } => {
                (format!("coordinator of {}", id), Ok(TaskOutcome::Found))
            }
            Task::FindLeftovers { .. } => unreachable!("no run looks for those of others"),
            Task::DeleteTopics { .. } if self.refuse_deletion => {
                ("delete".into(), refused("delete"))
            }
            Task::DeleteTopics { topics } => {
                (format!("delete {} topics", topics.len()), Ok(TaskOutcome::Deleted))
            }
            Task::DeleteGroup { id, .. } => (format!("delete {}", id), Ok(TaskOutcome::Deleted)),
            Task::ReadOffsets { .. } if self.refuse_reading => ("read".into(), refused("read")),
            Task::ReadOffsets { group, partitions, .. } => {
                (format!("read {} of {}", partitions.len(), group.0), Ok(TaskOutcome::Read))
            }
            Task::ReadStartOffsets { group, partitions, .. } => {
                let word = format!("read start of {} of {}", partitions.len(), group.0);
                (word, Ok(TaskOutcome::Read))
            }
            Task::ConfigureGroup { id, .. } => {
                (format!("configure {}", id), Ok(TaskOutcome::Configured))
            }
        }
    }

    pub(super) fn warnings(&self, phase: usize) -> Vec<String> {
        self.conductor.phases()[phase].warnings.clone()
    }

    pub(super) fn phases(&self) -> Vec<(String, f64, f64, Option<String>)> {
        let phases = self.conductor.phases().iter();
        phases.map(|p| (p.name.clone(), p.began, p.ended, p.problem.clone())).collect()
    }
}
