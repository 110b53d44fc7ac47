//! A configured topology: the partition count of each internal topic, the number of tasks,
//! and the missing topics. It follows from the topology and the existing topics
//! (`InternalTopicManager` in Kafka), and is volatile.

use super::counts::PartitionCounts;
use super::topology::{NO_TOPOLOGY, Subtopology, Topology, sources};
use crate::context::Topics;
use crate::java_order::{Buckets, compare};
use crate::limits::STREAMS_TASKS_MAX;
use crate::modern::{Refusal, refuse};
use crate::output::MissingTopic;
use crate::text::Text;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write as _;
use muster_codec::ErrorCode;
use muster_codec::messages::StreamsGroupTopicInfo;

/// The most topics that a message names.
const NAMED_MAX: usize = 3;

/// A topology, configured at a version of the topics.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) topology: Arc<Topology>,
    pub(crate) version: i64,
    pub(crate) outcome: Result<Ready, Unready>,
}

/// A topology whose topics all exist.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The subtopologies, sorted by id.
    pub(crate) subtopologies: Vec<SubtopologyTasks>,
    /// The partition counts of internal topics.
    pub(crate) counts: BTreeMap<Text, i32>,
}

#[derive(Debug)]
pub(crate) struct SubtopologyTasks {
    pub(crate) id: Text,
    pub(crate) tasks: i32,
    /// Whether the subtopology has state, in a changelog topic.
    pub(crate) is_stateful: bool,
}

/// The reason why no tasks can be assigned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unready {
    pub(crate) status: Status,
    pub(crate) detail: String,
    /// The missing internal topics, which are to be created.
    pub(crate) missing: Option<Arc<[MissingTopic]>>,
}

/// The status of a group, in the answers to its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    StaleTopology = 0,
    MissingSourceTopics = 1,
    IncorrectlyPartitionedTopics = 2,
    MissingInternalTopics = 3,
    ShutdownApplication = 4,
    AssignmentDelayed = 5,
    MissingClientTags = 6,
}

/// Why a topology cannot be configured.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The topology is invalid. The heartbeat is refused.
    Invalid(&'static str),
    /// The existing topics do not suit the topology.
    Topics(Unready),
}

pub(crate) fn configure(
    topology: &Arc<Topology>,
    topics: &dyn Topics,
) -> Result<Configured, Refusal> {
    let outcome = match ready(topology, topics) {
        Ok(ready) => Ok(ready),
        Err(Failure::Topics(unready)) => Err(unready),
        Err(Failure::Invalid(message)) => {
            return refuse(ErrorCode::StreamsInvalidTopology, message);
        }
    };
    Ok(Configured { topology: topology.clone(), version: topics.version(), outcome })
}

fn ready(topology: &Topology, topics: &dyn Topics) -> Result<Ready, Failure> {
    refuse_missing_sources(topology, topics)?;
    let mut counts = PartitionCounts::new(topics);
    counts.decide_repartition(topology)?;
    counts.force_copartitions(topology)?;
    counts.decide_changelogs(topology)?;
    let in_order = topology.in_order();
    let tasks = in_order.iter().map(|it| SubtopologyTasks {
        id: Text::from(&*it.subtopology_id),
        tasks: counts.tasks(it),
        is_stateful: !it.state_changelog_topics.is_empty(),
    });
    let subtopologies: Vec<_> = tasks.collect();
    let all: i64 = subtopologies.iter().map(|it| i64::from(it.tasks)).sum();
    if all > STREAMS_TASKS_MAX {
        return Err(Failure::Invalid("The topology has too many tasks."));
    }
    let missing = missing(&in_order, &counts, topology, topics)?;
    if missing.is_empty() {
        return Ok(Ready { subtopologies, counts: counts.decided });
    }
    let names = missing.iter().map(|topic| &*topic.name);
    let detail = format!("Internal topics are missing: {}", summary(names));
    let (status, missing) = (Status::MissingInternalTopics, Some(missing.into()));
    Err(Failure::Topics(Unready { status, detail, missing }))
}

pub(crate) fn mispartitioned(detail: String) -> Failure {
    let status = Status::IncorrectlyPartitionedTopics;
    Failure::Topics(Unready { status, detail, missing: None })
}

