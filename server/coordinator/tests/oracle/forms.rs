//! Converts requests, responses and records between Kafka's JSON and the bytes of a version.

use muster_codec::messages::*;
use muster_codec::records::*;
use muster_codec::{ApiKey, Reader, Request, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub type Result<T> = std::result::Result<T, String>;

macro_rules! served {
    ($($name:ident: $request:ty => $response:ty;)*) => {
        /// The API with this name; None if muster's coordinator does not serve it.
        pub fn api(name: &str) -> Option<ApiKey> {
            match name {
                $(stringify!($name) => Some(ApiKey::$name),)*
                _ => None,
            }
        }

        fn typed_request(api: ApiKey, body: &Value) -> Result<(Request<'static>, Value)> {
            match api {
                $(ApiKey::$name => {
                    let body: $request = typed(body)?;
                    let printed = printed(&body)?;
                    Ok((body.into(), printed))
                })*
                _ => Err(format!("{} is not served", api.name())),
            }
        }

        fn typed_response(api: ApiKey, body: &Value) -> Result<Response<'static>> {
            match api {
                $(ApiKey::$name => typed::<$response>(body).map(Into::into),)*
                _ => Err(format!("{} is not served", api.name())),
            }
        }

        fn printed_response(response: &Response<'_>) -> Result<Value> {
            match response {
                $(Response::$name(body) => printed(body),)*
                _ => Err(format!("{} is not served", response.api_key().name())),
            }
        }
    };
}

served! {
    OffsetCommit: OffsetCommitRequest<'static> => OffsetCommitResponse<'static>;
    OffsetFetch: OffsetFetchRequest<'static> => OffsetFetchResponse<'static>;
    JoinGroup: JoinGroupRequest<'static> => JoinGroupResponse<'static>;
    Heartbeat: HeartbeatRequest<'static> => HeartbeatResponse;
    LeaveGroup: LeaveGroupRequest<'static> => LeaveGroupResponse<'static>;
    SyncGroup: SyncGroupRequest<'static> => SyncGroupResponse<'static>;
    DescribeGroups: DescribeGroupsRequest<'static> => DescribeGroupsResponse<'static>;
    ListGroups: ListGroupsRequest<'static> => ListGroupsResponse<'static>;
    DeleteGroups: DeleteGroupsRequest<'static> => DeleteGroupsResponse<'static>;
    OffsetDelete: OffsetDeleteRequest<'static> => OffsetDeleteResponse<'static>;
    ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest<'static>
        => ConsumerGroupHeartbeatResponse<'static>;
    ConsumerGroupDescribe: ConsumerGroupDescribeRequest<'static>
        => ConsumerGroupDescribeResponse<'static>;
    ShareGroupHeartbeat: ShareGroupHeartbeatRequest<'static>
        => ShareGroupHeartbeatResponse<'static>;
    ShareGroupDescribe: ShareGroupDescribeRequest<'static> => ShareGroupDescribeResponse<'static>;
    StreamsGroupHeartbeat: StreamsGroupHeartbeatRequest<'static>
        => StreamsGroupHeartbeatResponse<'static>;
    StreamsGroupDescribe: StreamsGroupDescribeRequest<'static>
        => StreamsGroupDescribeResponse<'static>;
    DescribeShareGroupOffsets: DescribeShareGroupOffsetsRequest<'static>
        => DescribeShareGroupOffsetsResponse<'static>;
    AlterShareGroupOffsets: AlterShareGroupOffsetsRequest<'static>
        => AlterShareGroupOffsetsResponse<'static>;
    DeleteShareGroupOffsets: DeleteShareGroupOffsetsRequest<'static>
        => DeleteShareGroupOffsetsResponse<'static>;
    StreamsGroupTopologyDescriptionUpdate: StreamsGroupTopologyDescriptionUpdateRequest<'static>
        => StreamsGroupTopologyDescriptionUpdateResponse<'static>;
}

