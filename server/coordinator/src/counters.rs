//! The numbers of a coordinator, for metrics. Gauges show its groups as they are; counters have the
//! events since its load. Each change updates them at once, so that reading them is only a copy.
//!
//! Tests and the simulator compare the gauges with a recount.

use crate::payers::PayerNumber;
use core::ops::Add;
use muster_counters::{Visitor, Walk, counters};

counters! {
    /// Groups by kind and state. An unloaded group has no members, and is empty.
    #[derive(Copy)]
    pub struct Gauges in "groups" {
        /// Classic groups without members.
        classic_empty: u64 = Gauge of Count,
        /// Classic groups that wait for members to join.
        classic_preparing_rebalance: u64 = Gauge of Count,
        /// Classic groups that wait for the assignment of their leader.
        classic_completing_rebalance: u64 = Gauge of Count,
        /// Classic groups with an assignment.
        classic_stable: u64 = Gauge of Count,
        /// Consumer groups without members.
        consumer_empty: u64 = Gauge of Count,
        /// Consumer groups whose target assignment is older than their epoch.
        consumer_assigning: u64 = Gauge of Count,
        /// Consumer groups with members that have not reached their target assignment.
        consumer_reconciling: u64 = Gauge of Count,
        /// Consumer groups whose members all have their target assignment.
        consumer_stable: u64 = Gauge of Count,
        /// Share groups without members.
        share_empty: u64 = Gauge of Count,
        /// Share groups with members.
        share_stable: u64 = Gauge of Count,
        /// Streams groups without members.
        streams_empty: u64 = Gauge of Count,
        /// Streams groups whose topology lacks topics.
        streams_not_ready: u64 = Gauge of Count,
        /// Streams groups whose target assignment is older than their epoch.
        streams_assigning: u64 = Gauge of Count,
        /// Streams groups with members that have not reached their target assignment.
        streams_reconciling: u64 = Gauge of Count,
        /// Streams groups whose members all have their target assignment.
        streams_stable: u64 = Gauge of Count,
        /// Members of classic groups.
        classic_members: u64 = Gauge of Count,
        /// Members of consumer groups.
        consumer_members: u64 = Gauge of Count,
        /// Members of share groups.
        share_members: u64 = Gauge of Count,
        /// Members of streams groups.
        streams_members: u64 = Gauge of Count,
        /// Memory for members' ids, metadata and assignments.
        member_bytes: u64 = Gauge of Bytes,
        /// Committed offsets.
        offsets: u64 = Gauge of Count,
        /// Offsets of open transactions, of all groups.
        pending_offsets: u64 = Gauge of Count,
    }
}

counters! {
    /// Events since the load. They count when they are decided, even if the log then refuses their
    /// records.
    #[derive(Copy)]
    pub struct Events in "groups" {
        /// Rebalances of classic groups that ended with an assignment.
        classic_rebalances: u64 = Counter of Count,
        /// New epochs of consumer groups for a changed subscription or changed topics. As in Kafka,
        /// epochs for members that leave or expire do not count.
        consumer_rebalances: u64 = Counter of Count,
        /// New epochs of share groups for a changed subscription or changed topics.
        share_rebalances: u64 = Counter of Count,
        /// New epochs of streams groups for a changed subscription or changed topics.
        streams_rebalances: u64 = Counter of Count,
        /// New members. A static member that returns is not new.
        members_joined: u64 = Counter of Count,
        /// Members that left.
        members_left: u64 = Counter of Count,
        /// Members that left for the reason, in their client's words, that the application did not
        /// poll within `max.poll.interval.ms`.
        members_left_unpolled: u64 = Counter of Count,
        /// Members whose session has expired.
        members_expired: u64 = Counter of Count,
        /// Members that were removed because they did not give up partitions, join or sync within
        /// the rebalance timeout.
        members_fenced: u64 = Counter of Count,
        /// Committed offsets.
        offsets_committed: u64 = Counter of Count,
        /// Offsets whose retention has ended.
        offsets_expired: u64 = Counter of Count,
        /// Offsets that a client deleted, alone or with their group.
        offsets_deleted: u64 = Counter of Count,
        /// Groups that were refused because the shard, or the client's address, has too many.
        refused: u64 = Counter of Count,
    }
}

/// All gauges and counters of a coordinator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub gauges: Gauges,
    pub events: Events,
}

impl Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { gauges: self.gauges + other.gauges, events: self.events + other.events }
    }
}

impl Walk for Counters {
    fn walk(&self, visitor: &mut Visitor<'_>) {
        self.gauges.walk(visitor);
        self.events.walk(visitor);
    }
}

/// A group's kind and state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    ClassicEmpty,
    ClassicPreparingRebalance,
    ClassicCompletingRebalance,
    ClassicStable,
    ConsumerEmpty,
    ConsumerAssigning,
    ConsumerReconciling,
    ConsumerStable,
    ShareEmpty,
    ShareStable,
    StreamsEmpty,
    StreamsNotReady,
    StreamsAssigning,
    StreamsReconciling,
    StreamsStable,
}

/// The contribution of one group to the gauges. The default is no group, which contributes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) standing: Option<Standing>,
    /// The address against which the bytes of the group's members are counted.
    pub(crate) payer: PayerNumber,
    pub(crate) members: u32,
    pub(crate) member_bytes: u32,
}

impl Gauges {
    /// Replaces a group in the gauges: it was counted as `before`, and is now counted as `after`.
    pub(crate) fn exchange(&mut self, before: Counted, after: Counted) {
        if before == after {
            return;
        }
        if let Some((groups, members)) = self.of(before.standing) {
            *groups -= 1;
            *members -= u64::from(before.members);
        }
        if let Some((groups, members)) = self.of(after.standing) {
            *groups += 1;
            *members += u64::from(after.members);
        }
        self.member_bytes -= u64::from(before.member_bytes);
        self.member_bytes += u64::from(after.member_bytes);
    }

    /// The gauge of the groups with this standing, and the gauge of all members of the same kind of
    /// group.
    fn of(&mut self, standing: Option<Standing>) -> Option<(&mut u64, &mut u64)> {
        let (classic, consumer) = (&mut self.classic_members, &mut self.consumer_members);
        let (share, streams) = (&mut self.share_members, &mut self.streams_members);
        Some(match standing? {
            Standing::ClassicEmpty => (&mut self.classic_empty, classic),
            Standing::ClassicPreparingRebalance => (&mut self.classic_preparing_rebalance, classic),
            Standing::ClassicCompletingRebalance => {
                (&mut self.classic_completing_rebalance, classic)
            }
            Standing::ClassicStable => (&mut self.classic_stable, classic),
            Standing::ConsumerEmpty => (&mut self.consumer_empty, consumer),
            Standing::ConsumerAssigning => (&mut self.consumer_assigning, consumer),
            Standing::ConsumerReconciling => (&mut self.consumer_reconciling, consumer),
            Standing::ConsumerStable => (&mut self.consumer_stable, consumer),
            Standing::ShareEmpty => (&mut self.share_empty, share),
            Standing::ShareStable => (&mut self.share_stable, share),
            Standing::StreamsEmpty => (&mut self.streams_empty, streams),
            Standing::StreamsNotReady => (&mut self.streams_not_ready, streams),
            Standing::StreamsAssigning => (&mut self.streams_assigning, streams),
            Standing::StreamsReconciling => (&mut self.streams_reconciling, streams),
            Standing::StreamsStable => (&mut self.streams_stable, streams),
        })
    }
}
