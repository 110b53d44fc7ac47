//! Intended differences. In some, Kafka's result depends on chance, mostly on the order of a Java
//! `HashMap`. In others, different records have equal results.

use muster_codec::consumer_protocol::ConsumerProtocolAssignment;
use muster_codec::{ApiKey, Bytes, Uuid};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The number of buckets of a `HashMap` without an initial capacity.
const BUCKETS: u32 = 16;

/// The records of targets with topic ids.
const TARGETS: [&str; 2] =
    ["CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER", "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER"];

/// The intended difference between the records of an operation, if this file knows it.
pub fn chance(op: &Value, kafka: &[Value], muster: &[Value]) -> Option<&'static str> {
    if share_a_bucket(kafka) {
        return Some("placement");
    }
    if adds_member_without_topics(kafka) {
        return Some("stale-type");
    }
    if op["api"] == "AlterShareGroupOffsets" && without_share_epochs(muster) == kafka {
        return Some("altered-offsets");
    }
    if op["op"] == "advance" && same_members_removed(kafka, muster) {
        return Some("equal-deadlines");
    }
    if without_repeated(kafka) == without_repeated(muster) {
        return Some("repeated-record");
    }
    let (kafka, muster) = (&in_one_order(kafka)[..], &in_one_order(muster)[..]);
    if kafka == muster {
        return Some("topic-order");
    }
    let without_leader = but_for_the_leader(kafka);
    let has_another = without_leader.is_some() && without_leader == but_for_the_leader(muster);
    has_another.then_some("leader")
}

/// Whether two answers to SyncGroup have the same partitions, with the topics in another order.
pub fn in_other_order(api: ApiKey, kafka: &Value, muster: &Value) -> bool {
    let assignments = [kafka, muster].map(|answer| sorted_assignment(&answer["assignment"]));
    api == ApiKey::SyncGroup
        && kafka != muster
        && kafka["errorCode"] == muster["errorCode"]
        && assignments[0].is_some()
        && assignments[0] == assignments[1]
}

/// The records with sorted lists: the topics of each assignment, and the members of a classic
/// group.
fn in_one_order(records: &[Value]) -> Vec<Value> {
    let mut records = records.to_vec();
    for record in &mut records {
        let members = record.pointer_mut("/value/data/members").and_then(Value::as_array_mut);
        let Some(members) = members else { continue };
        for member in members.iter_mut() {
            if let Some(sorted) = sorted_assignment(&member["assignment"]) {
                member["assignment"] = Value::from(sorted);
            }
        }
        members.sort_by_key(|member| member["memberId"].to_string());
    }
    records
}

fn sorted_assignment(bytes: &Value) -> Option<String> {
    let bytes: Bytes<'static> = serde_json::from_value(bytes.clone()).ok()?;
    let mut assignment = ConsumerProtocolAssignment::read(&bytes).ok()?;
    assignment.assigned_partitions.sort_by(|a, b| a.topic.cmp(&b.topic));
    assignment.assigned_partitions.iter_mut().for_each(|topic| topic.partitions.sort_unstable());
    Some(format!("{:?} {assignment:?}", bytes.get(..2)))
}

/// Whether a member without topics joins a consumer group, and the group then gets a new target
/// before any new epoch.
fn adds_member_without_topics(records: &[Value]) -> bool {
    let place =
        |name: &str| records.iter().position(|it| it["type"] == name && !it["value"].is_null());
    let member = place("CONSUMER_GROUP_MEMBER_METADATA").map(|at| &records[at]["value"]["data"]);
    let target = place("CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA");
    let epoch = place("CONSUMER_GROUP_METADATA");
    member.is_some_and(|member| member["subscribedTopicNames"] == json!([]))
        && target.is_some_and(|target| epoch.is_none_or(|epoch| epoch > target))
}

fn without_share_epochs(records: &[Value]) -> Vec<Value> {
    let is_epoch = |record: &&Value| record["type"] == "SHARE_GROUP_METADATA";
    records.iter().filter(|record| !is_epoch(record)).cloned().collect()
}

/// Whether both wrote records with the same keys, and Kafka removed at least two members.
fn same_members_removed(kafka: &[Value], muster: &[Value]) -> bool {
    let keys = |records: &[Value]| -> Vec<String> {
        let mut keys: Vec<_> = records.iter().map(|record| record["key"].to_string()).collect();
        keys.sort_unstable();
        keys
    };
    let removed = |record: &&Value| {
        record["type"] == "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT" && record["value"].is_null()
    };
    kafka.iter().filter(removed).count() >= 2 && keys(kafka) == keys(muster)
}

/// The records without repetitions of earlier ones.
fn without_repeated(records: &[Value]) -> Vec<&Value> {
    let is_new = |(i, record): &(usize, &Value)| !records[..*i].contains(record);
    records.iter().enumerate().filter(is_new).map(|(_, record)| record).collect()
}

/// The records without the classic group's leader; None unless they make a consumer group classic.
fn but_for_the_leader(records: &[Value]) -> Option<Vec<Value>> {
    let mut records = records.to_vec();
    let was_consumer =
        |record: &Value| record["type"] == "CONSUMER_GROUP_METADATA" && record["value"].is_null();
    let is_converted = records.iter().any(was_consumer);
    let leader = records.iter_mut().find_map(|record| record.pointer_mut("/value/data/leader"));
    leader.filter(|_| is_converted)?.take();
    Some(records)
}

/// Whether the records of targets name two topics whose ids are in one bucket of a `HashMap`. Kafka
/// has such topics in the order in which they were inserted.
fn share_a_bucket(records: &[Value]) -> bool {
    let of_targets = records.iter().filter(|it| TARGETS.iter().any(|name| it["type"] == *name));
    let topics = of_targets.flat_map(|it| it["value"]["data"]["topicPartitions"].as_array());
    let ids = topics.flatten().filter_map(|topic| topic["topicId"].as_str());
    let ids: BTreeSet<&str> = ids.collect();
    let buckets: BTreeSet<u32> = ids.iter().map(|id| bucket_of(id)).collect();
    buckets.len() < ids.len()
}

fn bucket_of(id: &str) -> u32 {
    let id = Uuid::parse(id).unwrap();
    let words = id.0.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap()));
    let hash = words.fold(0, |hash, word| hash ^ word);
    (hash ^ hash >> 16) % BUCKETS
}
