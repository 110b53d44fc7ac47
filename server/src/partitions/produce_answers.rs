//! The answers of a produce for one partition.

use super::batch::Refusal;
use super::partition_id::PartitionId;
use muster_codec::ErrorCode;
use muster_codec::messages::{PartitionProduceResponse, ProduceResponse, TopicProduceResponse};

/// Whether the answer to a refused batch has the log start offset. In Kafka, errors that the log
/// raises have it, except those below (`ReplicaManager.appendToLocalLog`).
pub(super) fn knows_log_start(refusal: &Refusal) -> bool {
    !refusal.before_log
        && !matches!(
            refusal.error,
            ErrorCode::MessageTooLarge
                | ErrorCode::RecordListTooLarge
                | ErrorCode::CorruptMessage
                | ErrorCode::RequestTimedOut
                | ErrorCode::TransactionalIdAuthorizationFailed
        )
}

/// A placeholder for the answer to a batch about which the coordinator is asked.
pub(super) fn unanswered() -> PartitionProduceResponse<'static> {
    PartitionProduceResponse { base_offset: -1, ..Default::default() }
}

pub(super) fn failed(index: i32, refusal: Refusal) -> PartitionProduceResponse<'static> {
    PartitionProduceResponse {
        index,
        error_code: refusal.error.code(),
        base_offset: -1,
        record_errors: refusal.record_errors,
        error_message: refusal.message.map(Into::into),
        ..Default::default()
    }
}

/// The answer for a partition.
pub(super) struct Answer {
    pub response: PartitionProduceResponse<'static>,
    /// Whether the answer waits for a write.
    pub waits: bool,
}

/// The place of a partition's answer in the response. None if there is an error in this place
/// already.
pub(super) fn place_of<'r>(
    response: &'r mut ProduceResponse<'static>,
    id: PartitionId,
    name: &str,
) -> Option<&'r mut PartitionProduceResponse<'static>> {
    let is_topic = |topic: &&mut TopicProduceResponse<'_>| {
        topic.topic_id == id.topic || (topic.topic_id.is_zero() && *topic.name == *name)
    };
    let topics = response.responses.iter_mut().filter(is_topic);
    let mut partitions = topics.flat_map(|topic| &mut topic.partition_responses);
    partitions.find(|it| it.index == id.index && it.error_code == 0)
}
