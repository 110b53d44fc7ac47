//! The first client of a run, which creates the topics that all others use.

use super::NextRequest;
use muster_codec::messages::{CreatableTopic, CreateTopicsRequest};
use muster_codec::{ErrorCode, Response};

/// A topic of the run.
#[derive(Debug, Clone)]
pub(crate) struct TopicPlan {
    pub(crate) name: String,
    pub(crate) partitions: i32,
}

#[derive(Debug)]
pub(crate) struct TopicCreator {
    topics: Vec<TopicPlan>,
    done: bool,
}

impl TopicCreator {
    pub(crate) fn new(topics: Vec<TopicPlan>) -> Self {
        Self { topics, done: false }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn next_request(&self) -> Option<NextRequest> {
        if self.done {
            return None;
        }
        let topic = |topic: &TopicPlan| CreatableTopic {
            name: topic.name.clone().into(),
            num_partitions: topic.partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let topics = self.topics.iter().map(topic).collect();
        let request = CreateTopicsRequest { topics, ..Default::default() };
        Some(NextRequest { shard: 0, version: 7, request: request.into() })
    }

    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let Some(Response::CreateTopics(response)) = response else { return Ok(()) };
        let exists = ErrorCode::TopicAlreadyExists.code();
        let there = response.topics.iter().all(|topic| [0, exists].contains(&topic.error_code));
        if !there {
            return Err("topics are not created".to_owned());
        }
        self.done = true;
        Ok(())
    }
}
