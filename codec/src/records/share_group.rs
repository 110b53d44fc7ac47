//! Kafka's coordinator records of share groups (KIP-932), all of version 0. Keys and target
//! assignments have the structures of consumer groups.

use super::ConsumerGroupTargetTopicPartitions;
use crate::declare::message;
use crate::types::{Str, Uuid};

message! {
    /// Type 10.
    pub struct ShareGroupMemberMetadataValue<'a> {
        rack_id: Option<Str<'a>>, 0..;
        client_id: Str<'a>, 0..;
        client_host: Str<'a>, 0..;
        subscribed_topic_names: Vec<Str<'a>>, 0..;
    }

    /// Type 11.
    pub struct ShareGroupMetadataValue {
        epoch: i32, 0..;
        /// The hash of the metadata of the subscribed topics.
        metadata_hash: i64, 0..;
    }

    /// Type 14.
    pub struct ShareGroupCurrentMemberAssignmentValue {
        member_epoch: i32, 0..;
        previous_member_epoch: i32, 0..;
        state: i8, 0..;
        assigned_partitions: Vec<ConsumerGroupTargetTopicPartitions>, 0..;
    }

    /// Type 15: the partitions that have share state, or are being initialized or deleted.
    pub struct ShareGroupStatePartitionMetadataValue<'a> {
        initializing_topics: Vec<ShareGroupTopicPartitions<'a>>, 0..;
        initialized_topics: Vec<ShareGroupTopicPartitions<'a>>, 0..;
        deleting_topics: Vec<ShareGroupTopic<'a>>, 0..;
    }

    pub struct ShareGroupTopicPartitions<'a> {
        topic_id: Uuid, 0..;
        topic_name: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct ShareGroupTopic<'a> {
        topic_id: Uuid, 0..;
        topic_name: Str<'a>, 0..;
    }
}
