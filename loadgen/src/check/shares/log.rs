//! A share partition as its members have seen it: runs of records with equal state.

use std::collections::BTreeMap;

use super::records::{Hold, Records};
use super::{Fetch, Freed, Redelivered};
use crate::event::{Acknowledge, AcknowledgedBatch, AcquiredBatch, Event};
use crate::plan::MemberIndex;
use crate::time::Time;

/// Runs of finished records are joined if they finished in the same second. The joined run keeps
/// only the latest time.
const JOINED_MICROS: u64 = 1_000_000;

#[derive(Default)]
pub(super) struct Log {
    /// The runs by their first offsets; they do not overlap.
    runs: BTreeMap<i64, Run>,
    /// The last time when a fetch that may have acquired records was lost, or when the leader may
    /// have changed.
    pub(super) lost: Option<Time>,
    /// The number of fetches that may have acquired records and were lost. A possible change of the
    /// leader counts as a lost fetch, too.
    pub(super) lost_count: u32,
    /// The last time when the leader of the share partition may have changed.
    pub(super) reloaded: Time,
    /// The start offset that was read last, and the time of the read.
    pub(super) start: Option<(i64, Time)>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Run {
    pub(super) last: i64,
    pub(super) of: Records,
}

/// Records of a run that an event concerns, with their state before the event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Part {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) of: Records,
}

impl Part {
    pub(super) fn count(&self) -> u64 {
        (self.last - self.first + 1) as u64
    }
}

impl Log {
    /// Notes that records were acquired. Returns them in parts, with their state before.
    pub(super) fn acquired(
        &mut self,
        fetch: &Fetch<'_>,
        opened: Time,
        batch: &AcquiredBatch,
        again: &mut Vec<Redelivered>,
    ) -> Vec<Part> {
        let parts = self.take(batch.first, batch.last);
        let hold = Hold {
            member: fetch.event.member,
            session: fetch.session,
            opened,
            sent: fetch.sent,
            arrived: fetch.arrived,
            lock: fetch.lock,
        };
        for part in &parts {
            if let Some((after, took)) = part.of.waited(fetch.arrived) {
                again.push(Redelivered { after, took, records: part.count() });
            }
            let of = part.of.acquired(hold, batch.deliveries);
            self.runs.insert(part.first, Run { last: part.last, of });
        }
        parts
    }

    /// Notes that an acknowledgement was sent. From now on the lock may be released.
    pub(super) fn acknowledging(&mut self, event: &Event, batch: &AcknowledgedBatch) {
        for part in self.take(batch.first, batch.last) {
            let of = part.of.acknowledging(event.member, batch.how, event.at);
            self.runs.insert(part.first, Run { last: part.last, of });
        }
    }

    /// Notes that an acknowledgement was answered without error. Returns those of its records that
    /// another member had acquired before the acknowledgement was sent, and still holds. (Records
    /// that the other member has released or acknowledged are not returned. Acknowledged records
    /// may be before the start offset by now, where acknowledgements have no effect.)
    pub(super) fn acknowledged(
        &mut self,
        event: &Event,
        sent: Time,
        batch: &AcknowledgedBatch,
    ) -> Vec<Part> {
        let mut stolen = Vec::new();
        for part in self.take(batch.first, batch.last) {
            let holder = part.of.held().filter(|hold| hold.member != event.member);
            if batch.how != Acknowledge::Release && holder.is_some_and(|hold| hold.arrived < sent) {
                stolen.push(part);
            }
            let of = part.of.acknowledged(event.member, batch.how, event.at);
            self.insert(part.first, Run { last: part.last, of });
        }
        stolen
    }

    /// Ends the member's locks of this session, or of all its sessions.
    pub(super) fn free(&mut self, member: MemberIndex, session: Option<u32>, why: Freed, at: Time) {
        for run in self.runs.values_mut() {
            let its = |hold: &Hold| {
                hold.member == member && session.is_none_or(|session| hold.session == session)
            };
            if run.of.hold.as_ref().is_some_and(its) {
                run.of.free(why, at);
            }
        }
    }

    pub(super) fn fetch_lost(&mut self, at: Time) {
        self.lost = Some(at);
        self.lost_count += 1;
    }

    /// Ends all locks: the partition may have a new leader, which knows only durable state.
    pub(super) fn reloaded(&mut self, at: Time) {
        self.reloaded = at;
        self.fetch_lost(at);
        for run in self.runs.values_mut() {
            run.of.free(Freed::Crash, at);
        }
    }

    /// The records before this offset that are certainly unfinished: no acknowledgement may have
    /// finished them, and they cannot have reached the delivery limit.
    pub(super) fn unfinished(&self, before: i64, limit: u32) -> Vec<Part> {
        let mut next = 0;
        let mut unfinished = Vec::new();
        let mut push = |first: i64, last: i64, of: Records| {
            let last = last.min(before - 1);
            if first <= last && !of.may_be_done(limit, self.lost_count) {
                unfinished.push(Part { first, last, of });
            }
        };
        for (first, run) in self.runs.range(..before) {
            push(next, first - 1, Records::default());
            push(*first, run.last, run.of);
            next = run.last + 1;
        }
        push(next, before - 1, Records::default());
        unfinished
    }

    #[cfg(test)]
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Removes these records and returns them as parts with equal state. Unknown records are parts,
    /// too.
    fn take(&mut self, first: i64, last: i64) -> Vec<Part> {
        self.split(first);
        self.split(last.saturating_add(1));
        let known = Vec::from_iter(self.runs.range(first..=last).map(|(at, run)| (*at, *run)));
        let (mut parts, mut next) = (Vec::new(), first);
        for (at, run) in known {
            if next < at {
                parts.push(Part { first: next, last: at - 1, of: Records::default() });
            }
            parts.push(Part { first: at, last: run.last, of: run.of });
            next = run.last + 1;
            self.runs.remove(&at);
        }
        if next <= last {
            parts.push(Part { first: next, last, of: Records::default() });
        }
        parts
    }

    /// Splits the run that contains this offset, so that a run begins here.
    fn split(&mut self, at: i64) {
        let Some((_, run)) = self.runs.range_mut(..at).next_back() else { return };
        if run.last >= at {
            let after = *run;
            run.last = at - 1;
            self.runs.insert(at, after);
        }
    }

    /// Inserts a run of finished records, and merges it with equal runs before and after it.
    fn insert(&mut self, mut first: i64, mut run: Run) {
        if let Some((at, before)) = self.runs.range(..first).next_back()
            && before.last + 1 == first
            && let Some(joined) = joined(before, &run)
        {
            (first, run) = (*at, Run { last: run.last, of: joined });
        }
        if let Some(after) = self.runs.get(&(run.last + 1))
            && let Some(joined) = joined(&run, after)
        {
            let end = after.last;
            self.runs.remove(&(run.last + 1));
            run = Run { last: end, of: joined };
        }
        self.runs.insert(first, run);
    }
}

fn joined(one: &Run, other: &Run) -> Option<Records> {
    let (one, other) = (one.of.done?, other.of.done?);
    let second = |at: Time| at.micros() / JOINED_MICROS;
    (second(one) == second(other)).then(|| Records::done(one.max(other)))
}
