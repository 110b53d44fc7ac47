//! The state of one group and its members. It passes each event to the rules.

use std::collections::HashMap;
use std::sync::Arc;

use super::clients::Client;
use super::commits::Commits;
use super::epochs::{self, Epochs};
use super::found::Found;
use super::lease::{self, Alive, Generations};
use super::owners::{Owners, Rule, of_group};
use super::processes::Processes;
use crate::event::{Event, EventKind};
use crate::history::{Group, Kind};
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

pub(super) struct GroupState {
    facts: Facts,
    members: Members,
    owners: Owners,
    processes: Processes,
    commits: Commits,
}

/// The state of a group that all rules use.
pub(super) struct Facts {
    pub(super) group: Group,
    pub(super) generations: Generations,
    /// The epochs that the group as a whole has reached.
    pub(super) epochs: Epochs,
    /// The number of members that the coordinator has accepted, and that have not left since.
    joined: u32,
    /// The number of times that all members had left, or that the group was deleted. The
    /// coordinator may remove a group without members, and its epochs then begin again.
    pub(super) incarnation: u32,
    /// When the last deletion was requested, and when it was acknowledged.
    deleted: Option<(Time, Time)>,
    /// The last sign that the coordinator may have moved or been restarted.
    pub(super) shaken: Time,
}

pub(super) type Members = HashMap<MemberIndex, Member>;

#[derive(Default)]
pub(super) struct Member {
    /// The latest heartbeat that was answered without error since the member joined.
    pub(super) alive: Option<Alive>,
    /// The time when the heartbeat before the one in `alive` was sent.
    previous: Time,
    /// The earliest time at which a rebalance timeout of the member may have started; `None` if no
    /// timeout runs.
    pub(super) must_rebalance: Option<Time>,
    /// Set if an answer to the member may have been lost, until the member settles. It is the time
    /// when the last heartbeat that was answered before the loss was sent.
    unsure: Option<Time>,
    /// When the member began to join. `joined` is when it was accepted.
    pub(super) joining: Time,
    pub(super) joined: Time,
    is_in: bool,
    /// The last generation whose assignment the member has.
    pub(super) synced: i32,
    /// The last epoch in which the member had exactly its target assignment.
    pub(super) settled: i32,
    pub(super) epochs: Epochs,
    /// The number of times that the member lost all its partitions at once.
    pub(super) life: u32,
    /// Set for a real client, which is not simulated.
    pub(super) client: Option<Client>,
}

impl Member {
    /// Whether the coordinator has accepted the member, and the member has not left since.
    pub(super) fn is_in(&self) -> bool {
        self.is_in
    }
}

impl GroupState {
    pub(super) fn new(group: Group) -> Self {
        let facts = Facts {
            group,
            generations: Generations::default(),
            epochs: Epochs::default(),
            joined: 0,
            incarnation: 0,
            deleted: None,
            shaken: Time::ZERO,
        };
        Self {
            facts,
            members: Members::new(),
            owners: Owners::new(Rule::TwoOwners),
            processes: Processes::new(),
            commits: Commits::default(),
        }
    }

    pub(super) fn named(&self) -> &Group {
        &self.facts.group
    }

    pub(super) fn shaken(&mut self, at: Time) {
        self.facts.shaken = self.facts.shaken.max(at);
    }

