//! Where Kafka's placement of partitions hangs on chance: two topics whose ids share a bucket of a
//! Java `HashMap` come in the order in which they came into it.

use muster_codec::Uuid;
use serde_json::Value;
use std::collections::BTreeSet;

/// How many buckets a `HashMap` has that was not told how large it will be.
const BUCKETS: u32 = 16;

/// Whether records of target assignments name two topics that share a bucket.
pub fn is_chance(records: &[Value]) -> bool {
    let of_targets =
        records.iter().filter(|it| it["type"] == "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER");
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
