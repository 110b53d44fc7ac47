//! Kafka's records of the state of share partitions (KIP-932).

use super::{KEY, Schema};
use crate::declare::message;
use crate::field::Field;
use crate::types::{Str, Uuid};
use crate::wire::{Reader, Result};

message! {
    /// The key of snapshots and updates.
    pub struct ShareStateKey<'a> {
        group_id: Str<'a>, 0..;
        topic_id: Uuid, 0..;
        partition: i32, 0..;
    }

    /// Version 0: the whole state of a share partition.
    pub struct ShareSnapshotValue {
        snapshot_epoch: i32, 0..;
        state_epoch: i32, 0..;
        leader_epoch: i32, 0..;
        /// -1 until the partition's leader has read the state for the first time and has decided
        /// the start offset.
        start_offset: i64, 0..;
        /// The number of completed records from the start offset on; -1 if unknown.
        delivery_complete_count: i32 = -1, 0.., tag 0;
        create_timestamp: i64, 0..;
        write_timestamp: i64, 0..;
        state_batches: Vec<ShareStateBatch>, 0..;
    }

    /// Version 0: a change since the snapshot with the same snapshot epoch.
    pub struct ShareUpdateValue {
        snapshot_epoch: i32, 0..;
        leader_epoch: i32, 0..;
        /// -1 if the start offset is unchanged.
        start_offset: i64, 0..;
        delivery_complete_count: i32 = -1, 0.., tag 0;
        state_batches: Vec<ShareStateBatch>, 0..;
    }

    /// Consecutive records in the same delivery state.
    pub struct ShareStateBatch {
        first_offset: i64, 0..;
        last_offset: i64, 0..;
        delivery_state: i8, 0..;
        delivery_count: i16, 0..;
    }
}

/// The record type, which is the beginning of a key. The first is that of snapshots and of
/// tombstones, the second that of updates. The rest of the key is the same in a snapshot and in its
/// updates.
pub const SHARE_SNAPSHOT_TYPE: i16 = 0;
pub const SHARE_UPDATE_TYPE: i16 = 1;

const SNAPSHOT: Schema =
    Schema { record_type: SHARE_SNAPSHOT_TYPE, versions: 0..=0, flexible_from: 0 };
const UPDATE: Schema = Schema { record_type: SHARE_UPDATE_TYPE, versions: 0..=0, flexible_from: 0 };

/// The version in which values are written.
const WRITTEN: i16 = 0;

/// A record of a share partition.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ShareRecord<'a> {
    pub key: ShareStateKey<'a>,
    pub value: ShareValue,
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum ShareValue {
    Snapshot(ShareSnapshotValue),
    Update(ShareUpdateValue),
    /// A tombstone of the snapshot: the share partition no longer has a state.
    Deleted,
}

impl<'a> ShareRecord<'a> {
    /// Reads a record. Returns None if the type of the key or the version of the value is unknown.
    /// Also returns None for an update without a value, which has no meaning.
    ///
    /// # Errors
    /// The key or the value cannot be read.
    pub fn read(key: &'a [u8], value: Option<&'a [u8]>) -> Result<Option<Self>> {
        let mut reader = Reader::new(key);
        let record_type = reader.i16()?;
        let Some(value) = read_value(record_type, value)? else { return Ok(None) };
        Ok(Some(Self { key: Field::read(&mut reader, KEY)?, value }))
    }

    /// Appends the key.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        match self.value {
            ShareValue::Snapshot(_) | ShareValue::Deleted => SNAPSHOT.write_key(&self.key, out),
            ShareValue::Update(_) => UPDATE.write_key(&self.key, out),
        }
    }

    /// Appends the value and returns true. For a tombstone, appends nothing and returns false.
    pub fn write_value(&self, out: &mut Vec<u8>) -> bool {
        match &self.value {
            ShareValue::Snapshot(snapshot) => SNAPSHOT.write_value(snapshot, WRITTEN, out),
            ShareValue::Update(update) => UPDATE.write_value(update, WRITTEN, out),
            ShareValue::Deleted => return false,
        }
        true
    }
}

fn read_value(record_type: i16, value: Option<&[u8]>) -> Result<Option<ShareValue>> {
    let Some(bytes) = value else {
        return Ok((record_type == SNAPSHOT.record_type).then_some(ShareValue::Deleted));
    };
    if Reader::new(bytes).i16()? != WRITTEN {
        return Ok(None);
    }
    if record_type == SNAPSHOT.record_type {
        Ok(SNAPSHOT.read_value(value)?.map(ShareValue::Snapshot))
    } else if record_type == UPDATE.record_type {
        Ok(UPDATE.read_value(value)?.map(ShareValue::Update))
    } else {
        Ok(None)
    }
}