    pub(super) fn observe(&mut self, event: &Event, found: &mut Found) {
        let (at, index) = (event.at, event.member);
        match &event.kind {
            EventKind::Alive { sent, epoch } => {
                self.alive(event, Alive { sent: *sent, at, epoch: *epoch }, found);
            }
            EventKind::Joining => self.joining(event, found),
            EventKind::Joined { epoch, .. } => self.joined(event, *epoch, found),
            EventKind::Epoch { .. } | EventKind::Reached | EventKind::Statuses { .. } => {}
            EventKind::Assigned { epoch, partitions } => {
                self.assigned(event, *epoch, partitions, found);
            }
            EventKind::InProcess { process } => self.processes.runs_in(index, *process),
            EventKind::Standbys { epoch, partitions } => {
                self.standbys(event, *epoch, partitions, found);
            }
            EventKind::Settled { epoch } => self.settled(index, at, *epoch),
            EventKind::MustRebalance { sent } => self.must_rebalance(index, *sent),
            EventKind::Revoked { partitions } | EventKind::Lost { partitions } => {
                self.released(event, partitions, found);
            }
            EventKind::Fenced { .. } => self.fenced(event, found),
            EventKind::Started | EventKind::Stopped { .. } | EventKind::Failed { .. } => {
                self.gone(event, found);
                self.commits.ended(index);
            }
            EventKind::CommitSent { id, epoch, offsets } => {
                let held = self.owners.holds_all(index, offsets, &self.members);
                self.commits.sent(event, *id, *epoch, offsets, held, &self.facts);
            }
            EventKind::CommitAnswered { id, refused } => {
                let until = self.certain_until(index);
                self.commits.answered(event, *id, refused, until, &self.facts, found);
            }
            EventKind::CommitUnknown { id } => self.commits.unknown(index, *id),
            // These events are checked over all groups.
            EventKind::TransactionEnding { .. }
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
            | EventKind::StartOffsets { .. } => {}
            EventKind::Fetched { sent, offsets } => {
                self.commits.fetched(event, *sent, offsets, &self.facts, found);
            }
            EventKind::Refused { error, .. } => self.refused(index, at, *error),
            EventKind::Disconnected => self.disconnected(index, at),
            EventKind::GroupDeleted { sent } => self.deleted(*sent, at),
            EventKind::PartitionsGrew { partitions } => self.facts.group.partitions = *partitions,
            EventKind::RepeatDiffered { .. } => self.repeat_differed(event, found),
            EventKind::ClientStarted { name } => self.client_started(index, name, at),
            EventKind::ClientAssigned { partitions } => {
                self.client_heard(index, at, found);
                self.owners.assigned(event, 0, partitions.iter().map(of_group), &mut self.members);
            }
            EventKind::ClientAlive => self.client_heard(index, at, found),
            EventKind::ClientRevoked { partitions } | EventKind::ClientLost { partitions } => {
                self.client_heard(index, at, found);
                self.owners.released(index, partitions.iter().map(of_group));
            }
            EventKind::ClientEnded { .. } => self.gone(event, found),
        }
    }

    pub(super) fn finish(&mut self, now: Time, found: &mut Found) {
        let mut members: Vec<_> = self.members.keys().copied().collect();
        members.sort_unstable();
        for index in members {
            self.judge_owners(index, now, found);
        }
    }

    fn member(&mut self, index: MemberIndex) -> &mut Member {
        self.members.entry(index).or_default()
    }

    fn alive(&mut self, event: &Event, alive: Alive, found: &mut Found) {
        let facts = &mut self.facts;
        let member = self.members.entry(event.member).or_default();
        epochs::judge_alive(event, alive, member, facts, found);
        let is_later = facts.deleted.is_some_and(|(_, at)| alive.sent > at);
        if is_later && facts.was_deleted_since(member.joined) {
            judge_deleted(event, alive, facts, found);
        }
        if matches!(facts.group.protocol, Kind::Classic | Kind::Migrating) {
            facts.generations.alive(alive.epoch, alive.sent);
            // Only a member that has the assignment of this generation sends heartbeats. So this
            // answer was to a join or a sync, which do not extend a lease.
            if member.synced != alive.epoch {
                return;
            }
        }
        member.epochs.reached(alive.epoch, event.at, event.member);
        if !facts.was_deleted_since(member.joined) {
            facts.epochs.reached(alive.epoch, event.at, event.member);
        }
        if member.alive.is_none_or(|known| known.sent < alive.sent) {
            member.previous = member.alive.map_or(alive.sent, |known| known.sent);
            member.alive = Some(alive);
        }
        self.judge_owners(event.member, event.at, found);
    }

