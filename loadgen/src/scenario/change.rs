//! The action that changes running members: its validation, and the new plans of the members.

use std::sync::Arc;

use super::assignors::classic_assignors;
use super::checks::{Limits, groups_of, is_of_servers, known, require};
use super::file::{Change, Group, Protocol as ProtocolTable, Scenario};
use super::problem::Problem;
use super::run_plan::{consumer_times, subscription, topic_indices};
use super::run_state::RunState;
use super::values::Amount;
use crate::plan::{GroupIndex, GroupPlan, MemberIndex, Protocol, Subscription};
use crate::topics::Topics;

/// Returns the new plan of each member of the group that is up and whose plan differs from what the
/// change wants. If there are more of them than the change names, the first ones are returned.
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
    // Each pair is a plan before the change and the plan after it. So members that shared a plan
    // share the new one, too.
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

/// The subscription to the topics of a topic table, as the cluster knows them.
/// # Errors
/// The cluster does not know one of the topics.
fn subscription_to(
    scenario: &Scenario,
    table: &Group,
    run: &str,
    topics: &Topics,
) -> Result<Subscription, Problem> {
    Ok(subscription(scenario, table, run, &topic_indices(scenario, run, topics)?))
}

/// The plan after the change of protocol and assignor. The change of topics is applied later. The
/// timeouts change only if the protocol does.
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
        // This cannot fail: the names were validated for every protocol that the members may have
        // in this phase.
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
/// The first mistake, as a sentence for the user.
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

/// Checks an assignor. If the change names no protocol, members keep the protocol of the table or
/// of an earlier change.
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
