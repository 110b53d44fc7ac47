//! Metadata: brokers, topics, leaders.

use super::{CLUSTER_OPERATIONS, CONTROLLER, Endpoint, TOPIC_OPERATIONS, View, nodes, operations};
use crate::cluster::limits::PARTITIONS_PER_REQUEST_MAX;
use crate::cluster::{Topic, check_topic_name, is_reserved, leader};
use muster_codec::messages::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use muster_codec::{ErrorCode, Room, Str, Uuid};
use std::collections::BTreeSet;

/// The protocol has ids from version 10 on, but only from 12 on may a topic go without a name.
const FIRST_VERSION_WITH_IDS: i16 = 12;

/// The answer, and the topics that are to be created because the client asked for them: it hears
/// that they are unknown, and asks again. A topic that the answer has no room for gets
/// UNKNOWN_SERVER_ERROR.
pub fn metadata<'r>(
    view: &View<'r>,
    version: i16,
    request: &'r MetadataRequest<'_>,
) -> (MetadataResponse<'r>, Vec<String>) {
    let topics = request.topics.as_deref();
    let topics = topics.filter(|topics| version > 0 || !topics.is_empty());
    let is_wrong = |topic: &MetadataRequestTopic<'_>| match version {
        FIRST_VERSION_WITH_IDS.. => topic.topic_id.is_zero() && topic.name.is_none(),
        _ => !topic.topic_id.is_zero() || topic.name.is_none(),
    };
    if let Some(topics) = topics.filter(|topics| topics.iter().any(is_wrong)) {
        return (refused(topics), Vec::new());
    }
    let room = Room::of_answer();
    let mut answer = Answer { view, request, room, topics: Vec::new(), to_create: Vec::new() };
    match topics {
        None => view.image.all_topics_from("").for_each(|topic| answer.known(topic)),
        Some(topics) if topics.iter().any(|topic| !topic.topic_id.is_zero()) => answer.ids(topics),
        Some(topics) => answer.names(topics),
    }
    let asked = request.include_cluster_authorized_operations;
    let response = MetadataResponse {
        brokers: nodes(view).map(broker).collect(),
        cluster_id: Some(view.cluster_id.into()),
        controller_id: CONTROLLER,
        topics: answer.topics,
        cluster_authorized_operations: operations(asked, CLUSTER_OPERATIONS),
        ..Default::default()
    };
    (response, answer.to_create)
}

/// The answer to topics that the version cannot ask for.
fn refused<'r>(topics: &'r [MetadataRequestTopic<'_>]) -> MetadataResponse<'r> {
    let refuse = |topic: &'r MetadataRequestTopic<'_>| MetadataResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        name: Some(topic.name.as_deref().unwrap_or_default().into()),
        topic_id: topic.topic_id,
        ..Default::default()
    };
    let mut room = Room::of_answer();
    let topics = topics.iter().map(refuse).map_while(|topic| room.fit(topic)).collect();
    MetadataResponse { topics, ..Default::default() }
}

fn broker((node_id, endpoint): (i32, &Endpoint)) -> MetadataResponseBroker<'_> {
    MetadataResponseBroker {
        node_id,
        host: Str::Borrowed(&endpoint.host),
        port: endpoint.port.into(),
        rack: None,
    }
}

/// Topics as they are found.
struct Answer<'v, 'r> {
    view: &'v View<'r>,
    request: &'r MetadataRequest<'r>,
    room: Room,
    topics: Vec<MetadataResponseTopic<'r>>,
    to_create: Vec<String>,
}

impl<'r> Answer<'_, 'r> {
    /// One id makes it a request by ids: topics that are named only do not count, as in Kafka.
    fn ids(&mut self, topics: &[MetadataRequestTopic<'_>]) {
        let ids = topics.iter().map(|topic| topic.topic_id).filter(|id| !id.is_zero());
        for id in ids.collect::<BTreeSet<Uuid>>() {
            match self.view.image.topic_by_id(id) {
                Some(topic) => self.known(topic),
                None => self.push(MetadataResponseTopic {
                    error_code: ErrorCode::UnknownTopicId.code(),
                    name: None,
                    topic_id: id,
                    ..Default::default()
                }),
            }
        }
    }

    fn names(&mut self, topics: &'r [MetadataRequestTopic<'_>]) {
        let names = topics.iter().filter_map(|topic| topic.name.as_deref());
        for name in names.collect::<BTreeSet<&str>>() {
            match self.view.image.topic(name) {
                Some(topic) => self.known(topic),
                None => self.unknown(name),
            }
        }
    }

    fn unknown(&mut self, name: &'r str) {
        let is_name = check_topic_name(name).is_ok();
        let may_create =
            self.request.allow_auto_topic_creation && self.view.config.auto_create_topics_enable;
        let has_room = self.to_create.len() < PARTITIONS_PER_REQUEST_MAX as usize;
        if is_name && may_create && has_room && !is_reserved(name) {
            self.to_create.push(name.to_owned());
        }
        let error = if is_name {
            ErrorCode::UnknownTopicOrPartition
        } else {
            ErrorCode::InvalidTopicException
        };
        self.push(MetadataResponseTopic {
            error_code: error.code(),
            name: Some(name.into()),
            is_internal: is_reserved(name),
            topic_authorized_operations: self.operations(),
            ..Default::default()
        });
    }

    fn known(&mut self, topic: &'r Topic) {
        let partitions = 0..topic.partitions;
        self.push(MetadataResponseTopic {
            name: Some(Str::Borrowed(&topic.name)),
            topic_id: topic.id,
            is_internal: topic.is_internal(),
            partitions: partitions.map(|index| partition(self.view, topic, index)).collect(),
            topic_authorized_operations: self.operations(),
            ..Default::default()
        });
    }

    fn push(&mut self, topic: MetadataResponseTopic<'r>) {
        if self.room.take(&topic) {
            return self.topics.push(topic);
        }
        let error_code = ErrorCode::UnknownServerError.code();
        let refused = MetadataResponseTopic { error_code, partitions: Vec::new(), ..topic };
        self.topics.extend(self.room.fit(refused));
    }

    fn operations(&self) -> i32 {
        operations(self.request.include_topic_authorized_operations, TOPIC_OPERATIONS)
    }
}

/// A partition has one replica and one leader, for good.
fn partition(view: &View<'_>, topic: &Topic, index: i32) -> MetadataResponsePartition {
    let leader = leader(topic, index, view.placement) as i32;
    MetadataResponsePartition {
        partition_index: index,
        leader_id: leader,
        leader_epoch: 0,
        replica_nodes: vec![leader],
        isr_nodes: vec![leader],
        ..Default::default()
    }
}
