//! How much work the answer to a request is, about, by the sizes of its groups and topics: whether
//! it takes longer than a slice.

use super::Shard;
use crate::cluster::{BROKER_RESOURCE, GROUP_RESOURCE, Topic};
use crate::dispatch::{
    BROKER_CONFIGS_WEIGHT, CONFIGS_WEIGHT, Items, PARTITIONS_PER_WEIGHT, SLICE_WEIGHT, is_cut,
    topic_weight,
};
use muster_codec::messages::*;
use muster_codec::{Request, Str};
use muster_coordinator::Coordinator;

impl Shard {
    /// Whether the answer to a request takes longer than a slice.
    pub(crate) fn is_long(&mut self, version: i16, request: &Request<'_>) -> bool {
        let (is_cut, mut sum) = (is_cut(version, request), 0);
        let mut weights = (0..).map_while(|at| self.weight(is_cut, request, at));
        weights.any(|weight| {
            sum += weight;
            sum > SLICE_WEIGHT
        })
    }

    /// How many of the items of a long request are answered next: one at the least.
    pub(crate) fn items_at_once(&mut self, items: &Items) -> usize {
        let Some(request) = &items.rest else { return 0 };
        let mut sum = 0;
        let from_the_end = (0..items.len()).rev();
        let weights = from_the_end.map_while(|at| self.weight(items.is_cut, request, at));
        let fit = weights.take_while(|weight| {
            sum += weight;
            sum <= SLICE_WEIGHT
        });
        fit.count().max(1)
    }

    /// How much it is to answer one item, about; None if there are not as many. A request that
    /// cannot be taken apart is one item, and one that is always short has none.
    fn weight(&mut self, is_cut: bool, request: &Request<'_>, at: usize) -> Option<usize> {
        let slots = &mut self.groups.slots;
        let of_group = |group: &Str<'_>| slots.weight(group, Coordinator::group_weight);
        match request {
            uncut if !is_cut => (at == 0).then(|| self.whole_weight(uncut)),
            Request::DescribeGroups(body) => body.groups.get(at).map(of_group),
            Request::ConsumerGroupDescribe(body) => body.group_ids.get(at).map(of_group),
            Request::DeleteGroups(body) => {
                let of_offsets = |group: &Str<'_>| slots.weight(group, Coordinator::offsets_weight);
                body.groups_names.get(at).map(of_offsets)
            }
            Request::OffsetFetch(body) => body.groups.get(at).map(|group| match &group.topics {
                None => slots.weight(&group.group_id, Coordinator::offsets_weight),
                Some(topics) => topics.iter().map(|it| 1 + it.partition_indexes.len()).sum(),
            }),
            Request::DescribeConfigs(body) => {
                body.resources.get(at).map(|resource| match resource.resource_type {
                    BROKER_RESOURCE => BROKER_CONFIGS_WEIGHT,
                    _ => CONFIGS_WEIGHT,
                })
            }
            Request::Metadata(MetadataRequest { topics: Some(topics), .. }) => {
                topics.get(at).map(|asked| self.asked_topic(asked).map_or(1, topic_weight))
            }
            Request::FindCoordinator(body) => body.coordinator_keys.get(at).map(|_| 1),
            _ => None,
        }
    }

    fn asked_topic(&self, asked: &MetadataRequestTopic<'_>) -> Option<&Topic> {
        match &asked.name {
            Some(name) if asked.topic_id.is_zero() => self.image.topic(name),
            _ => self.image.topic_by_id(asked.topic_id),
        }
    }

    /// What a request weighs that is no list of items.
    fn whole_weight(&mut self, request: &Request<'_>) -> usize {
        let (slots, image) = (&mut self.groups.slots, &self.image);
        let topics = image.topic_count();
        match request {
            Request::ListGroups(_) => slots.groups() + slots.iter().len(),
            Request::Metadata(MetadataRequest { topics: Some(named), .. }) if !named.is_empty() => {
                named.len()
            }
            Request::Metadata(_) => {
                topics + image.partition_count() as usize / PARTITIONS_PER_WEIGHT
            }
            Request::OffsetFetch(body) => match &body.topics {
                None => slots.weight(&body.group_id, Coordinator::offsets_weight),
                Some(topics) => topics.iter().map(|it| 1 + it.partition_indexes.len()).sum(),
            },
            Request::DescribeConfigs(body) => body.resources.len(),
            Request::DescribeTopicPartitions(body) => body.topics.len(),
            Request::ListConfigResources(_) => topics + image.configured_count(GROUP_RESOURCE),
            _ => 0,
        }
    }
}