/// The bytes of a request's body. Fails if `body` has a field that muster does not know.
pub fn request_bytes(api: ApiKey, version: i16, body: &Value) -> Result<Vec<u8>> {
    let (request, printed) = typed_request(api, body)?;
    lossless(body, &printed)?;
    let mut out = Vec::new();
    request.write(version, &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

/// A response as a client of this version decodes it, with sorted lists.
pub fn response_json(response: &Response<'_>, version: i16) -> Result<Value> {
    let mut bytes = Vec::new();
    response.write(version, &mut bytes).map_err(|error| error.to_string())?;
    let read = Response::read(response.api_key(), version, &mut Reader::new(&bytes));
    printed_response(&read.map_err(|error| error.to_string())?).map(wordless).map(in_order)
}

/// A response in Kafka's JSON, in the form of [`response_json`].
pub fn kafka_response(api: ApiKey, version: i16, body: &Value) -> Result<Value> {
    let printed = response_json(&typed_response(api, body)?, version)?;
    lossless(&in_order(wordless(body.clone())), &printed)?;
    Ok(printed)
}

/// A request decoded from JSON. muster must know each of its fields.
pub fn lossless_request<T: DeserializeOwned + Serialize>(body: &Value) -> Result<T> {
    let request = typed(body)?;
    lossless(body, &printed(&request)?)?;
    Ok(request)
}

/// A decoded response, with sorted lists.
pub fn as_read(response: &impl Serialize) -> Result<Value> {
    printed(response).map(wordless).map(in_order)
}

/// A response in Kafka's JSON, converted by `form`.
pub fn kafka_form<T: DeserializeOwned>(
    body: &Value,
    form: impl FnOnce(T) -> Result<Value>,
) -> Result<Value> {
    let printed = form(typed(body)?)?;
    lossless(&in_order(wordless(body.clone())), &printed)?;
    Ok(printed)
}

/// Replaces error messages by "...": only their presence is compared.
fn wordless(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(wordless).collect()),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, field)| match &field {
                Value::String(_) if name == "errorMessage" => (name, Value::from("...")),
                // Several topics may be wrong. Kafka names one, depending on the order of a hash
                // table.
                Value::String(text) if text.starts_with("Existing topic ") => {
                    (name, Value::from("..."))
                }
                _ => (name, wordless(field)),
            });
            Value::Object(fields.collect())
        }
        other => other,
    }
}

/// The key and the value of a record. A tombstone has no value.
pub type RecordBytes = (Vec<u8>, Option<Vec<u8>>);

pub fn record_bytes(record: &GroupRecord<'_>) -> RecordBytes {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.write_key(&mut key);
    let has_value = record.write_value(&mut value);
    (key, has_value.then_some(value))
}

macro_rules! records {
    ($($name:ident = $printed:literal, $number:literal: $key:ty => $value:ty;)*) => {
        /// A record in the oracle's JSON, with sorted lists.
        pub fn record_json((key, value): &RecordBytes) -> Result<Value> {
            let record = GroupRecord::read(key, value.as_deref())
                .map_err(|error| error.to_string())?
                .ok_or("a record of an unknown type")?;
            let (name, number, key, data) = match &record {
                $(GroupRecord::$name(key, value) => {
                    let value = value.as_ref().map(printed).transpose()?;
                    ($printed, $number, printed(key)?, value)
                })*
            };
            let version = value.as_deref().and_then(|bytes| bytes.first_chunk()).copied();
            let version = version.map(i16::from_be_bytes);
            let value = data.map(|data| json!({"version": version, "data": in_order(data)}));
            Ok(json!({"type": name, "key": {"type": number, "data": key}, "value": value}))
        }

        /// The bytes that muster writes for a record in Kafka's JSON. If the oracle shows Kafka's
        /// own bytes, both must be equal.
        pub fn kafka_record(record: &Value) -> Result<RecordBytes> {
            let (key, value) = (&record["key"]["data"], &record["value"]["data"]);
            let typed = match record["type"].as_str() {
                $(Some($printed) => {
                    let key: $key = typed(key)?;
                    GroupRecord::$name(key, optional::<$value>(value)?)
                })*
                _ => return Err(format!("not a record that muster knows: {record}")),
            };
            let bytes = record_bytes(&typed);
            same_bytes(&record["key_bytes"], Some(&bytes.0))?;
            same_bytes(&record["value_bytes"], bytes.1.as_ref())?;
            Ok(bytes)
        }
    };
}

