//! Streams groups (KIP-1071): each thread of a Kafka Streams application heartbeats with the
//! topology, and the server assigns tasks to it. A task is a partition of a subtopology, in one of
//! three roles: active, standby or warm-up.
//!
//! [`crate::modern`] has the steps of a heartbeat, which all newer kinds share; [`kind`](kind)
//! implements them for streams groups. Streams groups also have: a topology
//! ([`topology`](topology)); the tasks that follow from it and the existing topics
//! ([`configured`](configured)); processes, none of which has a task twice ([`holders`](holders));
//! a delay before the first target ([`gathering`](gathering)); and endpoints of members
//! ([`endpoints`](endpoints)).
//!
//! `README.md` in this folder lists the differences from Kafka.
//!
//! A coordinator never creates topics. The output of a heartbeat names the internal topics that the
//! group lacks (`Output::missing_topics`), and the caller creates them.

mod answer;
mod configured;
mod counts;
mod describe;
mod description;
mod endpoints;
mod epoch;
mod gathering;
mod holders;
mod kind;
pub(crate) mod member;
mod offsets;
mod replay;
mod roles;
mod targets;
mod task;
mod task_offsets;
mod topology;
mod updates;
pub(crate) mod validate;

use crate::modern::Group;
use crate::modern::static_members::StaticMembers;
use crate::output::MissingTopic;
use crate::text::Text;
use crate::timers::Timer;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use configured::Configured;
use description::{Asking, Description};
use endpoints::Endpoints;
use holders::Holders;
use muster_codec::messages::StreamsGroupTaskIds;
use task_offsets::{Report, TaskOffsets};
use topology::{NO_TOPOLOGY, Topology};

pub(crate) use answer::{left, refused};
pub(crate) use describe::Asked as AskedDescription;
pub(crate) use kind::Beat;
pub(crate) use task::TaskKey;

/// The protocol type of streams groups in ListGroups.
pub(crate) const PROTOCOL_TYPE: &str = "streams";

pub(crate) type StreamsGroup = Group<Streams>;

/// The state that only streams groups have.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    topology: Option<Arc<Topology>>,
    description: Option<Description>,
    recorded: Recorded,
    // Replay derives these fields from the members, so that no request has to visit all members:
    /// The bytes of the members' profiles.
    profile_bytes: usize,
    static_members: StaticMembers,
    holders: Holders,
    // These fields are volatile:
    /// The heartbeat that is being handled, and whether the group already has its maximum of
    /// members.
    asked: Asked,
    is_full: bool,
    /// The configured topology. As in Kafka, it is None after a load, and after the first heartbeat
    /// of a group.
    configured: Option<Configured>,
    endpoints: Endpoints,
    task_offsets: TaskOffsets,
    asking: Asking,
    /// The first member that requested a shutdown of the application.
    shutdown: Option<Text>,
    /// The delay during which members gather before the first target.
    gathering: Timer,
    /// Whether the group has a record.
    is_recorded: bool,
    /// Whether the group replaces a classic group.
    is_successor: bool,
}

/// The fields of the group's record besides the epoch and the hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The epoch of the topology if it was ready, else -1.
    validated: i32,
    /// The configs of the last assignment, by name.
    configs: Vec<(Text, Text)>,
    /// The topologies whose description was stored, or was finally refused.
    description: Described,
}

/// The epochs of two topologies: the one whose description (KIP-1331) was stored last, and the one
/// whose description was finally refused last. -1 if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Described {
    stored: i32,
    failed: i32,
}

impl Default for Recorded {
    /// The fields of a group without records.
    fn default() -> Self {
        let description = Described { stored: NO_TOPOLOGY, failed: NO_TOPOLOGY };
        Self { validated: NO_TOPOLOGY, configs: Vec::new(), description }
    }
}

/// The fields of a heartbeat that are not in the member's profile.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Whether the member sent an instance id.
    is_static: bool,
    topology: Option<Arc<Topology>>,
    tasks: Vec<Reported>,
    report: Option<Report>,
}

/// The least and the greatest partition of a subtopology's reported tasks.
#[derive(Debug)]
struct Reported {
    subtopology: Text,
    least: i32,
    greatest: i32,
}

impl Reported {
    fn new(of: &StreamsGroupTaskIds<'_>) -> Self {
        Self {
            subtopology: Text::from(&*of.subtopology_id),
            least: of.partitions.iter().copied().min().unwrap_or(0),
            greatest: of.partitions.iter().copied().max().unwrap_or(-1),
        }
    }
}

impl StreamsGroup {
    /// A new group, which replaces an empty classic group if `is_successor`.
    pub(crate) fn begin(id: Text, is_successor: bool) -> Self {
        let mut group = Self::new(id);
        group.own.is_successor = is_successor;
        group
    }

    /// The approximate bytes of the members' profiles and reports, and of the topology and its
    /// description.
    pub(crate) fn member_bytes(&self) -> usize {
        let topology = self.own.topology.as_ref().map_or(0, |it| it.bytes());
        let description = self.own.description.as_ref().map_or(0, Description::bytes);
        self.own.profile_bytes + self.own.task_offsets.bytes() + topology + description
    }

    /// The number of tasks that members own, plus the number in their targets.
    pub(crate) fn assigned(&self) -> usize {
        self.own.holders.len() + self.target.by_member.assigned()
    }

    /// Notes that a member requests a shutdown of the application. All members learn the id of the
    /// first member that requests it.
    pub(crate) fn shut_down(&mut self, member_id: &str) {
        self.own.shutdown.get_or_insert_with(|| Text::from(member_id));
    }

    /// Whether the group reads a topic.
    pub(crate) fn reads(&self, topic: &str) -> bool {
        !self.is_empty()
            && self.own.topology.as_ref().is_some_and(|it| it.reader_of(topic).is_some())
    }

    /// A hash of counters that the group keeps over its members. The audit
    /// ([`crate::Coordinator::audit_after`]) compares it with the hash after a replay. The hash
    /// leaves out [`holders`]: these depend on the order of past changes, so a replay may differ.
    pub(crate) fn count_hash(&self) -> u64 {
        let Self { stable_at, own, .. } = self;
        let static_members = own.static_members.len();
        let counts = format!("{} {stable_at:?} {static_members}", own.profile_bytes);
        xxhash_rust::xxh3::xxh3_64(counts.as_bytes())
    }

    /// The missing internal topics, as of the last check of the topics.
    pub(crate) fn missing_topics(&self) -> Option<Arc<[MissingTopic]>> {
        let configured = self.own.configured.as_ref()?;
        configured.outcome.as_ref().err()?.missing.clone()
    }
}
