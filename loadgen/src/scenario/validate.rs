//! Validates a scenario. An error is one sentence about the first mistake.

use std::collections::BTreeSet;

use super::assignors::classic_assignors;
use super::change;
use super::checks::{
    Limits, RATE, bounded, groups_of, is_of_servers, known, require, validate_load,
};
use super::dry_run;
use super::file::{Client, Fetch, Group, How, Phase, Protocol, Scenario, Topic, Work};
use super::producers;
use super::shares;
use super::streams;
use super::values::{Amount, Words};

/// The limits of a scenario, which protect the machine from mistyped numbers.
const TOPICS: u64 = 10_000;
const PARTITIONS: u64 = 1_000_000;
const GROUPS: u64 = 100_000;
const MEMBERS: u64 = 1_000_000;
/// The maximum number of real clients, each of which is a process.
const CLIENTS: u64 = 100;
/// The maximum size in bytes of a fetch answer, which is kept in memory.
const FETCH_BYTES: u32 = 16 << 20;
/// The maximum length of a name in a scenario. Kafka allows 249 bytes in the name of a topic, and
/// the prefix and a number need some of them.
const NAME: usize = 100;

pub(super) fn validate(scenario: &Scenario, limits: &Limits) -> Result<(), String> {
    require(!scenario.groups.is_empty(), || "it has no [[group]] and no [[producer]]".into())?;
    require(!scenario.topics.is_empty(), || "it has no [[topic]]".into())?;
    require(!scenario.phases.is_empty(), || "it has no [[phase]]".into())?;
    require(scenario.replication != 0 && scenario.replication >= -1, || {
        "replication is the number of replicas, or -1 for the cluster's default".into()
    })?;
    require(!scenario.duration.0.is_zero(), || "a duration of 0 leaves no time to run".into())?;
    bounded("duration", Some(scenario.duration))?;
    bounded("abort-after", scenario.abort_after)?;
    names("topic", scenario.topics.iter().map(|topic| topic.name.as_str()))?;
    names("group", scenario.groups.iter().map(|group| group.name.as_str()))?;
    names("phase", scenario.phases.iter().map(|phase| phase.name.as_str()))?;
    for topic in &scenario.topics {
        validate_topic(topic).map_err(|what| format!("topic {}: {what}", topic.name))?;
    }
    for group in &scenario.groups {
        validate_group(scenario, group, limits)
            .map_err(|what| format!("{} {}: {what}", group.kind(), group.name))?;
    }
    names("client", scenario.clients.iter().map(|client| client.name.as_str()))?;
    for client in &scenario.clients {
        validate_client(scenario, client)
            .map_err(|what| format!("client {}: {what}", client.name))?;
    }
    for phase in &scenario.phases {
        validate_phase(scenario, phase, limits)
            .map_err(|what| format!("phase {}: {what}", phase.name))?;
    }
    validate_repeat(scenario)?;
    validate_totals(scenario)?;
    dry_run::validate(scenario)
}

fn names<'a>(kind: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        require((1..=NAME).contains(&name.len()) && name.chars().all(good), || {
            format!("{kind} {name:?}: a name has 1 to {NAME} letters, digits, '-' and '_'")
        })?;
        require(seen.insert(name), || format!("two {kind}s are called {name}"))?;
    }
    Ok(())
}

fn validate_topic(topic: &Topic) -> Result<(), String> {
    require(topic.count > 0, || "its count is 0: leave it out".into())?;
    require(topic.partitions > 0, || "a topic has at least one partition".into())
}

fn validate_group(scenario: &Scenario, group: &Group, limits: &Limits) -> Result<(), String> {
    require(group.count > 0, || "its count is 0: leave it out".into())?;
    require(group.members > 0, || match group.protocol {
        Protocol::Producer | Protocol::Reader => "its count is 0: leave it out".into(),
        Protocol::Classic
        | Protocol::Consumer
        | Protocol::Share
        | Protocol::Streams
        | Protocol::Manual => "a group has at least one member".into(),
    })?;
    known(&group.topics, "topic", scenario.topics.iter().map(|topic| topic.name.as_str()))?;
    if let Some(table) = &group.producer {
        return producers::validate(table, partitions_of(scenario, &group.topics));
    }
    if let Some(table) = &group.reader {
        return producers::validate_backoff(table.backoff, table.backoff_max);
    }
    validate_membership(scenario, group, limits)?;
    validate_timeouts(group)?;
    for (name, load) in [
        ("commit", group.commit),
        ("offset-fetch", group.offset_fetch),
        ("heartbeat", group.heartbeat),
    ] {
        validate_load(name, load)?;
    }
    if let Some(fetch) = &group.fetch {
        validate_fetch(fetch)?;
        consumes(group)?;
    }
    require(group.heartbeat.is_none() || group.protocol != Protocol::Manual, || {
        "a manual group has no membership to keep alive with heartbeat".into()
    })
}