    /// Called when a member begins to join. A consumer that joins (epoch 0) owns nothing. A classic
    /// member may keep its partitions, and stays a member while it joins again.
    fn joining(&mut self, event: &Event, found: &mut Found) {
        if matches!(self.facts.group.protocol, Kind::Consumer | Kind::Streams) {
            self.gone(event, found);
        }
        let member = self.member(event.member);
        member.joining = event.at;
    }

    fn joined(&mut self, event: &Event, epoch: i32, found: &mut Found) {
        let member = self.members.entry(event.member).or_default();
        epochs::judge_joined(event, epoch, member, &self.facts, found);
        member.joined = event.at;
        member.epochs = Epochs::default();
        if !member.is_in {
            member.is_in = true;
            self.facts.joined += 1;
        }
    }

    fn synced(&mut self, index: MemberIndex, at: Time, epoch: i32) {
        let member = self.member(index);
        member.synced = epoch;
        let joined = member.joined;
        if !self.facts.was_deleted_since(joined) {
            self.facts.epochs.reached(epoch, at, index);
        }
    }

    fn assigned(&mut self, event: &Event, epoch: i32, partitions: &[Partition], found: &mut Found) {
        self.synced(event.member, event.at, epoch);
        let (members, facts) = (&mut self.members, &self.facts);
        if facts.group.protocol != Kind::Share {
            self.owners.assigned(event, epoch, partitions.iter().map(of_group), members);
        }
        if facts.group.protocol == Kind::Streams {
            self.processes.assigned(event, epoch, partitions, members, facts, found);
        }
    }

    fn standbys(&mut self, event: &Event, epoch: i32, partitions: &[Partition], found: &mut Found) {
        self.judge_owners(event.member, event.at, found);
        let (members, facts) = (&mut self.members, &self.facts);
        self.processes.standbys(event, epoch, partitions, members, facts, found);
    }

    fn released(&mut self, event: &Event, partitions: &[Partition], found: &mut Found) {
        self.judge_owners(event.member, event.at, found);
        self.owners.released(event.member, partitions.iter().map(of_group));
        self.processes.released(event.member, partitions);
    }

    /// The time until which the coordinator certainly keeps a member with its last assignment.
    fn certain_until(&self, index: MemberIndex) -> Time {
        let member = self.members.get(&index);
        member
            .map_or(Time::ZERO, |member| lease::certain_until(member, member.settled, &self.facts))
    }

    fn settled(&mut self, index: MemberIndex, at: Time, epoch: i32) {
        self.synced(index, at, epoch);
        let member = self.member(index);
        member.settled = epoch;
        (member.must_rebalance, member.unsure) = (None, None);
    }

    fn must_rebalance(&mut self, index: MemberIndex, sent: Time) {
        let member = self.member(index);
        let before = member
            .alive
            .map_or(sent, |alive| if alive.sent < sent { alive.sent } else { member.previous });
        let from = sent.min(before).min(member.unsure.unwrap_or(Time::MAX));
        member.must_rebalance = Some(member.must_rebalance.map_or(from, |known| known.min(from)));
    }

    fn fenced(&mut self, event: &Event, found: &mut Found) {
        self.judge_owners(event.member, event.at, found);
        let member = self.members.entry(event.member).or_default();
        lease::judge_eviction(event, member, &self.facts, found);
        self.out(event.member);
    }

    /// Ends all claims of a member, which has lost all that it owned.
    fn gone(&mut self, event: &Event, found: &mut Found) {
        self.judge_owners(event.member, event.at, found);
        self.out(event.member);
        self.member(event.member).life += 1;
        self.owners.gone(event.member);
        self.processes.gone(event.member);
    }

    fn out(&mut self, index: MemberIndex) {
        let member = self.members.entry(index).or_default();
        (member.alive, member.synced, member.settled) = (None, 0, 0);
        (member.must_rebalance, member.unsure) = (None, None);
        if std::mem::take(&mut member.is_in) {
            self.facts.joined -= 1;
            if self.facts.joined == 0 {
                self.facts.start_over();
            }
        }
    }

