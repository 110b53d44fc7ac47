//! Topics and their metadata.

use std::collections::BTreeMap;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::broker::{Broker, NODE};
use super::reply::Reply;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const TOPIC_ALREADY_EXISTS: i16 = 36;
const INVALID_PARTITIONS: i16 = 37;

#[derive(Default)]
pub(super) struct Topics {
    by_name: BTreeMap<StrBytes, Topic>,
    /// The number of topics that were ever created.
    made: u128,
}

#[derive(Clone, Copy)]
pub(super) struct Topic {
    pub(super) id: Uuid,
    pub(super) partitions: i32,
}

impl Topics {
    pub(super) fn names(&self) -> impl Iterator<Item = &StrBytes> {
        self.by_name.keys()
    }

    pub(super) fn named(&self, name: &StrBytes) -> Option<Topic> {
        self.by_name.get(name).copied()
    }

    pub(super) fn with_id(&self, id: Uuid) -> Option<&StrBytes> {
        self.by_name.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| name)
    }

    pub(super) fn has(&self, name: &StrBytes, partition: i32) -> bool {
        self.named(name).is_some_and(|topic| (0..topic.partitions).contains(&partition))
    }

    fn create(&mut self, name: &StrBytes, partitions: i32) -> (i16, Uuid) {
        if self.by_name.contains_key(name) {
            return (TOPIC_ALREADY_EXISTS, Uuid::nil());
        }
        self.made += 1;
        let id = Uuid::from_u128(self.made);
        self.by_name.insert(name.clone(), Topic { id, partitions });
        (0, id)
    }

    fn grow(&mut self, name: &StrBytes, partitions: i32) -> i16 {
        match self.by_name.get_mut(name) {
            None => UNKNOWN_TOPIC_OR_PARTITION,
            Some(topic) if topic.partitions >= partitions => INVALID_PARTITIONS,
            Some(topic) => {
                topic.partitions = partitions;
                0
            }
        }
    }
}

impl Broker {
    pub(super) fn metadata(&self, (request, reply): (MetadataRequest, Reply<MetadataRequest>)) {
        let broker = MetadataResponseBroker::default()
            .with_node_id(NODE)
            .with_host(self.host())
            .with_port(self.port());
        let all = || self.topics.names().cloned().collect();
        let names: Vec<StrBytes> = match request.topics {
            None => all(),
            Some(topics) => topics.into_iter().filter_map(|topic| Some(topic.name?.0)).collect(),
        };
        let topics = names.into_iter().map(|name| self.describe(name)).collect();
        let response = MetadataResponse::default()
            .with_brokers(vec![broker])
            .with_cluster_id(Some(StrBytes::from_static_str("fake")))
            .with_controller_id(NODE)
            .with_topics(topics);
        reply.send(response);
    }

    fn describe(&self, name: StrBytes) -> MetadataResponseTopic {
        let topic = self.topics.named(&name);
        let response = MetadataResponseTopic::default().with_name(Some(TopicName(name)));
        let Some(topic) = topic else {
            return response.with_error_code(UNKNOWN_TOPIC_OR_PARTITION);
        };
        let partition = |number| {
            MetadataResponsePartition::default()
                .with_partition_index(number)
                .with_leader_id(NODE)
                .with_replica_nodes(vec![NODE])
                .with_isr_nodes(vec![NODE])
        };
        response
            .with_partitions((0..topic.partitions).map(partition).collect())
            .with_topic_id(topic.id)
    }

    pub(super) fn create_topics(
        &mut self,
        (request, reply): (CreateTopicsRequest, Reply<CreateTopicsRequest>),
    ) {
        let with_id = reply.version >= 7;
        let create = |topic: CreatableTopic| {
            let (error, id) = self.topics.create(&topic.name.0, topic.num_partitions);
            CreatableTopicResult::default()
                .with_name(topic.name)
                .with_topic_id(if with_id { id } else { Uuid::nil() })
                .with_error_code(error)
                .with_num_partitions(topic.num_partitions)
                .with_replication_factor(1)
        };
        let topics = request.topics.into_iter().map(create).collect();
        reply.send(CreateTopicsResponse::default().with_topics(topics));
    }

    pub(super) fn create_partitions(
        &mut self,
        (request, reply): (CreatePartitionsRequest, Reply<CreatePartitionsRequest>),
    ) {
        let grow = |topic: CreatePartitionsTopic| {
            let error = self.topics.grow(&topic.name.0, topic.count);
            CreatePartitionsTopicResult::default().with_name(topic.name).with_error_code(error)
        };
        let results = request.topics.into_iter().map(grow).collect();
        reply.send(CreatePartitionsResponse::default().with_results(results));
    }

    pub(super) fn delete_topics(
        &mut self,
        (request, reply): (DeleteTopicsRequest, Reply<DeleteTopicsRequest>),
    ) {
        let mut delete = |name: TopicName| {
            let gone = self.topics.by_name.remove(&name.0);
            let error = if gone.is_some() { 0 } else { UNKNOWN_TOPIC_OR_PARTITION };
            DeletableTopicResult::default().with_name(Some(name)).with_error_code(error)
        };
        let names = request.topics.into_iter().filter_map(|topic| topic.name);
        let responses = names.map(&mut delete).collect();
        reply.send(DeleteTopicsResponse::default().with_responses(responses));
    }
}
