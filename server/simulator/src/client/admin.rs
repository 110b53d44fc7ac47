//! A client that creates, grows and deletes topics of its own, commits offsets for them, and alters
//! the configs of groups that no other client uses.

use super::{NextRequest, Surroundings};
use muster_codec::messages::{
    AlterConfigsResource, AlterableConfig, CreatableTopic, CreatePartitionsRequest,
    CreatePartitionsTopic, CreateTopicsRequest, DeleteTopicsRequest,
    IncrementalAlterConfigsRequest, OffsetCommitRequest, OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
};
use muster_codec::{ErrorCode, Request, Response};
use muster_server::cluster::ClusterImage;
use std::collections::BTreeSet;

const TOPICS: usize = 3;
const GROUPS: usize = 2;
const GROUP_RESOURCE: i8 = 32;
const GROUP_KEY: &str = "consumer.session.timeout.ms";
const SET: i8 = 0;
const DELETE: i8 = 1;

#[derive(Debug, Clone)]
pub(crate) struct Admin {
    number: u32,
    /// For each topic, the numbers of partitions that it may have on the server. None means that
    /// the topic may not exist.
    topics: [BTreeSet<Option<i32>>; TOPICS],
    /// The values that a config of each group may have; None means that it is not set.
    configs: [BTreeSet<Option<String>>; GROUPS],
    doing: Doing,
}

#[derive(Debug, Clone)]
enum Doing {
    Nothing,
    Create(usize, i32),
    Grow(usize, i32),
    Delete(usize),
    /// Commits an offset to a group that no other client uses, and that has no members.
    Commit(usize),
    Configure(usize, Option<String>),
}

