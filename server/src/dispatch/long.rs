//! Long requests: those whose answer takes longer than a slice. They are taken apart here, so that
//! each is answered like many short ones.

use crate::admin;
use crate::cluster::Topic;
use muster_codec::messages::*;
use muster_codec::{Field, Request, Str};
use std::collections::HashSet;

/// What is answered at once: some 150 microseconds of work, if no single item is more.
pub(crate) const SLICE_WEIGHT: usize = 512;

/// What the configs of a resource weigh.
pub(crate) const CONFIGS_WEIGHT: usize = 32;
pub(crate) const BROKER_CONFIGS_WEIGHT: usize = 256;

/// The number of partitions that are described in the time of one member.
pub(crate) const PARTITIONS_PER_WEIGHT: usize = 4;

/// What it is to tell of the partitions of a topic.
pub(crate) fn topic_weight(topic: &Topic) -> usize {
    1 + topic.partitions as usize / PARTITIONS_PER_WEIGHT
}

/// Whether the items of a request are in a list, and each is answered for itself.
pub(crate) fn is_cut(version: i16, request: &Request<'_>) -> bool {
    match request {
        Request::OffsetFetch(_) => version >= 8,
        Request::Metadata(body) => {
            body.topics.as_ref().is_some_and(|topics| !topics.is_empty())
                && admin::refusal_of_metadata(version, body).is_none()
        }
        Request::DescribeGroups(_)
        | Request::ConsumerGroupDescribe(_)
        | Request::DeleteGroups(_) => true,
        Request::DescribeConfigs(body) => admin::unknown_type(body).is_none(),
        Request::FindCoordinator(_) => version >= 4,
        _ => false,
    }
}

fn items(request: &Request<'_>) -> usize {
    match request {
        Request::DescribeGroups(body) => body.groups.len(),
        Request::ConsumerGroupDescribe(body) => body.group_ids.len(),
        Request::DeleteGroups(body) => body.groups_names.len(),
        Request::OffsetFetch(body) => body.groups.len(),
        Request::DescribeConfigs(body) => body.resources.len(),
        Request::Metadata(body) => body.topics.as_ref().map_or(0, Vec::len),
        Request::FindCoordinator(body) => body.coordinator_keys.len(),
        _ => 1,
    }
}

/// The items of a long request that are not answered yet, the next one last.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) rest: Option<Request<'static>>,
    /// Whether they are in a list; else the request is the one item.
    pub(crate) is_cut: bool,
    /// Of each resource of DescribeConfigs, whether it was named before.
    repeated: Vec<bool>,
}

impl Items {
    /// None of an API that has no long requests.
    pub(crate) fn new(version: i16, request: Request<'_>) -> Option<Self> {
        let is_cut = is_cut(version, &request);
        let mut request = owned(request)?;
        let repeated = if is_cut { prepare(&mut request) } else { Vec::new() };
        Some(Self { rest: Some(request), is_cut, repeated })
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| if self.is_cut { items(rest) } else { 1 })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_none()
    }

    /// Bytes that they hold.
    pub(crate) fn held(&self) -> usize {
        self.rest.as_ref().map_or(0, |request| match request {
            Request::DescribeGroups(body) => body.held(),
            Request::ConsumerGroupDescribe(body) => body.held(),
            Request::DeleteGroups(body) => body.held(),
            Request::OffsetFetch(body) => body.held(),
            Request::DescribeConfigs(body) => body.held(),
            Request::Metadata(body) => body.held(),
            Request::FindCoordinator(body) => body.held(),
            Request::DescribeTopicPartitions(body) => body.held(),
            _ => 0,
        })
    }

    /// A short request for the next `count` items, and which of them were named before.
    pub(crate) fn take(&mut self, count: usize) -> Option<(Request<'static>, Vec<bool>)> {
        let are_left = self.len() > count;
        let repeated = last(&mut self.repeated, count);
        if are_left && let Some(some) = self.rest.as_mut().and_then(|rest| split(rest, count)) {
            return Some((some, repeated));
        }
        let mut all = self.rest.take()?;
        if self.is_cut {
            reverse(&mut all);
        }
        Some((all, repeated))
    }
}

