//! The reports of members of share groups on their records (KIP-932), converted to events for the
//! checker of `loadgen`. This module has two more rules, which need knowledge of the whole world:
//!
//! - no record of an aborted transaction is delivered;
//! - at the end each committed record is finished, or was delivered as often as the limit allows.
//!
//! The checker identifies a record by its number, not by its offset: after a power loss another
//! record may have the offset of a lost record.

use crate::client::{Acknowledgement, Delivery, Kind, Number};
use loadgen::event::{Acknowledge, AcknowledgedBatch, AcquiredBatch, Event, EventKind, OBSERVER};
use loadgen::history::{Group as CheckedGroup, Kind as CheckedKind};
use loadgen::plan::{GroupIndex, MemberIndex, Partition, TopicIndex};
use loadgen::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time of a report, and the time of the request that it belongs to, in µs.
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
    partitions: i32,
}

#[derive(Debug)]
struct Group {
    index: GroupIndex,
    /// The records that were delivered, by partition and number.
    records: BTreeMap<(i32, Number), Record>,
    /// The number of fetches that were not answered, by partition.
    lost: BTreeMap<i32, i64>,
}

#[derive(Debug)]
struct Record {
    offset: i64,
    may_be_done: bool,
    count: i16,
}

/// The number of the first share group. The groups of `loadgen`'s members have lower numbers.
const FIRST_GROUP: u32 = 1 << 16;

impl Deliveries {
    /// Expects share groups with these names from now on. Returns their descriptions for the
    /// checker.
    pub(crate) fn expect_groups(
        &mut self,
        names: impl Iterator<Item = String>,
        delivery_limit: i16,
        partitions: i32,
    ) -> Vec<CheckedGroup> {
        (self.delivery_limit, self.partitions) = (delivery_limit, partitions);
        for (name, index) in names.zip(FIRST_GROUP..) {
            let (records, lost) = (BTreeMap::new(), BTreeMap::new());
            self.groups.insert(name, Group { index: GroupIndex(index), records, lost });
        }
        let checked = |(name, group): (&String, &Group)| CheckedGroup {
            index: group.index,
            id: name.as_str().into(),
            protocol: CheckedKind::Share,
            session_timeout: Duration::ZERO,
            rebalance_timeout: Duration::ZERO,
            partitions: partitions.unsigned_abs(),
            clock_error: Duration::ZERO,
            delivery_limit: u32::from(delivery_limit.unsigned_abs()),
        };
        self.groups.iter().map(checked).collect()
    }

    /// Notes a report. Returns its event for the checker, if there is an event for this kind of
    /// report.
    ///
    /// # Errors
    /// The report contradicts earlier reports.
    pub(crate) fn observe(
        &mut self,
        group: &str,
        at: Reported,
        delivery: Delivery,
    ) -> Result<Option<Event>, String> {
        let group = self.groups.get_mut(group).ok_or("an unknown group")?;
        group.note(delivery)?;
        let kind = event_kind(self.partitions, at, delivery);
        let event = |kind| Event {
            at: Time::from_micros(at.now),
            group: group.index,
            member: MemberIndex(at.client),
            kind,
        };
        Ok(kind.map(event))
    }

    /// The events of each group when a shard has ended, or was loaded again. All locks are lost,
    /// including those in answers that are still on their way.
    pub(crate) fn restarted(&self, at: Time) -> Vec<Event> {
        let partitions = checked_partitions(self.partitions).into();
        let kind = EventKind::LeaderLost { partitions };
        let event =
            |group: &Group| Event { at, group: group.index, member: OBSERVER, kind: kind.clone() };
        self.groups.values().map(event).collect()
    }

