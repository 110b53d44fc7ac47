//! Authorization of the APIs of partitions.

use super::Verdict;
use super::by::By;
use super::refusals::{Refusable, take_refused};
use crate::dispatch::group_apis::{OfTopic, gather};
use crate::partitions::{FULL_SESSION_EPOCHS, ISOLATION_LEVELS, is_transactional, replica};
use crate::security::acls::Operation::{Alter, ClusterAction, Delete, Describe, Read, Write};
use muster_codec::ApiKey::{Fetch, Produce};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, PartitionRequest, Uuid};
use std::collections::HashSet;

pub(super) fn screen(request: &mut PartitionRequest<'_>, by: &By<'_>) -> Verdict {
    match request {
        PartitionRequest::Produce(body) => produce(body, by),
        PartitionRequest::Fetch(body) => fetch(body, by),
        PartitionRequest::ListOffsets(body) => list_offsets(body, by),
        PartitionRequest::DeleteRecords(body) => delete_records(body, by),
        PartitionRequest::OffsetForLeaderEpoch(body) => leader_epochs(body, by),
        PartitionRequest::WriteTxnMarkers(body) => {
            let allowed = by.cluster(Alter).or_else(|_| by.cluster(ClusterAction));
            Verdict::whole(allowed, |error| refused_markers(body, error))
        }
        PartitionRequest::DescribeProducers(body) => describe_producers(body, by),
    }
}

/// Checks a produce. As in Kafka, a transactional id needs a permission only if the records are
/// transactional. Invalid requests pass, because the handler refuses them.
fn produce(body: &mut ProduceRequest<'_>, by: &By<'_>) -> Verdict {
    let Some(is_transactional) = is_transactional(body) else { return Verdict::Passed };
    if is_transactional && body.transactional_id.is_none() {
        return Verdict::Passed;
    }
    let id = body.transactional_id.as_deref().filter(|_| is_transactional);
    if let Some(Err(error)) = id.map(|id| by.transactional_id(Write, id)) {
        let topics = std::mem::take(&mut body.topic_data).into_iter();
        let responses = once_each(topics.map(|it| it.refused(error)).collect());
        return Verdict::Refused(ProduceResponse { responses, ..Default::default() }.into());
    }
    let is_allowed =
        |it: &TopicProduceData<'_>| by.named_topic(Write, (&it.name, it.topic_id), Produce);
    let denied = take_refused(&mut body.topic_data, is_allowed)
        .map(|denied| ProduceResponse { responses: once_each(denied), ..Default::default() });
    Verdict::of_parts(denied, body.topic_data.is_empty())
}

/// Merges the topics so that each topic and each partition occurs once, as Kafka does.
fn once_each<T: OfTopic>(topics: Vec<T>) -> Vec<T>
where
    T::Partition: Indexed,
{
    let mut topics = gather(topics, Vec::new());
    for topic in &mut topics {
        let mut seen = HashSet::new();
        topic.partitions().retain(|partition| seen.insert(partition.index()));
    }
    topics.retain_mut(|topic| !topic.partitions().is_empty());
    topics
}

/// An answer for one partition.
trait Indexed {
    fn index(&self) -> i32;
}

impl Indexed for PartitionProduceResponse<'_> {
    fn index(&self) -> i32 {
        self.index
    }
}

impl Indexed for PartitionData<'_> {
    fn index(&self) -> i32 {
        self.partition_index
    }
}

impl Indexed for DeleteRecordsPartitionResult {
    fn index(&self) -> i32 {
        self.partition_index
    }
}

impl OfTopic for DeleteRecordsTopicResult<'static> {
    type Partition = DeleteRecordsPartitionResult;

    fn topic(&self) -> (Uuid, &str) {
        (Uuid::ZERO, &self.name)
    }

    fn partitions(&mut self) -> &mut Vec<Self::Partition> {
        &mut self.partitions
    }
}

impl OfTopic for TopicProduceResponse<'static> {
    type Partition = PartitionProduceResponse<'static>;

    fn topic(&self) -> (Uuid, &str) {
        (self.topic_id, &self.name)
    }

    fn partitions(&mut self) -> &mut Vec<Self::Partition> {
        &mut self.partition_responses
    }
}

impl OfTopic for FetchableTopicResponse<'static> {
    type Partition = PartitionData<'static>;

    fn topic(&self) -> (Uuid, &str) {
        (self.topic_id, &self.topic)
    }

    fn partitions(&mut self) -> &mut Vec<Self::Partition> {
        &mut self.partitions
    }
}

