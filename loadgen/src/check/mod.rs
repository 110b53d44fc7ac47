//! Checks the coordinator's guarantees: every event is checked against the protocol's rules.
//!
//! The checks know only what clients see. They know that a request took effect at some moment
//! between its sending and the reading of its answer, but not when. A rule counts as broken only if
//! it is broken whichever moments are chosen. Delays, lost answers, retries and vanished members
//! leave more moments to choose. The checks then find less, but are never wrong. The file of each
//! rule says why:
//!
//! - `two-owners`: [`owners`], [`clients`];       `evicted-early`: [`lease`]
//! - `task-twice`: [`processes`];
//! - `epoch-went-back`: [`epochs`];              `fenced-commit-accepted`: [`commits`]
//! - `commit-lost`: [`register`];                `deleted-group-came-back`: [`register`], [`group`]
//! - `repeat-differed`: the event itself is the violation;
//! - `aborted-read`, `read-before-commit`, `transaction-torn`, `read-out-of-order`:
//!   [`transactions`];
//! - `acquired-twice`, `delivered-after-acknowledged`, `acknowledged-without-lock`, `record-lost`,
//!   `delivery-limit-exceeded`, `delivery-count-stuck`, `delivery-count-jumped`,
//!   `start-offset-went-back`: [`shares`].
//!
//! The checks make two assumptions about the times of events. The event of an answer does not have
//! a time before the answer arrived. An event that precedes a request does not have a time after
//! the request was sent (up to [`lease::CLOCK_SLACK`], as a core may read its clock once for many
//! answers).

mod clients;
mod commits;
mod epochs;
mod file;
mod found;
mod group;
mod lease;
mod owners;
mod processes;
mod register;
mod shares;
#[cfg(test)]
mod tests;
mod transactions;

use std::collections::HashMap;
use std::time::Duration;

pub use file::{Checked, check_file};
pub use found::Found;
pub use shares::{Freed, Redelivered};
pub use transactions::Visible;

use crate::event::Event;
use crate::history::Group;
use crate::plan::GroupIndex;
use crate::time::Time;
use group::GroupState;
use shares::Shares;
use transactions::Transactions;

/// Checks a run while it is under way, or from its history. Memory grows with the number of members
/// and partitions, and for share groups slowly with time.
#[derive(Default)]
pub struct Checker {
    groups: HashMap<GroupIndex, GroupState>,
    /// Checked over all groups, because producers and readers are in different groups.
    transactions: Transactions,
    shares: Shares,
    found: Found,
    now: Time,
}

impl Checker {
    /// Expects events of a group. Must be called before its first event. Events of unknown groups
    /// are not checked.
    pub fn expect_group(&mut self, group: Group) {
        self.groups.entry(group.index).or_insert_with(|| GroupState::new(group));
    }

    /// Notes that the scenario restarted the coordinator, which may lose state that need not be
    /// durable.
    pub fn coordinator_restarted(&mut self, at: Time) {
        for group in self.groups.values_mut() {
            group.shaken(at);
        }
    }

    /// Takes the next event, in the order that [`crate::measure::merge::Merge`] makes.
    pub fn observe(&mut self, event: &Event) {
        self.now = self.now.max(event.at);
        if let Some(group) = self.groups.get_mut(&event.group) {
            group.observe(event, &mut self.found);
            self.transactions.observe(event, group.named(), &mut self.found);
            self.shares.observe(event, group.named(), &mut self.found);
        }
    }

    /// The committed transactions that a reader has read completely since the last call. Also those
    /// that a reader had not read when it ended.
    pub fn take_visible(&mut self) -> Vec<Visible> {
        self.transactions.take_visible()
    }

    /// The records of share groups that were delivered again, since the last call.
    pub fn take_redelivered(&mut self) -> Vec<Redelivered> {
        self.shares.take_redelivered()
    }

    /// For each committed transaction and each reader that has not read all of it, how long it has
    /// been waiting.
    pub fn unread(&self, now: Time) -> Vec<Duration> {
        self.transactions.unread(now)
    }

    /// The violations so far.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Called after the last event.
    pub fn finish(mut self) -> Found {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_unstable_by_key(|(index, _)| *index);
        for (_, group) in &mut groups {
            group.finish(self.now, &mut self.found);
        }
        self.transactions.finish(&mut self.found);
        self.shares.finish(&mut self.found);
        self.found
    }
}
