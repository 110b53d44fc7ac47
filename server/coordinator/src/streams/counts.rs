//! Decides the partition counts of internal topics, in Kafka's order (`RepartitionTopics`,
//! `CopartitionedTopicsEnforcer` and `ChangelogTopics` in Kafka).

use super::configured::{Failure, mispartitioned};
use super::topology::{Subtopology, Topology, sources};
use crate::context::Topics;
use crate::limits::STREAMS_TOPOLOGY_STEPS_MAX;
use crate::text::Text;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

const LOOP: &str = "Failed to compute number of partitions for all repartition topics. There may \
    be loops in the topology that cannot be resolved.";
const TOO_LONG: &str = "Failed to compute number of partitions for all repartition topics, because \
    too many of them depend on each other.";
const NO_SINK: &str = "Failed to compute number of partitions for all repartition topics, because \
    a repartition source topic is never used as a sink topic.";
const NO_SOURCE: &str = "A subtopology has no source topics.";
const NO_COUNT: &str = "All topics of a copartition group have unknown numbers of partitions.";
const NO_SUCH_TOPIC: &str = "A copartition group refers to a missing topic.";

pub(crate) struct PartitionCounts<'t> {
    topics: &'t dyn Topics,
    pub(crate) decided: BTreeMap<Text, i32>,
}

impl<'t> PartitionCounts<'t> {
    pub(crate) fn new(topics: &'t dyn Topics) -> Self {
        Self { topics, decided: BTreeMap::new() }
    }

    /// The number of partitions of a topic: the existing or the decided number.
    pub(crate) fn of(&self, topic: &str) -> Option<i32> {
        self.topics.partitions(topic).or_else(|| self.decided.get(topic).copied())
    }

    /// The decided number of partitions of a topic; 0 if it is not decided.
    pub(crate) fn decided_of(&self, topic: &str) -> i32 {
        self.decided.get(topic).copied().unwrap_or(0)
    }

    /// Decides the partition counts of repartition topics. A topic for which the member sends no
    /// count gets as many partitions as the largest topic that its writing subtopology reads. Only
    /// counts that are already known are compared, so the order matters.
    pub(crate) fn decide_repartition(&mut self, topology: &Topology) -> Result<(), Failure> {
        let subtopologies = topology.in_hash_order();
        let mut known: BTreeMap<Text, i32> = BTreeMap::new();
        for topic in subtopologies.iter().flat_map(|it| &it.repartition_source_topics) {
            if topic.partitions != 0 {
                known.insert(Text::from(&*topic.name), topic.partitions);
            }
        }
        let mut left: Vec<&Subtopology> = subtopologies.clone();
        let mut steps = 0;
        while self.decide_round(&left, &mut known)? {
            left.retain(|of| {
                of.repartition_sink_topics.iter().any(|it| !known.contains_key(&**it))
            });
            steps += left.iter().map(|of| names_of(of)).sum::<usize>();
            if steps > STREAMS_TOPOLOGY_STEPS_MAX {
                return Err(Failure::Invalid(TOO_LONG));
            }
        }
        let mut read = subtopologies.iter().flat_map(|it| &it.repartition_source_topics);
        if read.any(|topic| !known.contains_key(&*topic.name)) {
            return Err(Failure::Invalid(NO_SINK));
        }
        self.decided.extend(known);
        Ok(())
    }

    /// Decides the numbers that follow from known numbers. Returns whether some numbers are still
    /// unknown.
    fn decide_round(
        &self,
        subtopologies: &[&Subtopology],
        known: &mut BTreeMap<Text, i32>,
    ) -> Result<bool, Failure> {
        let (mut has_unknown, mut has_progress) = (false, false);
        for of in subtopologies {
            // `largest` is computed once: the numbers that this loop inserts equal it, and cannot
            // raise it.
            let largest = self.largest_known(of, known);
            for sink in &of.repartition_sink_topics {
                if known.contains_key(&**sink) {
                    continue;
                }
                match largest {
                    Some(count) => {
                        known.insert(Text::from(&**sink), count);
                        has_progress = true;
                    }
                    None => has_unknown = true,
                }
            }
        }
        if has_unknown && !has_progress { Err(Failure::Invalid(LOOP)) } else { Ok(has_unknown) }
    }

    fn largest_known(&self, of: &Subtopology, known: &BTreeMap<Text, i32>) -> Option<i32> {
        let repartition = of.repartition_source_topics.iter();
        let repartition = repartition.filter_map(|topic| known.get(&*topic.name).copied());
        let external = of.source_topics.iter().filter_map(|name| self.of(name));
        repartition.chain(external).max()
    }

