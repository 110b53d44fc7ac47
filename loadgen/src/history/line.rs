//! The lines of a history, for serde. HISTORY.md documents them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::plan::{GroupIndex, GroupPlan, Protocol, TopicIndex};
use crate::time::Time;
use crate::topics::Topics;

/// The value of [`Run::format`]. It is raised by changes that older versions would misread.
pub const FORMAT: u32 = 1;

/// One line. Events have a field `event`, all others a field `line`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    Header(Header),
    Event(Event),
}

/// A line that is no event. It states a fact that checks need before some events, or that concerns
/// more than one group. It precedes all events for which it is needed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Header {
    Run(Run),
    Topic(Topic),
    Group(Group),
    /// A phase of the scenario began.
    Phase {
        at: Time,
        name: Arc<str>,
    },
    /// The coordinator was restarted, by request of the scenario.
    CoordinatorRestarted {
        at: Time,
    },
}

/// The first line of a history.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    pub format: u32,
    /// The program and its version, such as `muster-load 0.1.0`.
    pub tool: String,
    pub scenario: String,
    pub seed: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Topic {
    pub index: TopicIndex,
    pub name: Arc<str>,
    pub partitions: u32,
}

/// The properties of a group that checks and measures need before its events.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Group {
    pub index: GroupIndex,
    /// `group.id`.
    pub id: Arc<str>,
    pub protocol: Kind,
    /// The coordinator removes a member only when at least this time has passed since its last
    /// heartbeat. For consumer groups this is the server's value, or less.
    #[serde(rename = "session_timeout_ms", with = "milliseconds")]
    pub session_timeout: Duration,
    #[serde(rename = "rebalance_timeout_ms", with = "milliseconds")]
    pub rebalance_timeout: Duration,
    /// The number of partitions of the group's topics. Each of them should have an owner.
    pub partitions: u32,
    /// The maximum error when the times of two members' events are compared. It is above zero if
    /// members ran on several machines, whose clocks differ.
    #[serde(rename = "clock_error_us", with = "microseconds", default)]
    #[serde(skip_serializing_if = "Duration::is_zero")]
    pub clock_error: Duration,
    /// The maximum number of deliveries of a record of a share group. 0 for other groups.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delivery_limit: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Classic,
    Consumer,
    Manual,
    /// Producers, which have no group.
    Producer,
    /// Readers, which have no group.
    Reader,
    Share,
    /// A streams group. Its events name tasks as partitions: `[subtopology, partition]`.
    Streams,
    /// A group that is migrated online. It has classic members and members of the consumer protocol
    /// (KIP-848).
    Migrating,
}

impl Kind {
    /// Whether the clients are members of a group that rebalances.
    pub fn has_members(self) -> bool {
        matches!(
            self,
            Self::Classic | Self::Consumer | Self::Share | Self::Streams | Self::Migrating
        )
    }
}

impl Group {
    pub fn of(plan: &GroupPlan, topics: &Topics) -> Self {
        let (protocol, partitions) = match &plan.protocol {
            Protocol::Manual { partitions } => (Kind::Manual, partitions.len() as u32),
            Protocol::Producer(_) => (Kind::Producer, 0),
            Protocol::Reader(_) => (Kind::Reader, 0),
            Protocol::Classic { .. } => (Kind::Classic, subscribed(plan, topics)),
            Protocol::Consumer { .. } => (Kind::Consumer, subscribed(plan, topics)),
            Protocol::Share(_) => (Kind::Share, subscribed(plan, topics)),
            Protocol::Streams(streams) => (Kind::Streams, streams.topology.tasks()),
        };
        let delivery_limit = match &plan.protocol {
            Protocol::Share(plan) => plan.delivery_limit,
            _ => 0,
        };
        Self {
            index: plan.index,
            id: (*plan.id).into(),
            protocol,
            session_timeout: plan.session_timeout,
            rebalance_timeout: plan.rebalance_timeout,
            partitions,
            clock_error: Duration::ZERO,
            delivery_limit,
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn subscribed(plan: &GroupPlan, topics: &Topics) -> u32 {
    plan.subscription.topics().iter().map(|topic| topics.partitions(*topic)).sum()
}

mod microseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(it: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(it.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}

mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(it: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
