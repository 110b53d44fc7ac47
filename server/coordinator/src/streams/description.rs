//! The description of a topology, for operators (KIP-1331). The server requests it from a member.
//! Kafka's broker passes descriptions to a plugin; muster stores them in a field that it adds to
//! the record of the topology.

use crate::text::{TEXT_BYTES, owned as text};
use alloc::vec::Vec;
use muster_codec::Str;
use muster_codec::messages::{
    StreamsTopologyDescription, StreamsTopologyDescriptionGlobalStore as GlobalStore,
    StreamsTopologyDescriptionNode as Node, StreamsTopologyDescriptionSubtopology as Subtopology,
};

/// The types of nodes.
const SOURCE: i8 = 1;
const PROCESSOR: i8 = 2;
const SINK: i8 = 3;

/// The least and the greatest time between two requests for a description.
const WAIT_MS_MIN: i64 = 30_000;
const WAIT_MS_MAX: i64 = 3_600_000;
/// Each wait is up to a fifth shorter or longer, so that groups do not request at the same time
/// again.
const VARIED_PART: i64 = 5;

/// A description that does not borrow from its request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Description(pub(crate) StreamsTopologyDescription<'static>);

/// Why a description is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    NodeType,
    GlobalStore,
}

impl Malformed {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NodeType => "Unknown topology node type.",
            Self::GlobalStore => "Global store must be composed of a source and a processor node.",
        }
    }
}

/// The wait until the description is requested again; volatile.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    until: i64,
    wait_ms: i64,
}

impl Asking {
    /// Whether it is time to request the description. If so, the next wait begins: about twice as
    /// long as the last one, within limits, and varied by `hash`, the Java hash code of the group
    /// id.
    pub(super) fn is_due(&mut self, now: i64, hash: u32) -> bool {
        if self.wait_ms > 0 && now < self.until {
            return false;
        }
        self.wait_ms = (self.wait_ms * 2).clamp(WAIT_MS_MIN, WAIT_MS_MAX);
        let range = self.wait_ms / VARIED_PART;
        let varied = self.wait_ms - range + i64::from(hash) % (2 * range);
        self.until = now.saturating_add(varied);
        true
    }
}

impl Description {
    pub(super) fn read(sent: &StreamsTopologyDescription<'_>) -> Self {
        let subtopology = |it: &Subtopology<'_>| Subtopology {
            subtopology_id: text(&it.subtopology_id),
            nodes: it.nodes.iter().map(node).collect(),
        };
        let store = |it: &GlobalStore<'_>| GlobalStore {
            source: node(&it.source),
            processor: node(&it.processor),
        };
        Self(StreamsTopologyDescription {
            subtopologies: sent.subtopologies.iter().map(subtopology).collect(),
            global_stores: sent.global_stores.iter().map(store).collect(),
        })
    }

    /// The approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        bytes(&self.0)
    }
}

fn node(sent: &Node<'_>) -> Node<'static> {
    Node {
        name: text(&sent.name),
        node_type: sent.node_type,
        source_topics: texts(&sent.source_topics),
        sink_topic: sent.sink_topic.as_deref().map(text),
        stores: texts(&sent.stores),
        successors: texts(&sent.successors),
    }
}

fn texts(sent: &[Str<'_>]) -> Vec<Str<'static>> {
    sent.iter().map(|it| text(it)).collect()
}

/// The approximate size of a description in memory, in bytes.
pub(super) fn bytes(of: &StreamsTopologyDescription<'_>) -> usize {
    let of_text = |text: &Str<'_>| TEXT_BYTES + text.len();
    let of_node = |it: &Node<'_>| {
        let lists = [&it.source_topics, &it.stores, &it.successors];
        let texts = lists.into_iter().flatten().chain(&it.sink_topic);
        size_of::<Node<'_>>() + of_text(&it.name) + texts.map(of_text).sum::<usize>()
    };
    let subtopologies = of
        .subtopologies
        .iter()
        .map(|it| of_text(&it.subtopology_id) + it.nodes.iter().map(of_node).sum::<usize>());
    let stores = of.global_stores.iter().map(|it| of_node(&it.source) + of_node(&it.processor));
    subtopologies.sum::<usize>() + stores.sum::<usize>()
}

/// Checks a description, in Kafka's order.
///
/// # Errors
/// A node has an unknown type, or a global store consists of nodes of the wrong types.
pub(super) fn check(sent: &StreamsTopologyDescription<'_>) -> Result<(), Malformed> {
    let has_type = |it: &Node<'_>| (SOURCE..=SINK).contains(&it.node_type);
    let mut nodes = sent.subtopologies.iter().flat_map(|it| &it.nodes);
    let mut of_stores = sent.global_stores.iter().flat_map(|it| [&it.source, &it.processor]);
    if !nodes.all(has_type) || !of_stores.all(has_type) {
        return Err(Malformed::NodeType);
    }
    let is_whole =
        |it: &GlobalStore<'_>| it.source.node_type == SOURCE && it.processor.node_type == PROCESSOR;
    if sent.global_stores.iter().all(is_whole) { Ok(()) } else { Err(Malformed::GlobalStore) }
}
