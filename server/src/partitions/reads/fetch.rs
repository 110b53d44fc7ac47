//! Fetch: a request is checked, then read at once, or parked until enough bytes exist.

use super::Reads;
use super::fetch_answers::{diverging_data, empty_data, error_data, unknown_data, unknown_topic};
use super::fetch_state::{Fetch, Want};
use crate::cluster::Topic;
use crate::partitions::disk::Disk;
use crate::partitions::effects::{Call, Effects};
use crate::partitions::isolation::ISOLATION_LEVELS;
use crate::partitions::limits::FETCH_PARTITIONS_MAX;
use crate::partitions::locate::{Missing, add_endpoint, check_leader_epoch};
use crate::partitions::partition::Bounds;
use crate::partitions::partition_id::PartitionId;
use crate::partitions::table::Table;
use muster_codec::messages::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse,
    LeaderIdAndEpoch, PartitionData,
};
use muster_codec::{ApiKey, ErrorCode, Uuid};
use std::collections::HashMap;

/// The first version in which the replica is in a tagged field.
const REPLICA_STATE_SINCE: i16 = 15;

/// A partition as a client names it: topic name, topic id, partition.
type Named<'r> = (&'r str, Uuid, i32);

/// The requested partitions that do not exist. They come last in an answer: first those with an
/// unknown topic id, then those with an unknown name. As in Kafka, they do not end the wait for the
/// other partitions.
#[derive(Default)]
struct Unknown<'r> {
    topics: Vec<(&'r FetchTopic<'r>, PartitionData<'static>)>,
    partitions: Vec<(&'r FetchTopic<'r>, PartitionData<'static>)>,
}

/// The session epochs that a request has if it names all partitions to fetch
/// (`FetchMetadata.isFull`).
pub(crate) const FULL_SESSION_EPOCHS: [i32; 2] = [0, -1];

impl Reads {
    /// Fetch v4 to v18. Answered when enough bytes exist or the deadline has passed: immediately,
    /// or after the necessary reads.
    ///
    /// There are no fetch sessions. A request that names all partitions is answered with session id
    /// 0, which makes the client continue without a session (KIP-227).
    pub(in crate::partitions) fn fetch(
        &mut self,
        table: &Table,
        disk: &mut Disk,
        call: Call<'_>,
        body: &FetchRequest<'_>,
        out: &mut Effects,
    ) -> Vec<PartitionId> {
        if !FULL_SESSION_EPOCHS.contains(&body.session_epoch) {
            let error_code = ErrorCode::FetchSessionIdNotFound.code();
            out.send(call.request, FetchResponse { error_code, ..Default::default() });
            return Vec::new();
        }
        let partitions = body.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>();
        if partitions > FETCH_PARTITIONS_MAX {
            let error_code = ErrorCode::InvalidRequest.code();
            out.send(call.request, FetchResponse { error_code, ..Default::default() });
            return Vec::new();
        }
        let mut fetch = Fetch::new(call, body);
        let mut answer_now = body.max_wait_ms <= 0;
        let mut unknown = Unknown::default();
        let mut asked = last_asked(body);
        for topic in &body.topics {
            let known = find_topic(call, topic);
            for partition in &topic.partitions {
                let named = (&*topic.topic, topic.topic_id, partition.partition);
                let Some(partition) = asked.remove(&named) else { continue };
                match known.ok_or(unknown_topic(call.version)) {
                    Err(error) if ApiKey::Fetch.has_topic_ids(call.version) => {
                        unknown.topics.push((topic, unknown_data(&partition, error)));
                    }
                    Err(error) => unknown.partitions.push((topic, unknown_data(&partition, error))),
                    Ok(known) if !(0..known.partitions).contains(&partition.partition) => {
                        let error = ErrorCode::UnknownTopicOrPartition;
                        unknown.partitions.push((topic, unknown_data(&partition, error)));
                    }
                    Ok(known) => {
                        answer_now |= !fetch_partition(
                            table, call, body, topic, known, &partition, &mut fetch,
                        );
                    }
                }
            }
        }
        if !fetch.response.responses.is_empty() && !ISOLATION_LEVELS.contains(&body.isolation_level)
        {
            out.send(call.request, refuse_all(call.version, body));
            return Vec::new();
        }
        for (topic, data) in unknown.topics.into_iter().chain(unknown.partitions) {
            push(&mut fetch, topic, data);
        }
        answer_now |= fetch.wants.is_empty();
        self.start_or_park(table, disk, call.now, fetch, answer_now, out)
    }
}

/// Adds an existing partition to the answer. Returns false if the answer has an error or a
/// diverging epoch for it, so that nothing is read.
fn fetch_partition(
    table: &Table,
    call: Call<'_>,
    body: &FetchRequest<'_>,
    asked_topic: &FetchTopic<'_>,
    topic: &Topic,
    asked: &FetchPartition,
    fetch: &mut Fetch,
) -> bool {
    // The request's bound on all bytes may be negative. Kafka applies it unchanged to the first
    // partition. Later partitions get what is left of it, which is at least 0.
    let max_bytes = if fetch.response.responses.is_empty() {
        asked.partition_max_bytes.min(body.max_bytes)
    } else {
        asked.partition_max_bytes
    };
    match wanted(table, call, body, topic, asked, max_bytes) {
        Err(missing) => {
            let data = moved(table, call, asked.partition, missing, fetch);
            push(fetch, asked_topic, data);
            false
        }
        Ok(id) if has_diverged(table, id, asked) => {
            push(fetch, asked_topic, diverging_data(asked.partition, table.bounds(id)));
            false
        }
        Ok(id) => {
            let data = PartitionData { partition_index: asked.partition, ..empty_data() };
            let (topic, partition) = push(fetch, asked_topic, data);
            fetch.wants.push(Want::new(id, topic, partition, asked));
            true
        }
    }
}

fn wanted(
    table: &Table,
    call: Call<'_>,
    body: &FetchRequest<'_>,
    topic: &Topic,
    asked: &FetchPartition,
    max_bytes: i32,
) -> Result<PartitionId, Missing> {
    let id = table.locate(topic, asked.partition)?;
    // In a fetch, any negative leader epoch means that there is none.
    check_leader_epoch(asked.current_leader_epoch.max(-1)).map_err(Missing::of)?;
    // Partitions have no followers: the leader is the only replica.
    if replica(call.version, body) >= 0 {
        return Err(Missing::of(match asked.current_leader_epoch {
            -1 => ErrorCode::NotLeaderOrFollower,
            _ => ErrorCode::UnknownLeaderEpoch,
        }));
    }
    if asked.last_fetched_epoch > 0 {
        return Err(Missing::of(ErrorCode::OffsetOutOfRange));
    }
    let Bounds { log_start, high_watermark, .. } = table.bounds(id);
    let is_readable = (log_start..high_watermark).contains(&asked.fetch_offset);
    // In Kafka a negative length is an error only if there is something to read.
    if max_bytes < 0 && is_readable {
        return Err(Missing::of(ErrorCode::UnknownServerError));
    }
    Ok(id)
}

/// Whether the client's offset is past the end of the log, although its last record has epoch 0,
/// the only epoch. Then the answer says where this epoch ends (KIP-595).
fn has_diverged(table: &Table, id: PartitionId, asked: &FetchPartition) -> bool {
    asked.last_fetched_epoch == 0 && asked.fetch_offset > table.bounds(id).high_watermark
}

fn moved(
    table: &Table,
    call: Call<'_>,
    index: i32,
    missing: Missing,
    fetch: &mut Fetch,
) -> PartitionData<'static> {
    let mut data = error_data(index, missing.error);
    if let Some(endpoint) = missing.leader.and_then(|shard| table.endpoint(call, shard)) {
        data.current_leader = LeaderIdAndEpoch { leader_id: endpoint.node_id, leader_epoch: 0 };
        add_endpoint(&mut fetch.response.node_endpoints, endpoint);
    }
    data
}

