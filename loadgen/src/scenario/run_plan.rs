//! The plan of a run: the groups of a scenario, their members, and their names in the cluster.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::assignors::classic_assignors;
use super::file::{
    Group, Load as LoadTable, Phase, Producer, Protocol as ProtocolTable, Scenario, Work,
};
use super::orders::Settings;
use super::problem::Problem;
use super::streams;
use super::values::Amount;
use crate::driver::command::GroupTimes;
use crate::history::{self, Kind};
use crate::plan::{
    Backoff, Delivery, Fetching, GroupIndex, GroupPlan, Load, MemberIndex, MemberPlan, Partition,
    ProducerPlan, Protocol, ReaderPlan, StreamsPlan, Subscription, TopicIndex, TransactionPlan,
    TransactionVersion, Workload,
};
use crate::topics::Topics;

/// The prefix of the names of all topics and groups that muster-load creates.
pub const PREFIX: &str = "muster-load-";

/// The servers' default of `group.consumer.heartbeat.interval.ms`, and of the same config for share
/// groups.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// All groups of a run. The members of a group have consecutive indices.
#[derive(Clone, Debug)]
pub struct RunPlan {
    groups: Vec<PlannedGroup>,
}

#[derive(Clone, Debug)]
struct PlannedGroup {
    plan: Arc<GroupPlan>,
    /// The name of the scenario's table for the group.
    table: String,
    members: Range<u32>,
    static_members: u32,
    racks: Vec<Arc<str>>,
    /// The number of members in a process.
    threads: u32,
    workload: Workload,
    /// The timeouts of members with the consumer protocol. `None` if no phase moves members of the
    /// group between the classic and the consumer protocol.
    migrates: Option<GroupTimes>,
}

impl RunPlan {
    /// # Errors
    /// `topics` lacks a topic of [`topic_names`], which is a fault of the cluster.
    pub fn new(scenario: &Scenario, settings: &Settings, topics: &Topics) -> Result<Self, Problem> {
        let run = &settings.run;
        let by_table = topic_indices(scenario, run, topics)?;
        let read = topics_read(scenario, run, &by_table);
        let mut groups = Vec::new();
        let mut next_member = 0;
        for table in &scenario.groups {
            for number in 0..table.count {
                let index = GroupIndex(groups.len() as u32);
                let id = format!("{PREFIX}{run}-{}", numbered(&table.name, table.count, number));
                let subscription = subscription(scenario, table, run, &by_table);
                let plan = group_plan(table, index, id.into(), subscription, topics, settings)?;
                let plan = with_readers(plan, &read);
                let plan = with_topology(plan, table, scenario, &by_table, topics)?;
                let members = next_member..next_member + table.members;
                next_member = members.end;
                let migrates = scenario.migrates(table).then(|| consumer_times(scenario, table));
                let planned = PlannedGroup::new(table, Arc::new(plan), members);
                groups.push(PlannedGroup { migrates, ..planned });
            }
        }
        Ok(Self { groups })
    }

    pub fn groups(&self) -> impl Iterator<Item = &Arc<GroupPlan>> {
        self.groups.iter().map(|group| &group.plan)
    }

    pub fn group(&self, group: GroupIndex) -> &Arc<GroupPlan> {
        &self.groups[group.0 as usize].plan
    }

    /// Whether the group has members. A client without membership is no member.
    pub fn has_members(&self, group: GroupIndex) -> bool {
        self.group(group).protocol.has_members()
    }

    /// The minimum time for which a group must be unchanged before it counts as stable. Members of
    /// consumer, share and streams groups learn of a new epoch only with their next heartbeat.
    /// Until then the group seems stable.
    pub fn settles_in(&self, group: GroupIndex) -> Duration {
        const LEAST: Duration = Duration::from_millis(500);
        let plan = self.group(group);
        if let Some(times) = &self.groups[group.0 as usize].migrates {
            return LEAST.max(times.heartbeat_interval.max(plan.heartbeat_interval) * 6 / 5);
        }
        match plan.protocol {
            Protocol::Consumer { .. } | Protocol::Share(_) | Protocol::Streams(_) => {
                LEAST.max(plan.heartbeat_interval * 6 / 5)
            }
            Protocol::Classic { .. }
            | Protocol::Manual { .. }
            | Protocol::Producer(_)
            | Protocol::Reader(_) => LEAST,
        }
    }

