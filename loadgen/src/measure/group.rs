//! The measures of one group: the owners of its partitions, since when it is stable, and its
//! rebalances.

mod owners;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::GroupStatus;
use super::member::{Holder, Member};
use super::rebalance::{Open, Shared, why};
use super::sharing::Sharing;
use crate::event::{Event, EventKind, Stop, is_held};
use crate::history::{Group, Kind};
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

/// A change without a trigger begins a new rebalance if the group was stable for longer than this.
/// After a shorter time, the rebalance that is still open continues.
const APART: Duration = Duration::from_secs(2);

pub(super) struct GroupMeasure {
    group: Group,
    members: HashMap<MemberIndex, Member>,
    partitions: HashMap<Partition, Holder>,
    /// For share groups: how many members own each partition. `partitions` then stays empty.
    sharing: Sharing,
    /// Members that have no partitions now, but had some before or may still get some.
    waiting: BTreeSet<MemberIndex>,
    live: u32,
    settled: u32,
    owned: u32,
    failed: u32,
    joined: u32,
    /// The number of live members that lost their connection and have not been answered since.
    cut_off: u32,
    /// How often a member joined again after it had been fenced.
    pub(super) rejoined: u64,
    epoch: i32,
    stable_since: Option<Time>,
    /// Partition-microseconds without an owner, up to `unowned_until`.
    unowned_micros: u128,
    unowned_until: Time,
    /// Triggers that are later than all events so far, so they have not taken effect.
    triggers: VecDeque<(Time, String)>,
    open: Option<Open>,
}

impl GroupMeasure {
    pub(super) fn new(group: Group) -> Self {
        Self {
            group,
            members: HashMap::new(),
            partitions: HashMap::new(),
            sharing: Sharing::default(),
            waiting: BTreeSet::new(),
            live: 0,
            settled: 0,
            owned: 0,
            failed: 0,
            joined: 0,
            cut_off: 0,
            rejoined: 0,
            epoch: 0,
            stable_since: None,
            unowned_micros: 0,
            unowned_until: Time::ZERO,
            triggers: VecDeque::new(),
            open: None,
        }
    }

    pub(super) fn id(&self) -> &Arc<str> {
        &self.group.id
    }

    pub(super) fn is_of(&self, kind: Kind) -> bool {
        self.group.protocol == kind
    }

    pub(super) fn status(&self) -> GroupStatus {
        GroupStatus {
            live: self.live,
            settled: self.settled,
            owned: self.owned,
            partitions: self.group.partitions,
            epoch: self.epoch,
            stable_since: self.stable_since.filter(|_| self.triggers.is_empty()),
            rebalancing: self.open.is_some() || !self.triggers.is_empty(),
            failed: self.failed,
        }
    }

    pub(super) fn is_stable(&self) -> bool {
        self.stable_since.is_some()
    }

    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// The number of partitions without an owner, while the group has members to consume them.
    pub(super) fn unowned(&self) -> u32 {
        let consumed = self.live > 0 && self.group.protocol.has_members();
        if consumed { self.group.partitions.saturating_sub(self.owned) } else { 0 }
    }

    /// The number of live members that have their target assignment, but no partition, while some
    /// partitions have no owner.
    pub(super) fn idle(&self) -> u32 {
        if self.unowned() == 0 {
            return 0;
        }
        let is_idle = |it: &&Member| it.live && it.owns == 0 && it.settled.is_some();
        self.members.values().filter(is_idle).count() as u32
    }

    pub(super) fn trigger(&mut self, at: Time, label: &str) {
        self.triggers.push_back((at, label.into()));
    }

    /// Must be called when all events before `until` have been observed. Triggers up to this time
    /// then take effect. Returns whether there are later triggers.
    pub(super) fn advance(&mut self, until: Time, shared: &mut Shared<'_>) -> bool {
        while let Some((at, label)) = self.triggers.pop_front_if(|(at, _)| *at <= until) {
            let open = match self.open.take_if(|open| !open.prompted && open.began >= at) {
                // A rebalance without a trigger began at this time or later: events showed the
                // trigger's effect before the trigger was announced.
                Some(open) => Open { trigger: label, prompted: true, began: at, ..open },
                None => {
                    self.end(true, shared);
                    Open { populated: self.live > 0, ..Open::new(at, label, true) }
                }
            };
            self.open = Some(open);
        }
        !self.triggers.is_empty()
    }

    /// Ends the open rebalance and reports it. It is not reported if all members have left, because
    /// a group without members can't become stable.
    pub(super) fn end_rebalance(&mut self, shared: &mut Shared<'_>) {
        self.end(false, shared);
    }

    fn end(&mut self, by_next: bool, shared: &mut Shared<'_>) {
        if self.is_emptied() {
            self.open = None;
        }
        self.close(by_next, shared);
    }

    /// Whether all members have left during the open rebalance.
    pub(super) fn is_emptied(&self) -> bool {
        let populated = self.open.as_ref().is_some_and(|open| open.populated);
        populated && self.live == 0 && self.failed == 0
    }

