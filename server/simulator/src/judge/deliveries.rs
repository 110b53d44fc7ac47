//! The reports of members of share groups on their records (KIP-932):
//!
//! - a record is never acquired by two members whose locks both stand;
//! - none is delivered once it was accepted or rejected with an answer, and none that was aborted;
//! - none is delivered more often than the limit allows;
//! - at the end each that was committed is done, or was delivered as often as the limit allows.

use crate::client::{Acknowledgement, Delivery, Kind, Number};
use std::collections::BTreeMap;

/// The time of a report, and of the request whose answer it is, in µs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    pub(crate) client: u32,
    pub(crate) sent: u64,
    pub(crate) now: u64,
}

/// The reports of all groups.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    groups: BTreeMap<String, Group>,
    delivery_limit: i16,
    /// When locks were last gone, in µs.
    restarted: u64,
}

#[derive(Debug, Default)]
struct Group {
    locks: BTreeMap<(i32, i64), Lock>,
    /// The records that were delivered, by partition.
    records: BTreeMap<(i32, Number), Record>,
    /// The fetches that were not answered, by partition.
    lost: BTreeMap<i32, i64>,
}

/// A lock that surely stands.
#[derive(Debug)]
struct Lock {
    client: u32,
    /// When the answer came.
    since: u64,
    until: u64,
    lock_ms: i32,
}

#[derive(Debug)]
struct Record {
    offset: i64,
    done: Done,
    count: i16,
}

#[derive(Debug, PartialEq, Eq)]
enum Done {
    No,
    Maybe,
    Yes,
}

/// Clocks of shards count milliseconds.
const ROUNDING: u64 = 2_000;

impl Deliveries {
    pub(crate) fn set_limit(&mut self, delivery_limit: i16) {
        self.delivery_limit = delivery_limit;
    }

    /// # Errors
    /// The report contradicts earlier ones.
    pub(crate) fn observe(
        &mut self,
        group: &str,
        at: Reported,
        delivery: Delivery,
    ) -> Result<(), String> {
        let group = self.groups.entry(group.to_owned()).or_default();
        match delivery {
            Delivery::Acquired { partition, offset, number, count, lock_ms } => {
                if !(1..=self.delivery_limit).contains(&count) {
                    return Err(format!("{partition}-{offset} is delivered for time {count}"));
                }
                group.lock((partition, offset), at, lock_ms, self.restarted)?;
                number.map_or(Ok(()), |it| group.deliver((partition, it), offset, count))
            }
            Delivery::Acknowledging { partition, offset } => {
                if let Some(lock) = group.locks.get_mut(&(partition, offset)) {
                    lock.until = 0;
                }
                Ok(())
            }
            Delivery::Acknowledged(it) => {
                group.acknowledged(it, at);
                Ok(())
            }
            Delivery::Unknown(it) => {
                group.note_done(it, Done::Maybe);
                Ok(())
            }
            Delivery::Lost { partition } => {
                *group.lost.entry(partition).or_default() += 1;
                Ok(())
            }
            Delivery::LetGo { partition } => {
                group.locks.retain(|at_, lock| at_.0 != partition || lock.client != at.client);
                Ok(())
            }
        }
    }

    /// A shard has ended, or was loaded again: there are no locks, also of answers on their way.
    pub(crate) fn note_restart(&mut self, now: u64) {
        self.restarted = now;
        self.groups.values_mut().for_each(|group| group.locks.clear());
    }

    /// Checks that each group has done the committed numbers of a transactor, those before `end`,
    /// in all partitions.
    ///
    /// # Errors
    /// It has not.
    pub(crate) fn check_done(&self, id: u32, end: i64, partitions: i32) -> Result<(), String> {
        for (name, group) in &self.groups {
            for partition in 0..partitions {
                for number in (0..end).map(|number| Number { id, number }) {
                    if !group.is_done((partition, number), self.delivery_limit) {
                        let record = group.records.get(&(partition, number));
                        return Err(format!(
                            "{name} has not done {number:?} of partition {partition}: {record:?}"
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Group {
    fn lock(
        &mut self,
        offset: (i32, i64),
        at: Reported,
        lock_ms: i32,
        restarted: u64,
    ) -> Result<(), String> {
        let other = self.locks.get(&offset).filter(|lock| lock.client != at.client);
        if let Some(Lock { client, .. }) = other.filter(|it| it.covers(at)) {
            return Err(format!("{offset:?} is acquired, while client {client} has a lock on it"));
        }
        // An answer that came late may be of an earlier lock.
        let is_late = other.is_some_and(|it| at.sent < it.since);
        let is_over = is_late || at.sent <= restarted;
        let until = if is_over { 0 } else { lock_end(at, lock_ms) };
        let lock = Lock { client: at.client, since: at.now, until, lock_ms };
        self.locks.insert(offset, lock);
        Ok(())
    }

    fn deliver(&mut self, of: (i32, Number), offset: i64, count: i16) -> Result<(), String> {
        let new = Record { offset, done: Done::No, count };
        let record = self.records.entry(of).or_insert(new);
        if record.offset != offset {
            return Err(format!("{of:?} is at {} and at {offset}: one was aborted", record.offset));
        }
        if record.done == Done::Yes {
            return Err(format!("{of:?} is delivered again, though it was acknowledged"));
        }
        record.count = record.count.max(count);
        Ok(())
    }

    fn acknowledged(&mut self, it: Acknowledgement, at: Reported) {
        match it.kind {
            Kind::Accept | Kind::Reject => self.note_done(it, Done::Yes),
            Kind::Gap | Kind::Release => {}
            Kind::Renew => {
                if let Some(lock) = self.locks.get_mut(&(it.partition, it.offset))
                    && lock.client == at.client
                {
                    lock.until = lock_end(at, lock.lock_ms);
                }
            }
        }
    }

    fn note_done(&mut self, it: Acknowledgement, done: Done) {
        let Some(number) = it.number else { return };
        if !matches!(it.kind, Kind::Accept | Kind::Reject) {
            return;
        }
        if let Some(record) = self.records.get_mut(&(it.partition, number))
            && record.done != Done::Yes
        {
            record.done = done;
        }
    }

    /// Those that no member has seen may have been in answers that were lost.
    fn is_done(&self, of: (i32, Number), limit: i16) -> bool {
        let lost = self.lost.get(&of.0).copied().unwrap_or_default();
        let (done, count) =
            self.records.get(&of).map_or((false, 0), |it| (it.done != Done::No, it.count));
        done || i64::from(count) + lost >= i64::from(limit)
    }
}

impl Lock {
    /// Whether it stood from a request to its answer.
    fn covers(&self, at: Reported) -> bool {
        self.since <= at.sent && at.now < self.until
    }
}

fn lock_end(at: Reported, lock_ms: i32) -> u64 {
    (at.sent + u64::from(lock_ms.unsigned_abs()) * 1_000).saturating_sub(ROUNDING)
}