/// Checks a fetch. A replica needs ClusterAction on the cluster instead of Read on the topics.
///
/// Two kinds of fetches pass, because they are refused later anyway: those in a fetch session, and
/// those with an invalid isolation level, if they name at least one existing partition whose topic
/// is allowed. (So that refusal does not depend on the denied topics.)
fn fetch(body: &mut FetchRequest<'_>, by: &By<'_>) -> Verdict {
    if !FULL_SESSION_EPOCHS.contains(&body.session_epoch) {
        return Verdict::Passed;
    }
    let is_replica = replica(by.version, body) >= 0;
    let is_denied = is_replica && by.cluster(ClusterAction).is_err();
    let is_allowed = |it: &FetchTopic<'_>| {
        !is_denied && (is_replica || by.named_topic(Read, (&it.topic, it.topic_id), Fetch))
    };
    let is_valid = ISOLATION_LEVELS.contains(&body.isolation_level);
    if !is_valid && body.topics.iter().any(|it| is_there(it, by) && is_allowed(it)) {
        return Verdict::Passed;
    }
    let denied = take_refused(&mut body.topics, is_allowed)
        .map(|denied| FetchResponse { responses: once_each(denied), ..Default::default() });
    Verdict::of_parts(denied, body.topics.is_empty())
}

/// Whether the topic to fetch has at least one of the partitions that the request names.
fn is_there(asked: &FetchTopic<'_>, by: &By<'_>) -> bool {
    let topic = if Fetch.has_topic_ids(by.version) {
        by.image.topic_by_id(asked.topic_id)
    } else {
        by.image.topic(&asked.topic)
    };
    topic.is_some_and(|topic| {
        asked.partitions.iter().any(|it| (0..topic.partitions).contains(&it.partition))
    })
}

/// Checks ListOffsets. If the isolation level is invalid and at least one topic is allowed, the
/// whole request passes to the handler, which refuses it, as in Kafka.
fn list_offsets(body: &mut ListOffsetsRequest<'_>, by: &By<'_>) -> Verdict {
    let is_valid = ISOLATION_LEVELS.contains(&body.isolation_level);
    if !is_valid && body.topics.iter().any(|it| by.topic(Describe, &it.name)) {
        return Verdict::Passed;
    }
    let denied = take_refused(&mut body.topics, |it| by.topic(Describe, &it.name));
    let denied = denied.map(|topics| ListOffsetsResponse { topics, ..Default::default() });
    Verdict::of_parts(denied, body.topics.is_empty())
}

fn delete_records(body: &mut DeleteRecordsRequest<'_>, by: &By<'_>) -> Verdict {
    let denied = take_refused(&mut body.topics, |it| by.topic(Delete, &it.name));
    let denied = denied
        .map(|denied| DeleteRecordsResponse { topics: once_each(denied), ..Default::default() });
    Verdict::of_parts(denied, body.topics.is_empty())
}

fn leader_epochs(body: &mut OffsetForLeaderEpochRequest<'_>, by: &By<'_>) -> Verdict {
    if by.permissions.allow_on_cluster(ClusterAction) {
        return Verdict::Passed;
    }
    let denied = take_refused(&mut body.topics, |it| by.topic(Describe, &it.topic));
    let denied = denied.map(|topics| OffsetForLeaderEpochResponse { topics, ..Default::default() });
    Verdict::of_parts(denied, body.topics.is_empty())
}

fn refused_markers(
    body: &mut WriteTxnMarkersRequest<'_>,
    error: ErrorCode,
) -> WriteTxnMarkersResponse<'static> {
    let marker = |it: &mut WritableTxnMarker<'_>| WritableTxnMarkerResult {
        producer_id: it.producer_id,
        topics: it.topics.drain(..).map(|topic| topic.refused(error)).collect(),
    };
    WriteTxnMarkersResponse { markers: body.markers.iter_mut().map(marker).collect() }
}

fn describe_producers(body: &mut DescribeProducersRequest<'_>, by: &By<'_>) -> Verdict {
    let denied = take_refused(&mut body.topics, |it| by.topic(Read, &it.name));
    let denied = denied.map(|topics| DescribeProducersResponse { topics, ..Default::default() });
    Verdict::of_parts(denied, body.topics.is_empty())
}