    fn close(&mut self, by_next: bool, shared: &mut Shared<'_>) {
        let Some(open) = self.open.take() else { return };
        let gone_by_itself = !open.prompted && self.live == 0;
        if !gone_by_itself {
            let ended = open.ended(&self.group, self.live, self.stable_since, by_next);
            shared.rebalances.push(ended);
        }
    }

    pub(super) fn observe(&mut self, event: &Event, shared: &mut Shared<'_>) {
        self.advance(event.at, shared);
        // The common case, 100,000s of times a second: nothing changes.
        let changes_nothing = match event.kind {
            EventKind::Alive { epoch, .. } => epoch <= self.epoch,
            EventKind::Reached => true,
            _ => false,
        };
        if changes_nothing && self.cut_off == 0 {
            return;
        }
        self.account(event.at);
        self.change(event, shared);
        self.settle_state(event, shared);
    }

    /// Returns the maximum number of revocations of a member.
    pub(super) fn finish(&mut self, end: Time, shared: &mut Shared<'_>) -> u64 {
        self.advance(end, shared);
        self.account(end);
        self.close(false, shared);
        self.waits().for_each(|since| shared.pause(end.since(since)));
        self.members.values().map(|member| member.revocations).max().unwrap_or(0)
    }

    /// The times since which members have been waiting for partitions.
    pub(super) fn waits(&self) -> impl Iterator<Item = Time> {
        // Producers and readers never wait, because nothing is assigned to them.
        let waiting = self.waiting.iter().filter(|_| self.group.protocol.has_members());
        waiting.filter_map(|index| self.members.get(index)?.waits)
    }

    /// Partition-microseconds without an owner, up to `at`.
    pub(super) fn unowned_until(&self, at: Time) -> u128 {
        let passed = at.since(self.unowned_until).as_micros();
        self.unowned_micros + passed * u128::from(self.unowned())
    }

    fn account(&mut self, at: Time) {
        self.unowned_micros = self.unowned_until(at);
        self.unowned_until = self.unowned_until.max(at);
    }

    fn change(&mut self, event: &Event, shared: &mut Shared<'_>) {
        let (at, index) = (event.at, event.member);
        if event.kind.is_answer() {
            self.answered(index);
        }
        match &event.kind {
            EventKind::Started => self.started(index, at),
            EventKind::Stopped { how } => {
                self.ended(index);
                self.crashed(*how);
            }
            EventKind::Failed { .. } => {
                self.ended(index);
                self.failed += 1;
            }
            EventKind::Joining => self.unsettle(index),
            EventKind::Fenced { .. } => {
                self.out(index);
                self.member(index).fenced = true;
            }
            EventKind::Joined { epoch, .. } => {
                self.joined(index);
                self.reached(*epoch);
                self.detected(at);
            }
            EventKind::Epoch { epoch } => self.reached_at(*epoch, at),
            EventKind::Alive { epoch, .. } => self.reached(*epoch),
            EventKind::MustRebalance { .. } => {
                self.unsettle(index);
                self.detected(at);
            }
            EventKind::Assigned { epoch, partitions } => {
                self.reached(*epoch);
                self.assigned(index, at, partitions, shared);
                self.detected(at);
            }
            EventKind::Revoked { partitions } => {
                self.released(index, at, partitions);
                self.member(index).revocations += u64::from(!partitions.is_empty());
                self.detected(at);
            }
            EventKind::Lost { partitions }
            | EventKind::ClientRevoked { partitions }
            | EventKind::ClientLost { partitions } => self.released(index, at, partitions),
            EventKind::Settled { epoch } => self.settle(index, *epoch),
            EventKind::Statuses { codes } if is_held(codes) => {
                self.unsettle(index);
                self.detected(at);
            }
            EventKind::PartitionsGrew { partitions } => self.group.partitions = *partitions,
            EventKind::GroupDeleted { .. } => self.start_over(),
            EventKind::Disconnected => self.cut_off(index),
            EventKind::ClientAssigned { partitions } => {
                self.assigned(index, at, partitions, shared);
            }
            EventKind::ClientEnded { .. } => self.ended(index),
            EventKind::Reached
            | EventKind::InProcess { .. }
            | EventKind::Standbys { .. }
            | EventKind::Statuses { .. }
            | EventKind::ClientStarted { .. }
            | EventKind::ClientAlive
            | EventKind::CommitSent { .. }
            | EventKind::CommitAnswered { .. }
            | EventKind::CommitUnknown { .. }
            | EventKind::TransactionEnding { .. }
            | EventKind::TransactionEnded { .. }
            | EventKind::ReadingFrom { .. }
            | EventKind::Read { .. }
            | EventKind::Consumed { .. }
            | EventKind::Acquired { .. }
            | EventKind::SessionAnswered { .. }
            | EventKind::SessionEnded { .. }
            | EventKind::LeaderLost { .. }
            | EventKind::AcknowledgeSent { .. }
            | EventKind::Acknowledged { .. }
            | EventKind::AcknowledgeUnknown { .. }
            | EventKind::StartOffsets { .. }
            | EventKind::Fetched { .. }
            | EventKind::Refused { .. }
            | EventKind::RepeatDiffered { .. } => {}
        }
        self.with_open(|open| open.explain(&event.kind));
    }

