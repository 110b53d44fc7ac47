//! The keys of a scenario file. SCENARIOS.md documents them for users.

mod change;
mod defaults;
mod fetch;
mod load;
mod producers;
mod protocol;
mod share;
mod streams;

use std::time::Duration;

use serde::Deserialize;

pub(super) use self::change::Change;
pub(super) use self::fetch::Fetch;
pub(super) use self::load::Load;
pub(super) use self::producers::{Producer, Reader};
pub(super) use self::protocol::Protocol;
pub(super) use self::share::Share;
pub(super) use self::streams::{Streams, Subtopology};

use self::defaults::{
    all, forty_five_seconds, hundred_millis, one, one_minute, one_second, ten_minutes,
    three_seconds, yes,
};
use super::values::{Amount, Span, Words};
use crate::driver::command::GroupTimes;
use crate::event::Stop;
use crate::report::thresholds::Rule;

/// A scenario as written in the file. [`super::validate`] checks it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// A description in one line.
    pub description: String,
    /// After this time the run winds down, whichever phase it is in. `--duration` overrides it.
    #[serde(default = "ten_minutes")]
    pub duration: Span,
    /// The replication factor of the topics. -1 leaves the choice to the cluster.
    #[serde(default = "one")]
    pub replication: i16,
    #[serde(rename = "topic", default)]
    pub topics: Vec<Topic>,
    #[serde(rename = "group", default)]
    pub groups: Vec<Group>,
    /// Tables of producers. The producers of a table have equal properties.
    /// [`Scenario::with_producers`] turns each table into a group.
    #[serde(rename = "producer", default)]
    pub producers: Vec<Producer>,
    /// Tables of readers, which read what producers write. [`Scenario::with_producers`] turns each
    /// table into a group.
    #[serde(rename = "reader", default)]
    pub readers: Vec<Reader>,
    /// Tables of real clients beside the members.
    #[serde(rename = "client", default)]
    pub clients: Vec<Client>,
    #[serde(rename = "phase", default)]
    pub phases: Vec<Phase>,
    pub repeat: Option<Repeat>,
    /// Rules such as `commit.p99 < 5ms`, which are checked at the end.
    #[serde(default)]
    pub thresholds: Vec<Rule>,
    /// From this time on a broken rule ends the run. `--abort-after` overrides it.
    pub abort_after: Option<Span>,
    /// The timeouts of consumer groups that the cluster reported.
    #[serde(skip)]
    pub consumer_times: Option<GroupTimes>,
}

/// Topics that are created for the run and deleted after it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Topic {
    pub name: String,
    /// If there is more than one topic, `-0`, `-1`, ... is appended to the name.
    #[serde(default = "one")]
    pub count: u32,
    pub partitions: u32,
}

/// Groups with the same properties.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Group {
    pub name: String,
    /// If there is more than one group, `-0`, `-1`, ... is appended to the name.
    #[serde(default = "one")]
    pub count: u32,
    /// The maximum number of members of each group. Phases start them.
    #[serde(default = "one")]
    pub members: u32,
    pub protocol: Protocol,
    /// The group is left out, with a note, if the cluster lacks an API that its protocol needs.
    #[serde(default)]
    pub optional: bool,
    /// In a classic group, the names of its assignors, the preferred one first. In a consumer
    /// group, one assignor of the server.
    #[serde(default)]
    pub assignor: Words,
    /// Names of topic tables. If left out, all of them.
    #[serde(default)]
    pub topics: Words,
    /// Subscribes by a pattern that matches the topics, instead of by their names.
    #[serde(default)]
    pub regex: bool,
    /// How many members have a `group.instance.id`.
    #[serde(default, rename = "static")]
    pub static_members: Option<Amount>,
    /// The racks, which are assigned to the members in turn.
    #[serde(default)]
    pub racks: Words,
    /// The session timeout. For consumer and streams groups the server chooses it, and
    /// `heartbeat_interval`. If it does not report its session timeout, the checks assume this one.
    #[serde(default = "forty_five_seconds")]
    pub session_timeout: Span,
    #[serde(default = "three_seconds")]
    pub heartbeat_interval: Span,
    #[serde(default = "one_minute")]
    pub rebalance_timeout: Span,
    /// How long a member takes to give up partitions.
    #[serde(default)]
    pub revocation_takes: Option<Span>,
    #[serde(default = "yes")]
    pub fetch_on_assignment: bool,
    #[serde(default = "hundred_millis")]
    pub backoff: Span,
    #[serde(default = "one_second")]
    pub backoff_max: Span,
    /// The loads at the start. A phase's `work` changes them.
    pub commit: Option<Load>,
    pub offset_fetch: Option<Load>,
    /// The load of members that consume records.
    pub fetch: Option<Fetch>,
    pub heartbeat: Option<Load>,
    /// The keys of a share group.
    #[serde(default)]
    pub share: Share,
    /// The keys of a streams group.
    #[serde(default)]
    pub streams: Streams,
    /// Set if the table describes producers, not a group.
    #[serde(skip)]
    pub producer: Option<Producer>,
    /// Set if the table describes readers, not a group.
    #[serde(skip)]
    pub reader: Option<Reader>,
}

