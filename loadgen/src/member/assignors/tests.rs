//! Compares the assignors with Kafka's own, and checks their properties on random groups.

use std::collections::BTreeMap;

use muster_codec::Uuid;

use super::*;
use crate::topics::Topic;

mod properties;
mod vectors;
mod wire;

fn text(text: &str) -> Arc<str> {
    text.into()
}

fn topics_with(partitions: &[u32]) -> Topics {
    let mut topics = Topics::default();
    for (at, partitions) in partitions.iter().enumerate() {
        topics.learn(topic_of(&format!("topic-{at}"), *partitions));
    }
    topics
}

fn topic_of(name: &str, partitions: u32) -> Topic {
    Topic { name: text(name), id: Uuid::ZERO, partitions }
}

fn member(id: &str, topics: &[u32]) -> MemberSubscription {
    MemberSubscription {
        member_id: text(id),
        instance_id: None,
        topics: topics.iter().map(|index| TopicIndex(*index)).collect(),
        owned: Vec::new(),
        generation: NO_GENERATION,
    }
}

/// The sum of the squares of the loads. The lower it is, the more even are the loads.
fn unevenness(assignments: &[Assignment]) -> usize {
    assignments.iter().map(|assignment| assignment.len() * assignment.len()).sum()
}

/// The number of partitions that stay with a member that claimed them.
fn kept_of(members: &[MemberSubscription], assignments: &[Assignment]) -> usize {
    let stays = |(member, assignment): (&MemberSubscription, &Assignment)| {
        assignment.iter().filter(|partition| member.owned.contains(partition)).count()
    };
    members.iter().zip(assignments).map(stays).sum()
}

/// Asserts that no partition has two owners, and that each owner is a subscriber. Returns the
/// owners.
fn assert_disjoint(
    members: &[MemberSubscription],
    assignments: &[Assignment],
    context: &str,
) -> BTreeMap<Partition, usize> {
    let mut owners = BTreeMap::new();
    for (member, assignment) in assignments.iter().enumerate() {
        for partition in assignment {
            assert!(members[member].topics.contains(&partition.topic), "{context}: {partition:?}");
            assert!(owners.insert(*partition, member).is_none(), "{context}: twice {partition:?}");
        }
    }
    owners
}

/// Asserts that each partition of each subscribed topic has one owner, which is a subscriber.
fn assert_complete(
    members: &[MemberSubscription],
    topics: &Topics,
    assignments: &[Assignment],
    context: &str,
) {
    let owners = assert_disjoint(members, assignments, context);
    let all = topics.iter().filter(|(index, _)| members.iter().any(|m| m.topics.contains(index)));
    let all: u32 = all.map(|(_, topic)| topic.partitions).sum();
    assert_eq!(owners.len(), all as usize, "{context}: partitions without an owner");
}

/// Asserts that no move of one partition to another subscriber makes the loads more even.
fn assert_no_move_helps(members: &[MemberSubscription], assignments: &[Assignment], context: &str) {
    for (giver, assignment) in assignments.iter().enumerate() {
        for (receiver, other) in assignments.iter().enumerate() {
            let helps = |p: &Partition| members[receiver].topics.contains(&p.topic);
            let uneven = assignment.len() > other.len() + 1;
            assert!(!(uneven && assignment.iter().any(helps)), "{context}: {giver} to {receiver}");
        }
    }
}
