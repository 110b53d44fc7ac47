//! The answers of a produce for one partition.

use super::batch::Refusal;
use muster_codec::messages::{PartitionProduceResponse, ProduceResponse, TopicProduceResponse};
use muster_codec::{ErrorCode, Uuid};

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

/// The answer for a partition in the response; None if this answer already is an error.
pub(super) fn place_of<'r>(
    response: &'r mut ProduceResponse<'static>,
    (topic_id, index): (Uuid, i32),
    name: &str,
) -> Option<&'r mut PartitionProduceResponse<'static>> {
    let is_topic = |topic: &&mut TopicProduceResponse<'_>| {
        topic.topic_id == topic_id || (topic.topic_id.is_zero() && *topic.name == *name)
    };
    let topics = response.responses.iter_mut().filter(is_topic);
    let mut partitions = topics.flat_map(|topic| &mut topic.partition_responses);
    partitions.find(|it| it.index == index && it.error_code == 0)
}