/// Turns the order round, for what is taken is taken from the end, and names each topic once. Tells
/// which resources are named again.
fn prepare(request: &mut Request<'static>) -> Vec<bool> {
    if let Request::Metadata(body) = request {
        body.topics.iter_mut().for_each(topics_once);
    }
    reverse(request);
    let Request::DescribeConfigs(body) = request else { return Vec::new() };
    let mut seen = HashSet::with_capacity(body.resources.len());
    let resources = body.resources.iter().rev();
    let is_repeated = |it: &DescribeConfigsResource<'static>| {
        !seen.insert((it.resource_type, it.resource_name.clone()))
    };
    let mut repeated: Vec<bool> = resources.map(is_repeated).collect();
    repeated.reverse();
    repeated
}

/// As in [`admin::metadata`], one id makes it a request by ids.
fn topics_once(topics: &mut Vec<MetadataRequestTopic<'static>>) {
    if topics.iter().any(|topic| !topic.topic_id.is_zero()) {
        topics.retain(|topic| !topic.topic_id.is_zero());
    }
    let mut seen = HashSet::with_capacity(topics.len());
    topics.retain(|topic| match topic.topic_id.is_zero() {
        true => seen.insert((topic.topic_id, topic.name.clone())),
        false => seen.insert((topic.topic_id, None)),
    });
}

fn reverse(request: &mut Request<'static>) {
    match request {
        Request::DescribeGroups(body) => body.groups.reverse(),
        Request::ConsumerGroupDescribe(body) => body.group_ids.reverse(),
        Request::DeleteGroups(body) => body.groups_names.reverse(),
        Request::OffsetFetch(body) => body.groups.reverse(),
        Request::DescribeConfigs(body) => body.resources.reverse(),
        Request::Metadata(body) => body.topics.iter_mut().for_each(|topics| topics.reverse()),
        Request::FindCoordinator(body) => body.coordinator_keys.reverse(),
        _ => {}
    }
}

/// The last `count` elements, the last one first.
fn last<T>(list: &mut Vec<T>, count: usize) -> Vec<T> {
    let mut some = list.split_off(list.len().saturating_sub(count));
    some.reverse();
    some
}

