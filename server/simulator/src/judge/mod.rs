//! The judge: compares what the server does with what it must do. `world/checks` calls it, and ends
//! the run at the first violation.
//!
//! - [`facts`]: no answer leaves before what it reports is on the simulated disk;
//! - [`expected`]: the state that the durable blocks of a log make is the live state, after each
//!   start and whenever nothing is on its way; what was flushed once is never missing;
//! - `loadgen`'s checker: single owners, epochs, leases, fenced and lost commits of members;
//! - [`turns`]: no connection waits for longer than its turn, and no session ends before the input
//!   of its member is handled;
//! - [`access`]: users are granted and refused what ACLs say;
//! - [`throttling`]: clients with quotas are throttled and refused as these allow;
//! - [`deliveries`]: what members of share groups acquire and acknowledge;
//! - [`offsets`]: the committed offsets that raw clients know of are there.

mod access;
mod block_records;
mod cut;
mod deliveries;
mod expected;
mod facts;
mod ids;
mod offsets;
mod owners;
mod places;
mod shares;
pub(crate) mod throttling;
mod turns;

use crate::client::{Book, Delivery};
pub(crate) use access::{Rules, Since, check as check_access};
pub(crate) use cut::cut_conversions;
pub(crate) use deliveries::{Deliveries, Reported};
pub(crate) use expected::{RecordBytes, bytes_of};
pub(crate) use offsets::Offsets;
pub(crate) use turns::Turns;

use expected::Expected;
use facts::Facts;
use loadgen::check::Checker;
use loadgen::event::Event;
use loadgen::history::Group;
use loadgen::time::Time;
use muster::shard::Inspection;
use owners::Owners;
use throttling::Used;

/// How often, in turns, what takes long to check is checked.
const THOROUGH_EVERY: u64 = 64;

#[derive(Default)]
pub(crate) struct Judge {
    pub(crate) facts: Facts,
    pub(crate) owners: Owners,
    /// The ACLs that are there and those that may be.
    pub(crate) books: Since<Book>,
    /// The bytes that limited clients have used of each shard.
    pub(crate) used: Vec<Used>,
    pub(crate) deliveries: Deliveries,
    expected: Vec<Expected>,
    checker: Checker,
    turns: u64,
}

impl Judge {
    pub(crate) fn expect_groups(&mut self, groups: Vec<Group>) {
        for group in groups {
            self.owners.expect_group(&group);
            self.checker.expect_group(group);
        }
    }

    /// Notes a report of a member of a share group.
    ///
    /// # Errors
    /// It violates a rule.
    pub(crate) fn note_delivery(
        &mut self,
        group: &str,
        at: Reported,
        delivery: Delivery,
    ) -> Result<(), String> {
        let event = self.deliveries.observe(group, at, delivery)?;
        event.map_or(Ok(()), |event| self.check(&event))
    }

    /// Notes an event of a member.
    ///
    /// # Errors
    /// It violates a rule.
    pub(crate) fn observe(&mut self, event: &Event) -> Result<(), String> {
        self.owners.observe(event);
        self.check(event)
    }

    fn check(&mut self, event: &Event) -> Result<(), String> {
        self.checker.observe(event);
        match self.checker.found().violations.first() {
            None => Ok(()),
            Some(first) => Err(format!(
                "{}, group {}: {}: {:?}",
                first.rule, first.group, first.what, first.events
            )),
        }
    }

    /// Expects share groups of these names, as the checker does.
    pub(crate) fn expect_share_groups(
        &mut self,
        names: impl Iterator<Item = String>,
        delivery_limit: i16,
        partitions: i32,
    ) {
        let groups = self.deliveries.expect_groups(names, delivery_limit, partitions);
        groups.into_iter().for_each(|group| self.checker.expect_group(group));
    }

    /// Notes that volatile state is gone, of which members are not notified.
    pub(crate) fn note_restart(&mut self, now: Time) {
        self.checker.coordinator_restarted(now);
        let events = self.deliveries.restarted(now);
        events.iter().for_each(|event| self.checker.observe(event));
    }

    /// Notes a turn of a shard. What takes long to check is checked in some of them.
    ///
    /// # Errors
    /// Its flushed position went back.
    pub(crate) fn note_turn(&mut self, number: u32, shard: Inspection<'_>) -> Result<(), String> {
        self.turns += 1;
        self.check_flushed(number, shard.progress().flushed())
    }

    /// Whether what takes long to check is due in this turn.
    pub(crate) fn is_thorough(&self) -> bool {
        self.turns.is_multiple_of(THOROUGH_EVERY)
    }
}
