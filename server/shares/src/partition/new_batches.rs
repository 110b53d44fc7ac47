//! Acquires records that were not in flight before.

use super::SharePartition;
use super::acquire::{AcquiredRange, Acquisition, LogBatch};
use super::in_flight::Batch;
use super::status::Status;
use crate::RecordState;
use alloc::vec::Vec;

impl SharePartition {
    /// Acquires records from `first` to at most `last`, none of which is in flight. Returns the
    /// number of new batches in flight.
    pub(super) fn acquire_new(
        &mut self,
        job: &mut Acquisition<'_>,
        first: i64,
        last: i64,
    ) -> usize {
        let first = if self.batches.is_empty() { first.max(self.end) } else { first };
        let max = job.max - job.count;
        let last = self.last_to_acquire(job.batches, first, last, max);
        if last < first {
            return 0;
        }
        let made = if job.is_record_limit && last - first + 1 > max {
            job.cut(first, last, max)
        } else {
            job.whole(first, last)
        };
        self.may_be_available |= made.iter().any(|it| it.as_whole().is_none());
        let count = made.len();
        let at = self.batches.partition_point(|it| it.first < first);
        self.batches.splice(at..at, made);
        if at == 0 {
            self.start = self.start.max(first);
        }
        self.end = self.end.max(last);
        if let Some(last) = job.acquired.last() {
            self.holes_begin_at(last.last + 1);
        }
        count
    }

    /// The last offset to acquire: `last`. If the limit `max` is reached before it, the end of the
    /// batch of the log in which it is reached. While holes are open, never later than `last`:
    /// another batch in flight may begin inside that batch of the log.
    fn last_to_acquire(&self, batches: &[LogBatch], first: i64, last: i64, max: i64) -> i64 {
        if max > last - first {
            return last;
        }
        let wanted = first + max - 1;
        let at = batches.partition_point(|it| it.base <= wanted).checked_sub(1);
        let stretched = at.map_or(wanted, |at| batches[at].last.max(wanted));
        if self.open_holes().is_some() { stretched.min(last) } else { stretched }
    }
}

impl Acquisition<'_> {
    /// Makes batches of about the requested size. Each consists of whole batches of the log.
    fn whole(&mut self, first: i64, last: i64) -> Vec<Batch> {
        let status = self.delivered_once();
        let mut made = Vec::new();
        let mut from = first;
        if !self.is_record_limit && last - first + 1 > self.batch_size {
            for batch in self.batches.iter().take_while(|it| it.base <= last) {
                if batch.base - from >= self.batch_size {
                    made.push(Batch::whole(from, batch.base - 1, status));
                    from = batch.base;
                }
            }
        }
        made.push(Batch::whole(from, last, status));
        for batch in &made {
            self.take(AcquiredRange {
                first: batch.first,
                last: batch.last,
                delivery_count: status.count,
            });
        }
        made
    }

    /// Makes a batch of which at most `max` records are acquired. The others are available.
    fn cut(&mut self, first: i64, last: i64, max: i64) -> Vec<Batch> {
        let status = self.delivered_once();
        let mut batch = Batch::whole(first, last, Status::new(RecordState::Available, 0));
        let upto = first + max - 1;
        batch.change(first, upto, |run| (run.last, status));
        self.take(AcquiredRange { first, last: upto, delivery_count: status.count });
        alloc::vec![batch]
    }

    fn delivered_once(&self) -> Status {
        Status::new(RecordState::Available, 0).acquired(self.member, self.until)
    }
}