    /// The description of a group for the checks and the measures. If members change their protocol
    /// during the run, it has the shorter session timeout of the two protocols.
    pub fn described(&self, group: GroupIndex, topics: &Topics) -> history::Group {
        let planned = &self.groups[group.0 as usize];
        let mut described = history::Group::of(&planned.plan, topics);
        if let Some(times) = &planned.migrates {
            described.protocol = Kind::Migrating;
            described.session_timeout = described.session_timeout.min(times.session_timeout);
        }
        described
    }

    /// The scenario's table for a group.
    pub(super) fn table_of<'a>(
        &self,
        group: GroupIndex,
        scenario: &'a Scenario,
    ) -> Option<&'a Group> {
        let name = &self.groups[group.0 as usize].table;
        scenario.groups.iter().find(|table| table.name == *name)
    }

    /// The groups of these tables, or all groups if no table is named.
    pub fn groups_named(&self, tables: &[String]) -> Vec<GroupIndex> {
        let of_tables = |group: &&PlannedGroup| tables.is_empty() || tables.contains(&group.table);
        self.groups.iter().filter(of_tables).map(|group| group.plan.index).collect()
    }

    /// The indices of a group's members.
    pub fn members(&self, group: GroupIndex) -> Range<u32> {
        self.groups[group.0 as usize].members.clone()
    }

    pub fn member_count(&self) -> u32 {
        self.groups.last().map_or(0, |group| group.members.end)
    }

    /// The loads of the group's members at their start.
    pub fn workload(&self, group: GroupIndex) -> Workload {
        self.groups[group.0 as usize].workload
    }

    /// The group of a member; `None` for [`crate::event::OBSERVER`].
    pub fn group_of(&self, member: MemberIndex) -> Option<GroupIndex> {
        let after = self.groups.partition_point(|group| group.members.start <= member.0);
        let group = self.groups.get(after.checked_sub(1)?)?;
        group.members.contains(&member.0).then_some(group.plan.index)
    }

    pub fn is_static(&self, member: MemberIndex) -> bool {
        self.group_of(member).is_some_and(|group| {
            let group = &self.groups[group.0 as usize];
            member.0 - group.members.start < group.static_members
        })
    }

    /// The plan of a member, with this workload.
    pub fn member(&self, group: GroupIndex, member: MemberIndex, workload: Workload) -> MemberPlan {
        let group = &self.groups[group.0 as usize];
        let number = member.0 - group.members.start;
        let racks = group.racks.len() as u32;
        MemberPlan {
            index: member,
            group: group.plan.clone(),
            client_id: format!("{}-{number}", group.plan.id).into(),
            instance_id: (number < group.static_members)
                .then(|| format!("{}-{number}", group.plan.id).into()),
            process: number / group.threads,
            rack: (racks > 0).then(|| group.racks[(number % racks) as usize].clone()),
            workload,
        }
    }

    /// The internal topics that coordinators create for the groups.
    pub fn internal_topics(&self) -> Vec<Arc<str>> {
        let topologies = self.groups.iter().filter_map(|group| match &group.plan.protocol {
            Protocol::Streams(streams) => Some(&streams.topology.subtopologies),
            _ => None,
        });
        let topics =
            topologies.flatten().flat_map(|it| it.changelogs.iter().chain(&it.repartitions));
        topics.map(|topic| topic.name.clone().into()).collect()
    }

    /// Makes the threads of each process adjacent: moves them to the first of them in `members`.
    pub fn gather_processes(&self, group: GroupIndex, members: &mut [MemberIndex]) {
        let group = &self.groups[group.0 as usize];
        let process = |member: MemberIndex| (member.0 - group.members.start) / group.threads;
        let mut order = BTreeMap::new();
        for (at, member) in members.iter().enumerate() {
            order.entry(process(*member)).or_insert(at);
        }
        members.sort_by_key(|member| order[&process(*member)]);
    }

    /// All partitions of the topics that a group subscribes to.
    pub fn partitions(&self, group: GroupIndex, topics: &Topics) -> Arc<[Partition]> {
        partitions_of(self.groups[group.0 as usize].plan.subscription.topics(), topics)
    }
}

