//! Streams groups (KIP-1071): the threads of a Kafka Streams application heartbeat with its
//! topology, and the server assigns tasks to them: partitions of subtopologies, active or standby.
//!
//! The course of a heartbeat is that of all newer kinds, [`crate::modern`]; [`kind`](kind) says how
//! a streams group takes each step. Its own are the topology ([`topology`](topology)), from which
//! tasks follow with the topics that exist ([`configured`](configured)); tasks that no process has
//! twice ([`holders`](holders)); a delay before the first target ([`gathering`](gathering)); and
//! the endpoints of members ([`endpoints`](endpoints)).
//!
//! `README.md` beside this file lists where it differs from Kafka.

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
    // Derived from the members by replay, so that no request has to walk over them:
    /// Bytes of the members' profiles.
    profile_bytes: usize,
    static_members: StaticMembers,
    holders: Holders,
    // Volatile:
    /// The heartbeat under way, and whether the group is full for it.
    asked: Asked,
    is_full: bool,
    /// The topology with the topics that exist. None after a load, and after the first heartbeat of
    /// a group, as in Kafka.
    configured: Option<Configured>,
    endpoints: Endpoints,
    task_offsets: TaskOffsets,
    asking: Asking,
    /// The first member that asked for a shutdown of the application.
    shutdown: Option<Text>,
    /// The time in which members gather before the first target.
    gathering: Timer,
    /// Whether the group has a record.
    is_recorded: bool,
    /// Whether a classic group becomes this one.
    is_successor: bool,
}

/// The part of the group's record beside the epoch and the hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The epoch of the topology if it was ready, else -1.
    validated: i32,
    /// The configs of the last assignment, by name.
    configs: Vec<(Text, Text)>,
    /// The epochs of the topologies whose description is stored, and was refused for good.
    description: Described,
}

/// The description of the group's topology (KIP-1331), by the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Described {
    stored: i32,
    failed: i32,
}

impl Default for Recorded {
    /// A group without records.
    fn default() -> Self {
        let description = Described { stored: NO_TOPOLOGY, failed: NO_TOPOLOGY };
        Self { validated: NO_TOPOLOGY, configs: Vec::new(), description }
    }
}

/// The part of a heartbeat that is not in the member's profile.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Whether the member sends its instance id.
    is_static: bool,
    topology: Option<Arc<Topology>>,
    tasks: Vec<Reported>,
    report: Option<Report>,
}

/// The bounds of reported tasks of a subtopology.
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
    /// The group that an empty classic one becomes, or that is new.
    pub(crate) fn begin(id: Text, is_successor: bool) -> Self {
        let mut group = Self::new(id);
        group.own.is_successor = is_successor;
        group
    }

    /// Approximate bytes of the members' profiles and reports, and of the topology with its
    /// description.
    pub(crate) fn member_bytes(&self) -> usize {
        let topology = self.own.topology.as_ref().map_or(0, |it| it.bytes());
        let description = self.own.description.as_ref().map_or(0, Description::bytes);
        self.own.profile_bytes + self.own.task_offsets.bytes() + topology + description
    }

    /// Tasks that members own, plus those in their targets.
    pub(crate) fn assigned(&self) -> usize {
        self.own.holders.len() + self.target.by_member.assigned()
    }

    /// A member asks for a shutdown of the application; the first one is named to all.
    pub(crate) fn shut_down(&mut self, member_id: &str) {
        self.own.shutdown.get_or_insert_with(|| Text::from(member_id));
    }

    /// Whether members read a topic.
    pub(crate) fn reads(&self, topic: &str) -> bool {
        !self.is_empty()
            && self.own.topology.as_ref().is_some_and(|it| it.reader_of(topic).is_some())
    }

    /// A hash of the counts over the members, which the audit compares with those of a replay. The
    /// processes that have a task are not in it, as they depend on the past: see [`holders`].
    pub(crate) fn count_hash(&self) -> u64 {
        let Self { stable_at, own, .. } = self;
        let static_members = own.static_members.len();
        let counts = format!("{} {stable_at:?} {static_members}", own.profile_bytes);
        xxhash_rust::xxh3::xxh3_64(counts.as_bytes())
    }

    /// The internal topics that are to be created, as of the last look at the topics.
    pub(crate) fn missing_topics(&self) -> Option<Arc<[MissingTopic]>> {
        let configured = self.own.configured.as_ref()?;
        configured.outcome.as_ref().err()?.missing.clone()
    }
}
