//! Formats records as JSON with Kafka's field names, like `kafka-dump-log`.

use muster_codec::DecodeError;
use muster_codec::record_batch::{EndTxnMarker, Record, TransactionOutcome};
use muster_codec::records::{
    ClusterRecord, GroupRecord, ShareRecord, ShareValue, TransactionRecord,
};
use muster_server::config::{Config, HIDDEN};
use muster_server::topics::InternalTopic;
use muster_storage::LogPartition;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// A record of a shard's log, ready to print.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Described {
    /// The record type: `OffsetCommit`, `GroupMetadata` and so on; `Unknown` if the record cannot
    /// be decoded.
    pub(super) name: String,
    pub(super) group: Option<String>,
    pub(super) key: Value,
    /// Null for a tombstone.
    pub(super) value: Value,
    /// The reason why the record cannot be decoded. None for a record of an unknown type, as in
    /// Kafka.
    pub(super) error: Option<DecodeError>,
}

/// Describes the record of a control batch, like `kafka-dump-log`.
pub(super) fn control_record(record: &Record<'_>) -> Described {
    let (key, value) = (record.key.unwrap_or_default(), record.value);
    let mut described = describe(key, value, Ok(None));
    match EndTxnMarker::of_record(record) {
        Ok(Some(EndTxnMarker { outcome, coordinator_epoch })) => {
            let outcome = match outcome {
                TransactionOutcome::Abort => "ABORT",
                TransactionOutcome::Commit => "COMMIT",
            };
            described.name = "EndTxnMarker".to_owned();
            described.key = json!({ "type": outcome });
            described.value = json!({ "coordinatorEpoch": coordinator_epoch });
        }
        Ok(None) => {}
        Err(error) => described.error = Some(error),
    }
    described
}

/// Describes a record of a partition of a shard's log.
pub(super) fn record(partition: LogPartition, key: &[u8], value: Option<&[u8]>) -> Described {
    match InternalTopic::of(partition) {
        InternalTopic::Cluster => cluster_record(key, value),
        InternalTopic::ConsumerOffsets => group_record(key, value),
        InternalTopic::TransactionState => transaction_record(key, value),
        InternalTopic::ShareState => share_record(key, value),
    }
}

pub(super) fn group_record(key: &[u8], value: Option<&[u8]>) -> Described {
    let group = |record: &GroupRecord<'_>| Some(record.group_id().to_owned());
    let read = GroupRecord::read(key, value);
    describe(key, value, read.map(|it| it.map(|record| (fields(&record), group(&record)))))
}

fn cluster_record(key: &[u8], value: Option<&[u8]>) -> Described {
    let read = ClusterRecord::read(key, value);
    describe(key, value, read.map(|it| it.map(|record| (fields(&without_secret(record)), None))))
}

/// Hides the values of configs that may be passwords.
fn without_secret(mut record: ClusterRecord<'_>) -> ClusterRecord<'_> {
    if let ClusterRecord::Config(key, Some(value)) = &mut record
        && Config::is_secret(&key.name)
    {
        value.value = HIDDEN.into();
    }
    record
}

fn transaction_record(key: &[u8], value: Option<&[u8]>) -> Described {
    let read = TransactionRecord::read(key, value);
    describe(key, value, read.map(|it| it.map(|record| (transaction_fields(&record), None))))
}

fn share_record(key: &[u8], value: Option<&[u8]>) -> Described {
    let group = |record: &ShareRecord<'_>| Some(record.key.group_id.to_string());
    let read = ShareRecord::read(key, value);
    describe(key, value, read.map(|it| it.map(|record| (share_fields(&record), group(&record)))))
}

/// The decoded fields of a record, and the group that it belongs to.
type Content = (Option<Fields>, Option<String>);

/// Describes a record by its decoded fields and its group, if it could be decoded.
fn describe(
    key: &[u8],
    value: Option<&[u8]>,
    read: Result<Option<Content>, DecodeError>,
) -> Described {
    let mut described = Described {
        name: "Unknown".to_owned(),
        group: None,
        key: hex(key),
        value: value.map_or(Value::Null, hex),
        error: None,
    };
    match read {
        Ok(Some((Some((name, key_fields, value_fields)), group))) => {
            described.name = name;
            described.group = group;
            described.key = json!({ "type": number(key), "data": key_fields });
            if let Some(value) = value {
                described.value = json!({ "version": number(value), "data": value_fields });
            }
        }
        Ok(_) => {}
        Err(error) => described.error = Some(error),
    }
    described
}

/// Name, key and value of a record.
type Fields = (String, Value, Value);

/// The fields of a record. It is serialized as an object with one field, which has the name of the
/// enum's variant.
fn fields(record: &impl Serialize) -> Option<Fields> {
    let Ok(Value::Object(variant)) = serde_json::to_value(record) else { return None };
    let (name, fields) = variant.into_iter().next()?;
    let Value::Array(fields) = fields else { return None };
    let mut fields = fields.into_iter();
    Some((name, fields.next()?, fields.next()?))
}

/// The fields of a transaction record. Its topic has no other type of record. As in Kafka, the
/// record has the name of its schema.
fn transaction_fields(record: &TransactionRecord<'_>) -> Option<Fields> {
    let key = serde_json::to_value(&record.key).ok()?;
    let value = serde_json::to_value(&record.value).ok()?;
    Some(("TransactionLog".to_owned(), key, value))
}

/// The fields of a share record. As in Kafka, the record has the name of its schema.
fn share_fields(record: &ShareRecord<'_>) -> Option<Fields> {
    let key = serde_json::to_value(&record.key).ok()?;
    let (name, value) = match &record.value {
        ShareValue::Snapshot(snapshot) => ("ShareSnapshot", serde_json::to_value(snapshot).ok()?),
        ShareValue::Update(update) => ("ShareUpdate", serde_json::to_value(update).ok()?),
        ShareValue::Deleted => ("ShareSnapshot", Value::Null),
    };
    Some((name.to_owned(), key, value))
}

/// The leading number: the type of a key, or the version of a value.
fn number(bytes: &[u8]) -> String {
    bytes.first_chunk().map_or(-1, |bytes| i16::from_be_bytes(*bytes)).to_string()
}

fn hex(bytes: &[u8]) -> Value {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    json!({ "hex": text })
}

/// Bytes from clients: as text if they are valid UTF-8, otherwise as hex.
pub(super) fn bytes(bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::String(text.to_owned()),
        Err(_) => hex(bytes),
    }
}

/// An object of these fields.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
