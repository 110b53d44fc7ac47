//! DescribeTopicPartitions (KIP-966): topics in the order of their names, page by page.

use super::{NO_LEADER, View};
use crate::cluster::{Replicas, Topic, check_topic_name, is_reserved};
use crate::security::acls::ResourceType;
use muster_codec::messages::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic, ResponseCursor,
    TopicRequest,
};
use muster_codec::{AnswerBudget, ErrorCode, Str};
use std::collections::BTreeSet;

/// A page of topics: of all topics, or of the named ones, beginning at the cursor. The number of
/// partitions in a page is limited by the request, by `max.request.partition.size.limit`, and by
/// the answer's budget. A limit of 0 or less counts as 1.
pub fn describe_topic_partitions<'r>(
    view: &View<'r>,
    request: &'r DescribeTopicPartitionsRequest<'_>,
) -> DescribeTopicPartitionsResponse<'r> {
    let names: BTreeSet<&'r str> = request.topics.iter().map(|topic| &*topic.name).collect();
    let cursor = request.cursor.as_ref();
    if cursor.is_some_and(|cursor| !is_valid(cursor, &names)) {
        return refused(&request.topics, ErrorCode::InvalidRequest);
    }
    if cursor.is_none() && names.contains("") {
        // Kafka treats an empty name as the topic of a cursor, although there is no cursor, and
        // fails.
        return refused(&request.topics, ErrorCode::UnknownServerError);
    }
    let budget = AnswerBudget::of_answer();
    let limit = request.response_partition_limit.min(view.config.max_request_partition_size_limit);
    let mut page = Page { view, left: limit.max(1), budget, topics: Vec::new(), next_cursor: None };
    let first = cursor.map_or("", |cursor| &cursor.topic_name);
    let start = |name: &str| match cursor {
        Some(cursor) if cursor.topic_name == name => cursor.partition_index,
        _ => 0,
    };
    if names.is_empty() {
        let mut topics = view.image.all_topics_from(first);
        let _ = topics.try_for_each(|topic| page.add(&topic.name, start(&topic.name)));
    } else {
        let _ = names.range(first..).try_for_each(|name| page.add(name, start(name)));
    }
    DescribeTopicPartitionsResponse {
        topics: page.topics,
        next_cursor: page.next_cursor,
        ..Default::default()
    }
}

fn is_valid(cursor: &Cursor<'_>, names: &BTreeSet<&str>) -> bool {
    let is_asked = names.is_empty() || names.contains(&*cursor.topic_name);
    is_asked && cursor.partition_index >= 0
}

fn refused<'r>(
    topics: &'r [TopicRequest<'_>],
    error: ErrorCode,
) -> DescribeTopicPartitionsResponse<'r> {
    let refuse = |topic: &'r TopicRequest<'_>| DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        name: Some(Str::Borrowed(&topic.name)),
        ..Default::default()
    };
    let mut budget = AnswerBudget::of_answer();
    let topics = topics.iter().map(refuse).map_while(|topic| budget.fit(topic)).collect();
    DescribeTopicPartitionsResponse { topics, ..Default::default() }
}

struct Page<'v, 'r> {
    view: &'v View<'r>,
    /// How many partitions still fit in the page.
    left: i32,
    budget: AnswerBudget,
    topics: Vec<DescribeTopicPartitionsResponseTopic<'r>>,
    next_cursor: Option<ResponseCursor<'r>>,
}

impl<'r> Page<'_, 'r> {
    /// Adds a topic from its partition `first` on. Returns None once the page is full.
    fn add(&mut self, name: &'r str, first: i32) -> Option<()> {
        if self.left == 0 {
            self.next_cursor = Some(ResponseCursor { topic_name: name.into(), partition_index: 0 });
            return None;
        }
        match self.view.image.topic(name) {
            Some(topic) => self.add_topic(topic, first),
            None => self.push(name, 0, unknown(name)),
        }
    }

    /// Adds a topic to the page. If it exceeds the budget, the next page begins with it instead.
    fn push(
        &mut self,
        name: &'r str,
        first: i32,
        topic: DescribeTopicPartitionsResponseTopic<'r>,
    ) -> Option<()> {
        let topic = self.budget.fit(topic);
        if topic.is_none() {
            self.next_cursor =
                Some(ResponseCursor { topic_name: name.into(), partition_index: first });
        }
        topic.map(|topic| self.topics.push(topic))
    }

    fn add_topic(&mut self, topic: &'r Topic, first: i32) -> Option<()> {
        let end = topic.partitions.min(first.saturating_add(self.left));
        let partitions: Vec<_> =
            (first..end).map(|index| partition(self.view, topic, index)).collect();
        self.left -= partitions.len() as i32;
        let described = DescribeTopicPartitionsResponseTopic {
            name: Some(Str::Borrowed(&topic.name)),
            topic_id: topic.id,
            is_internal: topic.is_internal(),
            partitions,
            topic_authorized_operations: ResourceType::Topic.operations(),
            ..Default::default()
        };
        self.push(&topic.name, first, described)?;
        if end < topic.partitions {
            let topic_name = Str::Borrowed(&*topic.name);
            self.next_cursor = Some(ResponseCursor { topic_name, partition_index: end });
            return None;
        }
        Some(())
    }
}

fn unknown(name: &str) -> DescribeTopicPartitionsResponseTopic<'_> {
    let error = match check_topic_name(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        name: Some(name.into()),
        is_internal: is_reserved(name),
        topic_authorized_operations: ResourceType::Topic.operations(),
        ..Default::default()
    }
}

fn partition(
    view: &View<'_>,
    topic: &Topic,
    index: i32,
) -> DescribeTopicPartitionsResponsePartition {
    let is_offline = view.offline.has(topic, index);
    let Replicas { leader, epoch, replicas } = view.replicas(topic, index);
    // Unlike in Metadata, Kafka sets no error here if there is no leader.
    let leader = leader.filter(|_| !is_offline);
    DescribeTopicPartitionsResponsePartition {
        partition_index: index,
        leader_id: leader.unwrap_or(NO_LEADER),
        leader_epoch: epoch,
        offline_replicas: if is_offline { replicas.clone() } else { Vec::new() },
        isr_nodes: replicas.clone(),
        replica_nodes: replicas,
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        ..Default::default()
    }
}
