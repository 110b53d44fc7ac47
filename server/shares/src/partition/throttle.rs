//! Throttles suspicious records: records that were already delivered often without success. With
//! each delivery, fewer of them are acquired together. So a record that makes each of its consumers
//! crash is soon acquired alone, and affects no other records.

use super::acquire::{AcquiredRange, Acquisition};
use super::in_flight::{Batch, Run};
use alloc::vec::Vec;

#[derive(Debug, Clone, Copy)]
pub(super) struct Throttle {
    /// `share.delivery.count.limit`
    limit: i16,
    /// From this delivery count on, a record is suspicious.
    from: i16,
}

impl Throttle {
    pub(super) fn new(limit: i16) -> Self {
        let half = limit / 2 + limit % 2;
        Self { limit, from: half.max(2) }
    }

    /// Whether a batch has an available record that is suspicious.
    pub(super) fn concerns(&self, batch: &Batch, first: i64, last: i64) -> bool {
        let is_whole = batch.as_whole().is_some();
        let in_range = |run: &Run| is_whole || run.first <= last && first <= run.last;
        let mut runs = batch.runs().filter(in_range);
        runs.any(|run| run.status.is_available() && run.status.count >= self.from)
    }

    /// Whether the next delivery is the last one.
    fn is_last_try(&self, count: i16) -> bool {
        self.limit > 2 && count == self.limit - 1
    }

    /// The number of records of a batch that are acquired together: half of the batch, after the
    /// next delivery a quarter of it, and so on. `count` is the delivery count of the first
    /// suspicious record.
    fn share(&self, len: i64, count: i16) -> i64 {
        let halvings = u32::try_from(count - self.from + 1).unwrap_or(0).min(62);
        (len >> halvings).max(1)
    }
}

impl Acquisition<'_> {
    /// Acquires the available records of a batch by offset, up to the limits.
    pub(super) fn acquire_by_offset(&mut self, batch: &mut Batch) {
        let mut quota = Quota {
            throttle: self.throttle,
            records: self.is_record_limit.then_some(self.max - self.count),
            suspicious: None,
            taken: 0,
            is_over: false,
        };
        let (member, until) = (self.member, self.until);
        let mut found: Vec<AcquiredRange> = Vec::new();
        let len = batch.len();
        batch.change(self.base, self.last, |run| {
            let upto = if run.status.is_available() { quota.take(len, run) } else { None };
            let Some(upto) = upto else { return (run.last, run.status) };
            let status = run.status.acquired(member, until);
            let range =
                AcquiredRange { first: run.first, last: upto, delivery_count: status.count };
            match found.last_mut().filter(|it| it.is_followed_by(range)) {
                Some(before) => before.last = upto,
                None => found.push(range),
            }
            (upto, status)
        });
        found.into_iter().for_each(|range| self.take(range));
    }
}

impl AcquiredRange {
    fn is_followed_by(self, next: Self) -> bool {
        self.last + 1 == next.first && self.delivery_count == next.delivery_count
    }
}

/// The number of records of one batch that may still be acquired.
struct Quota {
    throttle: Throttle,
    /// The maximum number of records, in the mode `RecordLimit`.
    records: Option<i64>,
    /// The maximum number of records that are acquired together with a suspicious record. None
    /// until the first suspicious record is reached.
    suspicious: Option<i64>,
    taken: i64,
    is_over: bool,
}

impl Quota {
    /// The last offset to acquire of a run of available records. None if no record of the run is
    /// acquired.
    fn take(&mut self, len: i64, run: Run) -> Option<i64> {
        let count = run.status.count;
        let is_last_try = self.throttle.is_last_try(count);
        if self.is_over || is_last_try && self.taken > 0 {
            self.is_over = true;
            return None;
        }
        if count >= self.throttle.from && self.suspicious.is_none() {
            self.suspicious = Some(self.throttle.share(len, count));
        }
        // A quota that becomes known only now may be exceeded by the records that were taken
        // before. Then it does not count.
        let quotas = [is_last_try.then_some(self.taken + 1), self.records, self.suspicious];
        let left = quotas.into_iter().flatten().filter(|it| *it > self.taken).min();
        let left = left.map_or(i64::MAX, |it| it - self.taken);
        let taken = left.min(run.last - run.first + 1);
        self.taken += taken;
        self.is_over = taken == left;
        Some(run.first + taken - 1)
    }
}
