//! The order in which Java's hash tables iterate over topics and partitions, on which Kafka's
//! placement depends.

use super::{TargetAssignment, TopicIndex, TopicPartition};
use crate::java_order::Buckets;
use crate::text::Text;
use alloc::vec::Vec;
use muster_codec::Uuid;

/// The iteration order of a `HashSet<String>` that was copied from these sorted topic names.
pub(crate) fn names_in_hash_order(names: &[Text]) -> impl Iterator<Item = &Text> {
    let buckets = buckets_of_copy(names.len());
    let mut ordered: Vec<&Text> = names.iter().collect();
    ordered.sort_by_cached_key(|name| buckets.of(name));
    ordered.into_iter()
}

/// The topics of a subscription in the order of a `HashSet<Uuid>`. Kafka fills that set in the
/// order of the set of topic names.
pub(super) fn topics_in_hash_order(
    topics: &[TopicIndex],
    target: &TargetAssignment,
) -> Vec<TopicIndex> {
    let buckets = buckets_of_copy(topics.len());
    let mut ordered = topics.to_vec();
    ordered.sort_by_cached_key(|topic| sort_key_of(*topic, buckets, target));
    ordered
}

/// The sort key of a topic: the buckets of its id and of its name.
fn sort_key_of(topic: TopicIndex, buckets: Buckets, target: &TargetAssignment) -> (usize, usize) {
    let topic = target.topic_at(topic);
    (buckets.of_hash(uuid_hash(topic.id)), buckets.of_hash(topic.name_hash))
}

/// Keeps `len` partitions of a member, and returns the others, in Java's order. Kafka decodes the
/// record of the target assignment into Java collections; the kept partitions are the first `len`
/// in the iteration order of these collections. `partitions` are ascending before the call, and
/// unordered after it.
pub(super) fn split_in_record_order(
    partitions: &mut Vec<TopicPartition>,
    len: usize,
    target: &TargetAssignment,
) -> Vec<TopicPartition> {
    if len >= partitions.len() {
        return Vec::new();
    }
    let mut keyed = keyed_by_record_order(partitions, target);
    keyed.select_nth_unstable(len);
    keyed[len..].sort_unstable();
    let given_up = keyed.drain(len..).map(|(_, at)| at).collect();
    partitions.clear();
    partitions.extend(keyed.into_iter().map(|(_, at)| at));
    given_up
}

/// Each partition with its sort key: the rank of its topic, and the partition's bucket in the
/// topic's `HashSet<Integer>`.
fn keyed_by_record_order(
    partitions: &[TopicPartition],
    target: &TargetAssignment,
) -> Vec<((u32, u32), TopicPartition)> {
    let mut by_topic: Vec<_> = partitions.chunk_by(|a, b| a.topic == b.topic).collect();
    let mut topics = Buckets::default();
    topics.grow_to_hold(by_topic.len());
    by_topic.sort_by_cached_key(|of_topic| sort_key_of(of_topic[0].topic, topics, target));
    let mut keyed = Vec::with_capacity(partitions.len());
    for (rank, of_topic) in by_topic.into_iter().enumerate() {
        let buckets = buckets_of_copy(of_topic.len());
        let key = |at: &TopicPartition| (rank as u32, buckets.of_hash(at.partition) as u32);
        keyed.extend(of_topic.iter().map(|at| (key(at), *at)));
    }
    keyed
}

/// The buckets of a `HashSet` that Java builds from a collection of `len` elements. Such a set
/// doubles its buckets one element earlier than a set to which elements are added one by one.
pub(super) fn buckets_of_copy(len: usize) -> Buckets {
    let mut buckets = Buckets::default();
    buckets.grow_to_hold(len + 1);
    buckets
}

/// Kafka's `Uuid.hashCode`: the exclusive or of the four words.
pub(super) fn uuid_hash(id: Uuid) -> u32 {
    let words = id.0.chunks_exact(4);
    words
        .fold(0, |hash, word| word.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) ^ hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_the_order_of_their_hashes() {
        let names = ["audit", "clicks", "orders", "orders-us"].map(Text::from);
        let ordered: Vec<&str> = names_in_hash_order(&names).map(|name| &**name).collect();
        assert_eq!(ordered, ["orders-us", "audit", "clicks", "orders"]);
    }
}
