//! The requests that muster-load itself sends to the cluster. Only a few are in flight at a time,
//! so that deleting a thousand groups does not become a load test of its own.

use std::collections::{BTreeMap, VecDeque};

use crate::driver::command::{Command, Task, TaskError, TaskOutcome};

const AT_ONCE: usize = 32;

#[derive(Default, Debug)]
pub(super) struct Tasks {
    next: u64,
    waiting: VecDeque<Task>,
    under_way: BTreeMap<u64, Task>,
    /// The reasons why tasks have failed, until the conductor takes them.
    failures: Vec<String>,
}

impl Tasks {
    pub(super) fn ask(&mut self, task: Task) {
        self.waiting.push_back(task);
    }

    /// Whether a task is waiting or in flight.
    pub(super) fn are_left(&self) -> bool {
        !self.waiting.is_empty() || !self.under_way.is_empty()
    }

    /// Sends as many waiting tasks as allowed.
    pub(super) fn send(&mut self, commands: &mut Vec<Command>) {
        while self.under_way.len() < AT_ONCE
            && let Some(task) = self.waiting.pop_front()
        {
            let id = self.next;
            self.next += 1;
            self.under_way.insert(id, task.clone());
            commands.push(Command::Task { id, task });
        }
    }

    /// The task in flight with this id.
    pub(super) fn get(&self, id: u64) -> Option<&Task> {
        self.under_way.get(&id)
    }

    /// Handles the end of a task. Returns the task and its outcome, unless it failed.
    pub(super) fn done(
        &mut self,
        id: u64,
        result: &Result<TaskOutcome, TaskError>,
    ) -> Option<(Task, TaskOutcome)> {
        let task = self.under_way.remove(&id)?;
        match result {
            Ok(outcome) => Some((task, outcome.clone())),
            Err(error) => {
                self.failures.push(error.to_string());
                None
            }
        }
    }

    /// Drops tasks that were not sent yet.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn take_failures(&mut self) -> Vec<String> {
        std::mem::take(&mut self.failures)
    }
}
