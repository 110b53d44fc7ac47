//! The parts of ConsumerGroupHeartbeat: the description of a member, its partitions, and the target
//! assignment in an answer.

use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatTopicPartitions as TopicPartitions,
};
use muster_codec::{ApiKey, Uuid};

use super::core::{Core, millis};
use super::error::{Step, unsupported};
use super::owned::{by_topic, sorted};
use super::text::text;
use crate::plan::{Partition, Protocol, Subscription};
use crate::topics::Topics;

/// The first version in which members choose their own ids (KIP-1082), and may subscribe by a
/// pattern.
pub(super) const OWN_ID: i16 = 1;

/// An assignment as the coordinator sent it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Target {
    pub(super) partitions: Vec<Partition>,
    /// Partitions of topics that the member does not know yet. They wait for metadata.
    pub(super) unknown: Vec<(Uuid, Vec<i32>)>,
}

impl Target {
    /// Reads the partitions of each topic.
    pub(super) fn read(assigned: impl Iterator<Item = (Uuid, Vec<i32>)>, topics: &Topics) -> Self {
        let mut target = Self { partitions: Vec::new(), unknown: assigned.collect() };
        target.resolve(topics);
        target
    }

    /// Moves partitions from `unknown` to `partitions` if their topics are known by now. Returns
    /// whether any moved.
    pub(super) fn resolve(&mut self, topics: &Topics) -> bool {
        let before = self.unknown.len();
        let partitions = &mut self.partitions;
        self.unknown.retain(|(id, numbers)| {
            let Some(topic) = topics.with_id(*id) else { return true };
            let valid = numbers.iter().filter_map(|number| u32::try_from(*number).ok());
            partitions.extend(valid.map(|number| Partition { topic, number }));
            false
        });
        self.partitions = sorted(std::mem::take(&mut self.partitions));
        self.unknown.len() < before
    }
}

/// Sets the fields that a member sends when it joins, and again after a failure or a change of its
/// subscription.
pub(super) fn describe(
    request: &mut ConsumerGroupHeartbeatRequest<'static>,
    version: i16,
    core: &Core,
    topics: &Topics,
) -> Step {
    request.rack_id = core.plan.rack.as_deref().map(text);
    request.rebalance_timeout_ms = millis(core.group().rebalance_timeout);
    match &core.group().subscription {
        Subscription::Topics(wanted) => {
            let known = wanted.iter().filter_map(|topic| topics.get(*topic));
            request.subscribed_topic_names = Some(known.map(|it| text(&it.name)).collect());
        }
        Subscription::Regex { .. } if version < OWN_ID => {
            return Err(unsupported(ApiKey::ConsumerGroupHeartbeat, " with patterns (version 1)"));
        }
        Subscription::Regex { pattern, .. } => {
            request.subscribed_topic_regex = Some(text(pattern));
        }
    }
    if let Protocol::Consumer { assignor } = &core.group().protocol {
        request.server_assignor = assignor.as_deref().map(text);
    }
    Ok(())
}

pub(super) fn wire(partitions: &[Partition], topics: &Topics) -> Vec<TopicPartitions> {
    let of_topic = |(topic, run): (_, &[Partition])| {
        let partitions = run.iter().map(|one| one.number as i32).collect();
        Some(TopicPartitions { topic_id: topics.get(topic)?.id, partitions })
    };
    by_topic(partitions).filter_map(of_topic).collect()
}