    /// Checks that each group has finished the numbers 0 to `end` (exclusive), which the transactor
    /// `id` has committed, in all partitions.
    ///
    /// # Errors
    /// A group has not finished a number.
    pub(crate) fn check_done(&self, id: u32, end: i64) -> Result<(), String> {
        for (name, group) in &self.groups {
            for partition in 0..self.partitions {
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
    fn note(&mut self, delivery: Delivery) -> Result<(), String> {
        match delivery {
            Delivery::Acquired { partition, offset, number: Some(number), count, .. } => {
                self.deliver((partition, number), offset, count)
            }
            Delivery::Acknowledged(it) | Delivery::Unknown(it) => {
                self.note_done(it);
                Ok(())
            }
            Delivery::Lost { partition } => {
                *self.lost.entry(partition).or_default() += 1;
                Ok(())
            }
            Delivery::Began
            | Delivery::Acquired { number: None, .. }
            | Delivery::Answered { .. }
            | Delivery::Acknowledging(_)
            | Delivery::SessionEnded { .. } => Ok(()),
        }
    }

    fn deliver(&mut self, of: (i32, Number), offset: i64, count: i16) -> Result<(), String> {
        let new = Record { offset, may_be_done: false, count };
        let record = self.records.entry(of).or_insert(new);
        if record.offset != offset {
            return Err(format!("{of:?} is at {} and at {offset}: one was aborted", record.offset));
        }
        record.count = record.count.max(count);
        Ok(())
    }

    fn note_done(&mut self, it: Acknowledgement) {
        let Some(number) = it.number else { return };
        if let Some(record) = self.records.get_mut(&(it.partition, number)) {
            record.may_be_done |= matches!(it.kind, Kind::Accept | Kind::Reject);
        }
    }

    /// Whether a record is finished, or may have been delivered `limit` times. Each unanswered
    /// fetch may have delivered it.
    fn is_done(&self, of: (i32, Number), limit: i16) -> bool {
        let lost = self.lost.get(&of.0).copied().unwrap_or_default();
        let record = self.records.get(&of);
        let count = record.map_or(0, |it| it.count);
        record.is_some_and(|it| it.may_be_done) || i64::from(count) + lost >= i64::from(limit)
    }
}

/// The event of a report; None if the checker needs none.
fn event_kind(partitions: i32, at: Reported, delivery: Delivery) -> Option<EventKind> {
    let sent = Time::from_micros(at.sent);
    Some(match delivery {
        Delivery::Began => {
            EventKind::Assigned { epoch: 0, partitions: checked_partitions(partitions).into() }
        }
        Delivery::Answered { session } => EventKind::SessionAnswered { session, sent },
        Delivery::SessionEnded { session, closed } => EventKind::SessionEnded { session, closed },
        Delivery::Acquired { session, partition, number, count, lock_ms, .. } => {
            EventKind::Acquired {
                session,
                sent,
                arrived: Time::from_micros(at.now),
                lock_ms: lock_ms.unsigned_abs(),
                batches: [acquired(partition, number?, count)].into(),
            }
        }
        Delivery::Acknowledging(it) => EventKind::AcknowledgeSent {
            id: it.id,
            session: it.session,
            batches: [acknowledged(it)?].into(),
        },
        Delivery::Acknowledged(it) => EventKind::Acknowledged { id: it.id, refused: [].into() },
        Delivery::Unknown(it) => EventKind::AcknowledgeUnknown { id: it.id },
        Delivery::Lost { .. } => return None,
    })
}

fn acquired(partition: i32, number: Number, deliveries: i16) -> AcquiredBatch {
    let at = checked_offset(number);
    AcquiredBatch { partition: checked_partition(partition), first: at, last: at, deliveries }
}

/// The acknowledgement for the checker; None for gaps and for renewed locks, which the checker does
/// not know.
fn acknowledged(it: Acknowledgement) -> Option<AcknowledgedBatch> {
    let how = match it.kind {
        Kind::Accept => Acknowledge::Accept,
        Kind::Release => Acknowledge::Release,
        Kind::Reject => Acknowledge::Reject,
        Kind::Gap | Kind::Renew => return None,
    };
    let at = checked_offset(it.number?);
    let partition = checked_partition(it.partition);
    Some(AcknowledgedBatch { partition, first: at, last: at, how })
}

fn checked_partitions(count: i32) -> Vec<Partition> {
    (0..count).map(checked_partition).collect()
}

fn checked_partition(number: i32) -> Partition {
    Partition { topic: TopicIndex(0), number: number.unsigned_abs() }
}

/// The offset by which the checker knows a record.
fn checked_offset(Number { id, number }: Number) -> i64 {
    number << 32 | i64::from(id)
}
