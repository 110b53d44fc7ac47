//! The rules of share groups: one member at a time holds a record, until the record is done.
//!
//! An acquisition took effect at some moment between the sending of its ShareFetch and the arrival
//! of the answer. An acknowledgement took effect between its sending and its answer. An acquired
//! record is locked for the group's lock duration, unless the member acknowledges it or its session
//! ends. A broker may end a session before the member learns of it. So a lock is certain only once
//! a later request of the session was answered.
//!
//! - `acquired-twice`: a record was acquired while another session certainly had it locked.
//! - `delivered-after-acknowledged`: a record was accepted or rejected, and this was answered
//!   without error. A fetch that was sent later acquired the record again.
//! - `acknowledged-without-lock`: an acceptance or rejection was answered without error, although
//!   another member had acquired the record before.
//! - `delivery-limit-exceeded`: a record was delivered more often than the group allows.
//! - `delivery-count-stuck`: the delivery count did not rise, though the broker kept the share
//!   partition in memory from one delivery to the next. (This is certain if the session of the
//!   later delivery began before the earlier delivery. A broker that loads the share partition
//!   again may not know the earlier count, because the count is not durable before the acquisition
//!   ends.)
//! - `delivery-count-jumped`: the count rose by more than one, and no fetch was lost that may have
//!   acquired the record in between.
//! - `record-lost`: the start offset of the share partition is after a record that no member has
//!   accepted or rejected, and that has not reached the delivery limit.
//! - `start-offset-went-back`: the start offset is less than one that was read before.
//!
//! If a leader refuses a member, the member may have acquired records from a broker that is no
//! longer the leader. Locks from before the refusal are not judged.

mod log;
mod records;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use self::log::Log;
use self::rules::{Contest, Jump};
use super::found::Found;
use crate::event::{AcknowledgedBatch, AcquiredBatch, Event, EventKind, Stop};
use crate::history::Group;
use crate::plan::{GroupIndex, MemberIndex, Partition};
use crate::time::Time;

/// Why a record could be delivered again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Freed {
    /// The member that held it crashed or lost its session, or the partition's leader changed.
    Crash,
    /// The member released it, or its session was closed.
    Release,
    /// The lock on the record expired.
    Expiry,
}

/// Records that were delivered again, and how long this took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Redelivered {
    pub after: Freed,
    pub took: Duration,
    pub records: u64,
}

/// The share groups of a run. Memory grows with the number of unfinished records, and by some bytes
/// for each second of a partition.
#[derive(Default)]
pub(super) struct Shares {
    groups: BTreeMap<GroupIndex, Sharing>,
    redelivered: Vec<Redelivered>,
}

/// One share group.
struct Sharing {
    group: Group,
    logs: BTreeMap<Partition, Log>,
    members: HashMap<MemberIndex, Member>,
    /// Records that two sessions acquired. It is a violation if the session that held the records
    /// first is found to have been alive still.
    contests: Vec<Contest>,
    /// Suspected violations, which are confirmed if no fetch was lost meanwhile.
    jumps: Vec<Jump>,
}

#[derive(Default)]
struct Member {
    /// The partitions that the member was assigned since it started.
    assigned: BTreeSet<Partition>,
    /// For each live session, when its first answer arrived.
    sessions: BTreeMap<u32, Time>,
    acknowledging: BTreeMap<u32, Acknowledging>,
}

struct Acknowledging {
    sent: Time,
    batches: std::sync::Arc<[AcknowledgedBatch]>,
}

/// A fetch that returned records.
#[derive(Clone, Copy)]
struct Fetch<'a> {
    event: &'a Event,
    session: u32,
    sent: Time,
    arrived: Time,
    lock: Duration,
}

impl Shares {
    pub(super) fn observe(&mut self, event: &Event, group: &Group, found: &mut Found) {
        let is_new = matches!(event.kind, EventKind::Acquired { .. } | EventKind::Assigned { .. });
        if is_new && group.delivery_limit > 0 {
            self.groups.entry(group.index).or_insert_with(|| Sharing::new(group));
        }
        if let Some(sharing) = self.groups.get_mut(&event.group) {
            sharing.observe(event, &mut self.redelivered, found);
        }
    }

    pub(super) fn take_redelivered(&mut self) -> Vec<Redelivered> {
        std::mem::take(&mut self.redelivered)
    }

    pub(super) fn finish(&mut self, found: &mut Found) {
        self.groups.values_mut().for_each(|group| group.settle(Time::MAX, found));
    }
}

impl Sharing {
    fn new(group: &Group) -> Self {
        Self {
            group: group.clone(),
            logs: BTreeMap::new(),
            members: HashMap::new(),
            contests: Vec::new(),
            jumps: Vec::new(),
        }
    }

