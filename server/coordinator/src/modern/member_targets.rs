//! Targets in the form of their records, with the order in which Kafka visits the members.
//! Assignors that compute all targets from scratch each time use this form.

use super::Group;
use super::kind::Kind;
use super::member::MemberOf;
use super::owned::{Key, KeyPartitions, Partitions};
use super::target::{MemberUpdate, Targets};
use crate::assignors::order::VisitOrder;
use crate::java_order::hash_code;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt::Debug;

/// A computation of the targets of all members.
pub(crate) trait Steps: Debug {
    /// The key by which partitions are assigned.
    type Key: Key;

    /// Computes for one slice. Returns the targets when the computation is complete.
    fn step(&mut self) -> Option<Vec<NewTarget<Self::Key>>>;
}

/// A member's slot, and the target that was computed for the member.
#[derive(Debug)]
pub(crate) struct NewTarget<K: Key> {
    pub(crate) number: u32,
    pub(crate) part: Partitions<K>,
}

#[derive(Debug)]
pub(crate) struct MemberTargets<C: Steps> {
    members: BTreeMap<u32, Member<C::Key>>,
    visits: VisitOrder,
    joins: u64,
}

/// A member as the assignors know it.
#[derive(Debug)]
struct Member<K: Key> {
    /// The Java hash code of the member id.
    hash: u32,
    /// The sequence number of the join.
    joined: u64,
    /// The target. None before the first record of it.
    target: Option<Partitions<K>>,
}

impl<C: Steps> Default for MemberTargets<C> {
    fn default() -> Self {
        Self { members: BTreeMap::new(), visits: VisitOrder::default(), joins: 0 }
    }
}

impl<C: Steps> Targets for MemberTargets<C> {
    type Key = C::Key;
    type Computation = C;
    type Change = NewTarget<C::Key>;

    fn of(&self, number: u32) -> Partitions<C::Key> {
        self.part_of(number).to_vec()
    }

    fn step(&self, computation: &mut C) -> Option<Vec<NewTarget<C::Key>>> {
        let mut targets = computation.step()?;
        targets.retain(|target| self.differs(target));
        Some(targets)
    }

    fn changed(change: &NewTarget<C::Key>) -> u32 {
        change.number
    }

    fn part(&self, change: &NewTarget<C::Key>) -> Partitions<C::Key> {
        change.part.clone()
    }

    fn replay(&mut self, number: u32, part: Partitions<C::Key>) {
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

impl<C: Steps> MemberTargets<C> {
    /// Adds a member.
    pub(crate) fn join(&mut self, number: u32, member_id: &str) {
        if self.members.contains_key(&number) {
            return;
        }
        self.joins += 1;
        let (hash, joined) = (hash_code(member_id), self.joins);
        self.visits.insert(number, hash, joined);
        self.members.insert(number, Member { hash, joined, target: None });
    }

    /// Adds a member that replaces the static member `former`, with the target of `former`.
    pub(crate) fn replace(&mut self, former: u32, number: u32, member_id: &str) {
        let target = self.members.get(&former).and_then(|member| member.target.clone());
        self.join(number, member_id);
        if let Some(member) = self.members.get_mut(&number) {
            member.target = target;
        }
    }

    /// The members in the order in which Kafka visits them. Kafka adds `joining` to the group only
    /// after the computation.
    pub(crate) fn visited(&mut self, joining: Option<u32>) -> Vec<u32> {
        self.visits.members(joining)
    }

    /// Like [`Self::visited`], but for kinds of groups to which Kafka adds a new member before the
    /// computation.
    pub(crate) fn visited_with_newest(&mut self) -> Vec<u32> {
        self.visits.members_with_newest()
    }

    /// The Java hash code of a member's id.
    pub(crate) fn hash_of(&self, number: u32) -> u32 {
        self.members.get(&number).map_or(0, |member| member.hash)
    }

    /// The target of a member; empty if it has none.
    pub(crate) fn part_of(&self, number: u32) -> &[KeyPartitions<C::Key, i32>] {
        let target = self.members.get(&number).and_then(|member| member.target.as_deref());
        target.unwrap_or_default()
    }

    /// The targets of all members.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &KeyPartitions<C::Key, i32>> {
        self.members.values().filter_map(|member| member.target.as_ref()).flatten()
    }

    /// The number of partitions in all targets.
    pub(crate) fn assigned(&self) -> usize {
        self.parts().map(|of_key| of_key.partitions.len()).sum()
    }

    /// Whether the member has a different target, or no target yet.
    fn differs(&self, new: &NewTarget<C::Key>) -> bool {
        let had = self.members.get(&new.number).and_then(|member| member.target.as_ref());
        had.is_none_or(|had| *had != new.part)
    }
}

impl<K: Kind> Group<K> {
    /// The member with this slot number, as it is after the update. None if there is none.
    pub(crate) fn member_after<'g>(
        &'g self,
        update: Option<&MemberUpdate<'g, K>>,
        number: u32,
    ) -> Option<&'g MemberOf<K>> {
        match update {
            Some(update) if update.number == number => Some(update.after),
            Some(update) if update.replaces == Some(number) => None,
            _ => self.members.slot(number)?.member.as_ref(),
        }
    }
}
