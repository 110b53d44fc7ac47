//! Whether the coordinator keeps its word: every event is laid against the rules of the protocol.

mod file;

pub use file::{Checked, check_file};

use crate::event::Event;
use crate::history::Group;
use crate::report::model::Violation;
use crate::time::Time;

/// Judges a run while it goes on, or from its history. Memory grows with members and partitions, not
/// with time.
#[derive(Default)]
pub struct Checker {
    groups: std::collections::HashMap<crate::plan::GroupIndex, Group>,
    found: Found,
}

/// What a checker found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Found {
    /// The first of them, in the order in which they were found.
    pub violations: Vec<Violation>,
    /// How many there were beyond those.
    pub untold: u64,
}

impl Checker {
    /// Before the first event of the group. Events of groups that were not told of are not judged.
    pub fn expect_group(&mut self, group: Group) {
        self.groups.insert(group.index, group);
    }

    /// The scenario restarted the coordinator: what was not durable may be gone.
    pub fn coordinator_restarted(&mut self, _at: Time) {}

    /// Takes in what happened next, in the order of [`crate::measure::merge::Merge`].
    pub fn observe(&mut self, _event: &Event) {}

    /// What was found so far.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// After the last event.
    pub fn finish(self) -> Found {
        self.found
    }
}
