//! `simple`, the assignor of share groups (KIP-932): a partition may be assigned to several
//! members. In Kafka, `SimpleAssignor` and its two builders do this.
//!
//! Each partition gets the same number of members, `sharing`. In a homogeneous group, whose members
//! all subscribe to the same topics, all partitions are spread over the members together. In other
//! groups the partitions of each topic are spread separately, over the topic's subscribers. Within
//! one spread, the partition counts of members differ by at most one, and a member keeps its
//! partitions where possible. A spread takes a few passes over members and partitions; a share
//! group has at most 1,000 members.

#[cfg(test)]
mod java_map;
#[cfg(test)]
mod reference;
mod spread;

use super::java_sets::{buckets_of_copy, uuid_hash};
use crate::java_order::Buckets;
use crate::partition_set::PartitionSet;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use muster_codec::Uuid;
use spread::Spread;

/// A member as the assignor sees it.
#[derive(Debug)]
pub(crate) struct Subscriber {
    /// The existing topics that the member subscribes to.
    pub(crate) topics: BTreeSet<Uuid>,
    pub(crate) target: Target,
}

impl Subscriber {
    /// The entry of a topic in the member's target.
    fn of_topic(&self, topic: &Uuid) -> Option<(&Uuid, &Vec<i32>)> {
        self.target.get_key_value(topic)
    }
}

/// The partitions of a member by topic id, ascending. No list is empty.
pub(crate) type Target = BTreeMap<Uuid, Vec<i32>>;

/// The partitions that may be assigned, by topic.
pub(crate) type Assignable = BTreeMap<Uuid, PartitionSet>;

/// The new targets of members that all subscribe to the existing `topics`. Members and topics are
/// in Kafka's order.
pub(crate) fn homogeneous(
    members: &[Subscriber],
    topics: &[Uuid],
    assignable: &Assignable,
) -> Vec<Target> {
    if topics.is_empty() {
        return members.iter().map(|_| Target::new()).collect();
    }
    let had = members.iter().flat_map(|member| &member.target);
    let known = Known::new(topics.iter().collect(), assignable, had);
    // The `hashCode` of Kafka's `TopicIdPartition`, which is a Java record.
    let hash =
        |topic: Uuid, partition: u32| uuid_hash(topic).wrapping_mul(31).wrapping_add(partition);
    let (hashes, wanted) = (known.hashes(hash), known.numbers(topics, assignable));
    let had = members.iter().map(|member| known.in_record_order(&member.target)).collect();
    let places: Vec<u32> = (0..members.len() as u32).collect();
    let spread = Spread::new(&places, places.len(), wanted, &hashes).run(had);
    spread.into_iter().map(|numbers| known.target(numbers)).collect()
}

/// The new targets of members with different subscriptions. Members are in Kafka's order.
pub(crate) fn heterogeneous(members: &[Subscriber], assignable: &Assignable) -> Vec<Target> {
    let topics: BTreeSet<Uuid> = members.iter().flat_map(|it| &it.topics).copied().collect();
    if topics.is_empty() {
        return members.iter().map(|_| Target::new()).collect();
    }
    // If a member's target has partitions of a topic without subscribers, they stay in the target,
    // as in Kafka. The member does not get them, because its assignment leaves them out.
    let others = members.iter().map(|member| {
        let others = member.target.iter().filter(|(topic, _)| !topics.contains(topic));
        others.map(|(topic, partitions)| (*topic, partitions.clone())).collect()
    });
    let mut targets: Vec<Target> = others.collect();
    for topic in topics {
        let subscribes = |(_, member): &(usize, &Subscriber)| member.topics.contains(&topic);
        let places = members.iter().enumerate().filter(subscribes).map(|(place, _)| place as u32);
        let places: Vec<u32> = places.collect();
        let had = || members.iter().map(|member| member.of_topic(&topic));
        let known = Known::new(BTreeSet::from([&topic]), assignable, had().flatten());
        let hashes = known.hashes(|_, partition| partition);
        let wanted = known.numbers(&[topic], assignable);
        let had = had().map(|of_topic| known.in_order(of_topic));
        let spread = Spread::new(&places, members.len(), wanted, &hashes).run(had.collect());
        for (target, numbers) in targets.iter_mut().zip(spread) {
            target.extend(known.target(numbers));
        }
    }
    targets
}

