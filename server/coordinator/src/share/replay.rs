//! Applies the records of a share group. Counts the bytes, the names and the subscribed topics of
//! member profiles.

use super::ShareGroup;
use super::member::{Profile, current_from_record};
use super::state::StatePartitions;
use crate::modern::records::target_part;
use crate::timers::Timers;
use muster_codec::records::{
    ConsumerGroupTargetAssignmentMetadataValue as TargetEpoch, GroupRecord,
    ShareGroupMemberMetadataValue,
};

impl ShareGroup {
    /// Applies a record of the group, except the tombstone of the group itself.
    pub(crate) fn replay(&mut self, timers: &mut Timers, record: &GroupRecord<'_>) {
        match record {
            GroupRecord::ShareGroupMetadata(_, Some(value)) => {
                self.replay_epoch(value.epoch, value.metadata_hash);
            }
            GroupRecord::ShareGroupMemberMetadata(key, Some(value)) => {
                self.replay_profile(&key.member_id, value);
            }
            GroupRecord::ShareGroupMemberMetadata(key, None) => {
                self.own.is_unchecked = true;
                self.replay_leave(timers, &key.member_id);
            }
            GroupRecord::ShareGroupTargetAssignmentMetadata(_, value) => {
                let computed = |it: &TargetEpoch| (it.assignment_epoch, it.assignment_timestamp);
                self.replay_target_epoch(value.as_ref().map(computed));
            }
            GroupRecord::ShareGroupTargetAssignmentMember(key, value) => {
                self.own.is_unchecked = true;
                self.replay_target(timers, &key.member_id, value.as_ref().map(target_part));
            }
            GroupRecord::ShareGroupCurrentMemberAssignment(key, value) => {
                self.replay_current(&key.member_id, value.as_ref().map(current_from_record));
            }
            GroupRecord::ShareGroupStatePartitionMetadata(_, value) => {
                self.own.is_unchecked = true;
                let read = value.as_ref().map(StatePartitions::from_record);
                self.own.state.replace(read.unwrap_or_default());
            }
            GroupRecord::OffsetCommit(..)
            | GroupRecord::GroupMetadata(..)
            | GroupRecord::ConsumerGroupMetadata(..)
            | GroupRecord::ConsumerGroupPartitionMetadata(..)
            | GroupRecord::ConsumerGroupMemberMetadata(..)
            | GroupRecord::ConsumerGroupTargetAssignmentMetadata(..)
            | GroupRecord::ConsumerGroupTargetAssignmentMember(..)
            | GroupRecord::ConsumerGroupCurrentMemberAssignment(..)
            | GroupRecord::ConsumerGroupRegularExpression(..)
            | GroupRecord::ShareGroupMetadata(_, None)
            | GroupRecord::StreamsGroupMetadata(..)
            | GroupRecord::StreamsGroupMemberMetadata(..)
            | GroupRecord::StreamsGroupTargetAssignmentMetadata(..)
            | GroupRecord::StreamsGroupTargetAssignmentMember(..)
            | GroupRecord::StreamsGroupCurrentMemberAssignment(..)
            | GroupRecord::StreamsGroupTopology(..) => {}
        }
    }

    fn replay_profile(&mut self, member_id: &str, value: &ShareGroupMemberMetadataValue<'_>) {
        self.replay_member(member_id, |own, before| {
            let mut profile = Profile::from_record(value, before);
            profile.topics = own.names.shared(profile.topics);
            profile
        });
    }

    pub(super) fn count_profile(&mut self, profile: &Profile) {
        self.own.profile_bytes += profile.own_bytes();
        self.own.names.add(&profile.topics);
        self.subscriptions.add_named(&profile.topics);
    }

    pub(super) fn uncount_profile(&mut self, profile: &Profile) {
        self.own.profile_bytes -= profile.own_bytes();
        self.own.names.remove(&profile.topics);
        self.subscriptions.remove_named(&profile.topics);
    }
}
