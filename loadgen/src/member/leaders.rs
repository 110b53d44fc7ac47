//! The leaders of the partitions that a member writes to or reads, from the cluster's metadata.

use muster_codec::ApiKey;
use muster_codec::messages::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

use super::backoff::Retry;
use super::core::{Core, Turn};
use super::error::Step;
use super::io::{Answer, Destination, Failure, NodeIndex, Request, Response};
use super::text::text;
use crate::plan::Partition;
use crate::time::Time;

/// The leaders of the partitions of a list, each at the index of its partition. So the caller must
/// pass the same list to all calls.
#[derive(Debug)]
pub(super) struct Leaders {
    nodes: Vec<Option<NodeIndex>>,
    /// The metadata request in flight.
    asked: Option<u32>,
    outdated: bool,
    retry: Retry,
}

impl Leaders {
    pub(super) fn of(partitions: usize) -> Self {
        let nodes = vec![None; partitions];
        Self { nodes, asked: None, outdated: true, retry: Retry::default() }
    }

    pub(super) fn node(&self, place: usize) -> Option<NodeIndex> {
        self.nodes.get(place).copied().flatten().filter(|_| !self.outdated)
    }

    pub(super) fn are_known(&self) -> bool {
        !self.outdated
    }

    /// Forgets the leaders, so that they are looked up before the next request is sent.
    pub(super) fn forget(&mut self) {
        self.outdated = true;
    }

    pub(super) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        self.asked == Some(token)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        (self.outdated && self.asked.is_none()).then(|| self.retry.until())
    }

    pub(super) fn advance(
        &mut self,
        partitions: &[Partition],
        core: &mut Core,
        turn: &mut Turn<'_, '_>,
    ) -> Step {
        if self.deadline().is_none_or(|due| due > turn.now()) {
            return Ok(());
        }
        let version = core.version(turn, ApiKey::Metadata, 0, "")?;
        let request = Request::Metadata(request(partitions, version, turn));
        let due = turn.now();
        self.asked = Some(core.send_due(turn, Destination::Any, version, request, due));
        Ok(())
    }

    /// Handles the answer if it is to a request of this lookup. Returns any other answer.
    pub(super) fn answered<'a>(
        &mut self,
        answer: Answer<'a>,
        partitions: &[Partition],
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) -> Option<Answer<'a>> {
        if !self.awaits(answer.token) {
            return Some(answer);
        }
        self.found(answer.outcome, partitions, core, turn);
        None
    }

    fn found(
        &mut self,
        outcome: Result<Response<'_>, Failure>,
        partitions: &[Partition],
        core: &Core,
        turn: &mut Turn<'_, '_>,
    ) {
        self.asked = None;
        if let Ok(Response::Metadata(response)) = outcome {
            self.nodes = nodes(&response, partitions, core, turn);
            self.outdated = self.nodes.contains(&None);
        }
        if self.outdated {
            return core.failed(&mut self.retry, turn);
        }
        // A lookup soon after this one has to wait. Otherwise lookups would follow each other at
        // once if these leaders refused requests.
        let backoff = &core.group().backoff;
        self.retry.succeeded_with_pause(turn.now(), backoff, turn.context.random);
    }
}

fn request(
    partitions: &[Partition],
    version: i16,
    turn: &Turn<'_, '_>,
) -> MetadataRequest<'static> {
    let topics = partitions.chunk_by(|one, other| one.topic == other.topic);
    let known = topics.filter_map(|some| turn.context.topics.get(some.first()?.topic));
    let named = known.map(|topic| MetadataRequestTopic {
        name: Some(text(&topic.name)),
        ..MetadataRequestTopic::default()
    });
    MetadataRequest {
        topics: Some(named.collect()),
        // Before version 4 the field can only be true.
        allow_auto_topic_creation: version < 4,
        ..MetadataRequest::default()
    }
}

/// Returns the leaders of `partitions`, which are sorted. Reports the errors of topics.
fn nodes(
    response: &MetadataResponse<'_>,
    partitions: &[Partition],
    core: &Core,
    turn: &mut Turn<'_, '_>,
) -> Vec<Option<NodeIndex>> {
    let mut nodes = vec![None; partitions.len()];
    for topic in &response.topics {
        if topic.error_code != 0 {
            core.refused(turn, ApiKey::Metadata, topic.error_code);
        }
        let index = topic.name.as_ref().and_then(|name| turn.context.topics.named(name));
        for led in &topic.partitions {
            let number = u32::try_from(led.partition_index).ok();
            let Some((topic, number)) = index.zip(number) else { continue };
            let partition = Partition { topic, number };
            let mut brokers = response.brokers.iter();
            let broker = brokers.find(|broker| broker.node_id == led.leader_id);
            let node = broker.and_then(|broker| {
                let port = u16::try_from(broker.port).ok()?;
                Some(turn.context.nodes.intern(&broker.host, port))
            });
            node.into_iter().for_each(|node| turn.context.nodes.led(partition, node));
            if let Ok(place) = partitions.binary_search(&partition) {
                nodes[place] = node;
            }
        }
    }
    nodes
}
