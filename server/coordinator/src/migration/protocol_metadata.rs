//! The metadata and assignments of the classic consumer protocol, for members that are converted or
//! that stay in a consumer group. Only this module writes them; [`crate::classic`] reads them, too.

use crate::classic::Protocol;
use crate::consumer::member::{Classic, Profile};
use crate::context::Topics;
use crate::java_order::Buckets;
use crate::modern::names::sorted;
use crate::modern::owned::{KeyPartitions, Partitions};
use crate::text::{Text, owned};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions as NamedPartitions,
};
use muster_codec::messages::ConsumerGroupHeartbeatTopicPartitions as Reported;
use muster_codec::{Reader, Uuid};

/// The newest version of the consumer protocol's metadata.
const NEWEST: i16 = 3;

/// The partitions in `named` whose topics exist.
pub(super) fn partitions(topics: &dyn Topics, named: &[NamedPartitions<'_>]) -> Partitions {
    let mut by_id: BTreeMap<Uuid, BTreeSet<i32>> = BTreeMap::new();
    for topic in named {
        if let Some(id) = topics.id(&topic.topic) {
            by_id.insert(id, topic.partitions.iter().copied().collect());
        }
    }
    by_id.retain(|_, partitions| !partitions.is_empty());
    let by_id = by_id.into_iter();
    by_id.map(|(key, it)| KeyPartitions { key, partitions: Vec::from_iter(it) }).collect()
}

/// The partitions that a member reports as its own.
pub(super) fn reported(topics: &dyn Topics, named: &[NamedPartitions<'_>]) -> Vec<Reported> {
    let known = named.iter().filter_map(|topic| {
        let topic_id = topics.id(&topic.topic)?;
        Some(Reported { topic_id, partitions: topic.partitions.clone() })
    });
    known.collect()
}

/// The bytes of an assignment, in the protocol version of the member's subscription.
pub(super) fn assignment(topics: &dyn Topics, partitions: &Partitions, metadata: &[u8]) -> Vec<u8> {
    let version = Reader::new(metadata).i16().unwrap_or(0).clamp(0, NEWEST);
    let named = in_javas_order(partitions).into_iter().filter_map(|topic| {
        let partitions = topic.partitions.clone();
        Some(NamedPartitions { topic: owned(topics.name(topic.key)?), partitions })
    });
    let mut out = Vec::new();
    let assigned_partitions = named.collect();
    ConsumerProtocolAssignment { assigned_partitions, user_data: None }.write(version, &mut out);
    out
}

/// The topics in Kafka's order, which is the order of a `HashMap`.
fn in_javas_order(partitions: &Partitions) -> Vec<&KeyPartitions<Uuid, i32>> {
    let mut buckets = Buckets::default();
    buckets.grow_to_hold(partitions.len());
    let mut topics: Vec<_> = partitions.iter().collect();
    topics.sort_by_key(|topic| buckets.of_hash(hash_of(topic.key)));
    topics
}

/// Kafka's `Uuid.hashCode`.
fn hash_of(id: Uuid) -> u32 {
    let number = u128::from_be_bytes(id.0);
    let halves = (number >> 64) as u64 ^ number as u64;
    (halves >> 32) as u32 ^ halves as u32
}

/// Adds the fields of a classic member's subscription to `profile`.
pub(super) fn subscribed(
    profile: Profile,
    subscription: &ConsumerProtocolSubscription<'_>,
    session_timeout_ms: i32,
    protocols: &[Protocol],
) -> Profile {
    let rack_id = subscription.rack_id.as_deref().filter(|rack| !rack.is_empty());
    let protocols = protocols.iter().map(|it| (it.name.clone(), it.metadata.clone()));
    Profile {
        rack_id: rack_id.map(Text::from).or(profile.rack_id),
        topics: sorted(&subscription.topics),
        regex: Some(Text::from("")),
        classic: Some(Arc::new(Classic { session_timeout_ms, protocols: protocols.collect() })),
        ..profile
    }
}
