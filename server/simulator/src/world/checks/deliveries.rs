//! Calls the judge for the deliveries of share groups, which their members report.

use crate::client::{Delivery, Kind, Raw, TRANSACTED_PARTITIONS, Transactor};
use crate::coverage::Seen;
use crate::judge::Reported;
use crate::world::{Machine, World};
use std::collections::{BTreeMap, BTreeSet};

/// A shard delivers whole batches, so it may exceed a limit by the longest batch of a transactor.
/// This is the number of records in that batch.
const BATCH_MAX: i64 = 3;

/// The maximum delay from the end of a lock until the shard releases its records. A shard handles
/// waiting input before it releases records.
const OVERDUE_MS: i64 = 10_000;

impl<M: Machine> World<M> {
    /// Takes the reports of a client. `sent` is the time of the request that they follow from.
    pub(in crate::world) fn judge_deliveries(&mut self, client: u32, sent: u64) {
        let Some(sharer) = self.clients.sharer_mut(client) else { return };
        let (reports, group) = (sharer.take_reports(), sharer.group().to_owned());
        let at = Reported { client, sent, now: self.sim.now() };
        for report in reports {
            self.sim.note(format_args!("client {client} of {group}: {report:?}"));
            if let Some(seen) = seen(&report) {
                self.sim.saw(seen);
            }
            if let Err(what) = self.judge.note_delivery(&group, at, report) {
                return self.sim.violate(format_args!("client {client}, group {group}: {what}"));
            }
        }
    }

    /// The share groups that have not finished all records yet. Ends the members of the other
    /// groups, which have nothing more to do.
    pub(in crate::world) fn undrained(&mut self) -> Vec<String> {
        let transactors = self.clients.raws().filter_map(Raw::as_transactor);
        let is_nothing_committed = transactors.map(|it| it.certain().1).max() == Some(0);
        let mut done: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
        for sharer in self.clients.raws().filter_map(Raw::as_sharer) {
            let of_group = done.entry(sharer.group().to_owned()).or_default();
            of_group.extend(sharer.done());
            of_group.extend(sharer.unstarted().filter(|_| is_nothing_committed));
        }
        done.retain(|_, partitions| partitions.len() < TRANSACTED_PARTITIONS as usize);
        for sharer in self.clients.sharers_mut() {
            if !done.contains_key(sharer.group()) {
                sharer.finish();
            }
        }
        done.into_keys().collect()
    }

    /// Checks that the share groups have finished all committed records.
    pub(super) fn wrong_deliveries(&self) -> Option<String> {
        let transactors = self.clients.raws().filter_map(Raw::as_transactor);
        transactors
            .map(Transactor::certain)
            .find_map(|(id, end)| self.judge.check_all_delivered(id, end).err())
    }
}

impl World {
    /// Checks the records in flight of a shard's share partitions: their number is bounded, locks
    /// end in time, and a member that has acquired records has a session.
    pub(super) fn judge_shares(&mut self, number: u32) {
        let shard = self.node.shard(number).inspect();
        let now = self.node.clocks().now;
        let latest = now + i64::from(self.config.group_share_record_lock_duration_ms);
        let mut counts = BTreeMap::new();
        let mut wrong = None;
        for (key, run, has_session) in shard.shares_in_flight() {
            let count: &mut i64 = counts.entry(key).or_default();
            *count += run.last - run.first + 1;
            let limit = i64::from(self.config.group_share_partition_max_record_locks);
            // With several shards, the member may have gone to another shard in search of the
            // leader, and have its session there.
            let has_session = has_session || self.node.shards_on_disk() > 1;
            let ends = run.locked_until.is_none_or(|it| (now - OVERDUE_MS..=latest).contains(&it));
            if *count > limit + BATCH_MAX || !has_session || !ends {
                wrong = Some(format!("{key:?} has {run:?} at {now}, {count} in flight"));
            }
        }
        if let Some(wrong) = wrong {
            let states = self.share_states();
            self.sim.violate(format_args!("shard {number}: {wrong}: {states}"));
        }
    }

    /// The share states of all shards, and what is in flight, for a violation.
    pub(in crate::world) fn share_states(&self) -> String {
        let shards = || self.node.shards().iter().map(|shard| shard.inspect());
        let states = shards().flat_map(|shard| shard.share_states());
        let states = states.map(|(key, it)| format!("{key:?} {:?}\n", it.snapshot()));
        let in_flight = shards().flat_map(|shard| shard.shares_in_flight());
        let in_flight = in_flight.map(|(key, run, _)| format!("{key:?} {run:?}\n"));
        states.chain(in_flight).collect()
    }
}

fn seen(report: &Delivery) -> Option<Seen> {
    match report {
        Delivery::Acquired { count: 1, .. } => Some(Seen::ShareDelivered),
        Delivery::Acquired { .. } => Some(Seen::ShareRedelivered),
        Delivery::Acknowledged(it) => match it.kind {
            Kind::Accept => Some(Seen::ShareAccepted),
            Kind::Release => Some(Seen::ShareReleased),
            Kind::Reject => Some(Seen::ShareRejected),
            Kind::Renew => Some(Seen::ShareRenewed),
            Kind::Gap => None,
        },
        Delivery::Unknown(_) => Some(Seen::ShareUnknown),
        Delivery::Began
        | Delivery::Answered { .. }
        | Delivery::Acknowledging(_)
        | Delivery::Lost { .. }
        | Delivery::SessionEnded { .. } => None,
    }
}
