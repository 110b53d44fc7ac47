//! The answers of a fetch for one partition.

use crate::partitions::partition::Bounds;
use muster_codec::messages::{DivergingEpoch, FetchPartition, PartitionData};
use muster_codec::{ApiKey, ErrorCode};

/// The error for a topic that does not exist.
pub(super) fn unknown_topic(version: i16) -> ErrorCode {
    if ApiKey::Fetch.has_topic_ids(version) {
        ErrorCode::UnknownTopicId
    } else {
        ErrorCode::UnknownTopicOrPartition
    }
}

/// The answer for a partition with an error, as Kafka makes it if a read of the log fails.
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

pub(super) fn diverging_data(partition_index: i32, bounds: Bounds) -> PartitionData<'static> {
    PartitionData {
        high_watermark: bounds.high_watermark,
        last_stable_offset: bounds.stable,
        log_start_offset: bounds.log_start,
        diverging_epoch: DivergingEpoch { epoch: 0, end_offset: bounds.high_watermark },
        ..error_data(partition_index, ErrorCode::None)
    }
}

/// The answer for a partition that Kafka refuses before it reads the log. It has an empty list of
/// aborted transactions, while the answer to a failed read has none.
pub(super) fn unknown_data(asked: &FetchPartition, error: ErrorCode) -> PartitionData<'static> {
    let aborted_transactions = Some(Vec::new());
    PartitionData { aborted_transactions, ..error_data(asked.partition, error) }
}

pub(super) fn empty_data() -> PartitionData<'static> {
    PartitionData { records: Some(Vec::new().into()), ..Default::default() }
}
