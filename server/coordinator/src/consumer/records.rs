//! Records that only consumer groups have.

use super::regex::Resolved;
use crate::modern::records::group_key;
use crate::text::owned;
use muster_codec::records::{
    ConsumerGroupPartitionMetadataValue, ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue, GroupRecord,
};

fn regex(group_id: &str, regex: &str) -> ConsumerGroupRegularExpressionKey<'static> {
    ConsumerGroupRegularExpressionKey {
        group_id: owned(group_id),
        regular_expression: owned(regex),
    }
}

/// A ConsumerGroupPartitionMetadata record without topics, as Kafka wrote before 4.1.
pub(super) fn partition_metadata(group_id: &str) -> GroupRecord<'static> {
    let value = ConsumerGroupPartitionMetadataValue::default();
    GroupRecord::ConsumerGroupPartitionMetadata(group_key(group_id), Some(value))
}

pub(super) fn partition_metadata_tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::ConsumerGroupPartitionMetadata(group_key(group_id), None)
}

pub(super) fn resolved(group_id: &str, expression: &str, of: &Resolved) -> GroupRecord<'static> {
    let value = ConsumerGroupRegularExpressionValue {
        topics: of.topics.iter().map(|it| owned(it)).collect(),
        version: of.version,
        timestamp: of.timestamp,
    };
    GroupRecord::ConsumerGroupRegularExpression(regex(group_id, expression), Some(value))
}

pub(super) fn regex_tombstone(group_id: &str, expression: &str) -> GroupRecord<'static> {
    GroupRecord::ConsumerGroupRegularExpression(regex(group_id, expression), None)
}