    fn refused(&mut self, index: MemberIndex, at: Time, error: i16) {
        const LOAD_IN_PROGRESS_TO_NOT_COORDINATOR: std::ops::RangeInclusive<i16> = 14..=16;
        if LOAD_IN_PROGRESS_TO_NOT_COORDINATOR.contains(&error) {
            self.disconnected(index, at);
        }
    }

    fn disconnected(&mut self, index: MemberIndex, at: Time) {
        self.shaken(at);
        if let Some(member) = self.members.get_mut(&index)
            && let (None, Some(alive)) = (member.unsure, member.alive)
        {
            member.unsure = Some(alive.sent);
        }
    }

    fn deleted(&mut self, sent: Time, at: Time) {
        self.facts.deleted = Some((sent, at));
        self.facts.start_over();
        self.commits.deleted(sent, at + self.facts.group.clock_error);
    }

    fn repeat_differed(&self, event: &Event, found: &mut Found) {
        let EventKind::RepeatDiffered { api, first, second } = &event.kind else { return };
        found.add("repeat-differed", event.at, &self.facts.group.id, || {
            let what = format!(
                "member {} repeated a request (API {api}): the first answer was {first}, the \
                 second {second}",
                event.member.0
            );
            (what, vec![event.clone()])
        });
    }

    fn client_started(&mut self, index: MemberIndex, name: &Arc<str>, at: Time) {
        self.member(index).client = Some(Client::new(Arc::clone(name), at));
    }

    /// Called when a real client has printed a line: its claims are certain at least until now.
    fn client_heard(&mut self, index: MemberIndex, at: Time, found: &mut Found) {
        if let Some(client) = &mut self.member(index).client {
            client.heard(at);
        }
        self.judge_owners(index, at, found);
    }

    fn judge_owners(&mut self, index: MemberIndex, at: Time, found: &mut Found) {
        self.owners.judge(index, at, &self.members, &self.facts, found);
        self.processes.judge(index, at, &self.members, &self.facts, found);
    }
}

impl Facts {
    /// Whether the group was deleted after a member joined at `joined`. Answers may be late, so the
    /// deletion counts from its request.
    fn was_deleted_since(&self, joined: Time) -> bool {
        self.deleted.is_some_and(|(sent, _)| joined < sent)
    }

    /// The name of a partition in a sentence. In a streams group the partition is a task.
    pub(super) fn name(&self, partition: Partition) -> String {
        let Partition { topic, number } = partition;
        match self.group.protocol {
            Kind::Streams => format!("task {}_{number}", topic.0),
            Kind::Classic
            | Kind::Consumer
            | Kind::Manual
            | Kind::Producer
            | Kind::Reader
            | Kind::Share
            | Kind::Migrating => format!("partition {number} of topic {}", topic.0),
        }
    }

    fn start_over(&mut self) {
        self.incarnation += 1;
        self.epochs = Epochs::default();
    }
}

/// Reports a member that joined before its group was deleted and that the coordinator still
/// accepts. A group can be deleted only if it has no members, so a later group with the same id
/// must not have this member.
fn judge_deleted(event: &Event, alive: Alive, facts: &Facts, found: &mut Found) {
    let Some((sent, at)) = facts.deleted else { return };
    found.add("deleted-group-came-back", event.at, &facts.group.id, || {
        let what = format!(
            "member {}, of before the deletion, was still accepted, with epoch {}",
            event.member.0, alive.epoch
        );
        (what, vec![deletion(facts, sent, at), event.clone()])
    });
}

pub(super) fn deletion(facts: &Facts, sent: Time, at: Time) -> Event {
    let kind = EventKind::GroupDeleted { sent };
    Event { at, group: facts.group.index, member: crate::event::OBSERVER, kind }
}
