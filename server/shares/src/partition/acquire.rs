//! Acquires records that were read, for a member.
//!
//! As in Kafka, whole batches are acquired, because clients see the ranges. A batch in flight whose
//! records are all available is acquired as a whole, even beyond the limit of records. So is a new
//! batch of the log. There are three exceptions: the mode `RecordLimit`, records that were often
//! delivered without success (`throttle.rs`), and batches whose states are kept by offset.

use super::aborted::without_aborted;
use super::members::Member;
use super::throttle::Throttle;
use super::{Settings, SharePartition};
use alloc::vec::Vec;

/// The first and the last offset of a batch of the log, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBatch {
    pub base: i64,
    pub last: i64,
}

/// The result of a read.
#[derive(Debug, Clone, Copy)]
pub struct Fetched<'f> {
    /// The offset at which the read began: [`SharePartition::next_fetch_offset`].
    pub offset: i64,
    /// The batches that were read, in order.
    pub batches: &'f [LogBatch],
    /// The batches of aborted transactions ([`super::aborted_ranges`]), if the group reads only
    /// committed records; else empty.
    pub aborted: &'f [LogBatch],
}

/// The parameters of a member's fetch.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'w> {
    pub member: &'w str,
    pub mode: AcquireMode,
    /// A soft limit, except in the mode `RecordLimit`.
    pub max_records: i64,
    /// The approximate number of records that are acknowledged together.
    pub batch_size: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcquireMode {
    /// Whole batches.
    BatchOptimized,
    /// Never more records than `max_records`.
    RecordLimit,
}

/// Acquired records. Their locks end together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquiredRange {
    pub first: i64,
    pub last: i64,
    pub delivery_count: i16,
}

/// The progress of one call of [`SharePartition::acquire`].
pub(super) struct Acquisition<'f> {
    pub(super) batches: &'f [LogBatch],
    pub(super) is_record_limit: bool,
    pub(super) batch_size: i64,
    pub(super) member: Member,
    pub(super) until: i64,
    /// The first and the last offset that were read and may be acquired.
    pub(super) base: i64,
    pub(super) last: i64,
    /// The limit of records. As [`Wanted::max_records`], it is soft, except in the mode
    /// `RecordLimit`.
    pub(super) max: i64,
    pub(super) throttle: Throttle,
    pub(super) acquired: Vec<AcquiredRange>,
    pub(super) count: i64,
}

impl SharePartition {
    /// Acquires records for a member. Returns their ranges, in order. Nothing is written.
    pub fn acquire(
        &mut self,
        wanted: &Wanted<'_>,
        fetched: &Fetched<'_>,
        settings: &Settings,
        now: i64,
    ) -> Vec<AcquiredRange> {
        let Some(mut job) = self.begin(wanted, fetched, settings, now) else { return Vec::new() };
        let base = self.first_to_acquire(job.base);
        let cached = self.between(base, job.last);
        if cached.is_empty() {
            let last = job.last;
            self.acquire_new(&mut job, base, last);
        } else {
            self.acquire_cached(&mut job, base, cached.start);
        }
        if !job.acquired.is_empty() {
            self.lock_ends_at(job.until);
        }
        if fetched.aborted.is_empty() {
            return job.acquired;
        }
        self.archive_aborted(fetched.aborted);
        without_aborted(job.acquired, fetched.aborted)
    }

