//! The judge compares what the server does with what it must do. `world/checks` calls the judge
//! where a check is due, and ends the run at the first violation. The judge changes only its own
//! state.
//!
//! - [`facts`]: no answer leaves before the facts that it reports are on the simulated disk;
//! - [`expected`]: the durable blocks of a log replay to the live state, after each startup and
//!   whenever no write is on its way; a flushed operation is never missing afterwards;
//! - `loadgen`'s checker: single owners, epochs, leases, fenced and lost commits of members;
//! - [`turns`]: connections have their turns in order, and no session ends before the input of its
//!   member is handled;
//! - [`access`]: users are granted and refused what ACLs say;
//! - [`throttling`]: clients with quotas are throttled and refused as these quotas permit;
//! - [`deliveries`]: the records that members of share groups acquire and acknowledge;
//! - [`acknowledged`]: acknowledgements of members are durable when they are confirmed;
//! - [`cluster`] and [`replicated`]: in a cluster, what a quorum of disks has;
//! - [`offsets`]: the committed offsets that raw clients know of exist.

mod access;
mod acknowledged;
mod block_records;
mod cluster;
mod cut;
mod deliveries;
mod expected;
mod facts;
mod ids;
mod offsets;
mod owners;
mod places;
mod replicated;
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
use muster_server::cluster::ClusterImage;
use muster_server::shard::Inspection;
use owners::Owners;
use replicated::Replicated;
use std::collections::BTreeMap;
use throttling::Used;
use turns::Turns;
use watched::Watched;

/// One in this number of turns runs the slow checks.
const THOROUGH_EVERY: u64 = 64;

#[derive(Default)]
pub(crate) struct Judge {
    facts: Facts,
    owners: Owners,
    /// The running shards.
    watched: BTreeMap<u32, Watched>,
    /// The ACLs that certainly exist, and those that may exist, as clients know from their answers.
    books: Since<Book>,
    /// The bytes that limited clients have used on each shard.
    used: BTreeMap<u32, Used>,
    deliveries: Deliveries,
    expected: Vec<Expected>,
    replicated: Replicated,
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

    /// Checks an answer that leaves a shard: everything that it reports must be durable now.
    ///
    /// # Errors
    /// A reported fact is not durable, another answer is due, or the answer or its request cannot
    /// be read.
    pub(crate) fn check_answer(
        &mut self,
        shard: u32,
        asked: &Asked,
        frame: &[u8],
    ) -> Result<(), String> {
        let states = self.expected[shard as usize].share_states();
        self.facts.check_frame(asked, frame, states)
    }

    /// The groups whose removal became durable since the last call.
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

    /// A group whose partitions do not have exactly one owner each, if there is such a group.
    pub(crate) fn wrong_owners(&self) -> Option<String> {
        self.owners.wrong()
    }

    /// The groups with partitions without an owner, if nothing else is wrong with the owners.
    pub(crate) fn groups_without_owners(&self) -> Vec<GroupIndex> {
        self.owners.lacking()
    }

    /// Checks that the share groups have finished all records of a transactor below `end`.
    ///
    /// # Errors
    /// A group has not finished a record.
    pub(crate) fn check_all_delivered(&self, id: u32, end: i64) -> Result<(), String> {
        self.deliveries.check_done(id, end)
    }

    /// Notes a report of a member of a share group.
    ///
    /// # Errors
    /// The report violates a rule.
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
    /// The event violates a rule.
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

    /// Expects share groups with these names, here and in the checker.
    pub(crate) fn expect_share_groups(
        &mut self,
        names: impl Iterator<Item = String>,
        delivery_limit: i16,
        partitions: i32,
    ) {
        let groups = self.deliveries.expect_groups(names, delivery_limit, partitions);
        groups.into_iter().for_each(|group| self.checker.expect_group(group));
    }