/// The partitions of some topics that are assignable or that members have. Each partition has a
/// number, in the order of topics and partitions.
struct Known {
    topics: Vec<KnownTopic>,
}

struct KnownTopic {
    id: Uuid,
    partitions: PartitionSet,
    /// The number of the topic's first partition.
    first: u32,
}

impl Known {
    fn new<'t>(
        topics: BTreeSet<&'t Uuid>,
        assignable: &Assignable,
        had: impl Iterator<Item = (&'t Uuid, &'t Vec<i32>)>,
    ) -> Self {
        let topics = topics.into_iter().map(|id| {
            let partitions = assignable.get(id).cloned().unwrap_or_default();
            KnownTopic { id: *id, partitions, first: 0 }
        });
        let mut known = Self { topics: topics.collect() };
        for (topic, had) in had {
            let Some(of_topic) = known.rank(*topic).map(|rank| &mut known.topics[rank]) else {
                continue;
            };
            if had.iter().any(|it| !of_topic.partitions.contains(*it)) {
                of_topic.partitions.add(&had.iter().copied().collect());
            }
        }
        let mut first = 0;
        for topic in &mut known.topics {
            topic.first = first;
            first += topic.partitions.len() as u32;
        }
        known
    }

    /// The index of a topic in the list.
    fn rank(&self, topic: Uuid) -> Option<usize> {
        self.topics.binary_search_by(|it| it.id.cmp(&topic)).ok()
    }

    /// The Java hash codes of all partitions.
    fn hashes(&self, hash: impl Fn(Uuid, u32) -> u32) -> Vec<u32> {
        let of_topic = |topic: &KnownTopic| {
            let (id, hash) = (topic.id, &hash);
            let partitions = topic.partitions.as_slice().to_vec().into_iter();
            partitions.map(move |partition| hash(id, partition.cast_unsigned()))
        };
        self.topics.iter().flat_map(of_topic).collect()
    }

    /// The numbers of the assignable partitions of `topics`, topic by topic.
    fn numbers(&self, topics: &[Uuid], assignable: &Assignable) -> Vec<u32> {
        let mut numbers = Vec::new();
        for id in topics {
            let Some(topic) = self.rank(*id).map(|rank| &self.topics[rank]) else { continue };
            let wanted = assignable.get(id).map_or(&[][..], PartitionSet::as_slice);
            numbers.extend(wanted.iter().filter_map(|partition| topic.number(*partition)));
        }
        numbers
    }

    /// A member's partitions in the order in which Kafka iterates over the record of its target.
    fn in_record_order(&self, target: &Target) -> Vec<u32> {
        let mut buckets = Buckets::default();
        buckets.grow_to_hold(target.len());
        let mut topics: Vec<_> = target.iter().collect();
        topics.sort_by_key(|(topic, _)| buckets.of_hash(uuid_hash(**topic)));
        self.in_order(topics)
    }

    /// The partitions of `topics`, topic by topic; within a topic in the order of Java's `HashSet`.
    fn in_order<'t>(&self, topics: impl IntoIterator<Item = (&'t Uuid, &'t Vec<i32>)>) -> Vec<u32> {
        let mut numbers = Vec::new();
        for (topic, partitions) in topics {
            let Some(rank) = self.rank(*topic) else { continue };
            let buckets = buckets_of_copy(partitions.len());
            let bucket = |partition: &i32| buckets.of_hash(partition.cast_unsigned());
            let known = |partition: &i32| self.topics[rank].number(*partition);
            if partitions.is_sorted_by_key(bucket) {
                numbers.extend(partitions.iter().filter_map(known));
            } else {
                let mut partitions = partitions.clone();
                partitions.sort_by_key(bucket);
                numbers.extend(partitions.iter().filter_map(known));
            }
        }
        numbers
    }

    /// The target with the partitions of these numbers.
    fn target(&self, mut numbers: Vec<u32>) -> Target {
        numbers.sort_unstable();
        let (mut target, mut rest) = (Target::new(), &numbers[..]);
        for topic in &self.topics {
            let end = topic.first + topic.partitions.len() as u32;
            let (of_topic, after) = rest.split_at(rest.partition_point(|number| *number < end));
            rest = after;
            let all = topic.partitions.as_slice();
            let partitions = of_topic.iter().map(|number| all[(number - topic.first) as usize]);
            if !of_topic.is_empty() {
                target.insert(topic.id, partitions.collect());
            }
        }
        target
    }
}

