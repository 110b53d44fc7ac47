//! Refuses the partitions of denied topics one by one. Several APIs have this shape.

use super::by::{take_denied, words};
use crate::dispatch::answer::owned;
use muster_codec::ErrorCode;
use muster_codec::messages::*;

/// The offset in refusals.
const NONE: i64 = -1;

/// A topic in a request.
pub(in crate::dispatch) trait Refusable {
    /// The topic in the answer.
    type Refusal;

    /// The answer in which each partition of the topic has the error.
    fn refused(self, error: ErrorCode) -> Self::Refusal;
}

/// Removes denied topics, and returns their refusals; None if there are none.
pub(in crate::dispatch) fn take_refused<T: Refusable>(
    topics: &mut Vec<T>,
    is_allowed: impl Fn(&T) -> bool,
) -> Option<Vec<T::Refusal>> {
    let denied = take_denied(topics, is_allowed)?.into_iter();
    Some(denied.map(|topic| topic.refused(ErrorCode::TopicAuthorizationFailed)).collect())
}

/// Implements [`Refusable`]. Each row names a type of topics in requests and its field with the
/// partitions, and after `=>` the type of topics in answers and its field with the partitions. In
/// brackets are the field with the topic's name, a further field that is copied to the answer, and
/// after `;` a field that keeps its default. The closure makes the answer for one partition.
macro_rules! refusals {
    ($($topic:ident . $partitions:ident => $refusal:ident . $refused:ident
        ($name:ident $(, $id:ident)? $(; $left:ident)?),
        |$partition:ident, $error:ident| $answer:expr;)*) => {$(
        impl Refusable for $topic<'_> {
            type Refusal = $refusal<'static>;

            fn refused(self, $error: ErrorCode) -> Self::Refusal {
                $refusal {
                    $refused: self.$partitions.iter().map(|$partition| $answer).collect(),
                    $name: owned(&self.$name),
                    $($id: self.$id,)?
                    $($left: Default::default(),)?
                }
            }
        }
    )*};
}

refusals! {
    TopicProduceData.partition_data => TopicProduceResponse.partition_responses (name, topic_id),
        |it, error| PartitionProduceResponse {
            index: it.index,
            error_code: error.code(),
            base_offset: NONE,
            ..Default::default()
        };
    FetchTopic.partitions => FetchableTopicResponse.partitions (topic, topic_id),
        |it, error| PartitionData {
            partition_index: it.partition,
            error_code: error.code(),
            high_watermark: NONE,
            records: Some(Vec::new().into()),
            ..Default::default()
        };
    ListOffsetsTopic.partitions => ListOffsetsTopicResponse.partitions (name),
        |it, error| ListOffsetsPartitionResponse {
            partition_index: it.partition_index,
            error_code: error.code(),
            ..Default::default()
        };
    DeleteRecordsTopic.partitions => DeleteRecordsTopicResult.partitions (name),
        |it, error| DeleteRecordsPartitionResult {
            partition_index: it.partition_index,
            low_watermark: NONE,
            error_code: error.code(),
        };
    OffsetForLeaderTopic.partitions => OffsetForLeaderTopicResult.partitions (topic),
        |it, error| EpochEndOffset {
            partition: it.partition,
            error_code: error.code(),
            ..Default::default()
        };
    DescribeProducersTopic.partition_indexes => DescribedProducersTopic.partitions (name),
        |index, error| DescribedProducersPartition {
            partition_index: *index,
            error_code: error.code(),
            error_message: words(error),
            ..Default::default()
        };
    WritableTxnMarkerTopic.partition_indexes => WritableTxnMarkerTopicResult.partitions (name),
        |index, error| WritableTxnMarkerPartitionResult {
            partition_index: *index,
            error_code: error.code(),
        };
    OffsetDeleteRequestTopic.partitions => OffsetDeleteResponseTopic.partitions (name),
        |it, error| OffsetDeleteResponsePartition {
            partition_index: it.partition_index,
            error_code: error.code(),
        };
    AlterShareGroupOffsetsRequestTopic.partitions => AlterShareGroupOffsetsResponseTopic.partitions
        (topic_name; topic_id),
        |it, error| AlterShareGroupOffsetsResponsePartition {
            partition_index: it.partition_index,
            error_code: error.code(),
            error_message: words(error),
        };
    DescribeShareGroupOffsetsRequestTopic.partitions =>
        DescribeShareGroupOffsetsResponseTopic.partitions (topic_name; topic_id),
        |index, error| DescribeShareGroupOffsetsResponsePartition {
            partition_index: *index,
            start_offset: NONE,
            error_code: error.code(),
            error_message: words(error),
            ..Default::default()
        };
    OffsetFetchRequestTopic.partition_indexes => OffsetFetchResponseTopic.partitions (name),
        |index, error| OffsetFetchResponsePartition {
            partition_index: *index,
            committed_offset: NONE,
            error_code: error.code(),
            ..Default::default()
        };
    OffsetFetchRequestTopics.partition_indexes => OffsetFetchResponseTopics.partitions
        (name, topic_id),
        |index, error| OffsetFetchResponsePartitions {
            partition_index: *index,
            committed_offset: NONE,
            error_code: error.code(),
            ..Default::default()
        };
}