    fn observe(&mut self, event: &Event, again: &mut Vec<Redelivered>, found: &mut Found) {
        let member = event.member;
        match &event.kind {
            EventKind::Assigned { partitions, .. } => {
                self.member(member).assigned.extend(partitions.iter());
            }
            EventKind::Acquired { session, sent, arrived, lock_ms, batches } => {
                let (session, sent, arrived) = (*session, *sent, *arrived);
                let lock = Duration::from_millis((*lock_ms).into());
                let fetch = Fetch { event, session, sent, arrived, lock };
                self.acquired(&fetch, batches, again, found);
            }
            EventKind::SessionAnswered { session, sent } => {
                self.session_lives(member, *session, *sent, event.at, found);
            }
            EventKind::SessionEnded { session, closed } => {
                self.session_ended(event, *session, *closed);
            }
            EventKind::LeaderLost { partitions } => {
                partitions.iter().for_each(|partition| self.log(*partition).reloaded(event.at));
                self.contests.retain(|contest| !partitions.contains(&contest.partition));
            }
            EventKind::AcknowledgeSent { id, batches, .. } => {
                self.acknowledge_sent(event, *id, batches);
            }
            EventKind::Acknowledged { id, refused } => {
                self.acknowledged(event, *id, refused, found);
            }
            EventKind::AcknowledgeUnknown { id } => {
                self.member(member).acknowledging.remove(id);
            }
            EventKind::Stopped { how } => self.stopped(event, *how),
            EventKind::Failed { .. } => self.stopped(event, Stop::Crash),
            EventKind::StartOffsets { sent, offsets } => {
                let read = offsets.iter().filter(|(_, offset)| *offset >= 0);
                read.for_each(|(partition, offset)| {
                    self.starts_at(event, *sent, *partition, *offset, found);
                });
            }
            // If a group with this name is created later, it has nothing to do with the deleted
            // group.
            EventKind::GroupDeleted { .. } => *self = Self::new(&self.group),
            // Other events do not concern the records of share groups.
            _ => {}
        }
        self.settle(event.at, found);
    }

    fn member(&mut self, index: MemberIndex) -> &mut Member {
        self.members.entry(index).or_default()
    }

    fn log(&mut self, partition: Partition) -> &mut Log {
        self.logs.entry(partition).or_default()
    }

    fn acquired(
        &mut self,
        fetch: &Fetch<'_>,
        batches: &[AcquiredBatch],
        again: &mut Vec<Redelivered>,
        found: &mut Found,
    ) {
        let Fetch { event, session, sent, arrived, .. } = *fetch;
        let opened = *self.member(event.member).sessions.entry(session).or_insert(arrived);
        self.session_lives(event.member, session, sent, arrived, found);
        for batch in batches {
            let log = self.logs.entry(batch.partition).or_default();
            let seen = log.acquired(fetch, opened, batch, again);
            for before in seen {
                self.judge(fetch, opened, batch, &before, found);
            }
        }
    }

    /// Notes that a request of the session, sent at `sent`, was answered at `arrived`.
    fn session_lives(
        &mut self,
        member: MemberIndex,
        session: u32,
        sent: Time,
        arrived: Time,
        found: &mut Found,
    ) {
        self.member(member).sessions.entry(session).or_insert(arrived);
        self.confirm(member, session, sent, found);
    }

    fn session_ended(&mut self, event: &Event, session: u32, closed: bool) {
        let member = self.member(event.member);
        member.sessions.remove(&session);
        if !closed {
            let assigned = Vec::from_iter(member.assigned.iter().copied());
            assigned.into_iter().for_each(|partition| self.log(partition).fetch_lost(event.at));
        }
        let why = if closed { Freed::Release } else { Freed::Crash };
        for log in self.logs.values_mut() {
            log.free(event.member, Some(session), why, event.at);
        }
        self.contests.retain(|it| (it.holder, it.session) != (event.member, session));
    }

    fn stopped(&mut self, event: &Event, how: Stop) {
        let Some(member) = self.members.remove(&event.member) else { return };
        if how == Stop::Crash {
            member.assigned.iter().for_each(|partition| self.log(*partition).fetch_lost(event.at));
        }
        for log in self.logs.values_mut() {
            log.free(event.member, None, Freed::Crash, event.at);
        }
        self.contests.retain(|contest| contest.holder != event.member);
    }

    fn acknowledge_sent(
        &mut self,
        event: &Event,
        id: u32,
        batches: &std::sync::Arc<[AcknowledgedBatch]>,
    ) {
        for batch in batches.iter() {
            self.log(batch.partition).acknowledging(event, batch);
        }
        let acknowledging = Acknowledging { sent: event.at, batches: batches.clone() };
        self.member(event.member).acknowledging.insert(id, acknowledging);
    }

    fn acknowledged(
        &mut self,
        event: &Event,
        id: u32,
        refused: &[(Partition, i16)],
        found: &mut Found,
    ) {
        let Some(sent) = self.member(event.member).acknowledging.remove(&id) else { return };
        for batch in sent.batches.iter() {
            if !refused.iter().any(|(partition, _)| *partition == batch.partition) {
                let stolen = self.log(batch.partition).acknowledged(event, sent.sent, batch);
                self.judge_acknowledged(event, batch, stolen, found);
            }
        }
    }
}