/// The number of partitions of these topic tables, or of all tables if none is named.
fn partitions_of(scenario: &Scenario, topics: &Words) -> u64 {
    let named = |topic: &&Topic| topics.0.is_empty() || topics.0.contains(&topic.name);
    let each = scenario.topics.iter().filter(named);
    each.map(|topic| u64::from(topic.count) * u64::from(topic.partitions)).sum()
}

fn validate_membership(scenario: &Scenario, group: &Group, limits: &Limits) -> Result<(), String> {
    let static_members = group.static_members.unwrap_or(Amount::Count(0)).of(group.members);
    require(static_members <= group.members, || {
        format!("{static_members} static members are more than its {} members", group.members)
    })?;
    match group.protocol {
        Protocol::Classic => {
            classic_assignors(&group.assignor.0)?;
            require(limits.members_per_connection == 1, || {
                "classic members can't share connections (--members-per-connection): a member that \
                 joins would delay the answers to the others"
                    .into()
            })
        }
        Protocol::Consumer => {
            require(group.assignor.0.len() <= 1, || {
                "a consumer group has one assignor of the server, not a list".into()
            })?;
            let unknown = group.assignor.0.iter().find(|name| !is_of_servers(name));
            unknown.map_or(Ok(()), |name| {
                Err(format!(
                    "assignor {name} is one of the classic protocol: servers of consumer groups \
                     have uniform and range"
                ))
            })
        }
        Protocol::Share => shares::validate(group),
        Protocol::Streams => streams::validate(group, &scenario.topics),
        Protocol::Manual | Protocol::Producer | Protocol::Reader => {
            require(group.members == 1, || {
                "a manual group has one member; several clients are several groups (count)".into()
            })?;
            require(static_members == 0 && group.assignor.0.is_empty() && !group.regex, || {
                "a manual group has no membership, so no static, assignor or regex".into()
            })
        }
    }
}

fn validate_timeouts(group: &Group) -> Result<(), String> {
    let timeouts = [
        ("session-timeout", group.session_timeout),
        ("heartbeat-interval", group.heartbeat_interval),
        ("rebalance-timeout", group.rebalance_timeout),
        ("backoff", group.backoff),
    ];
    bounded("revocation-takes", group.revocation_takes)?;
    bounded("backoff-max", Some(group.backoff_max))?;
    for (name, span) in timeouts {
        require(!span.0.is_zero(), || format!("{name} is 0"))?;
        require(span.0.as_millis() <= i32::MAX as u128, || {
            format!("{name} = {span} is more than the protocol allows")
        })?;
    }
    require(group.heartbeat_interval.0 < group.session_timeout.0, || {
        format!(
            "heartbeat-interval = {} is not below session-timeout = {}",
            group.heartbeat_interval, group.session_timeout
        )
    })?;
    require(group.backoff.0 <= group.backoff_max.0, || {
        format!("backoff = {} is above backoff-max = {}", group.backoff, group.backoff_max)
    })
}

fn validate_fetch(fetch: &Fetch) -> Result<(), String> {
    let bytes = fetch.bytes.ok_or(
        "fetch consumes records, and needs the most bytes of an answer (bytes); committed offsets \
         are read by offset-fetch",
    )?;
    require((1..=FETCH_BYTES).contains(&bytes), || {
        format!("fetch.bytes = {bytes} is not from 1 to {FETCH_BYTES}")
    })?;
    validate_load("fetch", Some(fetch.load()))
}

/// Checks that the members can consume records: they are in a classic or a consumer group, and
/// begin at the committed offsets.
fn consumes(group: &Group) -> Result<(), String> {
    require(matches!(group.protocol, Protocol::Classic | Protocol::Consumer), || {
        format!(
            "fetch is for members of classic and consumer groups, and {} is {}",
            group.name,
            group.protocol.name()
        )
    })?;
    require(group.fetch_on_assignment, || {
        "members that fetch records begin at the committed offsets: fetch-on-assignment = false \
         leaves them unknown"
            .into()
    })
}

fn validate_client(scenario: &Scenario, client: &Client) -> Result<(), String> {
    require(client.count > 0, || "its count is 0: leave it out".into())?;
    require(!client.command.is_empty(), || "it needs a command".into())?;
    let group = Words(vec![client.group.clone()]);
    let groups = groups_of(scenario, &group)?;
    let polls = |group: &&Group| matches!(group.protocol, Protocol::Classic | Protocol::Consumer);
    require(groups.iter().all(polls), || {
        format!(
            "group {} is {}: it has no members that own partitions",
            client.group,
            groups[0].protocol.name()
        )
    })?;
    let starts = |phase: &Phase| {
        let start = phase.start_clients.as_ref();
        start.is_some_and(|of| of.clients.0.is_empty() || of.clients.0.contains(&client.name))
    };
    require(scenario.phases.iter().any(starts), || "no phase starts it (start-clients)".into())
}