records! {
    OffsetCommit = "OFFSET_COMMIT", 1: OffsetCommitKey<'static> => OffsetCommitValue<'static>;
    GroupMetadata = "GROUP_METADATA", 2: GroupMetadataKey<'static> => GroupMetadataValue<'static>;
    ConsumerGroupMetadata = "CONSUMER_GROUP_METADATA", 3:
        ConsumerGroupKey<'static> => ConsumerGroupMetadataValue;
    ConsumerGroupPartitionMetadata = "CONSUMER_GROUP_PARTITION_METADATA", 4:
        ConsumerGroupKey<'static> => ConsumerGroupPartitionMetadataValue<'static>;
    ConsumerGroupMemberMetadata = "CONSUMER_GROUP_MEMBER_METADATA", 5:
        ConsumerGroupMemberKey<'static> => ConsumerGroupMemberMetadataValue<'static>;
    ConsumerGroupTargetAssignmentMetadata = "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA", 6:
        ConsumerGroupKey<'static> => ConsumerGroupTargetAssignmentMetadataValue;
    ConsumerGroupTargetAssignmentMember = "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER", 7:
        ConsumerGroupMemberKey<'static> => ConsumerGroupTargetAssignmentMemberValue;
    ConsumerGroupCurrentMemberAssignment = "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT", 8:
        ConsumerGroupMemberKey<'static> => ConsumerGroupCurrentMemberAssignmentValue;
    ShareGroupMemberMetadata = "SHARE_GROUP_MEMBER_METADATA", 10:
        ConsumerGroupMemberKey<'static> => ShareGroupMemberMetadataValue<'static>;
    ShareGroupMetadata = "SHARE_GROUP_METADATA", 11:
        ConsumerGroupKey<'static> => ShareGroupMetadataValue;
    ShareGroupTargetAssignmentMetadata = "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA", 12:
        ConsumerGroupKey<'static> => ConsumerGroupTargetAssignmentMetadataValue;
    ShareGroupTargetAssignmentMember = "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER", 13:
        ConsumerGroupMemberKey<'static> => ConsumerGroupTargetAssignmentMemberValue;
    ShareGroupCurrentMemberAssignment = "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT", 14:
        ConsumerGroupMemberKey<'static> => ShareGroupCurrentMemberAssignmentValue;
    ShareGroupStatePartitionMetadata = "SHARE_GROUP_STATE_PARTITION_METADATA", 15:
        ConsumerGroupKey<'static> => ShareGroupStatePartitionMetadataValue<'static>;
    ConsumerGroupRegularExpression = "CONSUMER_GROUP_REGULAR_EXPRESSION", 16:
        ConsumerGroupRegularExpressionKey<'static> => ConsumerGroupRegularExpressionValue<'static>;
    StreamsGroupMetadata = "STREAMS_GROUP_METADATA", 17:
        ConsumerGroupKey<'static> => StreamsGroupMetadataValue<'static>;
    StreamsGroupMemberMetadata = "STREAMS_GROUP_MEMBER_METADATA", 19:
        ConsumerGroupMemberKey<'static> => StreamsGroupMemberMetadataValue<'static>;
    StreamsGroupTargetAssignmentMetadata = "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA", 20:
        ConsumerGroupKey<'static> => ConsumerGroupTargetAssignmentMetadataValue;
    StreamsGroupTargetAssignmentMember = "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER", 21:
        ConsumerGroupMemberKey<'static> => StreamsGroupAssignment<'static>;
    StreamsGroupCurrentMemberAssignment = "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT", 22:
        ConsumerGroupMemberKey<'static> => StreamsGroupCurrentMemberAssignmentValue<'static>;
    StreamsGroupTopology = "STREAMS_GROUP_TOPOLOGY", 23:
        ConsumerGroupKey<'static> => StreamsGroupTopologyValue<'static>;
}