    /// Notes that volatile state is lost. Members are not notified of this.
    pub(crate) fn note_restart(&mut self, now: Time) {
        self.checker.coordinator_restarted(now);
        let events = self.deliveries.restarted(now);
        events.iter().for_each(|event| self.checker.observe(event));
    }

    /// Notes that all earlier shards have ended; these new shards run, with these image versions.
    pub(crate) fn watch_all(&mut self, image_versions: impl Iterator<Item = i64>) {
        self.watched = (0..).zip(image_versions.map(Watched::new)).collect();
    }

    /// Notes that a shard was loaded again, with this version of its image.
    pub(crate) fn watch_again(&mut self, shard: u32, image_version: i64) {
        self.watched.insert(shard, Watched::new(image_version));
    }

    /// The turns of a shard.
    pub(crate) fn turns(&mut self, shard: u32) -> &mut Turns {
        self.of_shard(shard).turns()
    }

    /// Notes the image on which a shard decides.
    ///
    /// # Errors
    /// The image is older than the previous image.
    pub(crate) fn note_image(
        &mut self,
        shard: u32,
        now: u64,
        image: &ClusterImage,
    ) -> Result<(), String> {
        if self.of_shard(shard).is_new() {
            self.used(shard).clear();
        }
        self.of_shard(shard).note_image(now, image)
    }

    /// Notes a turn of a shard. `was_idle` means that the turn was due, but had no work.
    ///
    /// # Errors
    /// The shard spins.
    pub(crate) fn note_idle(&mut self, shard: u32, was_idle: bool) -> Result<(), String> {
        self.of_shard(shard).note_idle(was_idle)
    }

    /// Whether a shard decides by older ACLs than another shard.
    pub(crate) fn is_access_late(&self, shard: u32) -> bool {
        let newest = self.watched.values().filter_map(Watched::access_version).max();
        self.watched[&shard].access_version() < newest
    }

    /// Checks the rights that a shard's answer grants or refuses to a principal. `sent` is when the
    /// request was sent.
    ///
    /// # Errors
    /// No image that the shard had leads to this decision, or the decision contradicts a change
    /// that was answered before.
    pub(crate) fn check_access(
        &self,
        shard: u32,
        principal: &str,
        findings: &[Finding],
        sent: u64,
    ) -> Result<(), String> {
        self.watched[&shard].check_access(principal, findings, sent, &self.books)
    }

    /// Notes the book of a client about the ACLs.
    pub(crate) fn note_book(&mut self, now: u64, book: Book) {
        self.books.set(now, book);
    }

    /// The values that the quota with index `at` in [`LIMITED`](crate::client::LIMITED) had on a
    /// shard at `sent` or later.
    pub(crate) fn bounds(&self, shard: u32, at: usize, sent: u64) -> Vec<Option<u32>> {
        self.watched[&shard].bounds(at, sent)
    }

    /// The values of [`Judge::bounds`] on all shards together.
    pub(crate) fn bounds_of_all(&self, at: usize, sent: u64) -> Vec<Option<u32>> {
        self.watched.values().flat_map(|it| it.bounds(at, sent)).collect()
    }

    /// The bytes that limited clients have used on a shard.
    pub(crate) fn used(&mut self, shard: u32) -> &mut Used {
        self.used.entry(shard).or_default()
    }

    fn of_shard(&mut self, shard: u32) -> &mut Watched {
        self.watched.entry(shard).or_default()
    }

    /// Counts a turn of a shard, and checks its flushed position.
    ///
    /// # Errors
    /// The flushed position of the shard decreased.
    pub(crate) fn note_turn(&mut self, number: u32, shard: Inspection<'_>) -> Result<(), String> {
        self.turns += 1;
        self.check_flushed(number, shard.progress().flushed())
    }

    /// Counts a turn of a shard of a cluster.
    pub(crate) fn count_turn(&mut self) {
        self.turns += 1;
    }

    /// Whether the slow checks are due in this turn.
    pub(crate) fn is_thorough(&self) -> bool {
        self.turns.is_multiple_of(THOROUGH_EVERY)
    }
}
