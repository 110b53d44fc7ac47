//! Assigns partitions to members that subscribe to different topics. A member's load is the number
//! of its partitions. First, each partition without an owner goes to the subscriber with the lowest
//! load; topics with few subscribers are the first. Then partitions move from the subscriber of a
//! topic with the highest load to the one with the lowest, until no single move makes the loads
//! more even. `AbstractStickyAssignor` seeks the same balance.
//!
//! A sweep levels the loads of each topic once, with heaps. It takes O(n log n) time, where n is
//! the number of subscriptions and partitions. The number of sweeps is finite, because each move
//! lowers the sum of the squares of the loads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::super::{Group, SubscribedTopic};
use super::{Claim, NO_OWNER};

/// The rank of the new owner of each partition.
pub(super) fn owners(group: &Group<'_>, claims: &[Claim]) -> Vec<u32> {
    let mut balance = Balance::new(group, claims);
    for place in &balance.order.clone() {
        balance.fill(*place);
    }
    while balance.sweep() {}
    balance.owners
}

struct Balance<'a> {
    topics: &'a [SubscribedTopic],
    claims: &'a [Claim],
    subscribers: Vec<Vec<u32>>,
    /// The topics. At first they are sorted by the number of their subscribers, because a topic
    /// with few subscribers leaves the least choice. Each sweep reverses the order.
    order: Vec<usize>,
    owners: Vec<u32>,
    /// The number of partitions of each member.
    loads: Vec<u32>,
}

/// Loads with the ranks of their members, lowest load first. An entry is outdated if the member's
/// load in [`Balance::loads`] differs.
type Receivers = BinaryHeap<Reverse<(u32, u32)>>;

impl<'a> Balance<'a> {
    fn new(group: &'a Group<'_>, claims: &'a [Claim]) -> Self {
        let subscribers = group.subscribers();
        let mut order: Vec<usize> = (0..group.topics.len()).collect();
        order.sort_by_key(|place| subscribers[*place].len());
        let mut loads = vec![0; group.by_rank.len()];
        let mut owners = vec![NO_OWNER; claims.len()];
        for (topic, subscribers) in group.topics.iter().zip(&subscribers) {
            for at in range(topic) {
                let owner = claims[at].owner;
                if subscribers.binary_search(&owner).is_ok() {
                    owners[at] = owner;
                    loads[owner as usize] += 1;
                }
            }
        }
        Self { topics: &group.topics, claims, subscribers, order, owners, loads }
    }

    fn fill(&mut self, place: usize) {
        let partitions = range(&self.topics[place]);
        if !self.owners[partitions.clone()].contains(&NO_OWNER) {
            return;
        }
        let mut receivers = self.receivers(place);
        for at in partitions {
            if self.owners[at] == NO_OWNER {
                self.assign(at, &mut receivers);
            }
        }
    }

    /// Levels each topic once. Returns whether any partition moved.
    fn sweep(&mut self) -> bool {
        let mut moved = false;
        for nth in 0..self.order.len() {
            moved |= self.level(self.order[nth]);
        }
        // A member that subscribes to two topics can take a partition of one and give away one of
        // the other. So load moves from topic to topic, and the next sweep goes in the other
        // direction.
        self.order.reverse();
        moved
    }

    fn level(&mut self, place: usize) -> bool {
        if self.is_level(place) {
            return false;
        }
        let mut givers = self.givers(place);
        let mut receivers = self.receivers(place);
        let mut moved = false;
        // A giver's load is too low in the heap if it has received a partition since it was pushed.
        // This is harmless: only the subscriber with the lowest load receives one. So the load of
        // this giver, and of all after it, is at most one above the lowest.
        while let Some(mut giver) = givers.pop() {
            if giver.load <= self.least(&mut receivers) + 1 {
                break;
            }
            let Some(at) = giver.movable.pop() else { continue };
            giver.load -= 1;
            self.loads[giver.rank as usize] = giver.load;
            receivers.push(Reverse((giver.load, giver.rank)));
            self.assign(at, &mut receivers);
            givers.push(giver);
            moved = true;
        }
        moved
    }

    /// Whether no move of a partition of this topic makes the loads more even. This is checked
    /// without heaps, because most topics are level after the first sweep.
    fn is_level(&self, place: usize) -> bool {
        let load = |rank: &u32| self.loads[*rank as usize];
        let most = self.owners[range(&self.topics[place])].iter().map(load).max();
        let least = self.subscribers[place].iter().map(load).min();
        most.zip(least).is_none_or(|(most, least)| most <= least + 1)
    }

    fn givers(&self, place: usize) -> BinaryHeap<Giver> {
        let mut owned: Vec<(u32, bool, usize)> = range(&self.topics[place])
            .map(|at| (self.owners[at], self.claims[at].owner != self.owners[at], at))
            .collect();
        owned.sort_unstable();
        owned.chunk_by(|a, b| a.0 == b.0).map(|owned| self.giver(owned)).collect()
    }

    fn giver(&self, owned: &[(u32, bool, usize)]) -> Giver {
        let rank = owned[0].0;
        let movable = owned.iter().map(|(_, _, at)| *at).collect();
        Giver { load: self.loads[rank as usize], rank, movable }
    }

    fn receivers(&self, place: usize) -> Receivers {
        let load_of = |rank: &u32| Reverse((self.loads[*rank as usize], *rank));
        self.subscribers[place].iter().map(load_of).collect()
    }

    fn least(&self, receivers: &mut Receivers) -> u32 {
        while let Some(Reverse((load, rank))) = receivers.peek() {
            if *load == self.loads[*rank as usize] {
                return *load;
            }
            receivers.pop();
        }
        u32::MAX - 1
    }

    /// Assigns a partition to the least loaded receiver.
    fn assign(&mut self, at: usize, receivers: &mut Receivers) {
        self.least(receivers);
        let Some(Reverse((load, rank))) = receivers.pop() else { return };
        self.owners[at] = rank;
        self.loads[rank as usize] = load + 1;
        receivers.push(Reverse((load + 1, rank)));
    }
}

/// A member that can give partitions of a topic to other subscribers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Giver {
    load: u32,
    rank: u32,
    /// The partitions that it can give away. Those that it owned before come first, and are moved
    /// last.
    movable: Vec<usize>,
}

fn range(topic: &SubscribedTopic) -> Range<usize> {
    topic.first as usize..(topic.first + topic.partitions) as usize
}
