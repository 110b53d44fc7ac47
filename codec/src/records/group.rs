//! Kafka's coordinator records of classic groups and offsets, as `__consumer_offsets` holds them.

use super::{KEY, Schema};
use crate::declare::message;
use crate::field::Field;
use crate::types::{Bytes, Str, Uuid};
use crate::wire::{Reader, Result};

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

const LEGACY_OFFSET_COMMIT: Schema = Schema { record_type: 0, versions: 0..=0, flexible_from: 1 };
const OFFSET_COMMIT: Schema = Schema { record_type: 1, versions: 0..=4, flexible_from: 4 };
const GROUP_METADATA: Schema = Schema { record_type: 2, versions: 0..=4, flexible_from: 4 };

/// A record of a group. A value of None is a tombstone.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupRecord<'a> {
    OffsetCommit(OffsetCommitKey<'a>, Option<OffsetCommitValue<'a>>),
    GroupMetadata(GroupMetadataKey<'a>, Option<GroupMetadataValue<'a>>),
}

impl<'a> GroupRecord<'a> {
    /// Reads a record; None if its type is unknown, which Kafka skips.
    ///
    /// # Errors
    /// A key or value that cannot be read, or a value of an unknown version: the log is then not
    /// one that this build can serve.
    pub fn read(key: &'a [u8], value: Option<&'a [u8]>) -> Result<Option<Self>> {
        let mut reader = Reader::new(key);
        Ok(Some(match reader.i16()? {
            0 => {
                let value = LEGACY_OFFSET_COMMIT.read_value(value)?;
                Self::OffsetCommit(Field::read(&mut reader, KEY)?, value)
            }
            1 => {
                let value = OFFSET_COMMIT.read_value(value)?;
                Self::OffsetCommit(Field::read(&mut reader, KEY)?, value)
            }
            2 => {
                let value = GROUP_METADATA.read_value(value)?;
                Self::GroupMetadata(Field::read(&mut reader, KEY)?, value)
            }
            _ => return Ok(None),
        }))
    }

    /// Appends the key.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        match self {
            Self::OffsetCommit(key, _) => OFFSET_COMMIT.write_key(key, out),
            Self::GroupMetadata(key, _) => GROUP_METADATA.write_key(key, out),
        }
    }

    /// Appends the value in the version that Kafka 4.3 writes; false, and nothing, for a tombstone.
    pub fn write_value(&self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::OffsetCommit(_, Some(value)) => {
                let version = if value.expire_timestamp == -1 { 4 } else { 1 };
                OFFSET_COMMIT.write_value(value, version, out);
            }
            Self::GroupMetadata(_, Some(value)) => GROUP_METADATA.write_value(value, 3, out),
            Self::OffsetCommit(_, None) | Self::GroupMetadata(_, None) => return false,
        }
        true
    }

    /// The group that the record belongs to, which decides its partition.
    pub fn group_id(&self) -> &str {
        match self {
            Self::OffsetCommit(key, _) => &key.group,
            Self::GroupMetadata(key, _) => &key.group,
        }
    }
}
