//! The first client of a run, which creates the topics that all others use, and sets the configs of
//! share groups.

use super::{NextRequest, SHARE_CONFIGS, Surroundings};
use muster_codec::messages::{
    AlterConfigsResource, AlterableConfig, CreatableTopic, CreatableTopicConfig,
    CreateTopicsRequest, IncrementalAlterConfigsRequest,
};
use muster_codec::{ErrorCode, Request, Response};

/// A topic of the run.
#[derive(Debug, Clone)]
pub(crate) struct TopicPlan {
    pub(crate) name: String,
    pub(crate) partitions: i32,
    pub(crate) configs: &'static [(&'static str, &'static str)],
}

#[derive(Debug)]
pub(crate) struct TopicCreator {
    topics: Vec<TopicPlan>,
    share_groups: Vec<String>,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Topics,
    Configs,
    Done,
}

/// The resource type of groups, in requests about configs.
const GROUP: i8 = 32;

impl TopicCreator {
    pub(crate) fn new(topics: Vec<TopicPlan>, share_groups: Vec<String>) -> Self {
        Self { topics, share_groups, step: Step::Topics }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    pub(super) fn next_request(&self, around: &Surroundings<'_>) -> Option<NextRequest> {
        let (version, request): (i16, Request<'static>) = match self.step {
            Step::Topics => (7, self.creation().into()),
            Step::Configs => (1, self.configs().into()),
            Step::Done => return None,
        };
        Some(NextRequest { shard: around.brokers.controller(), version, request })
    }

    fn creation(&self) -> CreateTopicsRequest<'static> {
        let config = |(name, value): &(&'static str, &'static str)| CreatableTopicConfig {
            name: (*name).into(),
            value: Some((*value).into()),
        };
        let topic = |topic: &TopicPlan| CreatableTopic {
            configs: topic.configs.iter().map(config).collect(),
            name: topic.name.clone().into(),
            num_partitions: topic.partitions,
            replication_factor: 1,
            ..Default::default()
        };
        CreateTopicsRequest {
            topics: self.topics.iter().map(topic).collect(),
            ..Default::default()
        }
    }

    fn configs(&self) -> IncrementalAlterConfigsRequest<'static> {
        let config = |(name, value): (&'static str, &'static str)| AlterableConfig {
            name: name.into(),
            config_operation: 0,
            value: Some(value.into()),
        };
        let resource = |group: &String| AlterConfigsResource {
            resource_type: GROUP,
            resource_name: group.clone().into(),
            configs: SHARE_CONFIGS.into_iter().map(config).collect(),
        };
        let resources = self.share_groups.iter().map(resource).collect();
        IncrementalAlterConfigsRequest { resources, validate_only: false }
    }

    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let exists = ErrorCode::TopicAlreadyExists.code();
        let elsewhere = ErrorCode::NotController.code();
        let (next, is_done) = match response {
            // The controller of a cluster moves.
            Some(Response::CreateTopics(response))
                if response.topics.iter().any(|topic| topic.error_code == elsewhere) =>
            {
                return Ok(());
            }
            Some(Response::IncrementalAlterConfigs(response))
                if response.responses.iter().any(|it| it.error_code == elsewhere) =>
            {
                return Ok(());
            }
            Some(Response::CreateTopics(response)) => {
                let there = |code: i16| [0, exists].contains(&code);
                (Step::Configs, response.topics.iter().all(|topic| there(topic.error_code)))
            }
            Some(Response::IncrementalAlterConfigs(response)) => {
                (Step::Done, response.responses.iter().all(|it| it.error_code == 0))
            }
            _ => return Ok(()),
        };
        if !is_done {
            return Err("topics or configs are refused".to_owned());
        }
        self.step = next;
        Ok(())
    }
}