/// A command that runs real clients in the groups of a table.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Client {
    pub name: String,
    /// The name of a group table. Each of its groups gets clients.
    pub group: String,
    /// The number of clients in each group.
    #[serde(default = "one")]
    pub count: u32,
    /// The program and its arguments, with placeholders for the names of the run.
    pub command: Vec<String>,
}

/// A phase: its actions, which all begin at once, and the condition for its end.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Phase {
    pub name: String,
    pub start: Option<Start>,
    pub leave: Option<Stopping>,
    pub close: Option<Stopping>,
    pub crash: Option<Stopping>,
    /// In each of these streams groups, one member requests that all members of the group end.
    pub shut_down: Option<Of>,
    pub roll: Option<Roll>,
    pub change: Option<Change>,
    pub churn: Option<Churn>,
    pub work: Option<Work>,
    pub add_partitions: Option<AddPartitions>,
    pub read_offsets: Option<Of>,
    pub delete_groups: Option<Of>,
    pub start_clients: Option<OfClients>,
    pub stop_clients: Option<StopClients>,
    /// Waits for a restart of the coordinator: until connections break, and then until all members
    /// get answers again.
    #[serde(default)]
    pub coordinator_restart: bool,
    /// A fixed length. Without it and without `until` the phase ends when all actions are done.
    pub lasts: Option<Span>,
    pub until: Option<Until>,
    /// How long groups must have been stable.
    pub settle: Option<Span>,
    /// How long to wait for `until` and for the actions. If this time passes, the phase has a
    /// problem.
    pub limit: Option<Span>,
    /// Rules on the figures of this phase only.
    #[serde(default)]
    pub thresholds: Vec<Rule>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    Stable,
}

/// The groups of an action. If left out, all of them.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Of {
    #[serde(default)]
    pub groups: Words,
}

/// The clients of an action. If left out, all of them.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OfClients {
    #[serde(default)]
    pub clients: Words,
}

#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StopClients {
    #[serde(default)]
    pub clients: Words,
    /// Kills the clients instead of asking them to end.
    #[serde(default)]
    pub kill: bool,
}

/// Starts members that are down, in the order of their numbers.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Start {
    #[serde(default)]
    pub groups: Words,
    #[serde(default = "all")]
    pub members: Amount,
    /// The starts are spread evenly over this time.
    pub over: Option<Span>,
}

/// Stops members that are chosen at random.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stopping {
    #[serde(default)]
    pub groups: Words,
    #[serde(default = "all")]
    pub members: Amount,
    pub over: Option<Span>,
    /// Each member starts again this long after it stopped.
    pub return_after: Option<Span>,
}

