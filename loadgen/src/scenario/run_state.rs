//! The state of a run that its phases share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cause::Cause;
use super::clients::Clients;
use super::file::Scenario;
use super::members::Members;
use super::orders::{Orders, Settings, Status};
use super::run_plan::{RunPlan, partitions_of};
use super::tasks::Tasks;
use crate::driver::command::{Command, Task, TaskOutcome};
use crate::event::{Event, EventKind, OBSERVER};
use crate::plan::{GroupIndex, Protocol};
use crate::time::Time;
use crate::topics::Topics;

pub(super) struct RunState {
    pub(super) scenario: Arc<Scenario>,
    pub(super) settings: Settings,
    pub(super) plan: RunPlan,
    pub(super) topics: Arc<Topics>,
    pub(super) members: Members,
    pub(super) clients: Clients,
    pub(super) tasks: Tasks,
    pub(super) random: fastrand::Rng,
    pub(super) orders: Orders,
    /// The current number of partitions that a group consumes. Groups whose number has never
    /// changed may be absent.
    pub(super) consumed: BTreeMap<GroupIndex, u32>,
    /// Groups that the scenario deleted.
    deleted: BTreeSet<GroupIndex>,
}

impl RunState {
    pub(super) fn new(
        scenario: Arc<Scenario>,
        settings: Settings,
        plan: RunPlan,
        topics: Arc<Topics>,
        tasks: Tasks,
    ) -> Self {
        Self {
            members: Members::new(&plan),
            clients: Clients::new(&scenario, &plan, &topics),
            random: fastrand::Rng::with_seed(settings.seed),
            scenario,
            settings,
            plan,
            topics,
            tasks,
            consumed: BTreeMap::new(),
            deleted: BTreeSet::new(),
            orders: Orders::default(),
        }
    }

    /// Announces the cause of a rebalance. Clients without membership cause none.
    pub(super) fn announce(&mut self, at: Time, group: GroupIndex, cause: Cause) {
        if self.plan.has_members(group) {
            self.members.announce(at, group, cause);
        }
    }

    /// Reads what the checks compare: the committed offsets of a group, or the start offsets of a
    /// share group. Nothing is read for producers, whose commits the checks do not know, and for
    /// streams groups, whose members commit nothing.
    pub(super) fn read_offsets(&mut self, group: GroupIndex) {
        let reads = match self.plan.group(group).protocol {
            Protocol::Classic { .. }
            | Protocol::Consumer { .. }
            | Protocol::Manual { .. }
            | Protocol::Share(_) => true,
            Protocol::Producer(_) | Protocol::Reader(_) | Protocol::Streams(_) => false,
        };
        if !reads {
            return;
        }
        let id = self.plan.group(group).id.clone();
        let topics = self.members.changes().topics_ever(&self.plan, group);
        let partitions = partitions_of(&Vec::from_iter(topics), &self.topics);
        self.tasks.ask(match self.plan.group(group).protocol {
            Protocol::Share(_) => Task::ReadStartOffsets { group, id, partitions },
            _ => Task::ReadOffsets { group, id, partitions },
        });
    }

    pub(super) fn delete_group(&mut self, group: GroupIndex) {
        if !self.plan.group(group).protocol.is_group() {
            return;
        }
        let id = self.plan.group(group).id.clone();
        self.tasks.ask(Task::DeleteGroup { group, id });
    }

    pub(super) fn deleted(&self) -> Vec<GroupIndex> {
        self.deleted.iter().copied().collect()
    }

    pub(super) fn is_deleted(&self, group: GroupIndex) -> bool {
        self.deleted.contains(&group)
    }

    pub(super) fn grow(&mut self, now: Time, topics: Vec<(Arc<str>, u32)>) {
        for group in self.subscribed(&topics) {
            self.announce(now, group, Cause::PartitionsAdded);
        }
        self.tasks.ask(Task::EnsureTopics { topics, replication: self.scenario.replication });
    }

    pub(super) fn observe(&mut self, now: Time, status: &Status<'_>) {
        for event in status.events {
            self.members.observe(now, &self.plan, event);
            self.clients.observe(event);
        }
        for (id, result) in status.done {
            match self.tasks.done(*id, result) {
                Some((Task::EnsureTopics { topics, .. }, TaskOutcome::Topics(now_known))) => {
                    self.grew(now, now_known, &topics);
                }
                Some((Task::DeleteGroup { group, .. }, _)) => {
                    self.deleted.insert(group);
                }
                Some(_) | None => {}
            }
        }
    }

    pub(super) fn hand_over(&mut self, now: Time, orders: &mut Orders) {
        self.members.send_due(now, &self.plan, &mut self.orders);
        self.tasks.send(&mut self.orders.commands);
        orders.commands.append(&mut self.orders.commands);
        orders.triggers.append(&mut self.orders.triggers);
        orders.events.append(&mut self.orders.events);
        orders.clients.append(&mut self.orders.clients);
        orders.notes.append(&mut self.orders.notes);
    }

    /// The groups with a member that was subscribed to one of these topics at some time of the run.
    pub(super) fn subscribed(&self, topics: &[(Arc<str>, u32)]) -> Vec<GroupIndex> {
        let named = topics.iter().filter_map(|(name, _)| self.topics.named(name));
        let topics: BTreeSet<_> = named.collect();
        let groups = self.plan.groups().map(|group| group.index);
        let wants = |group: &GroupIndex| {
            let changed = self.members.changes().topics_ever(&self.plan, *group);
            !changed.is_disjoint(&topics)
        };
        groups.filter(wants).collect()
    }

    /// Reports each change of the number of partitions that a group consumes. The number changes
    /// several times, because members change their subscriptions one after the other.
    pub(super) fn recount_partitions(&mut self, now: Time) {
        for group in Vec::from_iter(self.members.changes().groups()) {
            let topics = Vec::from_iter(self.members.topics(&self.plan, group));
            if topics.is_empty() {
                continue;
            }
            let partitions = partitions_of(&topics, &self.topics).len() as u32;
            let first = || self.plan.partitions(group, &self.topics).len() as u32;
            let before = *self.consumed.entry(group).or_insert_with(first);
            if partitions != before {
                self.consumed.insert(group, partitions);
                let kind = EventKind::PartitionsGrew { partitions };
                self.orders.events.push(Event { at: now, group, member: OBSERVER, kind });
            }
        }
    }

    pub(super) fn grew(&mut self, now: Time, known: Arc<Topics>, topics: &[(Arc<str>, u32)]) {
        self.topics = known;
        self.orders.commands.push(Command::Topics(self.topics.clone()));
        for group in self.subscribed(topics) {
            let mut now_subscribed = self.members.topics(&self.plan, group);
            if now_subscribed.is_empty() {
                now_subscribed.extend(self.plan.group(group).subscription.topics().iter());
            }
            let now_subscribed = Vec::from_iter(now_subscribed);
            let partitions = partitions_of(&now_subscribed, &self.topics).len() as u32;
            self.consumed.insert(group, partitions);
            let kind = EventKind::PartitionsGrew { partitions };
            self.orders.events.push(Event { at: now, group, member: OBSERVER, kind });
        }
    }
}