impl PlannedGroup {
    fn new(table: &Group, plan: Arc<GroupPlan>, members: Range<u32>) -> Self {
        Self {
            plan,
            table: table.name.clone(),
            static_members: table.static_members.map_or(0, |amount| amount.of(table.members)),
            members,
            threads: table.streams.threads,
            migrates: None,
            racks: table.racks.0.iter().map(|rack| rack.as_str().to_owned().into()).collect(),
            workload: workload(&Work {
                commit: table.commit,
                offset_fetch: table.offset_fetch,
                fetch: table.fetch,
                heartbeat: table.heartbeat,
                produce: table.producer.as_ref().map(|producer| producer.produce),
                ..Work::default()
            }),
        }
    }
}

/// The names of the topics to create, with their partition counts.
pub(super) fn topic_names(scenario: &Scenario, run: &str) -> Vec<(Arc<str>, u32)> {
    let tables = scenario.topics.iter();
    let names = tables.flat_map(|table| {
        (0..table.count).map(move |number| {
            let name = numbered(&table.name, table.count, number);
            (format!("{PREFIX}{run}-{name}").into(), table.partitions)
        })
    });
    names.collect()
}

/// A group id, and the group's configs by key.
type GroupConfigs = (Arc<str>, Vec<(String, String)>);

/// The configs of the groups that have some.
pub(super) fn group_configs(scenario: &Scenario, run: &str) -> Vec<GroupConfigs> {
    let each = scenario.groups.iter().flat_map(|table| {
        let configs = match table.protocol {
            ProtocolTable::Share => table.share.configs(),
            ProtocolTable::Streams => table.streams.configs(),
            ProtocolTable::Classic
            | ProtocolTable::Consumer
            | ProtocolTable::Manual
            | ProtocolTable::Producer
            | ProtocolTable::Reader => Vec::new(),
        };
        let numbers = (0..table.count).filter(|_| !configs.is_empty()).collect::<Vec<_>>();
        numbers.into_iter().map(move |number| {
            let name = numbered(&table.name, table.count, number);
            (format!("{PREFIX}{run}-{name}").into(), configs.clone())
        })
    });
    each.collect()
}

/// The names of the topics of these tables, or of all tables if none is named.
pub(super) fn topics_of_tables(scenario: &Scenario, run: &str, tables: &[String]) -> Vec<Arc<str>> {
    let chosen = scenario.topics.iter().filter(|t| tables.is_empty() || tables.contains(&t.name));
    let only = Scenario { topics: chosen.cloned().collect(), ..scenario.clone() };
    topic_names(&only, run).into_iter().map(|(name, _)| name).collect()
}

pub(super) fn workload(work: &Work) -> Workload {
    let load = |table: LoadTable| Load {
        rate: table.per_second(),
        in_flight: table.in_flight,
        partitions: table.partitions,
    };
    Workload {
        commit: work.commit.map(load),
        fetch: work.offset_fetch.map(load),
        records: work
            .fetch
            .and_then(|fetch| Some(Fetching { load: load(fetch.load()), bytes: fetch.bytes? })),
        heartbeat: work.heartbeat.map(load),
        produce: work.produce.map(load),
    }
}

fn numbered(name: &str, count: u32, number: u32) -> String {
    if count == 1 { name.to_owned() } else { format!("{name}-{number}") }
}

pub(super) type TopicsByTable<'a> = BTreeMap<&'a str, Vec<TopicIndex>>;

