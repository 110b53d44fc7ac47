//! OffsetFetch. A group that does not exist has no offsets; as in Kafka 4.3, the answer has no
//! error. A group that exceeds the answer's budget gets UNKNOWN_SERVER_ERROR; Kafka has no such
//! limit.

use super::Offsets;
use crate::committed::Committed;
use crate::context::Topics;
use crate::pending::GroupPending;
use crate::text::owned;
use alloc::vec::Vec;
use muster_codec::messages::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use muster_codec::{AnswerBudget, ErrorCode, Str, Uuid};

/// From this version on, OffsetFetch names topics by id.
const TOPIC_IDS_FROM: i16 = 10;

/// Answers for one group. `offsets` is None if the group does not exist. Returns None if the
/// answer's budget is exceeded.
pub(crate) fn fetch<'r>(
    topics: &dyn Topics,
    api_version: i16,
    request: OffsetFetchRequestGroup<'r>,
    offsets: Option<&Offsets>,
    unstable: Option<&GroupPending>,
    budget: AnswerBudget,
) -> Option<OffsetFetchResponseGroup<'r>> {
    let by_id = api_version >= TOPIC_IDS_FROM;
    let mut fetch = Fetch { topics, by_id, offsets, unstable, budget };
    let topics = match request.topics {
        Some(mut wanted) => {
            // Unknown ids come last, because Kafka's broker appends them to the coordinator's
            // answer.
            let is_unknown = |it: &OffsetFetchRequestTopics<'_>| topics.name(it.topic_id).is_none();
            wanted.sort_by_cached_key(|topic| fetch.by_id && is_unknown(topic));
            wanted.into_iter().map(|topic| fetch.topic(topic)).collect()
        }
        None => fetch.all(),
    };
    Some(OffsetFetchResponseGroup {
        group_id: request.group_id,
        topics: topics?,
        ..Default::default()
    })
}

struct Fetch<'f> {
    topics: &'f dyn Topics,
    by_id: bool,
    offsets: Option<&'f Offsets>,
    /// The pending offsets, if the client wants only stable offsets.
    unstable: Option<&'f GroupPending>,
    budget: AnswerBudget,
}

impl Fetch<'_> {
    fn topic<'r>(
        &mut self,
        topic: OffsetFetchRequestTopics<'r>,
    ) -> Option<OffsetFetchResponseTopics<'r>> {
        let name = if self.by_id { self.topics.name(topic.topic_id) } else { Some(&*topic.name) };
        let partitions = match name {
            Some(name) => self.partitions(name, topic.topic_id, &topic.partition_indexes),
            None => self.unknown(&topic.partition_indexes),
        };
        self.listed(topic.name, topic.topic_id, partitions?)
    }

    fn partitions(
        &mut self,
        name: &str,
        topic_id: Uuid,
        wanted: &[i32],
    ) -> Option<Vec<OffsetFetchResponsePartitions<'static>>> {
        let committed = self.offsets.and_then(|offsets| offsets.topics.get(name));
        let answers = wanted.iter().map(|partition| {
            let committed = committed.and_then(|partitions| partitions.get(*partition));
            let committed = committed.filter(|it| !is_of_another_topic(it.topic_id, topic_id));
            answer(
                *partition,
                committed,
                is_unstable(self.unstable, name, *partition),
                &mut self.budget,
            )
        });
        answers.collect()
    }

    fn unknown(&mut self, wanted: &[i32]) -> Option<Vec<OffsetFetchResponsePartitions<'static>>> {
        let unknown = |partition: &i32| absent(*partition, ErrorCode::UnknownTopicId);
        wanted.iter().map(|partition| self.budget.fit(unknown(partition))).collect()
    }

    /// All offsets of the group. In a request with topic ids, only the offsets of existing topics.
    fn all<'r>(&mut self) -> Option<Vec<OffsetFetchResponseTopics<'r>>> {
        let by_topic = self.offsets.map(Offsets::by_topic).unwrap_or_default();
        let topics = by_topic.into_iter().filter_map(|(name, partitions)| {
            let topic_id = if self.by_id { self.topics.id(name)? } else { Uuid::ZERO };
            let partitions = partitions.iter().map(|(index, it)| {
                answer(index, Some(it), is_unstable(self.unstable, name, index), &mut self.budget)
            });
            let partitions = partitions.collect::<Option<_>>();
            Some(partitions.and_then(|partitions| self.listed(owned(name), topic_id, partitions)))
        });
        topics.collect()
    }

    /// A topic with its partitions, which the budget already counts.
    fn listed<'r>(
        &mut self,
        name: Str<'r>,
        topic_id: Uuid,
        partitions: Vec<OffsetFetchResponsePartitions<'static>>,
    ) -> Option<OffsetFetchResponseTopics<'r>> {
        let topic = OffsetFetchResponseTopics { name, topic_id, partitions: Vec::new() };
        self.budget.fit(topic).map(|topic| OffsetFetchResponseTopics { partitions, ..topic })
    }
}

fn is_unstable(unstable: Option<&GroupPending>, topic: &str, partition: i32) -> bool {
    unstable.is_some_and(|pending| pending.has(topic, partition))
}

/// Whether two topic ids differ. A zero id is unknown, and equals any id.
fn is_of_another_topic(committed: Uuid, wanted: Uuid) -> bool {
    !committed.is_zero() && !wanted.is_zero() && committed != wanted
}

fn answer(
    partition_index: i32,
    committed: Option<&Committed>,
    is_unstable: bool,
    budget: &mut AnswerBudget,
) -> Option<OffsetFetchResponsePartitions<'static>> {
    if is_unstable {
        return budget.fit(absent(partition_index, ErrorCode::UnstableOffsetCommit));
    }
    let Some(committed) = committed else {
        return budget.fit(absent(partition_index, ErrorCode::None));
    };
    let answer = OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: committed.offset,
        committed_leader_epoch: committed.leader_epoch,
        metadata: Some(owned(&committed.metadata)),
        error_code: ErrorCode::None as i16,
    };
    budget.fit(answer)
}

fn absent(partition_index: i32, error: ErrorCode) -> OffsetFetchResponsePartitions<'static> {
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(Str::Borrowed("")),
        error_code: error as i16,
    }
}
