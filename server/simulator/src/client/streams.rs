//! The topologies of streams groups, and the numbers of their tasks for the existing topics.

use crate::random::Random;
use loadgen::plan::{InternalTopic, StreamsPlan, Subtopology, Topology};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The source topics of all topologies.
pub(crate) const SOURCES: [&str; 2] = ["streamed-0", "streamed-1"];

/// The state of a group's topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The group has this number of tasks.
    Ready(u32),
    /// Internal topics are missing, and the server creates them.
    Lacking,
    /// A source topic is missing, or an internal topic has the wrong number of partitions.
    Hindered,
}

/// A topology for the group with this number. The whole topology counts records by key, with a
/// repartition topic between two subtopologies. Some groups have only a single subtopology.
pub(super) fn plan(group: u32, random: &mut Random) -> StreamsPlan {
    let names = internal_topics(group);
    let internal = |at: usize| InternalTopic { name: names[at].clone(), partitions: 0 };
    let sources = random.pick(&[&SOURCES[..1], &SOURCES[1..], &SOURCES[..]]);
    let reading = Subtopology {
        sources: sources.iter().map(|name| (*name).to_owned()).collect(),
        tasks: 1,
        ..Default::default()
    };
    let subtopologies = match random.below(3) {
        0 => vec![Subtopology { changelogs: vec![internal(0)], ..reading }],
        1 => vec![reading],
        _ => vec![
            Subtopology { sinks: vec![names[1].clone()], ..reading },
            Subtopology {
                repartitions: vec![internal(1)],
                changelogs: vec![internal(0)],
                tasks: 1,
                ..Default::default()
            },
        ],
    };
    let topology = Arc::new(Topology { subtopologies });
    StreamsPlan { topology, endpoints: random.chance(0.5) }
}

/// The internal topics that a group may have.
pub(super) fn internal_topics(group: u32) -> [String; 2] {
    ["changelog", "repartition"].map(|kind| format!("group-{group}-{kind}"))
}

/// Whether the topics of a topology are ready. `partitions` returns the number of partitions of a
/// topic, and None if the topic does not exist.
pub(crate) fn readiness(
    topology: &Topology,
    partitions: impl Fn(&str) -> Option<i32>,
) -> Readiness {
    let mut is_lacking = false;
    let mut written = BTreeMap::new();
    let mut tasks = 0;
    for subtopology in &topology.subtopologies {
        let sources = subtopology.sources.iter().map(|name| partitions(name));
        let Some(sources) = sources.collect::<Option<Vec<i32>>>() else {
            return Readiness::Hindered;
        };
        let read = subtopology.repartitions.iter().filter_map(|it| written.get(&it.name));
        let count = sources.into_iter().chain(read.copied()).max().unwrap_or(0);
        let internal = subtopology.changelogs.iter().chain(&subtopology.repartitions);
        for topic in internal {
            match partitions(&topic.name) {
                None => is_lacking = true,
                Some(there) if there == count => {}
                Some(_) => return Readiness::Hindered,
            }
        }
        written.extend(subtopology.sinks.iter().map(|name| (name.clone(), count)));
        tasks += count.unsigned_abs();
    }
    if is_lacking { Readiness::Lacking } else { Readiness::Ready(tasks) }
}