fn split(rest: &mut Request<'static>, count: usize) -> Option<Request<'static>> {
    Some(match rest {
        Request::DescribeGroups(body) => {
            DescribeGroupsRequest { groups: last(&mut body.groups, count), ..*body }.into()
        }
        Request::ConsumerGroupDescribe(body) => {
            let group_ids = last(&mut body.group_ids, count);
            ConsumerGroupDescribeRequest { group_ids, ..*body }.into()
        }
        Request::DeleteGroups(body) => {
            DeleteGroupsRequest { groups_names: last(&mut body.groups_names, count) }.into()
        }
        Request::OffsetFetch(body) => OffsetFetchRequest {
            groups: last(&mut body.groups, count),
            require_stable: body.require_stable,
            ..Default::default()
        }
        .into(),
        Request::DescribeConfigs(body) => {
            let resources = last(&mut body.resources, count);
            DescribeConfigsRequest { resources, ..*body }.into()
        }
        Request::Metadata(body) => {
            let topics = body.topics.as_mut().map(|topics| last(topics, count));
            MetadataRequest { topics, ..*body }.into()
        }
        Request::FindCoordinator(body) => FindCoordinatorRequest {
            coordinator_keys: last(&mut body.coordinator_keys, count),
            key_type: body.key_type,
            ..Default::default()
        }
        .into(),
        _ => return None,
    })
}

/// The request without the frame that it was read from; None of an API that has no long requests.
fn owned(request: Request<'_>) -> Option<Request<'static>> {
    Some(match request {
        Request::DescribeGroups(body) => {
            let include_authorized_operations = body.include_authorized_operations;
            DescribeGroupsRequest { groups: all(body.groups, text), include_authorized_operations }
                .into()
        }
        Request::ConsumerGroupDescribe(body) => ConsumerGroupDescribeRequest {
            group_ids: all(body.group_ids, text),
            include_authorized_operations: body.include_authorized_operations,
        }
        .into(),
        Request::DeleteGroups(body) => {
            DeleteGroupsRequest { groups_names: all(body.groups_names, text) }.into()
        }
        Request::OffsetFetch(body) => OffsetFetchRequest {
            group_id: text(body.group_id),
            topics: body.topics.map(|topics| all(topics, topic_of_one_group)),
            groups: all(body.groups, group),
            require_stable: body.require_stable,
        }
        .into(),
        Request::DescribeConfigs(body) => DescribeConfigsRequest {
            resources: all(body.resources, resource),
            include_synonyms: body.include_synonyms,
            include_documentation: body.include_documentation,
        }
        .into(),
        Request::Metadata(body) => {
            let topics = body.topics.map(|topics| all(topics, metadata_topic));
            let MetadataRequest {
                allow_auto_topic_creation,
                include_cluster_authorized_operations,
                include_topic_authorized_operations,
                ..
            } = body;
            MetadataRequest {
                topics,
                allow_auto_topic_creation,
                include_cluster_authorized_operations,
                include_topic_authorized_operations,
            }
            .into()
        }
        Request::FindCoordinator(body) => FindCoordinatorRequest {
            key: text(body.key),
            key_type: body.key_type,
            coordinator_keys: all(body.coordinator_keys, text),
        }
        .into(),
        Request::DescribeTopicPartitions(body) => DescribeTopicPartitionsRequest {
            topics: all(body.topics, |topic| TopicRequest { name: text(topic.name) }),
            response_partition_limit: body.response_partition_limit,
            cursor: body.cursor.map(|cursor| Cursor {
                topic_name: text(cursor.topic_name),
                partition_index: cursor.partition_index,
            }),
        }
        .into(),
        Request::ListGroups(body) => ListGroupsRequest {
            states_filter: all(body.states_filter, text),
            types_filter: all(body.types_filter, text),
        }
        .into(),
        _ => return None,
    })
}

fn all<T, O>(list: Vec<T>, owned: impl FnMut(T) -> O) -> Vec<O> {
    list.into_iter().map(owned).collect()
}

fn text(text: Str<'_>) -> Str<'static> {
    Str::Owned(text.into_owned())
}

fn topic_of_one_group(topic: OffsetFetchRequestTopic<'_>) -> OffsetFetchRequestTopic<'static> {
    OffsetFetchRequestTopic { name: text(topic.name), partition_indexes: topic.partition_indexes }
}

fn group(group: OffsetFetchRequestGroup<'_>) -> OffsetFetchRequestGroup<'static> {
    let topic = |topic: OffsetFetchRequestTopics<'_>| OffsetFetchRequestTopics {
        name: text(topic.name),
        topic_id: topic.topic_id,
        partition_indexes: topic.partition_indexes,
    };
    OffsetFetchRequestGroup {
        group_id: text(group.group_id),
        member_id: group.member_id.map(text),
        member_epoch: group.member_epoch,
        topics: group.topics.map(|topics| all(topics, topic)),
    }
}

fn resource(resource: DescribeConfigsResource<'_>) -> DescribeConfigsResource<'static> {
    DescribeConfigsResource {
        resource_type: resource.resource_type,
        resource_name: text(resource.resource_name),
        configuration_keys: resource.configuration_keys.map(|keys| all(keys, text)),
    }
}

fn metadata_topic(topic: MetadataRequestTopic<'_>) -> MetadataRequestTopic<'static> {
    MetadataRequestTopic { topic_id: topic.topic_id, name: topic.name.map(text) }
}
