//! The coordinator records of Kafka's `__consumer_offsets`: the table of all types, and the
//! structures of classic groups and committed offsets.

use super::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupKey, ConsumerGroupMemberKey,
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue, ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, KEY, Schema,
    ShareGroupCurrentMemberAssignmentValue, ShareGroupMemberMetadataValue, ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue, StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue, StreamsGroupMetadataValue, StreamsGroupTopologyValue,
};
use crate::declare::message;
use crate::field::Field;
use crate::messages::StreamsGroupAssignment;
use crate::types::{Bytes, Str, Uuid};
use crate::wire::{DecodeError, Reader, Result};
use std::ops::RangeInclusive;

message! {
    /// Type 1. (Type 0: offsets committed before Kafka 0.9.)
    pub struct OffsetCommitKey<'a> {
        group: Str<'a>, 0..;
        topic: Str<'a>, 0..;
        partition: i32, 0..;
    }

    /// Versions 0-4. Version 4 is written, or version 1 if the commit has its own retention time.
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

    /// The whole state of a classic group. Versions 0-4; version 3 is written.
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

/// The group id in the key of a coordinator record of any type. None if the bytes are not such a
/// key. A scan for the records of few groups can skip all other records by this, without decoding
/// the rest of them.
pub fn key_group(key: &[u8]) -> Option<&str> {
    let mut reader = Reader::new(key);
    let _record_type = reader.i16().ok()?;
    let length = reader.i16_length().ok()??;
    std::str::from_utf8(reader.take(length).ok()?).ok()
}

impl OffsetCommitKey<'_> {
    /// Splits a key into two parts: its beginning, which is equal for all partitions of one group
    /// and topic, and the partition. None if the bytes are not exactly such a key.
    pub fn split(key: &[u8]) -> Option<(&[u8], i32)> {
        let (beginning, partition) = key.split_last_chunk()?;
        let mut reader = Reader::new(beginning);
        let is_offset_commit = reader.i16().ok()? == OFFSET_COMMIT;
        for _name in ["group", "topic"] {
            let length = reader.i16_length().ok()??;
            reader.take(length).ok()?;
        }
        let is_whole = is_offset_commit && reader.remaining() == 0;
        is_whole.then_some((beginning, i32::from_be_bytes(*partition)))
    }
}

impl<'a> OffsetCommitValue<'a> {
    /// Reads the value of a record of this type.
    ///
    /// # Errors
    /// The errors of [`GroupRecord::read`].
    #[inline]
    pub fn read_value(value: &'a [u8]) -> Result<Self> {
        if let Some(value) = Self::read_plain(value) {
            return Ok(value);
        }
        let read = OFFSET_COMMIT_SCHEMA.read_value(Some(value))?;
        read.ok_or(DecodeError::UnexpectedNull)
    }

    /// Fast path for recovery, which reads millions of values: nearly all are of version 4, without
    /// metadata and with a topic id, so that each field has a fixed position.
    #[inline]
    fn read_plain(value: &'a [u8]) -> Option<Self> {
        let value: &[u8; PLAIN_VALUE_BYTES] = value.try_into().ok()?;
        let (version, rest) = value.split_first_chunk::<2>()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (leader_epoch, rest) = rest.split_first_chunk()?;
        let (metadata_length, rest) = rest.split_first_chunk::<1>()?;
        let (commit_timestamp, rest) = rest.split_first_chunk()?;
        let (one_tag_of_16_bytes, topic_id) = rest.split_first_chunk::<3>()?;
        let is_plain =
            *version == [0, 4] && *metadata_length == [1] && *one_tag_of_16_bytes == [1, 0, 16];
        is_plain.then_some(Self {
            offset: i64::from_be_bytes(*offset),
            leader_epoch: i32::from_be_bytes(*leader_epoch),
            metadata: Str::Borrowed(""),
            commit_timestamp: i64::from_be_bytes(*commit_timestamp),
            expire_timestamp: -1,
            topic_id: Uuid(topic_id.try_into().ok()?),
        })
    }
}

/// The size of a value that [`OffsetCommitValue::read_plain`] reads.
const PLAIN_VALUE_BYTES: usize = 2 + 8 + 4 + 1 + 8 + 3 + 16;