fn validate_phase(scenario: &Scenario, phase: &Phase, limits: &Limits) -> Result<(), String> {
    require(phase.lasts.is_none() || phase.until.is_none(), || {
        "it has both lasts and until: write one of them".into()
    })?;
    let has_members = |group: &Group| group.protocol.has_members();
    require(phase.until.is_none() || scenario.groups.iter().any(has_members), || {
        "until = \"stable\" is for groups with members, and there are none".into()
    })?;
    validate_spans(phase)?;
    validate_starts_and_stops(scenario, phase)?;
    validate_roll_and_churn(scenario, phase)?;
    if let Some(work) = &phase.work {
        for (name, load) in [
            ("commit", work.commit),
            ("offset-fetch", work.offset_fetch),
            ("heartbeat", work.heartbeat),
        ] {
            validate_load(name, load)?;
        }
        producers::validate_load(work.produce)?;
        validate_work(scenario, work)?;
    }
    if let Some(change) = &phase.change {
        change::validate(scenario, change, limits)?;
    }
    if let Some(add) = &phase.add_partitions {
        known(&add.topics, "topic", scenario.topics.iter().map(|topic| topic.name.as_str()))?;
        require(add.by != Amount::Count(0) && add.by != Amount::Share(0.0), || {
            "add-partitions by 0 adds none".into()
        })?;
    }
    for of in [&phase.read_offsets, &phase.delete_groups].into_iter().flatten() {
        groups_of(scenario, &of.groups)?;
    }
    if let Some(of) = &phase.shut_down {
        let groups = groups_of(scenario, &of.groups)?;
        require(groups.iter().all(|group| group.protocol == Protocol::Streams), || {
            "shut-down ends applications: name groups with protocol = \"streams\"".into()
        })?;
    }
    let start = phase.start_clients.as_ref().map(|start| &start.clients);
    let stop = phase.stop_clients.as_ref().map(|stop| &stop.clients);
    for clients in [start, stop].into_iter().flatten() {
        known(clients, "client", scenario.clients.iter().map(|client| client.name.as_str()))?;
        require(!scenario.clients.is_empty(), || "there is no [[client]]".into())?;
    }
    for rule in &phase.thresholds {
        require(rule.is_of_phases(), || {
            format!(
                "{rule} has no value for one phase: only round trips, their rate, rebalances, \
                 disruptions, pauses, unowned_partition_seconds, records.delivered and \
                 records.redelivered do"
            )
        })?;
    }
    require(does_something(phase), || "it has no action and takes no time".into())
}

fn validate_spans(phase: &Phase) -> Result<(), String> {
    let Phase { lasts, settle, limit, .. } = phase;
    for (name, span) in [("lasts", lasts), ("settle", settle), ("limit", limit)] {
        bounded(name, *span)?;
    }
    bounded("start.over", phase.start.as_ref().and_then(|start| start.over))?;
    for (name, stop) in [("leave", &phase.leave), ("close", &phase.close), ("crash", &phase.crash)]
    {
        bounded(&format!("{name}.over"), stop.as_ref().and_then(|stop| stop.over))?;
        let returns = stop.as_ref().and_then(|stop| stop.return_after);
        bounded(&format!("{name}.return-after"), returns)?;
    }
    bounded("work.over", phase.work.as_ref().and_then(|work| work.over))?;
    bounded("roll.down", phase.roll.as_ref().map(|roll| roll.down))?;
    bounded("roll.every", phase.roll.as_ref().and_then(|roll| roll.every))?;
    bounded("change.down", phase.change.as_ref().map(|change| change.down))?;
    bounded("change.every", phase.change.as_ref().and_then(|change| change.every))?;
    bounded("churn.down", phase.churn.as_ref().map(|churn| churn.down))
}

fn does_something(phase: &Phase) -> bool {
    *phase != Phase { name: phase.name.clone(), ..Phase::default() }
}

fn validate_starts_and_stops(scenario: &Scenario, phase: &Phase) -> Result<(), String> {
    let stops = [(&phase.leave, "leave"), (&phase.crash, "crash"), (&phase.close, "close")];
    let stops = stops.iter().filter_map(|(stop, how)| Some((stop.as_ref()?, *how)));
    let amounts = stops.clone().map(|(stop, how)| (&stop.groups, stop.members, how));
    let start = phase.start.iter().map(|start| (&start.groups, start.members, "start"));
    for (groups, members, what) in amounts.chain(start) {
        for group in groups_of(scenario, groups)? {
            enough(group, members, what)?;
        }
    }
    if let Some(stop) = &phase.close {
        for group in groups_of(scenario, &stop.groups)? {
            closes(group, "close")?;
        }
    }
    Ok(())
}

