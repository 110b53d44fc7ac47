//! The records that consumer and share groups have in common. Their keys and targets have the same
//! form; each kind names its own types of records.

use super::owned::{KeyPartitions, Partitions};
use crate::text::owned;
use muster_codec::records::{
    ConsumerGroupKey, ConsumerGroupMemberKey, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetTopicPartitions,
};

/// Defines the methods of [`super::kind::Kind`] that make records. The arguments are the kind's
/// types of records: for the group epoch, the members' profiles, the targets and their epoch, and
/// the current assignments. The functions in brackets make the values of three types.
macro_rules! record_methods {
    (
        epoch $epoch:ident($epoch_value:path), member $member:ident,
        target $target:ident($target_value:path), target_epoch $target_epoch:ident,
        current $current:ident($current_value:path)
    ) => {
        fn epoch_record(
            group_id: &str,
            epoch: i32,
            metadata_hash: i64,
            fields: &Self::EpochFields,
        ) -> GroupRecord<'static> {
            let value = $epoch_value(epoch, metadata_hash, fields);
            GroupRecord::$epoch(group_key(group_id), Some(value))
        }

        fn epoch_tombstone(group_id: &str) -> GroupRecord<'static> {
            GroupRecord::$epoch(group_key(group_id), None)
        }

        fn member_record(
            group_id: &str,
            member_id: &str,
            profile: &Self::Profile,
        ) -> GroupRecord<'static> {
            GroupRecord::$member(member_key(group_id, member_id), Some(profile.to_record()))
        }

        fn member_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
            GroupRecord::$member(member_key(group_id, member_id), None)
        }

        fn target_record(
            group_id: &str,
            member_id: &str,
            target: Partitions<Self::Key>,
        ) -> GroupRecord<'static> {
            GroupRecord::$target(member_key(group_id, member_id), Some($target_value(target)))
        }

        fn target_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
            GroupRecord::$target(member_key(group_id, member_id), None)
        }

        fn target_epoch_record(group_id: &str, epoch: i32, timestamp: i64) -> GroupRecord<'static> {
            let value = ConsumerGroupTargetAssignmentMetadataValue {
                assignment_epoch: epoch,
                assignment_timestamp: timestamp,
            };
            GroupRecord::$target_epoch(group_key(group_id), Some(value))
        }

        fn target_epoch_tombstone(group_id: &str) -> GroupRecord<'static> {
            GroupRecord::$target_epoch(group_key(group_id), None)
        }

        fn current_record(
            group_id: &str,
            member_id: &str,
            current: &Current,
        ) -> GroupRecord<'static> {
            let value = $current_value(current);
            GroupRecord::$current(member_key(group_id, member_id), Some(value))
        }

        fn current_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
            GroupRecord::$current(member_key(group_id, member_id), None)
        }
    };
}

pub(crate) use record_methods;

pub(crate) fn group_key(group_id: &str) -> ConsumerGroupKey<'static> {
    ConsumerGroupKey { group_id: owned(group_id) }
}

pub(crate) fn member_key(group_id: &str, member_id: &str) -> ConsumerGroupMemberKey<'static> {
    ConsumerGroupMemberKey { group_id: owned(group_id), member_id: owned(member_id) }
}

pub(crate) fn target_value(partitions: Partitions) -> ConsumerGroupTargetAssignmentMemberValue {
    let topics = partitions.into_iter().map(|topic| ConsumerGroupTargetTopicPartitions {
        topic_id: topic.key,
        partitions: topic.partitions,
    });
    ConsumerGroupTargetAssignmentMemberValue { topic_partitions: topics.collect() }
}

/// The partitions of a member's target, without topics that have no partitions: Kafka's assignor
/// for share groups writes such topics.
pub(crate) fn target_part(value: &ConsumerGroupTargetAssignmentMemberValue) -> Partitions {
    let topics = value.topic_partitions.iter().filter(|it| !it.partitions.is_empty());
    let topics =
        topics.map(|it| KeyPartitions { key: it.topic_id, partitions: it.partitions.clone() });
    topics.collect()
}
