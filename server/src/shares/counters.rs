//! The numbers of a shard's share groups.

use super::Shares;
use super::opening::OPEN_MAX;
use super::table::SHARE_FETCHES_MAX;
use crate::limit_gauges::{Limit, LimitGauges};
use muster_counters::{Copies, counters};

counters! {
    /// The work since the shard's start.
    #[derive(Copy)]
    pub struct ShareCounters in "shares" {
        /// Records that members acquired.
        acquired_records: u64 = Counter of Count,
        /// Records that members accepted.
        accepted_records: u64 = Counter of Count,
        /// Records that members released.
        released_records: u64 = Counter of Count,
        /// Records that members rejected.
        rejected_records: u64 = Counter of Count,
        /// Records whose locks members renewed.
        renewed_records: u64 = Counter of Count,
        /// Acknowledgements of a partition that were refused.
        refused_acknowledgements: u64 = Counter of Count,
        /// Times at which some locks of a share partition timed out.
        lock_timeouts: u64 = Counter of Count,
        /// Fetches that waited until their deadline.
        expired_fetches: u64 = Counter of Count,
        /// Letters that were written to dead letter queues, one for each record.
        dead_letters: u64 = Counter of Count,
        /// Batches of letters that were sent to the leaders of their queues.
        dead_letter_requests: u64 = Counter of Count,
        /// Batches of letters whose write to a dead letter queue failed.
        dead_letter_requests_failed: u64 = Counter of Count,
        /// Letters that were dropped.
        dead_letters_dropped: u64 = Counter of Count,
        /// Records of share state that were written.
        state_records: u64 = Counter of Count,
    }
}

counters! {
    /// The share groups as they are now.
    #[derive(Copy)]
    pub struct ShareGauges in "shares" {
        /// Share partitions that are open.
        partitions: u64 = Gauge of Count,
        /// Share sessions.
        sessions: u64 = Gauge of Count,
        /// Partitions of all share sessions.
        session_partitions: u64 = Gauge of Count,
        /// Fetches that wait for records.
        waiting_fetches: u64 = Gauge of Count,
        /// Reads under way.
        reads: u64 = Gauge of Count,
    }
}

impl ShareCounters {
    /// Counts an accepted acknowledgement of `offsets` offsets. `types` has one type for all
    /// offsets, or one for each.
    pub(super) fn acknowledged(&mut self, offsets: i64, types: &[i8]) {
        let of_each = if types.len() == 1 { offsets.unsigned_abs() } else { 1 };
        for kind in types {
            let counter = match kind {
                1 => &mut self.accepted_records,
                2 => &mut self.released_records,
                3 => &mut self.rejected_records,
                4 => &mut self.renewed_records,
                // Gaps are no records.
                _ => continue,
            };
            *counter = counter.saturating_add(of_each);
        }
    }
}

impl Shares {
    /// Copies of the numbers, for metrics.
    pub(crate) fn numbers(&self) -> Copies {
        let gauges = ShareGauges {
            partitions: self.open.len() as u64,
            sessions: self.sessions.len() as u64,
            session_partitions: self.sessions.partition_count() as u64,
            waiting_fetches: self.requests.parked() as u64,
            reads: self.reads.len() as u64,
        };
        vec![Box::new(self.counters), Box::new(gauges)]
    }

    /// Adds the use of the limits of share groups.
    pub(crate) fn add_limits(&self, gauges: &mut LimitGauges) {
        let Self { sessions, requests, open, .. } = self;
        gauges.set(Limit::ShareSessions, sessions.len(), sessions.limit());
        gauges.set(Limit::SharePartitions, sessions.partition_count(), sessions.partitions_max());
        gauges.set(Limit::ShareFetches, requests.parked(), SHARE_FETCHES_MAX);
        gauges.set(Limit::OpenShares, open.len(), OPEN_MAX);
    }
}
