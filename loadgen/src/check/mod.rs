//! Whether the coordinator keeps its word: every event is laid against the rules of the protocol.
//!
//! What is known is what clients see, so each fact is an interval: a request took effect at some
//! moment from when it was sent to when its answer was read. A rule is broken only if it is broken
//! for every choice of those moments; delays, lost answers, retries and members that vanish make
//! intervals longer, and so make the checks milder, never wrong. Each rule says why in its file:
//!
//! - `two-owners`: [`owners`];                   `evicted-early`: [`lease`]
//! - `epoch-went-back`: [`epochs`];              `fenced-commit-accepted`: [`commits`]
//! - `commit-lost`, `deleted-group-came-back`: [`register`]
//! - `repeat-differed`: told by the event itself.
//!
//! Two things are taken for granted of the stream: an event of an answer is not stamped before the
//! answer was there, and one that goes before a request not after the request left (give or take
//! [`lease::CLOCK_SLACK`], as a core may read its clock once for many answers).

mod commits;
mod epochs;
mod file;
mod found;
mod group;
mod lease;
mod owners;
mod register;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use file::{Checked, check_file};
pub use found::Found;

use crate::event::Event;
use crate::history::Group;
use crate::plan::GroupIndex;
use crate::time::Time;
use group::GroupState;

/// Judges a run while it goes on, or from its history. Memory grows with members and partitions, not
/// with time.
#[derive(Default)]
pub struct Checker {
    groups: HashMap<GroupIndex, GroupState>,
    found: Found,
    now: Time,
}

impl Checker {
    /// Before the first event of the group. Events of groups that were not told of are not judged.
    pub fn expect_group(&mut self, group: Group) {
        self.groups.entry(group.index).or_insert_with(|| GroupState::new(group));
    }

    /// The scenario restarted the coordinator: what need not be durable may be gone.
    pub fn coordinator_restarted(&mut self, at: Time) {
        for group in self.groups.values_mut() {
            group.shaken(at);
        }
    }

    /// Takes in what happened next, in the order of [`crate::measure::merge::Merge`].
    pub fn observe(&mut self, event: &Event) {
        self.now = self.now.max(event.at);
        if let Some(group) = self.groups.get_mut(&event.group) {
            group.observe(event, &mut self.found);
        }
    }

    /// What was found so far.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// After the last event.
    pub fn finish(mut self) -> Found {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_unstable_by_key(|(index, _)| *index);
        for (_, group) in &mut groups {
            group.finish(self.now, &mut self.found);
        }
        self.found
    }
}