    fn begin<'f>(
        &mut self,
        wanted: &Wanted<'_>,
        fetched: &Fetched<'f>,
        settings: &Settings,
        now: i64,
    ) -> Option<Acquisition<'f>> {
        let (first, last) = (fetched.batches.first()?, fetched.batches.last()?);
        if wanted.max_records <= 0 || last.last < self.start {
            return None;
        }
        let (last, max) = self.room(wanted.max_records, fetched.offset, last.last, settings)?;
        // This comes before `intern`: if it leaves nothing in flight, it forgets all members.
        self.archive_compacted(fetched.offset, first.base);
        let holding = self.batches.iter().flat_map(super::Batch::runs).map(|run| run.status.member);
        Some(Acquisition {
            batches: fetched.batches,
            is_record_limit: wanted.mode == AcquireMode::RecordLimit,
            batch_size: wanted.batch_size,
            member: self.members.intern(wanted.member, holding),
            until: now.saturating_add(settings.record_lock_duration_ms),
            base: first.base,
            last,
            max,
            throttle: Throttle::new(settings.delivery_count_limit),
            acquired: Vec::new(),
            count: 0,
        })
    }

    /// The last offset that may be acquired, and the maximum number of records. If the limit of
    /// records in flight is reached, no new records may be acquired. Records that are in flight,
    /// and available again, may.
    fn room(
        &self,
        max_records: i64,
        fetch_offset: i64,
        last: i64,
        settings: &Settings,
    ) -> Option<(i64, i64)> {
        let room = settings.partition_max_record_locks - self.in_flight_count();
        if room > 0 {
            Some((last, max_records.min(room)))
        } else if fetch_offset <= self.end {
            Some((last.min(self.end), max_records.min(self.end - fetch_offset + 1)))
        } else {
            None
        }
    }

    /// The first offset to acquire. A batch of the log may begin before the start offset. Or it may
    /// begin inside a batch in flight: then this batch in flight is acquired from its beginning.
    /// Batches in flight that end before `base` are ignored.
    fn first_to_acquire(&self, base: i64) -> i64 {
        let base = base.max(self.start);
        let floor = self.floor(base).map(|at| &self.batches[at]);
        floor.filter(|it| it.last >= base).map_or(base, |it| it.first)
    }

    /// Acquires from the batches in flight, beginning with the batch at index `from`, and from open
    /// holes between these batches. Then acquires records after the last of these batches.
    fn acquire_cached(&mut self, job: &mut Acquisition<'_>, base: i64, from: usize) {
        let (mut at, mut hole) = (from, base);
        while job.is_open() && self.batches.get(at).is_some_and(|it| it.first <= job.last) {
            if self.open_holes().is_some() {
                let first = self.batches[at].first;
                if hole < first {
                    at += self.acquire_new(job, hole, first - 1);
                }
                hole = self.batches[at].last + 1;
                if !job.is_open() {
                    break;
                }
            }
            self.acquire_batch(job, at);
            at += 1;
        }
        let behind = self.between(base, job.last).end;
        let behind = self.batches[..behind].last().map_or(base, |it| it.last + 1);
        if job.is_open() && behind <= job.last {
            self.acquire_new(job, behind, job.last);
        }
        if let Some(last) = job.acquired.last() {
            self.holes_begin_at(last.last + 1);
        }
    }

    fn acquire_batch(&mut self, job: &mut Acquisition<'_>, at: usize) {
        let batch = &mut self.batches[at];
        let is_throttled = job.throttle.concerns(batch, job.base, job.last);
        if is_throttled && job.count > 0 {
            job.max = 0;
            return;
        }
        let whole = batch.as_whole();
        if whole.is_some_and(|status| !status.is_available()) {
            return;
        }
        let is_too_long = job.is_record_limit && batch.len() > job.max - job.count;
        match whole.filter(|_| !is_throttled && !is_too_long && batch.is_within(job.base, job.last))
        {
            Some(status) => {
                let status = status.acquired(job.member, job.until);
                batch.set_whole(status);
                job.take(AcquiredRange {
                    first: batch.first,
                    last: batch.last,
                    delivery_count: status.count,
                });
            }
            None => {
                let count = job.count;
                job.acquire_by_offset(batch);
                if is_throttled && job.count > count {
                    job.max = 0;
                }
            }
        }
    }

    /// Archives the acquired records of aborted transactions. Records that were not acquired keep
    /// their state, even if a batch of an aborted transaction covers them. The next record of this
    /// share partition's state has the new delivery complete count. In Kafka the archived records
    /// count as lag until the group's next change.
    fn archive_aborted(&mut self, aborted: &[LogBatch]) {
        for batch in aborted {
            self.has_unwritten |=
                self.archive(batch.base, batch.last, super::status::Status::is_acquired);
        }
    }

    /// Notes that the holes before this offset were acquired, or have no records: the holes begin
    /// there, or are closed.
    pub(super) fn holes_begin_at(&mut self, offset: i64) {
        self.holes = self.open_holes().filter(|it| offset <= it.end);
        if let Some(holes) = &mut self.holes {
            holes.first = offset;
        }
    }
}

impl Acquisition<'_> {
    /// Whether more records may be acquired.
    pub(super) fn is_open(&self) -> bool {
        self.count < self.max
    }

    pub(super) fn take(&mut self, range: AcquiredRange) {
        self.count += range.last - range.first + 1;
        self.acquired.push(range);
    }
}
