//! The targets of a share group's members. A partition may be in several targets.

use super::ShareGroup;
use crate::assignors::SubscriptionType;
use crate::assignors::java_sets::names_in_hash_order;
use crate::assignors::simple::{self, Assignable, Subscriber};
use crate::modern::member_targets::{MemberTargets, NewTarget, Steps};
use crate::modern::owned::KeyPartitions;
use crate::modern::target::MemberUpdate;
use crate::partition_set::PartitionSet;
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::Uuid;

pub(crate) type ShareTargets = MemberTargets<Computed>;

/// The targets of all members. Share groups are small, so they are not computed in slices.
#[derive(Debug)]
pub(crate) struct Computed(Vec<NewTarget<Uuid>>);

impl Steps for Computed {
    type Key = Uuid;

    fn step(&mut self) -> Option<Vec<NewTarget<Uuid>>> {
        Some(core::mem::take(&mut self.0))
    }
}

impl ShareTargets {
    /// All partitions that are in a target, by topic.
    pub(super) fn all(&self) -> BTreeMap<Uuid, PartitionSet> {
        let mut all: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for of_topic in self.parts() {
            all.entry(of_topic.key).or_default().extend(&of_topic.partitions);
        }
        all.into_iter().map(|(topic, list)| (topic, list.into_iter().collect())).collect()
    }
}

impl ShareGroup {
    pub(super) fn compute_target(
        &mut self,
        turn: &Turn<'_, '_>,
        update: &MemberUpdate<'_, super::Share>,
        input: SubscriptionType,
    ) -> Computed {
        if let Some(slot) = self.members.slot(update.number) {
            self.target.by_member.join(update.number, &slot.id);
        }
        let targets = &mut self.target.by_member;
        let mut numbers =
            if update.is_new { targets.visited_with_newest() } else { targets.visited(None) };
        numbers.retain(|number| self.member_after(Some(update), *number).is_some());
        let members = numbers.iter().filter_map(|number| {
            let topics = self.member_after(Some(update), *number)?.profile.topics.iter();
            let topics = topics.filter_map(|name| turn.topics.id(name)).collect();
            let target = self.target.of(*number).into_iter();
            let target = target.map(|it| (it.key, it.partitions)).collect();
            Some(Subscriber { topics, target })
        });
        let (members, assignable) = (members.collect::<Vec<_>>(), self.assignable(turn));
        let targets = match input {
            SubscriptionType::Homogeneous => {
                let first = numbers.first();
                let first = first.and_then(|first| self.member_after(Some(update), *first));
                let names = first.map_or(&[][..], |first| &first.profile.topics);
                let topics = names_in_hash_order(names);
                let topics: Vec<_> = topics.filter_map(|name| turn.topics.id(name)).collect();
                simple::homogeneous(&members, &topics, &assignable)
            }
            SubscriptionType::Heterogeneous => simple::heterogeneous(&members, &assignable),
        };
        let targets = numbers.into_iter().zip(targets).map(|(number, target)| {
            let part = target.into_iter();
            let part = part.map(|(key, partitions)| KeyPartitions { key, partitions });
            NewTarget { number, part: part.collect() }
        });
        Computed(targets.collect())
    }

    /// The existing partitions that have share state.
    fn assignable(&self, turn: &Turn<'_, '_>) -> Assignable {
        let initialized = self.own.state.initialized.iter();
        let existing = initialized.filter_map(|(topic, state)| {
            let count = turn.topics.partitions(turn.topics.name(*topic)?)?;
            Some((*topic, state.partitions.below(count)))
        });
        existing.collect()
    }
}
