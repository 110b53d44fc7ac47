//! The assignor as Kafka writes it, with Java's maps. [`super`] must compute the same targets.

use super::java_map::{JavaHash, JavaMap, JavaSet};
use super::{Assignable, Subscriber, Target};
use crate::assignors::java_sets::uuid_hash;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::Uuid;

/// The new targets of members that all subscribe to the same topics. Members and topics are in
/// Kafka's order.
pub(super) fn homogeneous(
    members: &[Subscriber],
    topics: &[Uuid],
    assignable: &Assignable,
) -> Vec<Target> {
    if topics.is_empty() {
        return members.iter().map(|_| Target::new()).collect();
    }
    let wanted = topics.iter().filter_map(|topic| Some((topic, assignable.get(topic)?)));
    let wanted = wanted.flat_map(|(topic, all)| all.as_slice().iter().map(|it| At(*topic, *it)));
    let keeps = |at: At<Uuid>| topics.contains(&at.0);
    let had = members.iter().map(|member| in_record_order(&member.target));
    let had = had.map(|had| had.into_iter().filter(|at| keeps(*at)).collect());
    let places: Vec<u32> = (0..members.len() as u32).collect();
    let spread = Spread::new(&places, places.len(), wanted.collect()).run(had.collect());
    spread.into_iter().map(by_topic).collect()
}

/// The new targets of members with different subscriptions.
pub(super) fn heterogeneous(members: &[Subscriber], assignable: &Assignable) -> Vec<Target> {
    let topics: BTreeSet<Uuid> = members.iter().flat_map(|it| &it.topics).copied().collect();
    if topics.is_empty() {
        return members.iter().map(|_| Target::new()).collect();
    }
    let mut targets: Vec<Vec<At<Uuid>>> = Vec::new();
    for member in members {
        // Partitions of a topic without subscribers stay in the member's target, as in Kafka. The
        // member does not get them, because its assignment leaves them out.
        let others = in_record_order(&member.target).into_iter();
        targets.push(others.filter(|at| !topics.contains(&at.0)).collect());
    }
    for topic in topics {
        let subscribes = |(_, member): &(usize, &Subscriber)| member.topics.contains(&topic);
        let places = members.iter().enumerate().filter(subscribes).map(|(place, _)| place as u32);
        let places: Vec<u32> = places.collect();
        let wanted = assignable.get(&topic).into_iter().flat_map(|it| it.as_slice());
        let wanted = wanted.map(|partition| *partition as u32).collect();
        let had = members.iter().map(|member| of_topic(&member.target, topic)).collect();
        let spread = Spread::new(&places, members.len(), wanted).run(had);
        for (target, part) in targets.iter_mut().zip(spread) {
            target.extend(part.into_iter().map(|partition| At(topic, partition as i32)));
        }
    }
    targets.into_iter().map(by_topic).collect()
}

/// A partition of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct At<T>(T, i32);

/// The `hashCode` of Kafka's `TopicIdPartition`, which is a Java record.
impl JavaHash for At<Uuid> {
    fn java_hash(self) -> u32 {
        uuid_hash(self.0).wrapping_mul(31).wrapping_add(self.1.cast_unsigned())
    }
}

/// Spreads partitions over members. A member is named by its index.
struct Spread<P> {
    /// The number of members that each partition should have.
    sharing: usize,
    /// The number of partitions that each member should have.
    counts: Vec<usize>,
    wanted: Vec<P>,
    members: JavaMap<P, JavaSet<u32>>,
    partitions: Vec<JavaSet<P>>,
}

impl<P: JavaHash> Spread<P> {
    /// `places` are the indexes of the members that may have the partitions; `members` is the
    /// number of all members.
    fn new(places: &[u32], members: usize, wanted: Vec<P>) -> Self {
        let sharing = places.len().div_ceil(wanted.len().max(1)) * usize::from(!wanted.is_empty());
        // Kafka computes with a double and its rounding errors.
        let share = (sharing * wanted.len()) as f64 / places.len() as f64;
        let mut counts = alloc::vec![0; members];
        for (i, place) in places.iter().enumerate() {
            counts[*place as usize] = ceil(share * (i + 1) as f64) - ceil(share * i as f64);
        }
        Self {
            sharing,
            counts,
            members: JavaMap::with_room_for(wanted.len()),
            partitions: alloc::vec![JavaSet::default(); members],
            wanted,
        }
    }

