//! Metadata: brokers, topics, leaders.

use super::{Endpoint, NO_CONTROLLER, NO_LEADER, View, operations};
use crate::cluster::limits::PARTITIONS_PER_REQUEST_MAX;
use crate::cluster::{Replicas, Topic, check_topic_name, is_reserved};
use crate::security::acls::ResourceType;
use muster_codec::messages::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use muster_codec::{AnswerBudget, ErrorCode, Str, Uuid};
use std::collections::BTreeSet;

/// The first version in which a request may name a topic by its id alone. Ids exist from version 10
/// on.
const FIRST_VERSION_WITH_IDS: i16 = 12;

/// Returns the answer, and the names of the topics to create automatically. The answer says that
/// these are unknown, so that the client asks again. A topic that exceeds the answer's budget gets
/// UNKNOWN_SERVER_ERROR.
pub fn metadata<'r>(
    view: &View<'r>,
    version: i16,
    request: &'r MetadataRequest<'_>,
) -> (MetadataResponse<'r>, Vec<String>) {
    let topics = request.topics.as_deref().filter(|_| !asks_for_all(version, request));
    if let Some((topics, error)) = topics.zip(refusal_of_metadata(version, request)) {
        return (refused(topics, error), Vec::new());
    }
    let budget = AnswerBudget::of_answer();
    let mut answer = Answer { view, request, budget, topics: Vec::new(), to_create: Vec::new() };
    match topics {
        None => view.image.all_topics_from("").for_each(|topic| answer.known(topic)),
        Some(topics) if topics.iter().any(|topic| !topic.topic_id.is_zero()) => answer.ids(topics),
        Some(topics) => answer.names(topics),
    }
    let asked = request.include_cluster_authorized_operations;
    let response = MetadataResponse {
        brokers: view.brokers.all().map(broker).collect(),
        cluster_id: Some(view.cluster_id.into()),
        controller_id: view.brokers.controller().unwrap_or(NO_CONTROLLER),
        topics: answer.topics,
        cluster_authorized_operations: operations(asked, ResourceType::Cluster.operations()),
        ..Default::default()
    };
    (response, answer.to_create)
}

/// Whether a request asks for all topics.
pub fn asks_for_all(version: i16, request: &MetadataRequest<'_>) -> bool {
    request.topics.as_ref().is_none_or(|topics| version == 0 && topics.is_empty())
}

/// The error that refuses all topics of a request. Before version 12 each topic must have a name
/// and no id. From version 12 on, a topic without a name is an error only if no topic of the
/// request has an id. (Kafka fails on such a request.)
pub fn refusal_of_metadata(version: i16, request: &MetadataRequest<'_>) -> Option<ErrorCode> {
    let topics = request.topics.as_deref().unwrap_or_default();
    let has_id = topics.iter().any(|topic| !topic.topic_id.is_zero());
    let is_nameless = topics.iter().any(|topic| topic.name.is_none());
    if version >= FIRST_VERSION_WITH_IDS {
        (!has_id && is_nameless).then_some(ErrorCode::UnknownServerError)
    } else {
        (has_id || is_nameless).then_some(ErrorCode::InvalidRequest)
    }
}

/// Refuses all topics with the same error.
fn refused<'r>(topics: &'r [MetadataRequestTopic<'_>], error: ErrorCode) -> MetadataResponse<'r> {
    let refuse = |topic: &'r MetadataRequestTopic<'_>| MetadataResponseTopic {
        error_code: error.code(),
        name: Some(topic.name.as_deref().unwrap_or_default().into()),
        topic_id: topic.topic_id,
        ..Default::default()
    };
    let mut budget = AnswerBudget::of_answer();
    let topics = topics.iter().map(refuse).map_while(|topic| budget.fit(topic)).collect();
    MetadataResponse { topics, error_code: error.code(), ..Default::default() }
}

fn broker((node_id, endpoint): (i32, &Endpoint)) -> MetadataResponseBroker<'_> {
    MetadataResponseBroker {
        node_id,
        host: Str::Borrowed(&endpoint.host),
        port: endpoint.port.into(),
        rack: None,
    }
}

/// The topics of the answer so far.
struct Answer<'v, 'r> {
    view: &'v View<'r>,
    request: &'r MetadataRequest<'r>,
    budget: AnswerBudget,
    topics: Vec<MetadataResponseTopic<'r>>,
    to_create: Vec<String>,
}

impl<'r> Answer<'_, 'r> {
    /// Answers a request that has at least one id. As in Kafka, topics that have only a name are
    /// then ignored.
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
        let is_within_limit = self.to_create.len() < PARTITIONS_PER_REQUEST_MAX as usize;
        if is_name && may_create && is_within_limit && !is_reserved(name) {
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
        if self.budget.take(&topic) {
            return self.topics.push(topic);
        }
        let error_code = ErrorCode::UnknownServerError.code();
        let refused = MetadataResponseTopic { error_code, partitions: Vec::new(), ..topic };
        self.topics.extend(self.budget.fit(refused));
    }

    fn operations(&self) -> i32 {
        operations(
            self.request.include_topic_authorized_operations,
            ResourceType::Topic.operations(),
        )
    }
}

/// Describes a partition. All its replicas are in sync, even those of an offline partition.
fn partition(view: &View<'_>, topic: &Topic, index: i32) -> MetadataResponsePartition {
    let is_offline = view.offline.has(topic, index);
    let Replicas { leader, epoch, replicas } = view.replicas(topic, index);
    let leader = leader.filter(|_| !is_offline);
    let error = if leader.is_some() { ErrorCode::None } else { ErrorCode::LeaderNotAvailable };
    MetadataResponsePartition {
        error_code: error.code(),
        partition_index: index,
        leader_id: leader.unwrap_or(NO_LEADER),
        leader_epoch: epoch,
        offline_replicas: if is_offline { replicas.clone() } else { Vec::new() },
        isr_nodes: replicas.clone(),
        replica_nodes: replicas,
    }
}
