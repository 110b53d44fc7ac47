//! The assignors of classic groups, which the leader of a group runs. They match those of Kafka's
//! Java clients (`RangeAssignor` without racks, `RoundRobinAssignor`, `StickyAssignor`,
//! `CooperativeStickyAssignor`). Their time grows with the number of partitions, not with its
//! square.
//!
//! [`protocol`] encodes and decodes the bytes that members exchange. [`protocol::lead`] does the
//! whole work of a leader, from JoinGroup's answer to SyncGroup's request.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use crate::plan::{ClassicAssignor, Partition, TopicIndex};
use crate::topics::Topics;

pub mod protocol;
mod range;
mod round_robin;
mod sticky;
#[cfg(test)]
mod tests;

/// The generation of a member that was never in one.
pub const NO_GENERATION: i32 = -1;

/// The metadata with which a member joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberSubscription {
    pub member_id: Arc<str>,
    pub instance_id: Option<Arc<str>>,
    /// The topics in any order. Repeated and missing topics are ignored. Members with equal topics
    /// may share one `Arc`: then no comparison of the topics is needed.
    pub topics: Arc<[TopicIndex]>,
    /// The partitions that the member says it owns, in any order. With the sticky assignor: those
    /// that it owned in `generation`. The assignor does not trust them.
    pub owned: Vec<Partition>,
    /// The generation in which `owned` was assigned to the member, or [`NO_GENERATION`].
    pub generation: i32,
}

/// The partitions of a member, sorted by topic and number.
pub type Assignment = Vec<Partition>;

/// Assigns all partitions of the subscribed topics. Returns one assignment per member, in the order
/// of `members`. This order does not influence the assignments.
///
/// A cooperative assignor leaves out a partition that another member still owns. That member gives
/// the partition up and rejoins, and the next generation assigns it.
pub fn assign(
    assignor: ClassicAssignor,
    members: &[MemberSubscription],
    topics: &Topics,
) -> Vec<Assignment> {
    if members.is_empty() {
        return Vec::new();
    }
    let group = Group::new(members, topics);
    let by_rank = match assignor {
        ClassicAssignor::Range => range::assign(&group),
        ClassicAssignor::RoundRobin => round_robin::assign(&group),
        ClassicAssignor::Sticky => sticky::assign(&group),
        ClassicAssignor::CooperativeSticky => sticky::assign_cooperatively(&group),
    };
    group.in_order_of_input(by_rank)
}

impl ClassicAssignor {
    /// The name of the protocol in JoinGroup.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// The assignor with this name in JoinGroup.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Range, Self::RoundRobin, Self::Sticky, Self::CooperativeSticky]
            .into_iter()
            .find(|assignor| assignor.name() == name)
    }

    /// Whether members keep their partitions while they rejoin.
    pub const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }
}

/// A group as the assignors see it. The members are sorted in Kafka's order of `MemberInfo`, and a
/// member's index is its rank. The subscribed topics are numbered without gaps.
struct Group<'a> {
    by_rank: Vec<Member<'a>>,
    /// The topics sorted by name, as in Kafka.
    topics: Vec<SubscribedTopic>,
    /// For each [`TopicIndex`], its index in `topics`, or [`NOWHERE`] if no member subscribed to
    /// it, or it has no partitions.
    places: Vec<u32>,
    partitions: u32,
}

struct Member<'a> {
    input: usize,
    subscription: &'a MemberSubscription,
    topics: Cow<'a, [TopicIndex]>,
}

struct SubscribedTopic {
    index: TopicIndex,
    /// The index of the topic's first partition among all partitions of the group.
    first: u32,
    partitions: u32,
}

const NOWHERE: u32 = u32::MAX;

