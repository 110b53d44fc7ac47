//! Kafka's coordinator records, as `__consumer_offsets` holds them; here are the structures of
//! classic groups and offsets.

use super::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupKey, ConsumerGroupMemberKey,
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue, ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, KEY, Schema,
};
use crate::declare::message;
use crate::field::Field;
use crate::types::{Bytes, Str, Uuid};
use crate::wire::{Reader, Result};
use std::ops::RangeInclusive;

message! {
    /// Type 1; type 0 is that of offsets committed before Kafka 0.9.
    pub struct OffsetCommitKey<'a> {
        group: Str<'a>, 0..;
        topic: Str<'a>, 0..;
        partition: i32, 0..;
    }

    /// Versions 0-4; 4 is written, or 1 when the commit asked for a retention of its own.
    pub struct OffsetCommitValue<'a> {
        offset: i64, 0..;
        leader_epoch: i32 = -1, 3..;
        metadata: Str<'a>, 0..;
        commit_timestamp: i64, 0..;
        expire_timestamp: i64 = -1, 1..=1;
        topic_id: Uuid, 4.., tag 0;
    }

    /// Type 2.
    pub struct GroupMetadataKey<'a> {
        group: Str<'a>, 0..;
    }

    /// Versions 0-4; 3 is written. A whole classic group.
    pub struct GroupMetadataValue<'a> {
        protocol_type: Str<'a>, 0..;
        generation: i32, 0..;
        protocol: Option<Str<'a>>, 0..;
        leader: Option<Str<'a>>, 0..;
        current_state_timestamp: i64 = -1, 2..;
        members: Vec<MemberMetadata<'a>>, 0..;
    }

    pub struct MemberMetadata<'a> {
        member_id: Str<'a>, 0..;
        group_instance_id: Option<Str<'a>>, 3..;
        client_id: Str<'a>, 0..;
        client_host: Str<'a>, 0..;
        rebalance_timeout: i32 = -1, 1..;
        session_timeout: i32, 0..;
        subscription: Bytes<'a>, 0..;
        assignment: Bytes<'a>, 0..;
    }
}

/// The table of the types of records: type number, versions that are read and the first flexible
/// one of them, what is in key and value, and the version that is written.
macro_rules! group_records {
    ($($name:ident = $type:literal, $versions:expr, flexible $flexible:literal,
        $key:ty => $value:ty, group $group:ident, writes $written:expr;)*) => {
        /// A record of a group. A value of None is a tombstone.
        #[derive(Debug, Clone, PartialEq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub enum GroupRecord<'a> {
            $($name($key, Option<$value>),)*
        }

        impl<'a> GroupRecord<'a> {
            /// Reads a record; None if its type is unknown, which Kafka skips.
            ///
            /// # Errors
            /// A key or value that cannot be read, or a value of an unknown version: the log is
            /// then not one that this build can serve.
            pub fn read(key: &'a [u8], value: Option<&'a [u8]>) -> Result<Option<Self>> {
                let mut reader = Reader::new(key);
                Ok(Some(match reader.i16()? {
                    LEGACY_OFFSET_COMMIT => {
                        let value = schema(LEGACY_OFFSET_COMMIT, 0..=0, 1).read_value(value)?;
                        Self::OffsetCommit(Field::read(&mut reader, KEY)?, value)
                    }
                    $($type => {
                        let value = schema($type, $versions, $flexible).read_value(value)?;
                        Self::$name(Field::read(&mut reader, KEY)?, value)
                    })*
                    _ => return Ok(None),
                }))
            }

            /// Appends the key.
            pub fn write_key(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name(key, _) => {
                        schema($type, $versions, $flexible).write_key(key, out);
                    })*
                }
            }

            /// Appends the value in the version that Kafka 4.3 writes; false, and nothing, for a
            /// tombstone.
            pub fn write_value(&self, out: &mut Vec<u8>) -> bool {
                match self {
                    $(Self::$name(_, Some(value)) => {
                        let version: fn(&$value) -> i16 = $written;
                        let schema = schema($type, $versions, $flexible);
                        schema.write_value(value, version(value), out);
                        true
                    })*
                    $(Self::$name(_, None) => false,)*
                }
            }

            /// The group that the record belongs to, which decides its partition.
            pub fn group_id(&self) -> &str {
                match self {
                    $(Self::$name(key, _) => &key.$group,)*
                }
            }

            /// Whether it removes what an earlier record said.
            pub fn is_tombstone(&self) -> bool {
                match self {
                    $(Self::$name(_, value) => value.is_none(),)*
                }
            }
        }
    };
}

/// The type of offsets committed before Kafka 0.9.
const LEGACY_OFFSET_COMMIT: i16 = 0;

group_records! {
    OffsetCommit = 1, 0..=4, flexible 4, OffsetCommitKey<'a> => OffsetCommitValue<'a>,
        group group, writes |value| if value.expire_timestamp == -1 { 4 } else { 1 };
    GroupMetadata = 2, 0..=4, flexible 4, GroupMetadataKey<'a> => GroupMetadataValue<'a>,
        group group, writes |_| 3;
    ConsumerGroupMetadata = 3, 0..=0, flexible 0,
        ConsumerGroupKey<'a> => ConsumerGroupMetadataValue, group group_id, writes |_| 0;
    ConsumerGroupPartitionMetadata = 4, 0..=0, flexible 0,
        ConsumerGroupKey<'a> => ConsumerGroupPartitionMetadataValue<'a>,
        group group_id, writes |_| 0;
    ConsumerGroupMemberMetadata = 5, 0..=0, flexible 0,
        ConsumerGroupMemberKey<'a> => ConsumerGroupMemberMetadataValue<'a>,
        group group_id, writes |_| 0;
    ConsumerGroupTargetAssignmentMetadata = 6, 0..=0, flexible 0,
        ConsumerGroupKey<'a> => ConsumerGroupTargetAssignmentMetadataValue,
        group group_id, writes |_| 0;
    ConsumerGroupTargetAssignmentMember = 7, 0..=0, flexible 0,
        ConsumerGroupMemberKey<'a> => ConsumerGroupTargetAssignmentMemberValue,
        group group_id, writes |_| 0;
    ConsumerGroupCurrentMemberAssignment = 8, 0..=0, flexible 0,
        ConsumerGroupMemberKey<'a> => ConsumerGroupCurrentMemberAssignmentValue,
        group group_id, writes |_| 0;
    ConsumerGroupRegularExpression = 16, 0..=0, flexible 0,
        ConsumerGroupRegularExpressionKey<'a> => ConsumerGroupRegularExpressionValue<'a>,
        group group_id, writes |_| 0;
}

const fn schema(record_type: i16, versions: RangeInclusive<i16>, flexible_from: i16) -> Schema {
    Schema { record_type, versions, flexible_from }
}