impl Admin {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            number,
            topics: std::array::from_fn(|_| [None].into()),
            configs: std::array::from_fn(|_| [None].into()),
            doing: Doing::Nothing,
        }
    }

    /// This book, if the server ends now. Then the request under way may have taken effect, or not.
    pub(crate) fn interrupted(&self) -> Self {
        let mut book = self.clone();
        book.maybe(self.doing.clone());
        book
    }

    /// Checks that the cluster has one of the states that the client expects.
    ///
    /// # Errors
    /// The cluster contradicts earlier answers.
    pub(crate) fn check(&self, image: &ClusterImage) -> Result<(), String> {
        for (at, possible) in self.topics.iter().enumerate() {
            let name = self.topic(at);
            let found = image.topic(&name).map(|topic| topic.partitions);
            if !possible.contains(&found) {
                return Err(format!("topic {name} is {found:?}, possible is {possible:?}"));
            }
        }
        for (at, possible) in self.configs.iter().enumerate() {
            let name = self.group(at);
            let configs = image.configs(GROUP_RESOURCE, &name);
            let found = configs.and_then(|configs| configs.get(GROUP_KEY)).cloned();
            if !possible.contains(&found) {
                return Err(format!("config of {name} is {found:?}, possible is {possible:?}"));
            }
        }
        Ok(())
    }

    /// The topics of the admin client with this number.
    pub(crate) fn topics_of(number: u32) -> impl Iterator<Item = String> {
        (0..TOPICS).map(move |at| topic_of(number, at))
    }

    fn topic(&self, at: usize) -> String {
        topic_of(self.number, at)
    }

    fn group(&self, at: usize) -> String {
        format!("configured-{}-{at}", self.number)
    }

    fn follower(&self) -> String {
        format!("follower-{}", self.number)
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let random = &mut *around.random;
        let topic = random.below(TOPICS as u64) as usize;
        let partitions = random.between(1, 6) as i32;
        let value = random.between(45_000, 60_000).to_string();
        self.doing = match random.below(8) {
            0 | 1 => Doing::Create(topic, partitions),
            2 => Doing::Grow(topic, partitions),
            3 => Doing::Delete(topic),
            4 | 5 => Doing::Commit(topic),
            6 => Doing::Configure(topic % GROUPS, Some(value)),
            _ => Doing::Configure(topic % GROUPS, None),
        };
        let (version, request) = self.request();
        let any = random.below(u64::from(around.placement.shards)) as u32;
        let shard = match self.doing {
            Doing::Commit(_) => around.placement.group_shard(&self.follower()),
            _ => any,
        };
        NextRequest { shard, version, request }
    }

    fn request(&self) -> (i16, Request<'static>) {
        match &self.doing {
            Doing::Nothing => (6, DeleteTopicsRequest::default().into()),
            Doing::Create(at, num_partitions) => {
                let topic = CreatableTopic {
                    name: self.topic(*at).into(),
                    num_partitions: *num_partitions,
                    replication_factor: 1,
                    ..Default::default()
                };
                (7, CreateTopicsRequest { topics: vec![topic], ..Default::default() }.into())
            }
            Doing::Grow(at, count) => {
                let name = self.topic(*at).into();
                let topic = CreatePartitionsTopic { name, count: *count, assignments: None };
                let topics = vec![topic];
                (
                    3,
                    CreatePartitionsRequest { topics, timeout_ms: 1_000, validate_only: false }
                        .into(),
                )
            }
            Doing::Delete(at) => {
                let topic_names = vec![self.topic(*at).into()];
                (
                    5,
                    DeleteTopicsRequest { topic_names, timeout_ms: 1_000, ..Default::default() }
                        .into(),
                )
            }
            Doing::Commit(at) => {
                let partition = OffsetCommitRequestPartition::default();
                let topic = OffsetCommitRequestTopic {
                    name: self.topic(*at).into(),
                    partitions: vec![partition],
                    ..Default::default()
                };
                let request = OffsetCommitRequest {
                    group_id: self.follower().into(),
                    generation_id_or_member_epoch: -1,
                    topics: vec![topic],
                    ..Default::default()
                };
                (9, request.into())
            }
            Doing::Configure(at, value) => {
                let config = AlterableConfig {
                    name: GROUP_KEY.into(),
                    config_operation: if value.is_some() { SET } else { DELETE },
                    value: value.clone().map(Into::into),
                };
                let resource = AlterConfigsResource {
                    resource_type: GROUP_RESOURCE,
                    resource_name: self.group(*at).into(),
                    configs: vec![config],
                };
                let resources = vec![resource];
                (1, IncrementalAlterConfigsRequest { resources, validate_only: false }.into())
            }
        }
    }

    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let doing = std::mem::replace(&mut self.doing, Doing::Nothing);
        let code = match response {
            None => {
                self.maybe(doing);
                return Ok(());
            }
            Some(Response::CreateTopics(it)) => it.topics.first().map(|it| it.error_code),
            Some(Response::CreatePartitions(it)) => it.results.first().map(|it| it.error_code),
            Some(Response::DeleteTopics(it)) => it.responses.first().map(|it| it.error_code),
            Some(Response::IncrementalAlterConfigs(it)) => {
                it.responses.first().map(|it| it.error_code)
            }
            Some(Response::OffsetCommit(it)) => {
                it.topics.first().and_then(|it| it.partitions.first()).map(|it| it.error_code)
            }
            Some(_) => None,
        };
        self.done(doing, code.ok_or("an answer of another kind")?)
    }

    fn maybe(&mut self, doing: Doing) {
        match doing {
            Doing::Nothing | Doing::Commit(_) => {}
            Doing::Create(at, partitions) if self.topics[at].contains(&None) => {
                self.topics[at].insert(Some(partitions));
            }
            Doing::Create(..) => {}
            Doing::Grow(at, partitions) => {
                if self.topics[at].iter().any(|known| known.is_some_and(|it| it < partitions)) {
                    self.topics[at].insert(Some(partitions));
                }
            }
            Doing::Delete(at) => {
                self.topics[at].insert(None);
            }
            Doing::Configure(at, value) => {
                self.configs[at].insert(value);
            }
        }
    }

    fn done(&mut self, doing: Doing, code: i16) -> Result<(), String> {
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        let exists = ErrorCode::TopicAlreadyExists.code();
        let invalid = ErrorCode::InvalidPartitions.code();
        let is = |may: bool, what: &str| if may { Ok(()) } else { Err(what.to_owned()) };
        match (doing, code) {
            (Doing::Create(at, partitions) | Doing::Grow(at, partitions), 0) => {
                self.topics[at] = [Some(partitions)].into();
            }
            (Doing::Delete(at), 0) => self.topics[at] = [None].into(),
            (Doing::Commit(_), 0) => {}
            // The topic may have been deleted, or the number of shards may have changed.
            (Doing::Commit(_), code)
                if [unknown, ErrorCode::NotCoordinator.code()].contains(&code) => {}
            (Doing::Configure(at, value), 0) => self.configs[at] = [value].into(),
            (Doing::Create(at, _), code) if code == exists => {
                self.topics[at].remove(&None);
                is(!self.topics[at].is_empty(), "a topic that is not there exists")?;
            }
            (Doing::Grow(at, _) | Doing::Delete(at), code) if code == unknown => {
                is(self.topics[at].contains(&None), "a topic is gone")?;
                self.topics[at] = [None].into();
            }
            (Doing::Grow(at, count), code) if code == invalid => {
                self.topics[at].retain(|known| known.is_some_and(|it| it >= count));
                is(!self.topics[at].is_empty(), "a topic has more partitions than it can")?;
            }
            // The client has a quota.
            (Doing::Create(..) | Doing::Grow(..) | Doing::Delete(_), code)
                if code == ErrorCode::ThrottlingQuotaExceeded.code() => {}
            // The controller was loaded again meanwhile. So the change may have been made, or not.
            (doing, code) if code == ErrorCode::UnknownServerError.code() => self.maybe(doing),
            (doing, code) => return Err(format!("{doing:?} is refused with {code}")),
        }
        Ok(())
    }
}

fn topic_of(number: u32, at: usize) -> String {
    format!("admin-{number}-{at}")
}