/// A rolling restart. In each group, a few members restart at a time, in the order of their
/// numbers.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Roll {
    #[serde(default)]
    pub groups: Words,
    #[serde(default = "all")]
    pub members: Amount,
    #[serde(default)]
    pub how: How,
    #[serde(default = "one")]
    pub at_once: u32,
    /// The time between the stop and the start of a member.
    #[serde(default = "one_second")]
    pub down: Span,
    /// The time from one batch of `at_once` members to the next. If left out, the next batch waits
    /// until the group is stable again.
    pub every: Option<Span>,
}

/// Members stop at random moments and come back.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Churn {
    #[serde(default)]
    pub groups: Words,
    /// The number of stops per second, over all these groups together.
    pub rate: f64,
    #[serde(default)]
    pub how: Hows,
    #[serde(default = "one_second")]
    pub down: Span,
}

/// How a member stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    #[default]
    Leave,
    Close,
    Crash,
}

/// The ways of stopping, of which one is chosen at random each time.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(transparent)]
pub struct Hows(pub Vec<How>);

impl Default for Hows {
    fn default() -> Self {
        Self(vec![How::Leave, How::Crash])
    }
}

/// Sets the loads of `groups` from this phase on. A load that is left out here ends.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Work {
    #[serde(default)]
    pub groups: Words,
    /// How long the rates take to change from the group's present rates to the new ones.
    pub over: Option<Span>,
    pub commit: Option<Load>,
    pub offset_fetch: Option<Load>,
    /// The load of members that consume records.
    pub fetch: Option<Fetch>,
    pub heartbeat: Option<Load>,
    pub produce: Option<Load>,
}

/// Adds partitions to topics.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AddPartitions {
    #[serde(default)]
    pub topics: Words,
    /// The number of new partitions of each topic: a count, or a share of its existing partitions.
    pub by: Amount,
}

/// Repeats the phases from this one on.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Repeat {
    pub from: String,
    /// How often the repeated phases run in total. If left out, they run until the run's duration
    /// is over.
    pub times: Option<u32>,
}

impl Scenario {
    /// Adds groups for the producers and readers, which start and stop like the members of a group.
    pub fn with_producers(mut self) -> Self {
        let producers = std::mem::take(&mut self.producers);
        let readers = std::mem::take(&mut self.readers);
        self.groups.extend(producers.into_iter().map(Group::of_producers));
        self.groups.extend(readers.into_iter().map(Group::of_readers));
        self
    }

    /// Whether a phase moves members of this group to another protocol.
    pub fn migrates(&self, group: &Group) -> bool {
        let changes = self.phases.iter().filter_map(|phase| phase.change.as_ref());
        let mut of_group =
            changes.filter(|it| it.groups.0.is_empty() || it.groups.0.contains(&group.name));
        of_group.any(|change| change.protocol.is_some_and(|protocol| protocol != group.protocol))
    }

    /// Whether the scenario has transactional producers.
    pub fn has_transactions(&self) -> bool {
        self.groups.iter().filter_map(|group| group.producer.as_ref()).any(|it| it.transactional)
    }
}

impl Group {
    /// Whether the table describes a group, not producers or readers.
    pub fn is_group(&self) -> bool {
        self.producer.is_none() && self.reader.is_none()
    }

    /// The kind of table, as the user writes it.
    pub fn kind(&self) -> &'static str {
        match self.protocol {
            Protocol::Producer | Protocol::Reader => self.protocol.name(),
            Protocol::Classic
            | Protocol::Consumer
            | Protocol::Share
            | Protocol::Streams
            | Protocol::Manual => "group",
        }
    }
}

impl How {
    pub fn stop(self) -> Stop {
        match self {
            Self::Leave => Stop::Leave,
            Self::Close => Stop::Close,
            Self::Crash => Stop::Crash,
        }
    }
}

impl Phase {
    /// How long groups must have been stable.
    pub fn settle(&self) -> Duration {
        self.settle.map_or(Duration::from_secs(1), |settle| settle.0)
    }

    pub fn limit(&self) -> Duration {
        self.limit.map_or(Duration::from_secs(120), |limit| limit.0)
    }
}
