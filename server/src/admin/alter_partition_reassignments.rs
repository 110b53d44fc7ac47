//! AlterPartitionReassignments, as Kafka's `ReplicationControlManager` decides it. A partition
//! never moves: a request is accepted only if it names the shard that leads the partition already.

use super::{View, is_timed_out};
use crate::cluster::{Refused, leader, only_replica};
use muster_codec::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use muster_codec::{ErrorCode, Str};

const STAYS: &str = "A partition stays on the shard that leads it.";

pub fn alter_partition_reassignments(
    view: &View<'_>,
    request: &AlterPartitionReassignmentsRequest<'_>,
) -> AlterPartitionReassignmentsResponse<'static> {
    if request.topics.is_empty() {
        return AlterPartitionReassignmentsResponse::default();
    }
    if is_timed_out(request.timeout_ms) {
        return refused(request, ErrorCode::RequestTimedOut, None);
    }
    let outcome = |topic: &str, partition: &ReassignablePartition| {
        let replicas = partition.replicas.as_deref();
        reassign(view, topic, partition.partition_index, replicas).err()
    };
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        ..answer(request, outcome)
    }
}

/// The answer that refuses the whole request.
pub fn refused(
    request: &AlterPartitionReassignmentsRequest<'_>,
    error: ErrorCode,
    words: Option<Str<'static>>,
) -> AlterPartitionReassignmentsResponse<'static> {
    let message = words.as_ref().map(ToString::to_string);
    let body = answer(request, |_, _| Some(Refused { error, message: message.clone() }));
    AlterPartitionReassignmentsResponse { error_code: error.code(), error_message: words, ..body }
}

fn answer(
    request: &AlterPartitionReassignmentsRequest<'_>,
    outcome: impl Fn(&str, &ReassignablePartition) -> Option<Refused>,
) -> AlterPartitionReassignmentsResponse<'static> {
    let result = |topic: &str, partition: &ReassignablePartition| {
        let refused = outcome(topic, partition);
        ReassignablePartitionResponse {
            partition_index: partition.partition_index,
            error_code: refused.as_ref().map_or(ErrorCode::None, |it| it.error).code(),
            error_message: refused.and_then(Refused::error_message),
        }
    };
    let topics = request.topics.iter().map(|asked| ReassignableTopicResponse {
        name: asked.name.to_string().into(),
        partitions: asked.partitions.iter().map(|it| result(&asked.name, it)).collect(),
    });
    AlterPartitionReassignmentsResponse {
        error_message: None,
        responses: topics.collect(),
        ..Default::default()
    }
}

fn reassign(
    view: &View<'_>,
    name: &str,
    index: i32,
    replicas: Option<&[i32]>,
) -> Result<(), Refused> {
    let topic = view.image.topic(name).filter(|topic| (0..topic.partitions).contains(&index));
    let topic = topic
        .ok_or_else(|| Refused::new(ErrorCode::UnknownTopicOrPartition, "No such partition."))?;
    let replicas =
        replicas.ok_or_else(|| Refused::without_message(ErrorCode::NoReassignmentInProgress))?;
    let wanted = only_replica(view, replicas)?;
    if wanted == leader(topic, index, view.placement) as i32 {
        return Ok(());
    }
    Err(Refused::new(ErrorCode::InvalidReplicaAssignment, STAYS))
}
