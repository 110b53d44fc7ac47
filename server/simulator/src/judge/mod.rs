//! The judge: compares what the server does with what it must do. `world/checks` asks it where
//! something is due, and ends the run at the first violation. The judge changes nothing but itself.
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
//! - [`acknowledged`]: what they acknowledge is durable when it is confirmed;
//! - [`offsets`]: the committed offsets that raw clients know of are there.

mod access;
mod acknowledged;
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
mod watched;

use crate::client::{Book, Delivery, Finding};
use crate::coverage::Coverage;
use crate::net::Asked;
pub(crate) use cut::cut_conversions;
pub(crate) use deliveries::Reported;
pub(crate) use offsets::Offsets;

use access::Since;
use deliveries::Deliveries;
use expected::Expected;
use facts::Facts;
use loadgen::check::Checker;
use loadgen::event::Event;
use loadgen::history::Group;
use loadgen::plan::GroupIndex;
use loadgen::time::Time;
use muster::cluster::ClusterImage;
use muster::shard::Inspection;
use owners::Owners;
use throttling::Used;
use turns::Turns;
use watched::Watched;

/// How often, in turns, what takes long to check is checked.
const THOROUGH_EVERY: u64 = 64;

#[derive(Default)]
pub(crate) struct Judge {
    facts: Facts,
    owners: Owners,
    /// The running shards.
    watched: Vec<Watched>,
    /// The ACLs that are there and those that may be.
    books: Since<Book>,
    /// The bytes that limited clients have used of each shard.
    used: Vec<Used>,
    deliveries: Deliveries,
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

    /// The counts of facts that became durable.
    pub(crate) fn coverage(&self) -> &Coverage {
        &self.facts.coverage
    }

    /// Checks an answer that leaves a shard: all that it reports must be durable now.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn check_answer(
        &mut self,
        shard: u32,
        asked: &Asked,
        frame: &[u8],
    ) -> Result<(), String> {
        let states = self.expected[shard as usize].share_states();
        self.facts.check_frame(asked, frame, states)
    }

    /// The groups that have gone, durably, since the last call.
    pub(crate) fn take_ended_groups(&mut self) -> Vec<String> {
        self.facts.take_ended()
    }

    /// Whether a group, or a part of it, was deleted at `time` or later.
    pub(crate) fn went_since(&self, group: &str, time: u64) -> bool {
        self.facts.went_since(group, time)
    }

    /// Expects this number of tasks of a streams group.
    pub(crate) fn expect_tasks(&mut self, group: GroupIndex, tasks: u32) {
        self.owners.expect(group, tasks);
    }

    /// The group whose partitions do not have one owner each, if any.
    pub(crate) fn wrong_owners(&self) -> Option<String> {
        self.owners.wrong()
    }

    /// The groups of which some partitions have no owner, if nothing else is wrong with the owners.
    pub(crate) fn groups_without_owners(&self) -> Vec<GroupIndex> {
        self.owners.lacking()
    }

    /// Checks that the share groups have done all records of a transactor up to `end`.
    ///
    /// # Errors
    /// One has not.
    pub(crate) fn check_all_delivered(&self, id: u32, end: i64) -> Result<(), String> {
        self.deliveries.check_done(id, end)
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

    /// Shards with these versions of their images run from now on, and no others.
    pub(crate) fn watch_all(&mut self, image_versions: impl Iterator<Item = i64>) {
        self.watched = image_versions.map(Watched::new).collect();
    }

    /// A shard was loaded again, with this version of its image.
    pub(crate) fn watch_again(&mut self, shard: u32, image_version: i64) {
        self.watched[shard as usize] = Watched::new(image_version);
    }

    /// The turns of a shard.
    pub(crate) fn turns(&mut self, shard: u32) -> &mut Turns {
        self.watched[shard as usize].turns()
    }

    /// Notes the image on which a shard decides.
    ///
    /// # Errors
    /// It is older than the one before.
    pub(crate) fn note_image(
        &mut self,
        shard: u32,
        now: u64,
        image: &ClusterImage,
    ) -> Result<(), String> {
        if self.watched[shard as usize].is_new() {
            self.used(shard).clear();
        }
        self.watched[shard as usize].note_image(now, image)
    }

    /// Notes a turn of a shard, which was due but had nothing to do if it was idle.
    ///
    /// # Errors
    /// The shard spins.
    pub(crate) fn note_idle(&mut self, shard: u32, was_idle: bool) -> Result<(), String> {
        self.watched[shard as usize].note_idle(was_idle)
    }

    /// Whether a shard decides by older ACLs than another one.
    pub(crate) fn is_access_late(&self, shard: u32) -> bool {
        let newest = self.watched.iter().filter_map(Watched::access_version).max();
        self.watched[shard as usize].access_version() < newest
    }

    /// Checks what the answer of a shard to a request that was sent at a time says about a
    /// principal's rights.
    ///
    /// # Errors
    /// No image that the shard had decides so, or a change that was answered before decides
    /// otherwise.
    pub(crate) fn check_access(
        &self,
        shard: u32,
        principal: &str,
        findings: &[Finding],
        sent: u64,
    ) -> Result<(), String> {
        self.watched[shard as usize].check_access(principal, findings, sent, &self.books)
    }

    /// Notes the book of a client about the ACLs.
    pub(crate) fn note_book(&mut self, now: u64, book: Book) {
        self.books.set(now, book);
    }

    /// The values that the quota at a place had on a shard since a time.
    pub(crate) fn bounds(&self, shard: u32, at: usize, sent: u64) -> Vec<Option<u32>> {
        self.watched[shard as usize].bounds(at, sent)
    }

    /// Like [`Judge::bounds`], of all shards.
    pub(crate) fn bounds_of_all(&self, at: usize, sent: u64) -> Vec<Option<u32>> {
        self.watched.iter().flat_map(|it| it.bounds(at, sent)).collect()
    }

    /// The bytes that limited clients have used of a shard.
    pub(crate) fn used(&mut self, shard: u32) -> &mut Used {
        let all = &mut self.used;
        all.resize_with(all.len().max(shard as usize + 1), Used::default);
        &mut all[shard as usize]
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
