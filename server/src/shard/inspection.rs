//! The state of a shard as checks see it while it runs.

use super::counters::LogGauges;
use super::{Shard, Stopping};
use crate::cluster::ClusterImage;
use crate::limit_gauges::{Limit, LimitGauges};
use crate::net::{Account, ConnectionId, Connections};
use crate::placement::{CONTROLLER, Slot};
use muster_codec::records::{GroupRecord, TransactionRecord};
use muster_coordinator::{Counts, Event, Producer, Rebalance};
use muster_counters::Copies;
use muster_runtime::replicas::Replication;
use muster_runtime::{Runtime, Upkeep};
use muster_shares::partition::InFlight;
use muster_shares::{SharePartitionKey, State};
use muster_storage::{LogSlot, Progress};
use muster_transactions::message::OpenIn;
use std::path::Path;
use std::sync::Arc;

/// A read-only view of a shard.
#[derive(Clone, Copy)]
pub struct Inspection<'s>(&'s Shard);

impl Shard {
    pub fn inspect(&self) -> Inspection<'_> {
        Inspection(self)
    }
}

/// Copies of the counters and gauges of a log and of its upkeep.
fn of_log(runtime: &Runtime, upkeep: &Upkeep) -> Copies {
    let gauges = LogGauges { unsubmitted_bytes: runtime.log().unsubmitted_bytes() as u64 };
    let (snapshots, check, rewrite) = upkeep.counters();
    vec![
        Box::new(*runtime.counters()),
        Box::new(gauges),
        Box::new(*snapshots),
        Box::new(*check),
        Box::new(*rewrite),
    ]
}

impl<'s> Inspection<'s> {
    /// Copies of all counters and gauges of the shard, for metrics. They are updated whenever their
    /// values change, so a copy takes no longer with more groups, connections or partitions.
    pub fn numbers(self) -> Copies {
        let Shard {
            counters,
            clients,
            groups,
            runtime,
            upkeep,
            partitions,
            shares,
            telemetry,
            stalls,
            times,
            ..
        } = self.0;
        let mut numbers: Copies = vec![Box::new(*counters)];
        numbers.push(Box::new(stalls.counters()));
        numbers.push(Box::new(stalls.gauges(times.now)));
        numbers.extend(clients.numbers());
        numbers.extend(groups.numbers(times.now));
        numbers.extend(of_log(runtime, upkeep));
        numbers.extend(partitions.numbers());
        numbers.extend(shares.numbers());
        numbers.extend(telemetry.numbers());
        numbers.push(Box::new(self.limits()));
        numbers
    }

    /// The use of all limits.
    pub(super) fn limits(self) -> LimitGauges {
        let Shard {
            broker,
            clients,
            groups,
            runtime,
            partitions,
            shares,
            telemetry,
            transactions,
            ..
        } = self.0;
        let mut gauges = LimitGauges::default();
        clients.add_limits(&mut gauges);
        groups.add_limits(&mut gauges);
        let open_bytes_max = broker.common().log_sizes.open_bytes_max;
        gauges.set(Limit::LogBytes, runtime.log().unsubmitted_bytes(), open_bytes_max);
        transactions.coordinators().add_limits(&mut gauges);
        partitions.add_limits(&mut gauges);
        shares.add_limits(&mut gauges);
        telemetry.add_limits(&mut gauges);
        if broker.number() == CONTROLLER {
            broker.image().add_limits(&mut gauges);
        }
        gauges
    }

    /// How long the log's flush in progress has taken so far, in milliseconds.
    pub fn flushing_ms(self) -> u64 {
        self.0.runtime.flushing_micros() / 1_000
    }

    /// The work that is stuck, in words: see `stall.rs`.
    pub fn stuck(self) -> Vec<String> {
        self.0.stalls().1
    }

    /// The host with the most connections to the shard, and their number.
    pub(crate) fn busiest_host(self) -> Option<(&'s str, usize)> {
        self.0.clients.connections().busiest_host()
    }