pub(super) fn topic_indices<'a>(
    scenario: &'a Scenario,
    run: &str,
    topics: &Topics,
) -> Result<TopicsByTable<'a>, Problem> {
    let mut names = topic_names(scenario, run).into_iter();
    let mut by_table = TopicsByTable::new();
    for table in &scenario.topics {
        for (name, _) in names.by_ref().take(table.count as usize) {
            let index = topics.named(&name).ok_or_else(|| {
                Problem(format!("the cluster does not know the topic {name} that it created"))
            })?;
            by_table.entry(table.name.as_str()).or_default().push(index);
        }
    }
    Ok(by_table)
}

pub(super) fn subscription(
    scenario: &Scenario,
    group: &Group,
    run: &str,
    by_table: &TopicsByTable<'_>,
) -> Subscription {
    let tables: Vec<_> = scenario
        .topics
        .iter()
        .filter(|table| group.topics.0.is_empty() || group.topics.0.contains(&table.name))
        .collect();
    let indices = tables.iter().flat_map(|table| &by_table[table.name.as_str()]).copied();
    let topics: Arc<[TopicIndex]> = indices.collect();
    if !group.regex {
        return Subscription::Topics(topics);
    }
    // Names contain only letters, digits, '_' and '-', so they need no escaping.
    let alternatives: Vec<String> = tables
        .iter()
        .map(|table| format!("{}{}", table.name, if table.count == 1 { "" } else { "-[0-9]+" }))
        .collect();
    let pattern = format!("{PREFIX}{run}-({})", alternatives.join("|"));
    Subscription::Regex { pattern: pattern.into(), matches: topics }
}

/// The timeouts that the cluster reported. If it reported none: the session timeout of this table,
/// and the default heartbeat interval.
pub(super) fn consumer_times(scenario: &Scenario, table: &Group) -> GroupTimes {
    scenario.consumer_times.unwrap_or(GroupTimes {
        session_timeout: table.session_timeout.0,
        heartbeat_interval: HEARTBEAT_INTERVAL,
    })
}

fn group_plan(
    table: &Group,
    index: GroupIndex,
    id: Arc<str>,
    subscription: Subscription,
    topics: &Topics,
    settings: &Settings,
) -> Result<GroupPlan, Problem> {
    Ok(GroupPlan {
        index,
        id,
        protocol: protocol(table, &subscription, topics, settings)?,
        subscription,
        session_timeout: table.session_timeout.0,
        heartbeat_interval: heartbeat_interval(table),
        rebalance_timeout: table.rebalance_timeout.0,
        revocation_takes: table.revocation_takes.map_or(Duration::ZERO, |span| span.0),
        fetches_on_assignment: table.fetch_on_assignment
            && table.protocol != ProtocolTable::Streams,
        backoff: Backoff { initial: table.backoff.0, max: table.backoff_max.0 },
    })
}

/// The heartbeat interval of the members. For a share group this is the servers' default of
/// `group.share.heartbeat.interval.ms`, or the table's value if that is longer.
fn heartbeat_interval(table: &Group) -> Duration {
    match table.protocol {
        ProtocolTable::Share => table.heartbeat_interval.0.max(HEARTBEAT_INTERVAL),
        ProtocolTable::Classic
        | ProtocolTable::Consumer
        | ProtocolTable::Streams
        | ProtocolTable::Manual
        | ProtocolTable::Producer
        | ProtocolTable::Reader => table.heartbeat_interval.0,
    }
}

