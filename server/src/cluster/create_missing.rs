//! Creates the internal topics of streams groups, like a CreateTopics request of their members.

use super::{Change, MutationQuota, View, create_topics};
use muster_codec::messages::{
    CreatableTopic, CreatableTopicConfig, CreatableTopicResult, CreateTopicsRequest,
};
use muster_codec::{ErrorCode, Str};
use muster_coordinator::{Ids, MissingTopic};
use std::sync::Arc;

/// A version of CreateTopics whose answers have no configs.
const VERSION: i16 = 4;

/// Any positive timeout: the request has not timed out.
const TIMEOUT_MS: i32 = 1;

/// Creates topics. The response lists the topics that failed, each with the reason.
pub fn create_missing(
    view: &View<'_>,
    ids: &mut dyn Ids,
    quota: &mut MutationQuota<'_>,
    topics: &[MissingTopic],
) -> Change<Vec<(Arc<str>, String)>> {
    let topics = topics.iter().map(creatable).collect();
    let request = CreateTopicsRequest { topics, timeout_ms: TIMEOUT_MS, ..Default::default() };
    let change = create_topics(view, ids, quota, VERSION, &request);
    change.map(|response| response.topics.iter().filter_map(failure).collect())
}

fn creatable(topic: &MissingTopic) -> CreatableTopic<'_> {
    let config = |(name, value): &'_ (Arc<str>, Arc<str>)| CreatableTopicConfig {
        name: Str::Owned(name.to_string()),
        value: Some(Str::Owned(value.to_string())),
    };
    CreatableTopic {
        name: Str::Borrowed(&*topic.name),
        num_partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        configs: topic.configs.iter().map(config).collect(),
        ..Default::default()
    }
}

fn failure(result: &CreatableTopicResult<'_>) -> Option<(Arc<str>, String)> {
    let error = ErrorCode::from_code(result.error_code).filter(|it| *it != ErrorCode::None)?;
    let words = result.error_message.as_deref().filter(|it| !it.is_empty());
    let words = words.map_or_else(|| format!("{error:?}"), str::to_owned);
    Some((Arc::from(&*result.name), words))
}