    /// Whether a stop was requested.
    pub fn is_stopping(self) -> bool {
        self.0.stopping != Stopping::No
    }

    /// The number of the shard.
    pub fn number(self) -> u32 {
        self.0.broker.number()
    }

    /// Whether the shard has no transaction that may have lost writes before the start.
    pub fn are_transactions_settled(self) -> bool {
        self.0.transactions.is_settled()
    }

    /// The state of the shard's transactional ids, by slot, as records whose replay results in this
    /// state. None if the snapshot that has ids which are not loaded is damaged; the shard finds
    /// the damage at the end of its next turn.
    pub fn transactional_ids(self) -> Option<Vec<TransactionRecord<'static>>> {
        let coordinators = self.0.transactions.coordinators();
        let records = coordinators.durable_records();
        coordinators.damage().is_none().then_some(records)
    }

    /// The ids of the producers whose open transactions the shard's coordinators will end.
    pub fn open_producers(self) -> impl Iterator<Item = i64> + 's {
        self.0.transactions.coordinators().open_producers()
    }

    /// The transactional ids with a record after a position.
    pub fn ids_written_after(self, position: u64) -> impl Iterator<Item = &'s str> {
        self.0.transactions.coordinators().written_after(position)
    }

    /// The states of the shard's share partitions, by slot.
    pub fn share_states(self) -> impl Iterator<Item = (&'s SharePartitionKey, &'s State)> {
        self.0.shares.states().iter()
    }

    /// The records in flight in the shard's share partitions, as runs of records with the same
    /// state. The bool is whether the member that has acquired the run has a session.
    pub fn shares_in_flight(
        self,
    ) -> impl Iterator<Item = (&'s SharePartitionKey, InFlight<'s>, bool)> {
        self.0.shares.in_flight()
    }

    /// The slots that this node leads and serves, each with the term. None on one machine.
    pub fn led_slots(self) -> impl Iterator<Item = (LogSlot, u32)> + 's {
        self.0.runtime.replication().into_iter().flat_map(Replication::led)
    }

    /// The progress of the shard's log.
    pub fn progress(self) -> Progress {
        self.0.runtime.log().progress()
    }

    /// How often damage of the log was found, and how often the log was rewritten.
    pub fn log_damage(self) -> (u64, u64) {
        let (.., counters) = self.0.upkeep.counters();
        (counters.damage_found, counters.rewritten)
    }

    /// The durable state of the shard's groups, as records whose replay results in this state.
    /// Leaves out groups that [are unloaded](Self::is_unloaded).
    pub fn durable_records(self) -> Vec<GroupRecord<'s>> {
        self.0.groups.slots().durable_records()
    }

    /// Like [`Self::durable_records`], and also has pending offsets. With each pending offset comes
    /// the producer whose transaction committed it.
    pub fn durable_state(self) -> Vec<(Option<Producer>, GroupRecord<'s>)> {
        self.0.groups.slots().durable_state()
    }

    /// The transactions with pending offsets in the shard's slots, each with its first offset.
    pub fn open_transactions(self) -> impl Iterator<Item = (Slot, (i64, i16), i64)> + 's {
        self.0.groups.open_places()
    }

    /// The transactions in the shard's partitions of user topics.
    pub fn open_in_partitions(self) -> impl Iterator<Item = OpenIn> {
        self.0.partitions.open_transactions()
    }

    /// Whether a group, or its offsets, are unloaded.
    pub fn is_unloaded(self, group_id: &str) -> bool {
        self.0.groups.slots().is_unloaded(group_id)
    }

    /// Whether the shard found its groups in an unexpected state, and must end.
    pub fn is_failed(self) -> bool {
        self.0.upkeep.is_failed()
    }

    /// The number of groups that the shard has compared with its log.
    pub fn groups_checked(self) -> u64 {
        self.0.upkeep.counters().1.compared
    }

    /// The last finished rebalances of a group, the oldest first, and the rebalance under way.
    pub fn rebalances(self, group_id: &str) -> (Vec<&'s Event>, Option<Rebalance>) {
        self.0.groups.rebalances(group_id)
    }

    /// The shard's image of the cluster.
    pub fn image(self) -> &'s Arc<ClusterImage> {
        self.0.broker.image()
    }

    /// The shard's connections, for a comparison with their limits.
    pub fn connections(self) -> &'s Connections {
        self.0.clients.connections()
    }

    /// The length of the queue of waiting work, and its maximum.
    pub fn waiting(self) -> (usize, usize) {
        (self.0.clients.waiting(), self.0.clients.waiting_max())
    }

    /// The connections that wait for their turn, in order: first the queue that is served first,
    /// then the other queue. Some of the connections may be closed.
    pub fn run_queues(self) -> [Vec<ConnectionId>; 2] {
        self.0.clients.run_queues()
    }

    /// The input of each waiting connection.
    pub fn waiting_input(self) -> impl Iterator<Item = (ConnectionId, &'s [u8])> {
        self.0.clients.waiting_input()
    }

    /// All input that arrived before this time was handled. Sessions are compared with this time.
    pub fn handled_until(self) -> i64 {
        self.0.clients.handled_until()
    }

    /// The time of the groups' timers.
    pub fn group_time(self) -> i64 {
        self.0.groups.time(self.0.times.now)
    }

    /// The number of handled requests. A long request counts once for each item.
    pub fn requests_handled(self) -> u64 {
        self.0.counters.requests_handled
    }

    /// Whether a long request is under way.
    pub fn has_long_request(self) -> bool {
        self.0.long.is_under_way()
    }

    /// Whether the log's queue is so long that no request is handled.
    pub fn is_log_full(self) -> bool {
        self.0.runtime.log().is_full()
    }

    /// Once the whole log is durable: the number of slots for which it has not counted an operation
    /// as durable. (It should be 0.)
    pub fn unflushed_slots(self) -> usize {
        let Shard { groups, runtime, .. } = self.0;
        let progress = |slot: &Slot| runtime.log().progress_of(slot.log_slot());
        let is_behind = |slot: &Slot| progress(slot).flushed() < progress(slot).accepted();
        if runtime.is_flushed() { groups.slots().iter().filter(is_behind).count() } else { 0 }
    }

    /// Bytes that the log has accepted and not submitted.
    pub fn unsubmitted_bytes(self) -> usize {
        self.0.runtime.log().unsubmitted_bytes()
    }

    /// Fetches that are not answered yet.
    pub fn fetches(self) -> usize {
        self.0.partitions.waiting_fetches()
    }

    /// How much the accounts of client addresses differ from a recount: 0 unless one is wrong.
    pub fn miscounted_shares(self) -> usize {
        self.0.partitions.miscounted_shares() + self.0.groups.slots().miscounted_shares()
    }

    /// Partitions that are damaged and not served.
    pub fn offline_partitions(self) -> usize {
        self.0.partitions.offline()
    }

    /// Parts of partitions that cannot be read, while everything else of them is served.
    pub fn damaged_parts(self) -> usize {
        self.0.partitions.damaged_parts()
    }

    /// Whether the byte at position `at` of a partition's segment lies in a damaged part.
    pub fn is_damaged_at(self, segment: &Path, at: u64) -> bool {
        self.0.partitions.is_damaged_at(segment, at)
    }

    /// Whether the shard serves a partition with this segment, and does not know that the segment's
    /// file is lost.
    pub fn serves_unlooked(self, segment: &Path) -> bool {
        self.0.partitions.serves_unlooked(segment)
    }

    /// Whether the disk has so little free space that produces are refused.
    pub fn is_disk_short(self) -> bool {
        self.0.partitions.is_disk_short()
    }

    /// Parts of files that are not sent yet.
    pub fn holds(self) -> usize {
        self.0.partitions.holds()
    }

    /// The bytes that the shard holds for its clients.
    pub fn account(self) -> &'s Account {
        self.0.clients.connections().account()
    }

    /// The sizes of the state of the shard's coordinators.
    pub fn counts(self) -> Counts {
        self.0.groups.slots().counts()
    }
}