impl<'a> Group<'a> {
    fn new(members: &'a [MemberSubscription], topics: &Topics) -> Self {
        let by_rank = ranked(members);
        let mut wanted = vec![false; topics.iter().count()];
        for (rank, member) in by_rank.iter().enumerate() {
            if rank > 0 && member.has_topics_of(&by_rank[rank - 1]) {
                continue;
            }
            for index in member.topics.iter() {
                if let Some(wanted) = wanted.get_mut(index.0 as usize) {
                    *wanted = true;
                }
            }
        }
        let mut all: Vec<TopicIndex> = (0..)
            .map(TopicIndex)
            .zip(wanted)
            .filter(|(index, wanted)| *wanted && topics.partitions(*index) > 0)
            .map(|(index, _)| index)
            .collect();
        all.sort_by(|a, b| java_order(name(topics, *a), name(topics, *b)));
        Self::with_topics(by_rank, &all, topics)
    }

    fn with_topics(by_rank: Vec<Member<'a>>, order: &[TopicIndex], topics: &Topics) -> Self {
        let size = order.iter().map(|index| index.0 as usize + 1).max().unwrap_or(0);
        let mut places = vec![NOWHERE; size];
        let mut first = 0;
        let mut dense = Vec::with_capacity(order.len());
        for (place, index) in order.iter().enumerate() {
            places[index.0 as usize] = place as u32;
            let partitions = topics.partitions(*index);
            dense.push(SubscribedTopic { index: *index, first, partitions });
            first += partitions;
        }
        Self { by_rank, topics: dense, places, partitions: first }
    }

    fn place(&self, index: TopicIndex) -> Option<usize> {
        let place = *self.places.get(index.0 as usize)?;
        (place != NOWHERE).then_some(place as usize)
    }

    /// For each topic, the ranks of its subscribers, ascending.
    fn subscribers(&self) -> Vec<Vec<u32>> {
        let mut subscribers = vec![Vec::new(); self.topics.len()];
        for (rank, member) in self.by_rank.iter().enumerate() {
            for place in member.topics.iter().filter_map(|index| self.place(*index)) {
                subscribers[place].push(rank as u32);
            }
        }
        subscribers
    }

    fn in_order_of_input(&self, by_rank: Vec<Assignment>) -> Vec<Assignment> {
        let mut ordered = vec![Assignment::new(); by_rank.len()];
        for (member, mut assignment) in self.by_rank.iter().zip(by_rank) {
            assignment.sort_unstable();
            ordered[member.input] = assignment;
        }
        ordered
    }
}

impl Member<'_> {
    fn has_topics_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.subscription.topics, &other.subscription.topics)
            || self.topics == other.topics
    }
}

impl SubscribedTopic {
    fn partition(&self, number: u32) -> Partition {
        Partition { topic: self.index, number }
    }
}

fn name(topics: &Topics, index: TopicIndex) -> &str {
    topics.get(index).map_or("", |topic| &*topic.name)
}

fn ranked(members: &[MemberSubscription]) -> Vec<Member<'_>> {
    let mut ranked: Vec<Member<'_>> = members
        .iter()
        .enumerate()
        .map(|(input, member)| Member {
            input,
            subscription: member,
            topics: sorted_set(&member.topics),
        })
        .collect();
    ranked.sort_by(|a, b| member_order(a.subscription, b.subscription));
    ranked
}

fn sorted_set(topics: &[TopicIndex]) -> Cow<'_, [TopicIndex]> {
    if topics.is_sorted_by(|a, b| a < b) {
        return Cow::Borrowed(topics);
    }
    let mut sorted = topics.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    Cow::Owned(sorted)
}

/// `AbstractPartitionAssignor.MemberInfo.compareTo`: static members first, by instance id.
fn member_order(a: &MemberSubscription, b: &MemberSubscription) -> Ordering {
    match (&a.instance_id, &b.instance_id) {
        (Some(a), Some(b)) => java_order(a, b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => java_order(&a.member_id, &b.member_id),
    }
}

/// `String.compareTo`. It compares UTF-16 code units, so above U+FFFF its order differs from that
/// of UTF-8.
fn java_order(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() {
        return a.cmp(b);
    }
    a.encode_utf16().cmp(b.encode_utf16())
}
