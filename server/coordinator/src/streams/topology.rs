//! The topology of an application, as its members send it: subtopologies with the topics that they
//! read and write. A group keeps its first topology.

use crate::java_order::{Buckets, compare};
use crate::text::{TEXT_BYTES, Text, owned as text};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use muster_codec::messages::{
    StreamsGroupKeyValue, StreamsGroupSubtopology, StreamsGroupTopicInfo, StreamsGroupTopology,
    StreamsTopologyDescription,
};
use muster_codec::records::StreamsGroupTopologyValue;

/// The topology epoch of a group without a topology.
pub(crate) const NO_TOPOLOGY: i32 = -1;

pub(crate) type Subtopology = StreamsGroupSubtopology<'static>;

/// A topology that does not borrow from its request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Topology(pub(crate) StreamsGroupTopology<'static>);

impl Topology {
    pub(crate) fn read(epoch: i32, subtopologies: &[StreamsGroupSubtopology<'_>]) -> Self {
        let subtopologies = subtopologies.iter().map(|it| StreamsGroupSubtopology {
            subtopology_id: text(&it.subtopology_id),
            source_topics: it.source_topics.iter().map(|it| text(it)).collect(),
            source_topic_regex: it.source_topic_regex.iter().map(|it| text(it)).collect(),
            state_changelog_topics: it.state_changelog_topics.iter().map(internal).collect(),
            repartition_sink_topics: it.repartition_sink_topics.iter().map(|it| text(it)).collect(),
            repartition_source_topics: it.repartition_source_topics.iter().map(internal).collect(),
            copartition_groups: it.copartition_groups.clone(),
        });
        Self(StreamsGroupTopology { epoch, subtopologies: subtopologies.collect() })
    }

    /// The topology as a record.
    pub(crate) fn to_record(
        &self,
        description: Option<StreamsTopologyDescription<'static>>,
    ) -> StreamsGroupTopologyValue<'static> {
        let StreamsGroupTopology { epoch, subtopologies } = self.0.clone();
        StreamsGroupTopologyValue { epoch, subtopologies, description }
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.0.epoch
    }

    /// Whether two topologies are equal. The order of subtopologies does not matter.
    pub(crate) fn is(&self, sent: &StreamsGroupTopology<'_>) -> bool {
        let known: BTreeMap<&str, &Subtopology> =
            self.0.subtopologies.iter().map(|it| (&*it.subtopology_id, it)).collect();
        let is_known = |it: &StreamsGroupSubtopology<'_>| {
            known.get(&*it.subtopology_id).is_some_and(|known| *known == it)
        };
        self.0.epoch == sent.epoch
            && self.0.subtopologies.len() == sent.subtopologies.len()
            && sent.subtopologies.iter().all(is_known)
    }

    /// The subtopologies, sorted by id.
    pub(crate) fn in_order(&self) -> Vec<&Subtopology> {
        let mut all: Vec<_> = self.0.subtopologies.iter().collect();
        all.sort_by(|one, other| compare(&one.subtopology_id, &other.subtopology_id));
        all
    }

    /// The subtopologies in the order of Kafka's hash table.
    pub(crate) fn in_hash_order(&self) -> Vec<&Subtopology> {
        let mut buckets = Buckets::default();
        buckets.grow_to_hold(self.0.subtopologies.len());
        let mut all: Vec<_> = self.0.subtopologies.iter().collect();
        all.sort_by_key(|it| buckets.of(&it.subtopology_id));
        all
    }

    /// The subtopology that reads a topic.
    pub(crate) fn reader_of(&self, topic: &str) -> Option<&Subtopology> {
        // If several subtopologies read the topic, Kafka keeps the last one.
        let all = self.in_hash_order().into_iter().rev();
        all.into_iter().find(|it| sources(it).any(|name| name == topic))
    }

    /// All topics that the application reads, and its changelog topics, sorted.
    pub(crate) fn topics(&self) -> BTreeSet<Text> {
        let of = |it: &'_ Subtopology| -> Vec<Text> {
            let changelogs = it.state_changelog_topics.iter().map(|topic| &*topic.name);
            sources(it).chain(changelogs).map(Text::from).collect()
        };
        self.0.subtopologies.iter().flat_map(of).collect()
    }

    /// The approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let of_text = |text: &str| TEXT_BYTES + text.len();
        let of_topic = |topic: &StreamsGroupTopicInfo<'_>| {
            let configs = topic.topic_configs.iter();
            let configs = configs.map(|it| of_text(&it.key) + of_text(&it.value));
            of_text(&topic.name) + configs.sum::<usize>()
        };
        let of = |it: &Subtopology| {
            let internal = it.state_changelog_topics.iter().chain(&it.repartition_source_topics);
            let names = it.source_topics.iter().chain(&it.repartition_sink_topics);
            let groups = it.copartition_groups.iter();
            let indexes =
                groups.map(|it| it.source_topics.len() + it.repartition_source_topics.len());
            of_text(&it.subtopology_id)
                + internal.map(of_topic).sum::<usize>()
                + names.map(|it| of_text(it)).sum::<usize>()
                + indexes.map(|count| TEXT_BYTES + 2 * count).sum::<usize>()
        };
        self.0.subtopologies.iter().map(of).sum()
    }
}

/// The topics that a subtopology reads: source topics and repartition topics.
pub(crate) fn sources<'t>(of: &'t StreamsGroupSubtopology<'_>) -> impl Iterator<Item = &'t str> {
    let repartition = of.repartition_source_topics.iter().map(|topic| &*topic.name);
    of.source_topics.iter().map(|name| &**name).chain(repartition)
}

fn internal(sent: &StreamsGroupTopicInfo<'_>) -> StreamsGroupTopicInfo<'static> {
    let configs = sent.topic_configs.iter();
    let configs =
        configs.map(|it| StreamsGroupKeyValue { key: text(&it.key), value: text(&it.value) });
    StreamsGroupTopicInfo {
        name: text(&sent.name),
        partitions: sent.partitions,
        replication_factor: sent.replication_factor,
        topic_configs: configs.collect(),
    }
}
