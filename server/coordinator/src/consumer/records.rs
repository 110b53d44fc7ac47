//! The records of a consumer group, by purpose.

use super::member::{Current, Profile, current_to_record};
use crate::modern::owned::Partitions;
use crate::modern::records::{group_key, member_key, target_epoch_value, target_value};
use crate::text::owned;
use muster_codec::records::{
    ConsumerGroupMetadataValue, ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, GroupRecord,
};

use super::regex::Resolved;

fn regex(group_id: &str, regex: &str) -> ConsumerGroupRegularExpressionKey<'static> {
    ConsumerGroupRegularExpressionKey {
        group_id: owned(group_id),
        regular_expression: owned(regex),
    }
}

pub(super) fn group_epoch(group_id: &str, epoch: i32, metadata_hash: i64) -> GroupRecord<'static> {
    let value = ConsumerGroupMetadataValue { epoch, metadata_hash };
    GroupRecord::ConsumerGroupMetadata(group_key(group_id), Some(value))
}

pub(super) fn group_tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::ConsumerGroupMetadata(group_key(group_id), None)
}

/// The record of versions before Kafka 4.1, without topics.
pub(super) fn partition_metadata(group_id: &str) -> GroupRecord<'static> {
    let value = ConsumerGroupPartitionMetadataValue::default();
    GroupRecord::ConsumerGroupPartitionMetadata(group_key(group_id), Some(value))
}

pub(super) fn partition_metadata_tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::ConsumerGroupPartitionMetadata(group_key(group_id), None)
}

pub(super) fn member_metadata(
    group_id: &str,
    member_id: &str,
    of: &Profile,
) -> GroupRecord<'static> {
    let value = of.to_record();
    GroupRecord::ConsumerGroupMemberMetadata(member_key(group_id, member_id), Some(value))
}

pub(super) fn member_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
    GroupRecord::ConsumerGroupMemberMetadata(member_key(group_id, member_id), None)
}

pub(super) fn target_metadata(
    group_id: &str,
    assignment_epoch: i32,
    assignment_timestamp: i64,
) -> GroupRecord<'static> {
    let value = target_epoch_value(assignment_epoch, assignment_timestamp);
    GroupRecord::ConsumerGroupTargetAssignmentMetadata(group_key(group_id), Some(value))
}

pub(super) fn target_metadata_tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::ConsumerGroupTargetAssignmentMetadata(group_key(group_id), None)
}

pub(super) fn target(
    group_id: &str,
    member_id: &str,
    partitions: Partitions,
) -> GroupRecord<'static> {
    let value = target_value(partitions);
    GroupRecord::ConsumerGroupTargetAssignmentMember(member_key(group_id, member_id), Some(value))
}

pub(super) fn target_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
    GroupRecord::ConsumerGroupTargetAssignmentMember(member_key(group_id, member_id), None)
}

pub(super) fn current(group_id: &str, member_id: &str, of: &Current) -> GroupRecord<'static> {
    let value = current_to_record(of);
    GroupRecord::ConsumerGroupCurrentMemberAssignment(member_key(group_id, member_id), Some(value))
}

pub(super) fn current_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
    GroupRecord::ConsumerGroupCurrentMemberAssignment(member_key(group_id, member_id), None)
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