fn enough(group: &Group, members: Amount, what: &str) -> Result<(), String> {
    require(members.of(group.members) > 0, || format!("{what} is for no members: leave it out"))?;
    require(members.of(group.members) <= group.members, || {
        format!("{what} is for {members} members, and group {} has {}", group.name, group.members)
    })
}

/// Checks that the group has static members. Others can't `close`: only static members keep their
/// place in the group while they are away.
fn closes(group: &Group, what: &str) -> Result<(), String> {
    require(group.static_members.is_some_and(|amount| amount.of(group.members) > 0), || {
        format!("{what} is for static members, and group {} has none (static)", group.name)
    })
}

fn validate_roll_and_churn(scenario: &Scenario, phase: &Phase) -> Result<(), String> {
    if let Some(roll) = &phase.roll {
        require(roll.at_once > 0, || "roll with at-once = 0 restarts none".into())?;
        for group in groups_of(scenario, &roll.groups)? {
            enough(group, roll.members, "roll")?;
            if roll.how == How::Close {
                closes(group, "roll with how = \"close\"")?;
            }
        }
    }
    if let Some(churn) = &phase.churn {
        require(churn.rate > 0.0 && churn.rate <= RATE, || {
            format!("churn must have a rate above 0 and up to {RATE} a second")
        })?;
        require(phase.lasts.is_some(), || "churn needs a duration: lasts".into())?;
        require(!churn.how.0.is_empty(), || "churn needs at least one how".into())?;
        for group in groups_of(scenario, &churn.groups)? {
            if churn.how.0 == [How::Close] {
                closes(group, "churn with how = [\"close\"]")?;
            }
        }
    }
    Ok(())
}

fn validate_work(scenario: &Scenario, work: &Work) -> Result<(), String> {
    let groups = groups_of(scenario, &work.groups)?;
    require(work.heartbeat.is_none() || groups.iter().any(|it| it.protocol.has_members()), || {
        "manual groups have no membership to keep alive with heartbeat".into()
    })?;
    require(work.produce.is_none() || groups.iter().any(|it| it.producer.is_some()), || {
        "produce is for producers, and there are none".into()
    })?;
    if let Some(fetch) = &work.fetch {
        validate_fetch(fetch)?;
        groups.iter().copied().filter(|group| group.is_group()).try_for_each(consumes)?;
    }
    let records = work.fetch.map(|fetch| fetch.load());
    let loads = [work.commit, work.offset_fetch, records, work.heartbeat, work.produce];
    let open = loads.iter().flatten().all(|load| load.per_second().is_some());
    require(work.over.is_none() || open, || {
        "work over a time is a ramp of rates: each of its loads needs rate or every".into()
    })
}

fn validate_repeat(scenario: &Scenario) -> Result<(), String> {
    let Some(repeat) = &scenario.repeat else { return Ok(()) };
    let from = Words(vec![repeat.from.clone()]);
    known(&from, "phase", scenario.phases.iter().map(|phase| phase.name.as_str()))
        .map_err(|what| format!("repeat: {what}"))?;
    require(repeat.times != Some(0), || "repeat: times is 0: leave it out".into())
}

fn validate_totals(scenario: &Scenario) -> Result<(), String> {
    let groups = &scenario.groups;
    let sum = |of: &dyn Fn(&Group) -> u64| groups.iter().map(of).fold(0, u64::saturating_add);
    let topics: u64 = scenario.topics.iter().map(|topic| u64::from(topic.count)).sum();
    let partitions = scenario.topics.iter().map(|t| u64::from(t.count) * u64::from(t.partitions));
    let totals = [
        ("topics", topics, TOPICS),
        ("partitions", partitions.fold(0, u64::saturating_add), PARTITIONS),
        ("groups", sum(&|group| group.count.into()), GROUPS),
        ("clients", clients(scenario), CLIENTS),
        ("members", sum(&|group| u64::from(group.count) * u64::from(group.members)), MEMBERS),
    ];
    for (what, total, limit) in totals {
        require(total <= limit, || format!("{total} {what} in total are more than {limit}"))?;
    }
    Ok(())
}

/// The number of real clients in all groups.
fn clients(scenario: &Scenario) -> u64 {
    let count = |name: &str| {
        let group = scenario.groups.iter().find(|group| group.name == *name);
        group.map_or(0, |group| u64::from(group.count))
    };
    let each = scenario.clients.iter().map(|client| u64::from(client.count) * count(&client.group));
    each.fold(0, u64::saturating_add)
}
