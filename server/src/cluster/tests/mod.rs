//! Requests to the controller, with the expected answers of Kafka 4.3.

mod acls;
mod alterations;
mod assignments;
mod certificates;
mod configs;
mod image;
mod quotas;
mod scram;
mod topics;

use super::*;
use crate::config::Config;
use crate::placement::Placement;
use muster_codec::messages::*;
use muster_codec::records::{ClusterRecord, TopicKey, TopicValue};
use muster_codec::{ErrorCode, Str, Uuid, Wall};
use muster_coordinator::Ids;
use muster_fairness::Shares;
use std::collections::BTreeMap;

/// A controller that applies its decisions at once.
struct Controller {
    image: ClusterImage,
    config: Config,
    placement: Placement,
    next_id: u64,
    shares: Shares,
    /// The client's address.
    host: &'static str,
    /// The reasons why brokers' new certificates cannot be used, by node id.
    refused: BTreeMap<u32, String>,
    /// The position in the controller's log.
    position: u64,
}

impl Ids for Controller {
    fn next_id(&mut self) -> Uuid {
        self.next_id += 1;
        Uuid((u128::from(self.next_id) << 64 | 1).to_be_bytes())
    }
}

impl Controller {
    fn new(words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let config = Config::load("", &words).unwrap();
        let shares = Shares::new(limits::CREATOR_SHARE);
        let mut image = ClusterImage::new(&config);
        image.loaded_at(0);
        let (host, refused) = ("/10.0.0.1", BTreeMap::new());
        let placement = Placement::of_equal(2, 50);
        Self { image, config, placement, next_id: 0, shares, host, refused, position: 0 }
    }

    /// Creates topics that a client named in Metadata. Returns the reason if a limit refused
    /// further topics.
    fn auto_create(&mut self, host: &str, topics: &[String]) -> Option<String> {
        let mut shares = self.shares.clone();
        let mut creator = Creator { shares: &mut shares, now: 0, host };
        let mut why = None;
        self.decide(|view, ids| {
            let (records, refused) = auto_create(view, ids, &mut creator, topics);
            why = refused;
            Change { records, response: () }
        });
        self.shares = shares;
        why
    }

    /// Adds a topic with one partition.
    fn put(&mut self, name: &str, id: u128) {
        let value =
            TopicValue { name: name.to_owned().into(), partitions: 1, ..Default::default() };
        let key = TopicKey { topic_id: Uuid((id | 1 << 100).to_be_bytes()) };
        self.image.apply(&ClusterRecord::Topic(key, Some(value)));
    }

    /// A controller with a topic of two partitions.
    fn with_topic(name: &'static str) -> Self {
        let mut controller = Self::new(&[]);
        controller.create(&CreatableTopic { num_partitions: 2, ..topic(name) }).unwrap();
        controller
    }

    fn decide<R>(&mut self, decide: impl FnOnce(&View<'_>, &mut dyn Ids) -> Change<R>) -> R {
        let (image, config) = (self.image.clone(), self.config.clone());
        let view = View {
            image: &image,
            offline: &OfflinePartitions::default(),
            config: &config,
            placement: self.placement,
            brokers: Brokers::alone(&[]),
            shard: 0,
            cluster_id: "cluster",
        };
        let change = decide(&view, self);
        self.position += 1;
        self.image.apply_at(self.position, &change.records);
        change.response
    }

    fn create_topics(
        &mut self,
        request: &CreateTopicsRequest<'_>,
        version: i16,
    ) -> CreateTopicsResponse<'static> {
        self.decide(|view, ids| create_topics(view, ids, &mut free(), version, request))
    }

