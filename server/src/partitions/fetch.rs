//! Fetch: what a request asks for, checked; then read at once, or parked until there is enough.

use super::limits::FETCH_PARTITIONS_MAX;
use super::partition_set::{Missing, PartitionId};
use super::produce::add_endpoint;
use super::reads::{Fetch, Want};
use super::{Call, Effects, Partitions};
use crate::cluster::Topic;
use muster_codec::messages::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse,
    LeaderIdAndEpoch, PartitionData,
};
use muster_codec::{ErrorCode, Uuid};
use std::collections::HashMap;

/// From this version on topics are named by id.
const TOPIC_IDS_SINCE: i16 = 13;

/// From this version on the replica is in a tagged field.
const REPLICA_STATE_SINCE: i16 = 15;

const READ_COMMITTED: i8 = 1;

/// A partition as a client names it, by the name of its topic or by its id.
type Named<'r> = (&'r str, Uuid, i32);

/// The session epochs of a request that names all its partitions (`FetchMetadata.isFull`).
const FULL_SESSION_EPOCHS: [i32; 2] = [0, -1];

impl Partitions {
    /// Fetch v4 to v18. Answered at once, after reads, or when enough bytes or the deadline came.
    ///
    /// No sessions are kept: a full request is answered with session id 0, which tells the client
    /// to go on without one (KIP-227).
    pub fn fetch(&mut self, call: Call<'_>, body: &FetchRequest<'_>, out: &mut Effects) {
        if !FULL_SESSION_EPOCHS.contains(&body.session_epoch) {
            let error_code = ErrorCode::FetchSessionIdNotFound.code();
            return out.send(call.request, FetchResponse { error_code, ..Default::default() });
        }
        let partitions = body.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>();
        if partitions > FETCH_PARTITIONS_MAX {
            let error_code = ErrorCode::InvalidRequest.code();
            return out.send(call.request, FetchResponse { error_code, ..Default::default() });
        }
        let mut fetch = Fetch::new(call, body);
        let mut answer_now = body.max_wait_ms <= 0;
        let mut asked = last_asked(body);
        for topic in &body.topics {
            let response =
                self.fetch_topic(call, body, topic, &mut asked, &mut fetch, &mut answer_now);
            fetch.response.responses.push(response);
        }
        answer_now |= fetch.wants.is_empty();
        self.start_or_park(fetch, answer_now, out);
    }

    fn fetch_topic<'r>(
        &self,
        call: Call<'_>,
        body: &FetchRequest<'_>,
        asked: &'r FetchTopic<'_>,
        last_asked: &mut HashMap<Named<'r>, FetchPartition>,
        fetch: &mut Fetch,
        answer_now: &mut bool,
    ) -> FetchableTopicResponse<'static> {
        let topic = if call.version >= TOPIC_IDS_SINCE {
            call.image.topic_by_id(asked.topic_id)
        } else {
            call.image.topic(&asked.topic)
        };
        let topic = topic.ok_or(unknown_topic(call.version));
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for partition in &asked.partitions {
            let named = (&*asked.topic, asked.topic_id, partition.partition);
            let Some(partition) = &last_asked.remove(&named) else { continue };
            let found = topic.and_then(|topic| in_range(topic, partition.partition));
            let data = match found.map(|topic| self.wanted(call, body, topic, partition)) {
                // Topics that are not there do not end the wait for those that are, as in Kafka.
                Err(error) => PartitionData {
                    aborted_transactions: Some(Vec::new()),
                    ..error_data(partition.partition, error)
                },
                Ok(Err(missing)) => {
                    *answer_now = true;
                    self.moved(partition.partition, missing, fetch)
                }
                Ok(Ok(id)) => {
                    fetch.wants.push(Want::new(
                        id,
                        fetch.response.responses.len(),
                        partitions.len(),
                        partition,
                    ));
                    PartitionData { partition_index: partition.partition, ..empty_data() }
                }
            };
            partitions.push(data);
        }
        let (topic, topic_id) = (asked.topic.clone().into_owned().into(), asked.topic_id);
        FetchableTopicResponse { topic, topic_id, partitions }
    }

    fn wanted(
        &self,
        call: Call<'_>,
        body: &FetchRequest<'_>,
        topic: &Topic,
        asked: &FetchPartition,
    ) -> Result<PartitionId, Missing> {
        let id = self.locate(topic, asked.partition)?;
        // A fetch with a negative epoch has none, whichever it is.
        check_leader_epoch(asked.current_leader_epoch.max(-1)).map_err(Missing::of)?;
        // All replicas are where the leader is: nobody else has a copy to keep up to date.
        if replica(call.version, body) >= 0 {
            return Err(Missing::of(match asked.current_leader_epoch {
                -1 => ErrorCode::NotLeaderOrFollower,
                _ => ErrorCode::UnknownLeaderEpoch,
            }));
        }
        Ok(id)
    }

    fn moved(&self, index: i32, missing: Missing, fetch: &mut Fetch) -> PartitionData<'static> {
        let mut data = error_data(index, missing.error);
        if let Some(endpoint) = missing.leader.and_then(|shard| self.endpoint(shard)) {
            data.current_leader = LeaderIdAndEpoch { leader_id: endpoint.node_id, leader_epoch: 0 };
            add_endpoint(&mut fetch.response.node_endpoints, endpoint);
        }
        data
    }
}

/// What is asked of each partition: named several times, it is answered once, with what was asked
/// last, as in Kafka (`FetchRequest.fetchData` is a map).
fn last_asked<'r>(body: &'r FetchRequest<'_>) -> HashMap<Named<'r>, FetchPartition> {
    let topics = body.topics.iter();
    let asked = topics.flat_map(|topic| topic.partitions.iter().map(move |it| (topic, it)));
    let named = |(topic, partition): (&'r FetchTopic<'_>, &FetchPartition)| {
        ((&*topic.topic, topic.topic_id, partition.partition), partition.clone())
    };
    asked.map(named).collect()
}

/// Every partition has been led by the same shard since it was made: its epoch is 0 (KIP-320).
pub(super) fn check_leader_epoch(asked: i32) -> Result<(), ErrorCode> {
    match asked {
        -1 | 0 => Ok(()),
        1.. => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Err(ErrorCode::FencedLeaderEpoch),
    }
}

fn in_range(topic: &Topic, partition: i32) -> Result<&Topic, ErrorCode> {
    let there = (0..topic.partitions).contains(&partition);
    there.then_some(topic).ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// The broker that fetches as a follower; negative for a consumer.
fn replica(version: i16, body: &FetchRequest<'_>) -> i32 {
    if version >= REPLICA_STATE_SINCE { body.replica_state.replica_id } else { body.replica_id }
}

/// What a client is told of a topic that is not there.
pub(super) fn unknown_topic(version: i16) -> ErrorCode {
    if version >= TOPIC_IDS_SINCE {
        ErrorCode::UnknownTopicId
    } else {
        ErrorCode::UnknownTopicOrPartition
    }
}

pub(super) fn reads_committed(body: &FetchRequest<'_>) -> bool {
    body.isolation_level == READ_COMMITTED
}

/// What Kafka says of a partition that it cannot read.
pub(super) fn error_data(partition_index: i32, error: ErrorCode) -> PartitionData<'static> {
    let error_code = error.code();
    PartitionData {
        partition_index,
        error_code,
        high_watermark: -1,
        aborted_transactions: None,
        ..empty_data()
    }
}

fn empty_data() -> PartitionData<'static> {
    PartitionData { records: Some(Vec::new().into()), ..Default::default() }
}
