//! Members that run with another plan than the table of their group says, as a phase changed their
//! subscription, their assignor or their protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Problem;
use super::assignors::classic_assignors;
use super::conductor::RunState;
use super::file::{Change, Group, Protocol as ProtocolTable, Scenario};
use super::run_plan::{RunPlan, consumer_times, partitions_of, subscription, topic_indices};
use super::validate::{Limits, groups_of, is_of_servers, known, require};
use super::values::Amount;
use crate::driver::command::Command;
use crate::event::{Event, EventKind, OBSERVER};
use crate::plan::{GroupIndex, GroupPlan, MemberIndex, Protocol, Subscription, TopicIndex};
use crate::time::Time;
use crate::topics::Topics;

/// The plans of members that were changed.
#[derive(Default, Debug)]
pub(super) struct Changes {
    plans: BTreeMap<MemberIndex, Arc<GroupPlan>>,
    /// All topics that members of a group have subscribed to by a change.
    topics: BTreeMap<GroupIndex, BTreeSet<TopicIndex>>,
}

impl Changes {
    pub(super) fn set(&mut self, member: MemberIndex, plan: Arc<GroupPlan>) {
        let topics = self.topics.entry(plan.index).or_default();
        topics.extend(plan.subscription.topics().iter());
        self.plans.insert(member, plan);
    }

    pub(super) fn of<'a>(
        &'a self,
        plan: &'a RunPlan,
        group: GroupIndex,
        member: MemberIndex,
    ) -> &'a Arc<GroupPlan> {
        self.plans.get(&member).unwrap_or_else(|| plan.group(group))
    }

    /// The topics that any member of the group has subscribed to so far.
    pub(super) fn topics_ever(&self, plan: &RunPlan, group: GroupIndex) -> BTreeSet<TopicIndex> {
        let first = plan.group(group).subscription.topics().iter().copied();
        first.chain(self.topics.get(&group).into_iter().flatten().copied()).collect()
    }

    /// Groups whose members may differ in their subscriptions.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupIndex> {
        self.topics.keys().copied()
    }
}

impl RunState {
    /// Groups that consume one of these topics.
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

