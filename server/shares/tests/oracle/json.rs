//! Converts the oracle's JSON to values of muster, and back.

use muster_codec::Uuid;
use muster_codec::records::{
    ShareRecord, ShareSnapshotValue, ShareStateBatch, ShareStateKey, ShareUpdateValue, ShareValue,
};
use muster_shares::{SharePartitionKey, StateBatch};
use serde_json::{Value, json};

pub fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is not a number"))
}

pub fn int32(value: &Value) -> i32 {
    i32::try_from(int(value)).unwrap()
}

/// A field that may be absent.
pub fn int_or(value: &Value, otherwise: i64) -> i64 {
    value.as_i64().unwrap_or(otherwise)
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string"))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub fn uuid(value: &Value) -> Uuid {
    Uuid::parse(text(value)).unwrap()
}

pub fn state_batches(value: &Value) -> Vec<StateBatch> {
    let batch = |it: &Value| StateBatch {
        first: int(&it["firstOffset"]),
        last: int(&it["lastOffset"]),
        delivery_count: i16::try_from(int(&it["deliveryCount"])).unwrap(),
        delivery_state: i8::try_from(int(&it["deliveryState"])).unwrap(),
    };
    list(value).iter().map(batch).collect()
}

pub fn from_state_batches(batches: &[StateBatch]) -> Value {
    let batch = |it: &StateBatch| {
        json!({"firstOffset": it.first, "lastOffset": it.last,
            "deliveryState": it.delivery_state, "deliveryCount": it.delivery_count})
    };
    batches.iter().map(batch).collect()
}

pub fn key_of(record: &ShareRecord<'_>) -> SharePartitionKey {
    SharePartitionKey::new(&*record.key.group_id, record.key.topic_id, record.key.partition)
}

/// A record of the log of share state.
pub fn record(value: &Value) -> ShareRecord<'static> {
    let key = &value["key"];
    let key = ShareStateKey {
        group_id: text(&key["groupId"]).to_owned().into(),
        topic_id: uuid(&key["topicId"]),
        partition: int32(&key["partition"]),
    };
    let data = &value["value"];
    let count = i32::try_from(int_or(&data["deliveryCompleteCount"], -1)).unwrap();
    let value = if data.is_null() {
        ShareValue::Deleted
    } else if value["type"] == "SHARE_SNAPSHOT" {
        ShareValue::Snapshot(ShareSnapshotValue {
            snapshot_epoch: int32(&data["snapshotEpoch"]),
            state_epoch: int32(&data["stateEpoch"]),
            leader_epoch: int32(&data["leaderEpoch"]),
            start_offset: int(&data["startOffset"]),
            delivery_complete_count: count,
            create_timestamp: int(&data["createTimestamp"]),
            write_timestamp: int(&data["writeTimestamp"]),
            state_batches: record_batches(&data["stateBatches"]),
        })
    } else {
        ShareValue::Update(ShareUpdateValue {
            snapshot_epoch: int32(&data["snapshotEpoch"]),
            leader_epoch: int32(&data["leaderEpoch"]),
            start_offset: int(&data["startOffset"]),
            delivery_complete_count: count,
            state_batches: record_batches(&data["stateBatches"]),
        })
    };
    ShareRecord { key, value }
}

fn record_batches(value: &Value) -> Vec<ShareStateBatch> {
    let batch = |it: &StateBatch| ShareStateBatch {
        first_offset: it.first,
        last_offset: it.last,
        delivery_state: it.delivery_state,
        delivery_count: it.delivery_count,
    };
    state_batches(value).iter().map(batch).collect()
}

/// Encodes and decodes a record.
pub fn through_bytes(record: &ShareRecord<'_>) -> ShareRecord<'static> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.write_key(&mut key);
    let has_value = record.write_value(&mut value);
    let read = ShareRecord::read(&key, has_value.then_some(&value[..])).unwrap().unwrap();
    assert_eq!(&read, record);
    let group_id = read.key.group_id.to_string().into();
    ShareRecord { key: ShareStateKey { group_id, ..read.key }, value: read.value }
}