/// The table of record types: type number, versions that are read, first flexible version,
/// structures of key and value, and the version that is written.
macro_rules! group_records {
    ($($name:ident = $type:literal, $versions:expr, flexible $flexible:literal,
        $key:ty => $value:ty, group $group:ident, writes $written:expr;)*) => {
        /// A coordinator record. It is a tombstone if its value is None.
        #[derive(Debug, Clone, PartialEq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub enum GroupRecord<'a> {
            $($name($key, Option<$value>),)*
        }

        impl<'a> GroupRecord<'a> {
            /// Reads a record. Returns None if its type is unknown; Kafka skips such records.
            ///
            /// # Errors
            /// The key or the value cannot be read, or the version of the value is unknown. This
            /// build then cannot serve the log.
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

            /// Appends the value, in the version that Kafka 4.3 writes, and returns true. For a
            /// tombstone, appends nothing and returns false.
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

            /// The group that the record belongs to. The group id decides the partition of the
            /// record.
            pub fn group_id(&self) -> &str {
                match self {
                    $(Self::$name(key, _) => &key.$group,)*
                }
            }

            /// Whether the record has no value, and so deletes an earlier record with its key.
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
const OFFSET_COMMIT: i16 = 1;
const OFFSET_COMMIT_SCHEMA: Schema = schema(OFFSET_COMMIT, 0..=4, 4);

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
    ShareGroupMemberMetadata = 10, 0..=0, flexible 0,
        ConsumerGroupMemberKey<'a> => ShareGroupMemberMetadataValue<'a>,
        group group_id, writes |_| 0;
    ShareGroupMetadata = 11, 0..=0, flexible 0,
        ConsumerGroupKey<'a> => ShareGroupMetadataValue, group group_id, writes |_| 0;
    ShareGroupTargetAssignmentMetadata = 12, 0..=0, flexible 0,
        ConsumerGroupKey<'a> => ConsumerGroupTargetAssignmentMetadataValue,
        group group_id, writes |_| 0;
    ShareGroupTargetAssignmentMember = 13, 0..=0, flexible 0,
        ConsumerGroupMemberKey<'a> => ConsumerGroupTargetAssignmentMemberValue,
        group group_id, writes |_| 0;
    ShareGroupCurrentMemberAssignment = 14, 0..=0, flexible 0,
        ConsumerGroupMemberKey<'a> => ShareGroupCurrentMemberAssignmentValue,
        group group_id, writes |_| 0;
    ShareGroupStatePartitionMetadata = 15, 0..=0, flexible 0,
        ConsumerGroupKey<'a> => ShareGroupStatePartitionMetadataValue<'a>,
        group group_id, writes |_| 0;
    ConsumerGroupRegularExpression = 16, 0..=0, flexible 0,
        ConsumerGroupRegularExpressionKey<'a> => ConsumerGroupRegularExpressionValue<'a>,
        group group_id, writes |_| 0;
    StreamsGroupMetadata = 17, 0..=0, flexible 0,
        ConsumerGroupKey<'a> => StreamsGroupMetadataValue<'a>, group group_id, writes |_| 0;
    StreamsGroupMemberMetadata = 19, 0..=0, flexible 0,
        ConsumerGroupMemberKey<'a> => StreamsGroupMemberMetadataValue<'a>,
        group group_id, writes |_| 0;
    StreamsGroupTargetAssignmentMetadata = 20, 0..=0, flexible 0,
        ConsumerGroupKey<'a> => ConsumerGroupTargetAssignmentMetadataValue,
        group group_id, writes |_| 0;
    StreamsGroupTargetAssignmentMember = 21, 0..=0, flexible 0,
        ConsumerGroupMemberKey<'a> => StreamsGroupAssignment<'a>,
        group group_id, writes |_| 0;
    StreamsGroupCurrentMemberAssignment = 22, 0..=0, flexible 0,
        ConsumerGroupMemberKey<'a> => StreamsGroupCurrentMemberAssignmentValue<'a>,
        group group_id, writes |_| 0;
    StreamsGroupTopology = 23, 0..=0, flexible 0,
        ConsumerGroupKey<'a> => StreamsGroupTopologyValue<'a>, group group_id, writes |_| 0;
}

const fn schema(record_type: i16, versions: RangeInclusive<i16>, flexible_from: i16) -> Schema {
    Schema { record_type, versions, flexible_from }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(metadata: &'static str, expire_timestamp: i64, topic_id: u8) -> Vec<u8> {
        let value = OffsetCommitValue {
            offset: 0x0102_0304_0506_0708,
            leader_epoch: 0x1112_1314,
            metadata: metadata.into(),
            commit_timestamp: 0x2122_2324_2526_2728,
            expire_timestamp,
            topic_id: Uuid([topic_id; 16]),
        };
        let mut bytes = Vec::new();
        GroupRecord::OffsetCommit(OffsetCommitKey::default(), Some(value)).write_value(&mut bytes);
        bytes
    }

    const KEY_BYTES: [u8; 12] = [0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 7];

    fn read_as_record(value: &[u8]) -> Option<OffsetCommitValue<'_>> {
        match GroupRecord::read(&KEY_BYTES, Some(value)) {
            Ok(Some(GroupRecord::OffsetCommit(_, value))) => value,
            _ => None,
        }
    }

    #[test]
    fn plain_values_are_read_like_others() {
        assert_eq!(value("", -1, 9).len(), PLAIN_VALUE_BYTES);
        for bytes in [value("", -1, 9), value("", -1, 0), value("m", -1, 9), value("", 5, 9)] {
            for (at, change) in (0..bytes.len()).flat_map(|at| (0..=255u8).map(move |it| (at, it)))
            {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                let read = OffsetCommitValue::read_value(&bytes);
                assert_eq!(read.ok(), read_as_record(&bytes), "byte {at} ^ {change}");
            }
        }
    }

    #[test]
    fn a_key_is_split_before_its_partition() {
        let key = [0, 1, 0, 1, b'g', 0, 2, b't', b'o', 0, 0, 1, 7];
        assert_eq!(OffsetCommitKey::split(&key), Some((&key[..9], 263)));
        for end in 0..key.len() {
            assert_eq!(OffsetCommitKey::split(&key[..end]), None);
        }
        let longer = [&key[..], &[0]].concat();
        assert_eq!(OffsetCommitKey::split(&longer), None);
        assert_eq!(OffsetCommitKey::split(&[&[0, 2], &key[2..]].concat()), None);
    }

    #[test]
    fn every_key_begins_with_its_group() {
        let group_id = || "größe".into();
        let member = ConsumerGroupMemberKey { group_id: group_id(), member_id: "m".into() };
        for record in [
            GroupRecord::OffsetCommit(
                OffsetCommitKey { group: group_id(), topic: "t".into(), partition: 1 },
                None,
            ),
            GroupRecord::GroupMetadata(GroupMetadataKey { group: group_id() }, None),
            GroupRecord::ConsumerGroupMetadata(ConsumerGroupKey { group_id: group_id() }, None),
            GroupRecord::ConsumerGroupMemberMetadata(member, None),
        ] {
            let mut key = Vec::new();
            record.write_key(&mut key);
            assert_eq!(key_group(&key), Some(record.group_id()));
            assert_eq!(key_group(&key[..4]), None);
        }
    }
}