fn refuse_missing_sources(topology: &Topology, topics: &dyn Topics) -> Result<(), Failure> {
    let names = topology.0.subtopologies.iter().flat_map(|it| &it.source_topics);
    let missing: BTreeSet<&str> =
        names.map(|name| &**name).filter(|name| topics.id(name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let detail = format!("Source topics {} are missing.", summary(missing.into_iter()));
    let status = Status::MissingSourceTopics;
    Err(Failure::Topics(Unready { status, detail, missing: None }))
}

/// The internal topics that do not exist, in the order in which Kafka's `HashMap` iterates them.
fn missing(
    subtopologies: &[&Subtopology],
    counts: &PartitionCounts<'_>,
    topology: &Topology,
    topics: &dyn Topics,
) -> Result<Vec<MissingTopic>, Failure> {
    let mut needed: BTreeMap<&str, (usize, &StreamsGroupTopicInfo<'_>)> = BTreeMap::new();
    for of in subtopologies {
        for topic in of.repartition_source_topics.iter().chain(&of.state_changelog_topics) {
            let inserted = needed.len();
            needed.entry(&topic.name).or_insert((inserted, topic)).1 = topic;
        }
    }
    let mut buckets = Buckets::default();
    buckets.grow_to_hold(needed.len());
    for name in &in_hash_order(topology.topics()) {
        let Some(existing) = topics.partitions(name) else { continue };
        if let Some(expected) = needed.remove(&**name).map(|_| counts.decided_of(name))
            && existing != expected
        {
            return Err(mispartitioned(format!(
                "Existing topic {name} has different number of partitions: expected {expected}, \
                 found {existing}"
            )));
        }
    }
    let mut missing: Vec<_> = needed.into_values().collect();
    missing.sort_by_key(|(inserted, topic)| (buckets.of(&topic.name), *inserted));
    Ok(missing.into_iter().map(|(_, topic)| to_create(topic, counts)).collect())
}

/// Sorts names as Kafka's `HashMap` iterates them.
fn in_hash_order(names: BTreeSet<Text>) -> Vec<Text> {
    let mut buckets = Buckets::default();
    buckets.grow_to_hold(names.len());
    let mut names: Vec<Text> = names.into_iter().collect();
    names.sort_by_key(|name| buckets.of(name));
    names
}

fn to_create(topic: &StreamsGroupTopicInfo<'_>, counts: &PartitionCounts<'_>) -> MissingTopic {
    let configs = topic.topic_configs.iter();
    MissingTopic {
        name: Text::from(&*topic.name),
        partitions: counts.decided_of(&topic.name),
        replication_factor: match topic.replication_factor {
            0 => -1,
            factor => factor,
        },
        configs: configs.map(|it| (Text::from(&*it.key), Text::from(&*it.value))).collect(),
    }
}

/// The first names, and the number of the others.
fn summary<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let mut summary = names[..names.len().min(NAMED_MAX)].join(", ");
    if names.len() > NAMED_MAX {
        let more = names.len() - NAMED_MAX;
        let _ = write!(summary, " and {more} additional topics");
    }
    summary
}

impl Ready {
    /// The index of a subtopology in `subtopologies`.
    pub(crate) fn place_of(&self, id: &str) -> Option<usize> {
        self.subtopologies.binary_search_by(|it| compare(&it.id, id)).ok()
    }
}

impl Configured {
    /// The epoch of the topology if all its topics exist, else -1.
    pub(crate) fn validated_epoch(&self) -> i32 {
        if self.outcome.is_ok() { self.topology.epoch() } else { NO_TOPOLOGY }
    }

    /// Whether this result is still current: `topology` is the one that was configured, and the
    /// topics have not changed since.
    pub(crate) fn is_current(&self, topology: &Arc<Topology>, topics: &dyn Topics) -> bool {
        self.version == topics.version() && Arc::ptr_eq(&self.topology, topology)
    }
}

impl PartitionCounts<'_> {
    /// The number of tasks of a subtopology: the largest number of partitions of a topic that it
    /// reads.
    fn tasks(&self, of: &Subtopology) -> i32 {
        sources(of).filter_map(|name| self.of(name)).max().unwrap_or(0)
    }
}