impl KnownTopic {
    fn number(&self, partition: i32) -> Option<u32> {
        Some(self.first + self.partitions.place(partition)? as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator xorshift64*.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
        }

        fn partitions(&mut self, end: u64) -> Vec<i32> {
            let all = (0..end as i32).map(|it| if self.below(9) == 0 { it + 70_000 } else { it });
            let all = all.collect::<PartitionSet>().into_vec();
            all.into_iter().filter(|_| self.below(4) > 0).collect()
        }

        fn topics(&mut self, all: &[Uuid]) -> BTreeSet<Uuid> {
            all.iter().copied().filter(|_| self.below(3) > 0).collect()
        }
    }

    #[test]
    fn without_any_existing_topic_all_targets_are_empty() {
        let gone = Uuid([1; 16]);
        let member = |topics: &[Uuid]| Subscriber {
            topics: topics.iter().copied().collect(),
            target: Target::from([(gone, alloc::vec![0, 1])]),
        };
        let assignable = Assignable::new();
        let none = [member(&[]), member(&[])];
        assert_eq!(heterogeneous(&none, &assignable), [Target::new(), Target::new()]);
        let some = [member(&[Uuid([2; 16])]), member(&[])];
        assert_eq!(heterogeneous(&some, &assignable)[1], member(&[]).target);
    }

    #[test]
    fn targets_are_those_of_java_maps() {
        for seed in 1..400 {
            let mut random = Random(seed);
            let all: Vec<Uuid> = (0..1 + random.below(5))
                .map(|it| {
                    Uuid((u128::from(random.below(1 << 30)) << 64 | u128::from(it)).to_be_bytes())
                })
                .collect();
            let end = [1, 3, 20, 200][random.below(4) as usize];
            let assignable = random.topics(&all).into_iter();
            let assignable: Assignable = assignable
                .map(|topic| (topic, random.partitions(end).into_iter().collect()))
                .collect();
            let same = random.topics(&all);
            let mut order: Vec<Uuid> = same.iter().copied().collect();
            let by = random.below(5) as usize % order.len().max(1);
            order.rotate_left(by);
            let is_same = random.below(2) == 0;
            let members: Vec<_> = (0..random.below(30))
                .map(|_| {
                    let topics = if is_same { same.clone() } else { random.topics(&all) };
                    let had = random.topics(&all).into_iter();
                    let had = had.map(|topic| (topic, random.partitions(end)));
                    Subscriber { topics, target: had.filter(|it| !it.1.is_empty()).collect() }
                })
                .collect();
            let computed = if is_same {
                (
                    homogeneous(&members, &order, &assignable),
                    reference::homogeneous(&members, &order, &assignable),
                )
            } else {
                (
                    heterogeneous(&members, &assignable),
                    reference::heterogeneous(&members, &assignable),
                )
            };
            assert_eq!(computed.0, computed.1, "seed {seed}");
        }
    }
}
