//! The record that only share groups have.

use super::state::StatePartitions;
use crate::modern::records::group_key;
use muster_codec::records::GroupRecord;

pub(super) fn state(group_id: &str, of: &StatePartitions) -> GroupRecord<'static> {
    GroupRecord::ShareGroupStatePartitionMetadata(group_key(group_id), Some(of.to_record()))
}

pub(super) fn state_tombstone(group_id: &str) -> GroupRecord<'static> {
    GroupRecord::ShareGroupStatePartitionMetadata(group_key(group_id), None)
}