    fn create_all(
        &mut self,
        topics: Vec<CreatableTopic<'_>>,
    ) -> Vec<CreatableTopicResult<'static>> {
        let request = CreateTopicsRequest { topics, ..Default::default() };
        self.create_topics(&request, 7).topics
    }

    fn create(
        &mut self,
        topic: &CreatableTopic<'_>,
    ) -> Result<CreatableTopicResult<'static>, Answer> {
        let result = self.create_all(vec![topic.clone()]).remove(0);
        answer(result.error_code, &result.error_message)?;
        Ok(result)
    }

    fn delete(&mut self, version: i16, topics: &[(Option<&str>, Uuid)]) -> Vec<Answer> {
        let state = |(name, id): &(Option<&str>, Uuid)| DeleteTopicState {
            name: name.map(|name| name.to_owned().into()),
            topic_id: *id,
        };
        let topics = topics.iter().map(state).collect();
        let request = DeleteTopicsRequest { topics, timeout_ms: 1, ..Default::default() };
        let response =
            self.decide(|view, _| delete_topics(view, Wall(0), &mut free(), version, &request));
        let answers = response.responses.iter();
        answers.map(|r| (code(r.error_code), text(&r.error_message))).collect()
    }

    fn grow(&mut self, count: i32, assignments: Option<&[&[i32]]>) -> Result<(), Answer> {
        self.grow_all(&[("t1", count)], assignments).remove(0)
    }

    fn grow_all(
        &mut self,
        topics: &[(&'static str, i32)],
        assignments: Option<&[&[i32]]>,
    ) -> Vec<Result<(), Answer>> {
        let assignment = |ids: &&[i32]| CreatePartitionsAssignment { broker_ids: ids.to_vec() };
        let topic = |(name, count): &(&'static str, i32)| CreatePartitionsTopic {
            name: (*name).into(),
            count: *count,
            assignments: assignments.map(|list| list.iter().map(assignment).collect()),
        };
        let topics = topics.iter().map(topic).collect();
        let request = CreatePartitionsRequest { topics, timeout_ms: 1, ..Default::default() };
        let response = self.decide(|view, _| create_partitions(view, &mut free(), &request));
        response.results.iter().map(|r| answer(r.error_code, &r.error_message)).collect()
    }

    fn alter(&mut self, resource: i8, name: &str, configs: &[Op]) -> Result<(), Answer> {
        self.alter_all(&[(resource, name, configs)], false).remove(0)
    }

    /// Applies an AlterConfigs request, which replaces all configs of a resource.
    fn replace(&mut self, resource: i8, name: &str, all: &[(&str, &str)]) -> Result<(), Answer> {
        let config = |(name, value): &(&str, &str)| ReplacedConfig {
            name: (*name).to_owned().into(),
            value: Some((*value).to_owned().into()),
        };
        let resource = ReplacedConfigsResource {
            resource_type: resource,
            resource_name: name.to_owned().into(),
            configs: all.iter().map(config).collect(),
        };
        let request = AlterConfigsRequest { resources: vec![resource], validate_only: false };
        let (mut shares, host) = (self.shares.clone(), self.host);
        let mut creator = Creator { shares: &mut shares, now: 0, host };
        let response =
            self.decide(|view, _| alter_configs(view, &mut creator, &request, &BTreeMap::new()));
        answer(response.responses[0].error_code, &response.responses[0].error_message)
    }

    fn alter_all(
        &mut self,
        resources: &[(i8, &str, &[Op])],
        validate_only: bool,
    ) -> Vec<Result<(), Answer>> {
        let request = incremental(resources, validate_only);
        let (mut shares, host) = (self.shares.clone(), self.host);
        let mut creator = Creator { shares: &mut shares, now: 0, host };
        let refused = self.refused.clone();
        let response = self
            .decide(|view, _| incremental_alter_configs(view, &mut creator, &request, &refused));
        self.shares = shares;
        response.responses.iter().map(|r| answer(r.error_code, &r.error_message)).collect()
    }

    fn value(&self, resource: i8, name: &str, config: &str) -> Option<&str> {
        self.image.configs(resource, name)?.get(config).map(String::as_str)
    }
}

fn incremental(
    resources: &[(i8, &str, &[Op])],
    validate_only: bool,
) -> IncrementalAlterConfigsRequest<'static> {
    let config = |(name, operation, value): &Op| AlterableConfig {
        name: (*name).into(),
        config_operation: *operation,
        value: value.map(Str::Borrowed),
    };
    let resource = |(resource_type, name, configs): &(i8, &str, &[Op])| AlterConfigsResource {
        resource_type: *resource_type,
        resource_name: (*name).to_owned().into(),
        configs: configs.iter().map(config).collect(),
    };
    let resources = resources.iter().map(resource).collect();
    IncrementalAlterConfigsRequest { resources, validate_only }
}

/// A config, the operation on it, and its value.
type Op = (&'static str, i8, Option<&'static str>);

/// A mutation quota without a limit.
fn free<'q>() -> MutationQuota<'q> {
    MutationQuota::default()
}

type Answer = (ErrorCode, String);

fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap()
}

fn text(message: &Option<Str<'_>>) -> String {
    message.as_deref().unwrap_or_default().to_owned()
}

fn answer(error_code: i16, message: &Option<Str<'_>>) -> Result<(), Answer> {
    match code(error_code) {
        ErrorCode::None => Ok(()),
        error => Err((error, text(message))),
    }
}

fn refused<T>(error: ErrorCode, message: &str) -> Result<T, Answer> {
    Err((error, message.to_owned()))
}

fn topic(name: &str) -> CreatableTopic<'_> {
    CreatableTopic {
        name: name.into(),
        num_partitions: -1,
        replication_factor: -1,
        ..Default::default()
    }
}

fn with_configs(configs: &[(&'static str, Option<&'static str>)]) -> CreatableTopic<'static> {
    let config = |(name, value): &(&'static str, Option<&'static str>)| CreatableTopicConfig {
        name: (*name).into(),
        value: value.map(Str::Borrowed),
    };
    CreatableTopic { configs: configs.iter().map(config).collect(), ..topic("c") }
}

fn with_assignment(assignments: &[(i32, &[i32])]) -> CreatableTopic<'static> {
    let assignment = |(index, brokers): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index: *index,
        broker_ids: brokers.to_vec(),
    };
    CreatableTopic { assignments: assignments.iter().map(assignment).collect(), ..topic("c") }
}
