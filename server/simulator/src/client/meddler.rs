//! A client that changes the topics of streams groups: their source topics and their internal
//! topics. It does not remember its changes. Once the faults of the run have ended, it creates all
//! source topics and deletes all internal topics. Then the server creates the internal topics
//! again, with the numbers of partitions that the groups need.

use super::streams::{SOURCES, internal_topics};
use super::{NextRequest, Surroundings};
use muster_codec::messages::{
    CreatableTopic, CreatePartitionsRequest, CreatePartitionsTopic, CreateTopicsRequest,
    DeleteTopicsRequest,
};
use muster_codec::{ErrorCode, Request, Response};

const TIMEOUT_MS: i32 = 1_000;

#[derive(Debug)]
pub(crate) struct Meddler {
    internal: Vec<String>,
    restored: Restored,
}

/// The client's progress after faults have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restored {
    Nothing,
    Sources,
    All,
}

impl Meddler {
    /// `groups` are the numbers of the streams groups.
    pub(crate) fn new(groups: impl Iterator<Item = u32>) -> Self {
        Self { internal: groups.flat_map(internal_topics).collect(), restored: Restored::Nothing }
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let random = &mut *around.random;
        let shard = random.below(u64::from(around.placement.shards)) as u32;
        let source = SOURCES[random.below(SOURCES.len() as u64) as usize];
        let count = random.between(1, 4) as i32;
        let internal = &self.internal[random.below(self.internal.len() as u64) as usize];
        let (version, request) = match (around.is_chaos, self.restored) {
            (true, _) => match random.below(8) {
                0 => deletion(&[source]),
                1 | 2 => creation(&[source], count),
                3 => growth(source, count + 1),
                4 => growth(internal, count + 1),
                5 | 6 => deletion(&[internal]),
                _ => deletion(&[]),
            },
            (false, Restored::Nothing) => creation(&SOURCES, count),
            (false, Restored::Sources) => {
                deletion(&self.internal.iter().map(String::as_str).collect::<Vec<_>>())
            }
            (false, Restored::All) => deletion(&[]),
        };
        NextRequest { shard, version, request }
    }

    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let is_done = |code: i16| match ErrorCode::from_code(code) {
            Some(
                ErrorCode::None
                | ErrorCode::TopicAlreadyExists
                | ErrorCode::UnknownTopicOrPartition,
            ) => Ok(true),
            // The client has a quota, the controller was loaded again, or the topic has this number
            // of partitions or more.
            Some(
                ErrorCode::ThrottlingQuotaExceeded
                | ErrorCode::UnknownServerError
                | ErrorCode::InvalidPartitions,
            ) => Ok(false),
            error => Err(format!("a change of a topic is refused with {error:?}")),
        };
        match response {
            Some(Response::CreateTopics(answer)) => {
                let all = answer.topics.iter().map(|topic| is_done(topic.error_code));
                self.come(Restored::Nothing, Restored::Sources, SOURCES.len(), all)
            }
            Some(Response::DeleteTopics(answer)) => {
                let all = answer.responses.iter().map(|topic| is_done(topic.error_code));
                let count = self.internal.len();
                self.come(Restored::Sources, Restored::All, count, all)
            }
            Some(Response::CreatePartitions(answer)) => {
                answer.results.iter().try_for_each(|it| is_done(it.error_code).map(drop))
            }
            _ => Ok(()),
        }
    }

    /// Goes from step `from` to step `to`, if the answer has all `count` topics, and each of them
    /// is done. Any other answer is ignored: it may be that of a request from before the faults
    /// ended.
    fn come(
        &mut self,
        from: Restored,
        to: Restored,
        count: usize,
        all: impl Iterator<Item = Result<bool, String>>,
    ) -> Result<(), String> {
        let all = all.collect::<Result<Vec<bool>, String>>()?;
        if self.restored == from && all.len() == count && all.iter().all(|is_done| *is_done) {
            self.restored = to;
        }
        Ok(())
    }
}

fn creation(names: &[&str], num_partitions: i32) -> (i16, Request<'static>) {
    let topic = |name: &&str| CreatableTopic {
        name: (*name).to_owned().into(),
        num_partitions,
        replication_factor: 1,
        ..Default::default()
    };
    let topics = names.iter().map(topic).collect();
    (7, CreateTopicsRequest { topics, timeout_ms: TIMEOUT_MS, ..Default::default() }.into())
}

fn growth(name: &str, count: i32) -> (i16, Request<'static>) {
    let name = name.to_owned().into();
    let topics = vec![CreatePartitionsTopic { name, count, assignments: None }];
    let request = CreatePartitionsRequest { topics, timeout_ms: TIMEOUT_MS, validate_only: false };
    (3, request.into())
}

fn deletion(names: &[&str]) -> (i16, Request<'static>) {
    let topic_names = names.iter().map(|name| (*name).to_owned().into()).collect();
    (5, DeleteTopicsRequest { topic_names, timeout_ms: TIMEOUT_MS, ..Default::default() }.into())
}