/// The requested partitions. A partition that is named several times is answered once, from the
/// last entry, as in Kafka (`FetchRequest.fetchData` is a map).
fn last_asked<'r>(body: &'r FetchRequest<'_>) -> HashMap<Named<'r>, FetchPartition> {
    let topics = body.topics.iter();
    let asked = topics.flat_map(|topic| topic.partitions.iter().map(move |it| (topic, it)));
    let named = |(topic, partition): (&'r FetchTopic<'_>, &FetchPartition)| {
        ((&*topic.topic, topic.topic_id, partition.partition), partition.clone())
    };
    asked.map(named).collect()
}

fn find_topic<'i>(call: Call<'i>, asked: &FetchTopic<'_>) -> Option<&'i Topic> {
    if ApiKey::Fetch.has_topic_ids(call.version) {
        call.image.topic_by_id(asked.topic_id)
    } else {
        call.image.topic(&asked.topic)
    }
}

/// Adds a partition to the answer and returns its place. As in Kafka, a topic occurs twice in the
/// answer if the request has another topic in between.
fn push(fetch: &mut Fetch, asked: &FetchTopic<'_>, data: PartitionData<'static>) -> (usize, usize) {
    let responses = &mut fetch.response.responses;
    let same = |last: &FetchableTopicResponse<'_>| {
        last.topic == asked.topic && last.topic_id == asked.topic_id
    };
    if !responses.last().is_some_and(same) {
        let (topic, topic_id) = (asked.topic.clone().into_owned().into(), asked.topic_id);
        responses.push(FetchableTopicResponse { topic, topic_id, partitions: Vec::new() });
    }
    let topic = responses.len() - 1;
    let partitions = &mut responses[topic].partitions;
    partitions.push(data);
    (topic, partitions.len() - 1)
}

/// The answer that Kafka sends if it fails to handle a request (`FetchRequest.getErrorResponse`).
fn refuse_all(version: i16, body: &FetchRequest<'_>) -> FetchResponse<'static> {
    let error = ErrorCode::UnknownServerError;
    let refuse = |asked: &FetchPartition| unknown_data(asked, error);
    let refuse_topic = |asked: &FetchTopic<'_>| FetchableTopicResponse {
        topic: asked.topic.clone().into_owned().into(),
        topic_id: asked.topic_id,
        partitions: asked.partitions.iter().map(refuse).collect(),
    };
    let topics = body.topics.iter().filter(|_| !ApiKey::Fetch.has_topic_ids(version));
    FetchResponse {
        error_code: error.code(),
        session_id: body.session_id,
        responses: topics.map(refuse_topic).collect(),
        ..Default::default()
    }
}

/// The broker that fetches as a follower; negative for a consumer.
pub(crate) fn replica(version: i16, body: &FetchRequest<'_>) -> i32 {
    if version >= REPLICA_STATE_SINCE { body.replica_state.replica_id } else { body.replica_id }
}
