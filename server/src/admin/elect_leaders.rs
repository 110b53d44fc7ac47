//! ElectLeaders, as Kafka's `ReplicationControlManager` decides it. A partition has one replica, so
//! an election is either not needed or impossible because the leader is not available.

use super::{View, is_timed_out};
use crate::cluster::Topic;
use muster_codec::messages::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionElectionResult, ReplicaElectionResult,
};
use muster_codec::{ErrorCode, Str};
use std::collections::BTreeMap;

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// The outcome of the election for each partition that the request names. If it asks for all
/// partitions, the answer has only those that have no leader, by topic.
pub fn elect_leaders(
    view: &View<'_>,
    request: &ElectLeadersRequest<'_>,
) -> ElectLeadersResponse<'static> {
    if request.topic_partitions.as_ref().is_some_and(Vec::is_empty) {
        return ElectLeadersResponse::default();
    }
    if is_timed_out(request.timeout_ms) {
        return refused(request, ErrorCode::RequestTimedOut);
    }
    let failed = match request.election_type {
        PREFERRED => ErrorCode::PreferredLeaderNotAvailable,
        UNCLEAN => ErrorCode::EligibleLeadersNotAvailable,
        _ => return refused(request, ErrorCode::InvalidRequest),
    };
    let replica_election_results = match &request.topic_partitions {
        None => offline(view, failed),
        Some(_) => {
            each(request, |topic, index| elect(view, view.image.topic(topic), index, failed))
        }
    };
    ElectLeadersResponse { replica_election_results, ..Default::default() }
}

/// The answer that refuses the whole request.
pub fn refused(
    request: &ElectLeadersRequest<'_>,
    error: ErrorCode,
) -> ElectLeadersResponse<'static> {
    let replica_election_results = each(request, |_, _| error);
    ElectLeadersResponse {
        error_code: error.code(),
        replica_election_results,
        ..Default::default()
    }
}

fn elect(view: &View<'_>, topic: Option<&Topic>, index: i32, failed: ErrorCode) -> ErrorCode {
    match topic {
        Some(topic) if !(0..topic.partitions).contains(&index) => {
            ErrorCode::UnknownTopicOrPartition
        }
        Some(topic) if view.offline.has(topic, index) => failed,
        Some(_) => ErrorCode::ElectionNotNeeded,
        None => ErrorCode::UnknownTopicOrPartition,
    }
}

/// All partitions of a request, each with its outcome.
fn each(
    request: &ElectLeadersRequest<'_>,
    outcome: impl Fn(&str, i32) -> ErrorCode,
) -> Vec<ReplicaElectionResult<'static>> {
    let topics = request.topic_partitions.iter().flatten();
    topics
        .map(|asked| ReplicaElectionResult {
            topic: asked.topic.to_string().into(),
            partition_result: asked
                .partitions
                .iter()
                .map(|index| result(*index, outcome(&asked.topic, *index)))
                .collect(),
        })
        .collect()
}

fn offline(view: &View<'_>, failed: ErrorCode) -> Vec<ReplicaElectionResult<'static>> {
    let mut by_topic: BTreeMap<&str, Vec<PartitionElectionResult<'static>>> = BTreeMap::new();
    for (id, index) in view.offline.iter().flat_map(|(_, partitions)| partitions.iter()) {
        let Some(topic) = view.image.topic_by_id(*id) else { continue };
        by_topic.entry(&topic.name).or_default().push(result(*index, failed));
    }
    let of = |(topic, partition_result): (&str, _)| ReplicaElectionResult {
        topic: topic.to_owned().into(),
        partition_result,
    };
    by_topic.into_iter().map(of).collect()
}

fn result(partition_id: i32, error: ErrorCode) -> PartitionElectionResult<'static> {
    let error_message = words(error).map(Str::Borrowed);
    PartitionElectionResult { partition_id, error_code: error.code(), error_message }
}

/// The error message. It is a constant, so that the answer is not much longer than the request.
fn words(error: ErrorCode) -> Option<&'static str> {
    const WORDS: [(ErrorCode, &str); 6] = [
        (ErrorCode::InvalidRequest, "Unknown election type."),
        (ErrorCode::UnknownTopicOrPartition, "No such topic or partition."),
        (ErrorCode::ElectionNotNeeded, "Leader election not needed for topic partition."),
        (ErrorCode::PreferredLeaderNotAvailable, "The partition is offline."),
        (ErrorCode::EligibleLeadersNotAvailable, "The partition is offline."),
        (ErrorCode::ClusterAuthorizationFailed, "Cluster authorization failed."),
    ];
    WORDS.iter().find(|(of, _)| *of == error).map(|(_, words)| *words)
}