    /// Gives the topics of each copartition group the same number of partitions.
    pub(crate) fn force_copartitions(&mut self, topology: &Topology) -> Result<(), Failure> {
        let all = topology.0.subtopologies.iter().flat_map(|it| &it.repartition_source_topics);
        let (fixed, flexible): (Vec<_>, Vec<_>) = all.partition(|topic| topic.partitions != 0);
        let names = |topics: Vec<_>| -> BTreeSet<&str> {
            topics
                .into_iter()
                .map(|topic: &muster_codec::messages::StreamsGroupTopicInfo<'static>| &*topic.name)
                .collect()
        };
        let (fixed, flexible) = (names(fixed), names(flexible));
        // As in Kafka, `same` is about all topics with a given count, not only those of one
        // copartition group. The loop does not change the counts of such topics.
        let same = self.same_of(&fixed);
        for of in topology.in_hash_order() {
            for indexes in &of.copartition_groups {
                let source = indexes
                    .source_topics
                    .iter()
                    .map(|at| of.source_topics.get(usize::try_from(*at).ok()?).map(|name| &**name));
                let repartition = indexes.repartition_source_topics.iter().map(|at| {
                    of.repartition_source_topics.get(usize::try_from(*at).ok()?).map(|it| &*it.name)
                });
                let group: Option<BTreeSet<&str>> = source.chain(repartition).collect();
                let group = group.ok_or(Failure::Invalid(NO_SUCH_TOPIC))?;
                self.force_copartition(&group, &fixed, same, &flexible)?;
            }
        }
        Ok(())
    }

    fn force_copartition(
        &mut self,
        group: &BTreeSet<&str>,
        fixed: &BTreeSet<&str>,
        same: Option<i32>,
        flexible: &BTreeSet<&str>,
    ) -> Result<(), Failure> {
        if group.is_empty() {
            return Ok(());
        }
        let is_repartition = |name: &&str| fixed.contains(name) || flexible.contains(name);
        let (repartition, external): (Vec<&str>, Vec<&str>) =
            group.iter().copied().partition(is_repartition);
        let counts = |names: &[&str]| -> BTreeMap<Text, i32> {
            let of = |name: &&str| (Text::from(*name), self.of(name).unwrap_or(0));
            names.iter().map(of).collect()
        };
        let (repartition, external) = (counts(&repartition), counts(&external));
        let count = match external.values().next().copied() {
            Some(first) if external.values().all(|count| *count == first) => first,
            Some(_) => return Err(unequal(&external)),
            None if fixed.is_empty() => largest(&repartition)?,
            None => same.ok_or_else(|| unequal(&repartition))?,
        };
        for (name, had) in repartition {
            if fixed.contains(&*name) && had != count {
                return Err(mispartitioned(format!(
                    "Number of partitions [{had}] of repartition topic [{name}] doesn't match \
                     number of partitions [{count}] of the source topic."
                )));
            }
            self.decided.insert(name, count);
        }
        Ok(())
    }

    /// The common number of partitions of these topics; None if their numbers differ.
    fn same_of(&self, names: &BTreeSet<&str>) -> Option<i32> {
        let mut counts = names.iter().map(|name| self.of(name).unwrap_or(0));
        let first = counts.next()?;
        counts.all(|count| count == first).then_some(first)
    }

    /// Decides the partitions of changelogs: one for each task of the subtopology.
    pub(crate) fn decide_changelogs(&mut self, topology: &Topology) -> Result<(), Failure> {
        let mut changelogs = Vec::new();
        for of in topology.in_hash_order() {
            let count = sources(of).filter_map(|name| self.of(name)).max();
            let count = count.ok_or(Failure::Invalid(NO_SOURCE))?;
            let names = of.state_changelog_topics.iter().map(|topic| Text::from(&*topic.name));
            changelogs.extend(names.map(|name| (name, count)));
        }
        self.decided.extend(changelogs);
        Ok(())
    }
}

fn names_of(of: &Subtopology) -> usize {
    let read = of.source_topics.len() + of.repartition_source_topics.len();
    read + of.repartition_sink_topics.len()
}

fn largest(counts: &BTreeMap<Text, i32>) -> Result<i32, Failure> {
    let largest = counts.values().copied().max().filter(|count| *count > 0);
    largest.ok_or(Failure::Invalid(NO_COUNT))
}

/// The failure that topics of a copartition group have different partition counts.
fn unequal(counts: &BTreeMap<Text, i32>) -> Failure {
    let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{name}={count}")).collect();
    mispartitioned(format!(
        "Following topics do not have the same number of partitions: [{{{}}}]",
        counts.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::vec;
    use muster_codec::Uuid;
    use muster_codec::messages::{StreamsGroupTopicInfo, StreamsGroupTopology};

    /// A cluster with one topic, which has three partitions.
    struct OneTopic;

    impl Topics for OneTopic {
        fn id(&self, _: &str) -> Option<Uuid> {
            None
        }

        fn name(&self, _: Uuid) -> Option<&str> {
            None
        }

        fn partitions(&self, name: &str) -> Option<i32> {
            (name == "in").then_some(3)
        }

        fn version(&self) -> i64 {
            0
        }

        fn version_of_newest(&self) -> i64 {
            0
        }

        fn names_after(&self, _: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_> {
            Box::new(core::iter::empty())
        }
    }

    /// A topology in which each subtopology reads what the previous one writes.
    fn chain(len: usize) -> Topology {
        let subtopology = |at: usize| Subtopology {
            subtopology_id: format!("{at}").into(),
            source_topics: if at == 0 { vec!["in".into()] } else { vec![] },
            repartition_source_topics: (at > 0)
                .then(|| StreamsGroupTopicInfo {
                    name: format!("r{at}").into(),
                    ..Default::default()
                })
                .into_iter()
                .collect(),
            repartition_sink_topics: vec![format!("r{}", at + 1).into()],
            ..Default::default()
        };
        let last = StreamsGroupTopicInfo { name: format!("r{len}").into(), ..Default::default() };
        let mut subtopologies: Vec<_> = (0..len).map(subtopology).collect();
        subtopologies.push(Subtopology {
            subtopology_id: format!("{len}").into(),
            repartition_source_topics: vec![last],
            ..Default::default()
        });
        Topology(StreamsGroupTopology { epoch: 0, subtopologies })
    }

    #[test]
    fn a_chain_of_topics_is_decided_unless_that_takes_too_long() {
        let mut counts = PartitionCounts::new(&OneTopic);
        assert!(counts.decide_repartition(&chain(100)).is_ok());
        assert_eq!((counts.decided_of("r1"), counts.decided_of("r100")), (3, 3));
        let refused = PartitionCounts::new(&OneTopic).decide_repartition(&chain(4_000));
        assert!(matches!(refused, Err(Failure::Invalid(TOO_LONG))));
    }
}