    /// Says how many partitions a group consumes whose members change their subscriptions one by
    /// one, whenever that is another number.
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

/// The plans of the members of a group that are up and are to be changed, in order.
///
/// # Errors
/// The cluster does not know a topic that was created.
pub(super) fn planned(
    change: &Change,
    group: GroupIndex,
    state: &RunState,
) -> Result<Vec<(MemberIndex, Arc<GroupPlan>)>, Problem> {
    let Some(table) = state.plan.table_of(group, &state.scenario) else { return Ok(Vec::new()) };
    let subscription = if change.topics.0.is_empty() {
        None
    } else {
        let table = Group { topics: change.topics.clone(), ..table.clone() };
        let run = &state.settings.run;
        Some(subscription_to(&state.scenario, &table, run, &state.topics)?)
    };
    // Members with the same plan before have the same one after.
    let mut known: Vec<(Arc<GroupPlan>, Arc<GroupPlan>)> = Vec::new();
    let mut planned = Vec::new();
    for member in state.members.up(&state.plan, group) {
        let before = state.members.plan_of(&state.plan, group, member);
        let after = known.iter().find(|(it, _)| Arc::ptr_eq(it, before));
        let after = match after {
            Some((_, after)) => Arc::clone(after),
            None => {
                let mut after = with_protocol(change, table, &state.scenario, before);
                after.subscription = subscription.clone().unwrap_or(after.subscription);
                known.push((Arc::clone(before), Arc::new(after)));
                Arc::clone(&known[known.len() - 1].1)
            }
        };
        if after.protocol != before.protocol || after.subscription != before.subscription {
            planned.push((member, after));
        }
    }
    let count = change.members.of(state.plan.members(group).len() as u32);
    planned.truncate(count as usize);
    Ok(planned)
}

/// The subscription of a table, by the topics of the cluster.
///
/// # Errors
/// The cluster does not know one of them.
fn subscription_to(
    scenario: &Scenario,
    table: &Group,
    run: &str,
    topics: &Topics,
) -> Result<Subscription, Problem> {
    Ok(subscription(scenario, table, run, &topic_indices(scenario, run, topics)?))
}

/// A plan with the protocol and the assignor of the change, and the times of that protocol.
fn with_protocol(
    change: &Change,
    table: &Group,
    scenario: &Scenario,
    before: &GroupPlan,
) -> GroupPlan {
    let mut after = before.clone();
    let was_classic = matches!(before.protocol, Protocol::Classic { .. });
    let is_classic = change.protocol.map_or(was_classic, |it| it == ProtocolTable::Classic);
    let names = match (change.assignor.0.is_empty(), is_classic == was_classic) {
        (true, true) => return after,
        (true, false) if table.protocol == protocol(is_classic) => &table.assignor,
        _ => &change.assignor,
    };
    after.protocol = if is_classic {
        // The names were validated, for all protocols that members may have by then.
        Protocol::Classic { assignors: classic_assignors(&names.0).unwrap_or_default() }
    } else {
        Protocol::Consumer { assignor: names.0.first().map(|name| name.clone().into()) }
    };
    if is_classic != was_classic {
        (after.session_timeout, after.heartbeat_interval) = if is_classic {
            (table.session_timeout.0, table.heartbeat_interval.0)
        } else {
            let times = consumer_times(scenario, table);
            (times.session_timeout, times.heartbeat_interval)
        };
    }
    after
}

fn protocol(is_classic: bool) -> ProtocolTable {
    if is_classic { ProtocolTable::Classic } else { ProtocolTable::Consumer }
}

/// # Errors
/// One sentence about the first mistake.
pub(super) fn validate(
    scenario: &Scenario,
    change: &Change,
    limits: &Limits,
) -> Result<(), String> {
    require(change.restarts() || !change.topics.0.is_empty(), || {
        "change needs topics, an assignor or a protocol".into()
    })?;
    known(&change.topics, "topic", scenario.topics.iter().map(|topic| topic.name.as_str()))?;
    require(change.at_once > 0, || "change with at-once = 0 changes none".into())?;
    let can = |it: &ProtocolTable| matches!(it, ProtocolTable::Classic | ProtocolTable::Consumer);
    require(change.protocol.as_ref().is_none_or(can), || {
        "change.protocol is classic or consumer: no other group is migrated online".into()
    })?;
    for group in groups_of(scenario, &change.groups)? {
        require(can(&group.protocol), || {
            format!(
                "change is for classic and consumer groups, and {} is {}: name groups",
                group.name,
                group.protocol.name()
            )
        })?;
        let count = change.members.of(group.members);
        require(change.members != Amount::Count(0) && count > 0, || {
            "change is for no members: leave it out".into()
        })?;
        require(count <= group.members, || {
            format!(
                "change is for {} members, and group {} has {}",
                change.members, group.name, group.members
            )
        })?;
        validate_assignor(change, group)?;
    }
    let shares = limits.members_per_connection > 1;
    require(!shares || change.protocol != Some(ProtocolTable::Classic), || {
        "classic members can't share connections (--members-per-connection)".into()
    })
}

/// Without a protocol, members keep theirs: that of the table, or of a change before.
fn validate_assignor(change: &Change, group: &Group) -> Result<(), String> {
    if change.assignor.0.is_empty() {
        return Ok(());
    }
    if change.protocol.unwrap_or(group.protocol) == ProtocolTable::Classic {
        return classic_assignors(&change.assignor.0).map(drop);
    }
    require(change.assignor.0.len() == 1, || {
        "a consumer group has one assignor of the server, not a list".into()
    })?;
    let name = &change.assignor.0[0];
    require(is_of_servers(name), || {
        format!(
            "assignor {name} is one of the classic protocol: servers of consumer groups have \
             uniform and range"
        )
    })
}
