//! Kafka's coordinator records of consumer groups (KIP-848). All are of version 0.

use crate::declare::message;
use crate::field::{Field, Version};
use crate::types::{Bytes, Str, Uuid};
use crate::wire::{Reader, Result, put_uvarint};

message! {
    /// The key of the record types that exist once for each group: types 3, 4 and 6; 11, 12 and 15
    /// for share groups; 17, 20 and 23 for streams groups.
    pub struct ConsumerGroupKey<'a> {
        group_id: Str<'a>, 0..;
    }

    /// The key of the record types that exist once for each member: types 5, 7 and 8; 10, 13 and 14
    /// for share groups; 19, 21 and 22 for streams groups.
    pub struct ConsumerGroupMemberKey<'a> {
        group_id: Str<'a>, 0..;
        member_id: Str<'a>, 0..;
    }

    /// Type 16.
    pub struct ConsumerGroupRegularExpressionKey<'a> {
        group_id: Str<'a>, 0..;
        regular_expression: Str<'a>, 0..;
    }

    /// Type 3.
    pub struct ConsumerGroupMetadataValue {
        epoch: i32, 0..;
        /// The hash of the metadata of the subscribed topics (KIP-1101).
        metadata_hash: i64, 0.., tag 0;
    }

    /// Type 4. Since Kafka 4.1 the hash in type 3 replaces it.
    pub struct ConsumerGroupPartitionMetadataValue<'a> {
        topics: Vec<ConsumerGroupTopicMetadata<'a>>, 0..;
    }

    pub struct ConsumerGroupTopicMetadata<'a> {
        topic_id: Uuid, 0..;
        topic_name: Str<'a>, 0..;
        num_partitions: i32, 0..;
        partition_metadata: Vec<ConsumerGroupPartitionRacks<'a>>, 0..;
    }

    pub struct ConsumerGroupPartitionRacks<'a> {
        partition: i32, 0..;
        racks: Vec<Str<'a>>, 0..;
    }

    /// Type 5.
    pub struct ConsumerGroupMemberMetadataValue<'a> {
        instance_id: Option<Str<'a>>, 0..;
        rack_id: Option<Str<'a>>, 0..;
        client_id: Str<'a>, 0..;
        client_host: Str<'a>, 0..;
        subscribed_topic_names: Vec<Str<'a>>, 0..;
        subscribed_topic_regex: Option<Str<'a>>, 0..;
        rebalance_timeout_ms: i32 = -1, 0..;
        server_assignor: Option<Str<'a>>, 0..;
        /// The metadata of a member that uses the classic protocol.
        classic_member_metadata: MaybeClassic<'a> = MaybeClassic::absent(), 0.., tag 0;
    }

    pub struct ClassicMemberMetadata<'a> {
        session_timeout_ms: i32, 0..;
        supported_protocols: Vec<ClassicProtocol<'a>>, 0..;
    }

    pub struct ClassicProtocol<'a> {
        name: Str<'a>, 0..;
        metadata: Bytes<'a>, 0..;
    }

    /// Types 6, 12 and 20.
    pub struct ConsumerGroupTargetAssignmentMetadataValue {
        assignment_epoch: i32, 0..;
        /// The time when the assignment was computed (KIP-1263).
        assignment_timestamp: i64, 0.., tag 0;
    }

    /// Types 7 and 13.
    pub struct ConsumerGroupTargetAssignmentMemberValue {
        topic_partitions: Vec<ConsumerGroupTargetTopicPartitions>, 0..;
    }

    pub struct ConsumerGroupTargetTopicPartitions {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
    }

    /// Type 8.
    pub struct ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: i32, 0..;
        previous_member_epoch: i32, 0..;
        state: i8, 0..;
        assigned_partitions: Vec<ConsumerGroupOwnedTopicPartitions>, 0..;
        partitions_pending_revocation: Vec<ConsumerGroupOwnedTopicPartitions>, 0..;
    }

    pub struct ConsumerGroupOwnedTopicPartitions {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
        /// One epoch for each entry of `partitions`: that in which the member got the partition
        /// (KIP-1251).
        assignment_epochs: Option<Vec<i32>>, 0.., tag 0;
    }

    /// Type 16: the topics that match the regular expression.
    pub struct ConsumerGroupRegularExpressionValue<'a> {
        topics: Vec<Str<'a>>, 0..;
        version: i64, 0..;
        timestamp: i64, 0..;
    }
}

/// The metadata of a member that uses the classic protocol; `None` for other members. `None` is
/// written as a null structure (one byte, 0). It cannot be left out, because Kafka reads an absent
/// field as an empty structure.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct MaybeClassic<'a>(pub Option<ClassicMemberMetadata<'a>>);

impl MaybeClassic<'_> {
    /// The value that Kafka reads from a record without the field: an empty structure.
    fn absent() -> Self {
        Self(Some(ClassicMemberMetadata::default()))
    }
}

impl<'a> Field<'a> for MaybeClassic<'a> {
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self> {
        match reader.uvarint()? {
            0 => Ok(Self(None)),
            _ => Field::read(reader, version).map(Some).map(Self),
        }
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        put_uvarint(out, u32::from(self.0.is_some()));
        if let Some(classic) = &self.0 {
            classic.write(out, version);
        }
    }
}