    /// The new partitions of each member. `had` are the previous partitions.
    fn run(mut self, had: Vec<Vec<P>>) -> Vec<Vec<P>> {
        for (place, had) in had.into_iter().enumerate() {
            for partition in had {
                self.members.compute_if_absent(partition, JavaSet::default);
                self.give(place as u32, partition);
            }
        }
        self.take_from_overfilled();
        self.take_overshared();
        for partition in core::mem::take(&mut self.wanted) {
            self.members.compute_if_absent(partition, JavaSet::default);
        }
        self.give_to_unfilled();
        self.partitions.iter().map(JavaSet::keys).collect()
    }

    fn give(&mut self, place: u32, partition: P) {
        if let Some(members) = self.members.get_mut(partition) {
            members.add(place);
        }
        self.partitions[place as usize].add(partition);
    }

    fn take(&mut self, place: u32, partition: P) {
        if let Some(members) = self.members.get_mut(partition) {
            members.remove(place);
        }
        self.partitions[place as usize].remove(partition);
    }

    fn take_from_overfilled(&mut self) {
        for place in 0..self.partitions.len() {
            let had = self.partitions[place].keys();
            let beyond = had.len().saturating_sub(self.counts[place]);
            had[..beyond].iter().for_each(|partition| self.take(place as u32, *partition));
        }
    }

    fn take_overshared(&mut self) {
        for partition in self.members.keys() {
            let had = self.members.get(partition).map(JavaSet::keys).unwrap_or_default();
            let beyond = had.len().saturating_sub(self.sharing);
            had[..beyond].iter().for_each(|place| self.take(*place, partition));
        }
    }

    /// Gives each partition, one after the other, to the next members that have too few partitions
    /// and do not have this one. Stops when no member could take a partition in a whole round.
    fn give_to_unfilled(&mut self) {
        let places = 0..self.partitions.len();
        let mut unfilled: Vec<usize> = places.filter(|place| self.lacks(*place)).collect();
        let (mut next, mut was_given) = (0, false);
        for partition in self.members.keys() {
            while self.members.get(partition).is_some_and(|members| members.len() < self.sharing) {
                if next == unfilled.len() {
                    if !was_given {
                        break;
                    }
                    (next, was_given) = (0, false);
                    if unfilled.is_empty() {
                        break;
                    }
                }
                let place = unfilled[next];
                next += 1;
                if self.partitions[place].contains(partition) {
                    continue;
                }
                self.give(place as u32, partition);
                was_given = true;
                if !self.lacks(place) {
                    next -= 1;
                    unfilled.remove(next);
                }
            }
        }
    }

    fn lacks(&self, place: usize) -> bool {
        self.partitions[place].len() < self.counts[place]
    }
}

/// A member's partitions in the order in which Kafka iterates over the record of its target.
fn in_record_order(target: &Target) -> Vec<At<Uuid>> {
    let mut topics = JavaSet::default();
    target.keys().for_each(|topic| topics.add(*topic));
    let of_topic =
        |topic: Uuid| set_order(&target[&topic]).into_iter().map(move |it| At(topic, it));
    topics.keys().into_iter().flat_map(of_topic).collect()
}

fn of_topic(target: &Target, topic: Uuid) -> Vec<u32> {
    let partitions = target.get(&topic).map(|it| set_order(it)).unwrap_or_default();
    partitions.into_iter().map(|partition| partition as u32).collect()
}

/// The order of a `HashSet` that is built from a list.
fn set_order(partitions: &[i32]) -> Vec<i32> {
    let mut set = JavaSet::copy_of(partitions.len());
    partitions.iter().for_each(|partition| set.add(*partition as u32));
    set.keys().into_iter().map(|partition| partition as i32).collect()
}

fn by_topic(partitions: Vec<At<Uuid>>) -> Target {
    let mut by_topic = Target::new();
    for At(topic, partition) in partitions {
        by_topic.entry(topic).or_default().push(partition);
    }
    by_topic.values_mut().for_each(|partitions| partitions.sort_unstable());
    by_topic
}

/// `Math.ceil` for numbers that are not negative.
fn ceil(number: f64) -> usize {
    let floor = number as usize;
    floor + usize::from((floor as f64) < number)
}