/// A record in Kafka's JSON, in the form of [`record_json`].
pub fn kafka_record_json(record: &Value) -> Result<Value> {
    let printed = record_json(&kafka_record(record)?)?;
    for part in ["type", "key", "value"] {
        lossless(&in_order(record[part].clone()), &printed[part])?;
    }
    Ok(printed)
}

/// Sorts all lists, because Kafka leaves many of them in hash order.
pub fn in_order(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(in_order).collect();
            items.sort_by_cached_key(|item| (item.as_i64(), item.to_string()));
            Value::Array(items)
        }
        Value::Object(fields) => {
            // These epochs stay in the order of the partitions to which they belong, which both
            // servers sort.
            let fields = fields.into_iter().map(|(name, field)| match name.as_str() {
                "assignmentEpochs" => (name, field),
                _ => (name, in_order(field)),
            });
            Value::Object(fields.collect())
        }
        other => other,
    }
}

/// All error codes in a response.
pub fn error_codes(response: &Value) -> Vec<i64> {
    match response {
        Value::Object(fields) => {
            let own = fields.get("errorCode").and_then(Value::as_i64);
            own.into_iter().chain(fields.values().flat_map(error_codes)).collect()
        }
        Value::Array(items) => items.iter().flat_map(error_codes).collect(),
        _ => Vec::new(),
    }
}

/// The path to the first difference between two values, with both values there.
pub fn first_difference(kafka: &Value, muster: &Value) -> Option<String> {
    match (kafka, muster) {
        (Value::Object(a), Value::Object(b)) => a.keys().chain(b.keys()).find_map(|name| {
            let path = first_difference(&kafka[name], &muster[name])?;
            Some(format!(".{name}{path}"))
        }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(i, (a, b))| first_difference(a, b).map(|path| format!("[{i}]{path}"))),
        (a, b) => (a != b).then(|| format!(": Kafka {a}, muster {b}")),
    }
}

fn typed<T: DeserializeOwned>(body: &Value) -> Result<T> {
    serde_json::from_value(body.clone()).map_err(|error| format!("{error} in {body}"))
}

fn optional<T: DeserializeOwned>(value: &Value) -> Result<Option<T>> {
    if value.is_null() { Ok(None) } else { typed(value).map(Some) }
}

fn printed(body: &impl Serialize) -> Result<Value> {
    serde_json::to_value(body).map_err(|error| error.to_string())
}

/// Checks that no field of Kafka's JSON was lost or changed by the typed form.
fn lossless(kafka: &Value, through: &Value) -> Result<()> {
    let lost = |path: String| format!("lost on the way through the typed form: {path}");
    match (kafka, through) {
        (Value::Object(fields), Value::Object(_)) => fields.iter().try_for_each(|(name, field)| {
            let kept = through.get(name).ok_or_else(|| lost(format!("{name} of {kafka}")))?;
            lossless(field, kept)
        }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).try_for_each(|(a, b)| lossless(a, b))
        }
        (a, b) if a == b => Ok(()),
        (a, b) => Err(lost(format!("{a} became {b}"))),
    }
}

fn same_bytes(shown: &Value, ours: Option<&Vec<u8>>) -> Result<()> {
    let ours = ours.map(|bytes| format!("{:?}", muster_codec::Bytes::borrowed(bytes)));
    match (shown.as_str(), ours) {
        (Some(kafka), Some(ours)) if kafka != ours => {
            Err(format!("record bytes: Kafka {kafka}, muster {ours}"))
        }
        _ => Ok(()),
    }
}
