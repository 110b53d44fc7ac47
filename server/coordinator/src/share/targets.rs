//! The targets of a share group's members. A partition may be in several.

use super::ShareGroup;
use super::member::Profile;
use crate::assignors::SubscriptionType;
use crate::assignors::order::VisitOrder;
use crate::assignors::simple::{self, Assignable, Subscriber};
use crate::java_order::hash_code;
use crate::modern::owned::{KeyPartitions, Partitions};
use crate::modern::target::{MemberUpdate, Targets};
use crate::turn::Turn;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use muster_codec::Uuid;

#[derive(Debug, Default)]
pub(crate) struct ShareTargets {
    members: BTreeMap<u32, Member>,
    visits: VisitOrder,
    joins: u64,
}

/// A member, by the number of its slot.
#[derive(Debug)]
struct Member {
    /// The Java hash code of its id.
    hash: u32,
    /// Sequence number of its joining.
    joined: u64,
    /// None before the first record of its target.
    target: Option<Partitions>,
}

/// A member with its new target.
#[derive(Debug)]
pub(crate) struct Change {
    number: u32,
    part: Partitions,
}

impl Targets for ShareTargets {
    type Key = Uuid;
    /// The result: a share group is small, and is not computed in slices.
    type Computation = Vec<Change>;
    type Change = Change;

    fn of(&self, number: u32) -> Partitions {
        let target = self.members.get(&number).and_then(|member| member.target.as_ref());
        target.cloned().unwrap_or_default()
    }

    fn step(&self, computed: &mut Vec<Change>) -> Option<Vec<Change>> {
        Some(core::mem::take(computed))
    }

    fn changed(change: &Change) -> u32 {
        change.number
    }

    fn part(&self, change: &Change) -> Partitions {
        change.part.clone()
    }

    fn replay(&mut self, number: u32, part: Partitions) {
        if let Some(member) = self.members.get_mut(&number) {
            member.target = Some(part);
        }
    }

    fn forget(&mut self, number: u32) {
        if let Some(member) = self.members.remove(&number) {
            self.visits.remove(number, member.hash, member.joined);
        }
    }
}

impl ShareTargets {
    /// Partitions in all targets.
    pub(super) fn assigned(&self) -> usize {
        let targets = self.members.values().flat_map(|member| &member.target);
        targets.flatten().map(|of_topic| of_topic.partitions.len()).sum()
    }

    /// All partitions that some member has in its target, by topic.
    pub(super) fn all(&self) -> BTreeMap<Uuid, BTreeSet<i32>> {
        let mut all: BTreeMap<Uuid, BTreeSet<i32>> = BTreeMap::new();
        for of_topic in self.members.values().flat_map(|member| &member.target).flatten() {
            all.entry(of_topic.key).or_default().extend(&of_topic.partitions);
        }
        all
    }

    /// Makes a member known.
    pub(super) fn join(&mut self, number: u32, member_id: &str) {
        if self.members.contains_key(&number) {
            return;
        }
        self.joins += 1;
        let (hash, joined) = (hash_code(member_id), self.joins);
        self.visits.insert(number, hash, joined);
        self.members.insert(number, Member { hash, joined, target: None });
    }
}

impl ShareGroup {
    /// The members whose target changes, or that have none yet.
    pub(super) fn compute_target(
        &mut self,
        turn: &Turn<'_, '_>,
        update: &MemberUpdate<'_, super::Share>,
        input: SubscriptionType,
    ) -> Vec<Change> {
        if let Some(slot) = self.members.slot(update.number) {
            self.target.by_member.join(update.number, &slot.id);
        }
        // Kafka adds a new member to the group before it computes the target.
        let order = self.target.by_member.visits.members(None);
        let numbers: Vec<u32> =
            order.into_iter().filter(|number| self.profile(update, *number).is_some()).collect();
        let members = numbers.iter().filter_map(|number| {
            let topics = self.profile(update, *number)?.topics.iter();
            let topics = topics.filter_map(|name| turn.topics.id(name)).collect();
            let target = self.target.of(*number).into_iter();
            let target = target.map(|it| (it.key, it.partitions)).collect();
            Some(Subscriber { topics, target })
        });
        let (members, assignable) = (members.collect::<Vec<_>>(), self.assignable(turn));
        let targets = match input {
            SubscriptionType::Homogeneous => simple::homogeneous(&members, &assignable),
            SubscriptionType::Heterogeneous => simple::heterogeneous(&members, &assignable),
        };
        let changes = numbers.into_iter().zip(targets);
        let changes = changes.map(|(number, target)| {
            let part = target.into_iter();
            let part = part.map(|(key, partitions)| KeyPartitions { key, partitions });
            Change { number, part: part.collect() }
        });
        changes.filter(|change| self.differs(change)).collect()
    }

    /// The profile of a member after the update; None if it is none.
    fn profile<'g>(
        &'g self,
        update: &MemberUpdate<'g, super::Share>,
        number: u32,
    ) -> Option<&'g Profile> {
        if number == update.number {
            return Some(&update.after.profile);
        }
        self.members.slot(number)?.member.as_ref().map(|member| &member.profile)
    }

    /// The partitions with share state that exist.
    fn assignable(&self, turn: &Turn<'_, '_>) -> Assignable {
        let initialized = self.own.state.initialized.iter();
        let existing = initialized.filter_map(|(topic, state)| {
            let count = turn.topics.partitions(turn.topics.name(*topic)?)?;
            let exist = state.partitions.iter().copied().filter(|partition| *partition < count);
            Some((*topic, exist.collect()))
        });
        existing.collect()
    }

    fn differs(&self, change: &Change) -> bool {
        let had = self.target.by_member.members.get(&change.number);
        had.and_then(|member| member.target.as_ref()).is_none_or(|had| *had != change.part)
    }
}