fn protocol(
    table: &Group,
    subscription: &Subscription,
    topics: &Topics,
    settings: &Settings,
) -> Result<Protocol, Problem> {
    if let Some(producer) = &table.producer {
        let partitions = partitions_of(subscription.topics(), topics);
        return Ok(Protocol::Producer(producer_plan(producer, partitions, settings)));
    }
    if let Some(reader) = &table.reader {
        let partitions = partitions_of(subscription.topics(), topics);
        return Ok(Protocol::Reader(ReaderPlan { partitions, isolation: reader.isolation }));
    }
    Ok(match table.protocol {
        ProtocolTable::Classic => {
            Protocol::Classic { assignors: classic_assignors(&table.assignor.0).map_err(Problem)? }
        }
        ProtocolTable::Consumer => Protocol::Consumer {
            assignor: table.assignor.0.first().map(|name| name.clone().into()),
        },
        ProtocolTable::Share => Protocol::Share(table.share.plan()),
        ProtocolTable::Streams => Protocol::Streams(StreamsPlan::default()),
        ProtocolTable::Manual | ProtocolTable::Producer | ProtocolTable::Reader => {
            Protocol::Manual { partitions: partitions_of(subscription.topics(), topics) }
        }
    })
}

/// The topics whose records are read by readers, by share groups, or by the load `fetch`.
fn topics_read(scenario: &Scenario, run: &str, by_table: &TopicsByTable<'_>) -> Vec<TopicIndex> {
    let consume = |phase: &Phase| phase.work.as_ref().is_some_and(|work| work.fetch.is_some());
    let later = scenario.phases.iter().any(consume);
    let reads = |it: &&Group| {
        let consumes = matches!(it.protocol, ProtocolTable::Classic | ProtocolTable::Consumer)
            && (later || it.fetch.is_some());
        it.reader.is_some() || it.protocol == ProtocolTable::Share || consumes
    };
    let readers = scenario.groups.iter().filter(reads);
    let subscriptions = readers.map(|table| subscription(scenario, table, run, by_table));
    subscriptions.flat_map(|subscription| subscription.topics().to_vec()).collect()
}

/// Makes producers number their records, if their topics are read.
fn with_readers(mut plan: GroupPlan, read: &[TopicIndex]) -> GroupPlan {
    if let Protocol::Producer(producer) = &mut plan.protocol {
        producer.is_read = plan.subscription.topics().iter().any(|topic| read.contains(topic));
    }
    plan
}

/// Adds the application of a streams group to a plan.
fn with_topology(
    mut plan: GroupPlan,
    table: &Group,
    scenario: &Scenario,
    by_table: &TopicsByTable<'_>,
    topics: &Topics,
) -> Result<GroupPlan, Problem> {
    if let Protocol::Streams(streams) = &mut plan.protocol {
        let of_table = |name: &str| {
            let indices = by_table.get(name).into_iter().flatten();
            let known = indices.filter_map(|index| topics.get(*index));
            known.map(|topic| (topic.name.to_string(), topic.partitions)).collect()
        };
        let planned = streams::plan(table, &plan.id, &scenario.topics, of_table);
        *streams = planned.map_err(Problem)?;
    }
    Ok(plan)
}

fn producer_plan(
    table: &Producer,
    partitions: Arc<[Partition]>,
    settings: &Settings,
) -> ProducerPlan {
    let share = match table.abort {
        Some(Amount::Share(share)) => share,
        Some(Amount::Count(_)) | None => 0.0,
    };
    let version = match table.transaction_version {
        Some(2) => TransactionVersion::Two,
        _ => TransactionVersion::One,
    };
    let delivery = match (table.transactional, table.idempotent) {
        (true, _) => Delivery::Transactions(TransactionPlan {
            version,
            timeout: table.transaction_timeout.0,
            offsets: table.offsets,
            aborts: (share * 1e6).round() as u32,
        }),
        (false, true) => Delivery::Idempotent,
        (false, false) => Delivery::Plain,
    };
    let (records, record_size, began) = (table.records, table.record_size, settings.began);
    ProducerPlan { partitions, delivery, records, record_size, began, is_read: false }
}

pub(super) fn partitions_of(indices: &[TopicIndex], topics: &Topics) -> Arc<[Partition]> {
    let of = |&topic: &TopicIndex| {
        (0..topics.partitions(topic)).map(move |number| Partition { topic, number })
    };
    indices.iter().flat_map(of).collect()
}
