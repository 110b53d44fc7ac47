//! The records of a share group, by purpose.

use super::member::{Current, Profile, current_to_record};
use super::state::StatePartitions;
use crate::modern::owned::Partitions;
use crate::modern::records::{group_key, member_key, target_epoch_value, target_value};
use muster_codec::records::{GroupRecord, ShareGroupMetadataValue};

pub(super) fn group_epoch(group_id: &str, epoch: i32, metadata_hash: i64) -> GroupRecord<'static> {
    let value = ShareGroupMetadataValue { epoch, metadata_hash };
    GroupRecord::ShareGroupMetadata(group_key(group_id), Some(value))
}

pub(super) fn group_tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::ShareGroupMetadata(group_key(group_id), None)
}

pub(super) fn member(group_id: &str, member_id: &str, of: &Profile) -> GroupRecord<'static> {
    let value = of.to_record();
    GroupRecord::ShareGroupMemberMetadata(member_key(group_id, member_id), Some(value))
}

pub(super) fn member_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
    GroupRecord::ShareGroupMemberMetadata(member_key(group_id, member_id), None)
}

pub(super) fn target_epoch(group_id: &str, epoch: i32, timestamp: i64) -> GroupRecord<'static> {
    let value = target_epoch_value(epoch, timestamp);
    GroupRecord::ShareGroupTargetAssignmentMetadata(group_key(group_id), Some(value))
}

pub(super) fn target_epoch_tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::ShareGroupTargetAssignmentMetadata(group_key(group_id), None)
}

pub(super) fn target(
    group_id: &str,
    member_id: &str,
    partitions: Partitions,
) -> GroupRecord<'static> {
    let value = target_value(partitions);
    GroupRecord::ShareGroupTargetAssignmentMember(member_key(group_id, member_id), Some(value))
}

pub(super) fn target_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
    GroupRecord::ShareGroupTargetAssignmentMember(member_key(group_id, member_id), None)
}

pub(super) fn current(group_id: &str, member_id: &str, of: &Current) -> GroupRecord<'static> {
    let value = current_to_record(of);
    GroupRecord::ShareGroupCurrentMemberAssignment(member_key(group_id, member_id), Some(value))
}

pub(super) fn current_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
    GroupRecord::ShareGroupCurrentMemberAssignment(member_key(group_id, member_id), None)
}

pub(super) fn state(group_id: &str, of: &StatePartitions) -> GroupRecord<'static> {
    GroupRecord::ShareGroupStatePartitionMetadata(group_key(group_id), Some(of.to_record()))
}

pub(super) fn state_tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::ShareGroupStatePartitionMetadata(group_key(group_id), None)
}