    /// Computes whether the group is stable now. If it has become unstable, a rebalance begins,
    /// unless one is open. An open rebalance without a trigger ends first if the group was stable
    /// for longer than [`APART`].
    fn settle_state(&mut self, event: &Event, shared: &mut Shared<'_>) {
        let stable = self.live > 0
            && self.settled == self.live
            && self.cut_off == 0
            && self.owned == self.group.partitions
            && self.group.protocol.has_members();
        match (stable, self.stable_since) {
            (true, None) => {
                self.stable_since = Some(event.at);
                self.wait_no_more();
            }
            (false, Some(since)) => {
                if self.open.as_ref().is_some_and(|open| !open.prompted)
                    && event.at.since(since) > APART
                {
                    self.close(false, shared);
                }
                self.stable_since = None;
                if self.open.is_none() {
                    self.open = Some(Open::new(event.at, why(event).into(), false));
                    self.change_of_open(event);
                }
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Ends the waits of members when the group is stable: members that have no partitions then
    /// were not meant to have any.
    fn wait_no_more(&mut self) {
        for index in std::mem::take(&mut self.waiting) {
            self.member(index).waits = None;
        }
    }

    /// Notes that a member saw this epoch. If a member has crashed, this is also a sign that the
    /// coordinator has noticed the crash.
    fn reached_at(&mut self, epoch: i32, at: Time) {
        self.reached(epoch);
        self.detected(at);
    }

    /// Adds the event that has just opened a rebalance to the figures of this rebalance: a crash,
    /// or partitions that were revoked or lost.
    fn change_of_open(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Stopped { how } => self.crashed(*how),
            EventKind::Revoked { partitions } | EventKind::Lost { partitions } => {
                self.with_open(|open| open.revoked += partitions.len() as u32);
            }
            _ => {}
        }
    }

    fn member(&mut self, index: MemberIndex) -> &mut Member {
        self.members.entry(index).or_default()
    }

    fn started(&mut self, index: MemberIndex, at: Time) {
        self.ended(index);
        let member = self.member(index);
        member.live = true;
        member.waits = Some(at);
        self.waiting.insert(index);
        self.live += 1;
    }

    fn cut_off(&mut self, index: MemberIndex) {
        let Some(member) = self.members.get_mut(&index).filter(|member| member.live) else {
            return;
        };
        if !std::mem::replace(&mut member.cut_off, true) {
            self.cut_off += 1;
        }
    }

    fn answered(&mut self, index: MemberIndex) {
        let Some(member) = self.members.get_mut(&index) else { return };
        self.cut_off -= u32::from(std::mem::take(&mut member.cut_off));
    }

    fn ended(&mut self, index: MemberIndex) {
        self.out(index);
        self.answered(index);
        let member = self.members.entry(index).or_default();
        self.owned -= std::mem::take(&mut member.holds);
        member.life += 1;
        (member.owns, member.waits) = (0, None);
        if self.group.protocol == Kind::Share {
            self.sharing.ended(index);
            self.owned = self.sharing.owned();
        }
        self.waiting.remove(&index);
        if std::mem::take(&mut member.live) {
            self.live -= 1;
        }
    }

    fn joined(&mut self, index: MemberIndex) {
        let member = self.members.entry(index).or_default();
        if !std::mem::replace(&mut member.joined, true) {
            self.joined += 1;
        }
        self.rejoined += u64::from(std::mem::take(&mut member.fenced));
    }

    fn out(&mut self, index: MemberIndex) {
        self.unsettle(index);
        let member = self.members.entry(index).or_default();
        if std::mem::take(&mut member.joined) {
            self.joined -= 1;
            if self.joined == 0 {
                self.start_over();
            }
        }
    }

    /// Forgets the epochs, because a group without members may begin with the first epoch again.
    fn start_over(&mut self) {
        (self.epoch, self.settled) = (0, 0);
        self.members.values_mut().for_each(|member| member.settled = None);
    }

    fn reached(&mut self, epoch: i32) {
        if epoch > self.epoch {
            (self.epoch, self.settled) = (epoch, 0);
        }
    }

    fn settle(&mut self, index: MemberIndex, epoch: i32) {
        self.reached(epoch);
        self.unsettle(index);
        let newest = self.epoch;
        let member = self.member(index);
        if member.live {
            member.settled = Some(epoch);
            self.settled += u32::from(epoch == newest);
        }
    }

    fn unsettle(&mut self, index: MemberIndex) {
        let settled = self.member(index).settled.take();
        self.settled -= u32::from(settled == Some(self.epoch));
    }

    fn with_open(&mut self, change: impl FnOnce(&mut Open)) {
        if let Some(open) = &mut self.open {
            change(open);
        }
    }

    fn crashed(&mut self, how: Stop) {
        self.with_open(|open| open.crashed |= how == Stop::Crash);
    }

    fn detected(&mut self, at: Time) {
        self.with_open(|open| open.detected(at));
    }
}
