//! `uniform` for members with equal subscriptions (`UniformHomogeneousAssignmentBuilder` of Kafka).
//! Loads differ by at most one partition, with as few moves as possible.
//!
//! There are three passes. The first visits the partitions, for loads and free partitions. The
//! second visits the members, for their quotas and the partitions that they give up. The third
//! visits the members again, to assign the free partitions.

use super::computation::CHANGE_COST;
use super::java_sets::{split_in_record_order, topics_in_hash_order};
use super::{Change, MemberIndex, TargetAssignment, TopicIndex, TopicPartition};
use alloc::vec::Vec;
use core::mem;

#[derive(Debug)]
pub(super) struct Homogeneous {
    /// The members in the visiting order.
    members: Vec<MemberIndex>,
    joins: u64,
    /// The topics in the order in which free partitions are assigned.
    topics: Vec<TopicIndex>,
    /// The index in `topics` of each topic, by topic index.
    places: Vec<usize>,
    /// The number of partitions that each member may keep, by member index.
    loads: Vec<usize>,
    free: Vec<TopicPartition>,
    /// The number of entries of `free` that are assigned.
    taken: usize,
    total: usize,
    /// The members that gave up partitions: each one's index in `members`, and the partitions that
    /// it kept. In ascending order of the index.
    trimmed: Vec<(usize, Vec<TopicPartition>)>,
    /// The members that get further partitions: each one's index in `members`, and the number of
    /// partitions. In ascending order of the index.
    wanting: Vec<(usize, usize)>,
    pass: Pass,
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Pass {
    Partitions { topic: usize, partition: u32 },
    Quotas { next: usize, extras: usize },
    Outcome { next: usize, trimmed: usize, wanting: usize },
}

impl Homogeneous {
    pub(super) fn new(joining: Option<MemberIndex>, target: &mut TargetAssignment) -> Self {
        target.begin();
        let members = target.by_visit(joining);
        let subscription = members.first().and_then(|first| target.subscription_of(*first));
        let topics = subscription.map_or_else(Vec::new, |subscription| {
            topics_in_hash_order(&target.subscriptions()[subscription].topics, target)
        });
        let mut places = alloc::vec![usize::MAX; target.topics_end()];
        for (place, topic) in topics.iter().enumerate() {
            places[*topic as usize] = place;
        }
        Self {
            members,
            joins: target.joins(),
            topics,
            places,
            loads: alloc::vec![0; target.members_end()],
            free: Vec::new(),
            taken: 0,
            total: 0,
            trimmed: Vec::new(),
            wanting: Vec::new(),
            pass: Pass::Partitions { topic: 0, partition: 0 },
            changes: Vec::new(),
        }
    }

    pub(super) fn step(&mut self, target: &TargetAssignment, budget: usize) -> Option<Vec<Change>> {
        let mut left = budget;
        while left > 0 {
            let spent = match self.pass {
                Pass::Partitions { topic, partition } => {
                    self.count_partitions(target, topic, partition, left)
                }
                Pass::Quotas { next, extras } => self.set_quota(target, next, extras),
                Pass::Outcome { next, .. } if next == self.members.len() => {
                    return Some(mem::take(&mut self.changes));
                }
                Pass::Outcome { next, trimmed, wanting } => {
                    self.conclude(target, next, trimmed, wanting)
                }
            };
            left = left.saturating_sub(spent);
        }
        None
    }

    /// Counts loads and collects free partitions, for at most `limit` partitions of one topic.
    fn count_partitions(
        &mut self,
        target: &TargetAssignment,
        place: usize,
        first: u32,
        limit: usize,
    ) -> usize {
        let Some(topic) = self.topics.get(place).copied() else {
            self.pass = Pass::Quotas { next: 0, extras: self.total % self.members.len().max(1) };
            return 1;
        };
        let found = target.topic_at(topic);
        let end = found.count.min(first.saturating_add(limit.try_into().unwrap_or(u32::MAX)));
        for partition in first..end {
            let owner = found.owners.get(partition);
            match self.loads.get_mut(owner as usize) {
                Some(load) => *load += 1,
                None => self.free.push(TopicPartition { topic, partition }),
            }
        }
        let spent = (end - first) as usize;
        self.total += spent;
        self.pass = if end == found.count {
            Pass::Partitions { topic: place + 1, partition: 0 }
        } else {
            Pass::Partitions { topic: place, partition: end }
        };
        spent + 1
    }

    /// Sets the quota of the next member. If the partitions cannot be divided evenly, some quotas
    /// are one higher: first those of members that already have more than the even share, then
    /// those of the last members.
    fn set_quota(&mut self, target: &TargetAssignment, place: usize, mut extras: usize) -> usize {
        let Some(member) = self.members.get(place).copied() else {
            self.pass = Pass::Outcome { next: 0, trimmed: 0, wanting: 0 };
            return 1;
        };
        let load = self.loads[member as usize];
        let share = self.total / self.members.len();
        let others = self.members.len() - place;
        let takes_extra = extras > 0 && (load > share || others <= extras);
        let quota = share + usize::from(takes_extra);
        extras -= usize::from(takes_extra);
        self.pass = Pass::Quotas { next: place + 1, extras };
        if load < quota {
            self.wanting.push((place, quota - load));
        }
        if load <= quota {
            return 1;
        }
        self.trim(target, place, quota);
        1 + load
    }

    /// Reduces a member to its quota. It keeps its first partitions in the order of Java's sets,
    /// and the others become free.
    fn trim(&mut self, target: &TargetAssignment, place: usize, quota: usize) {
        let mut kept = self.kept(target, self.members[place], 0);
        self.free.extend(split_in_record_order(&mut kept, quota, target));
        self.trimmed.push((place, kept));
    }

    /// The partitions that a member may keep: they exist, the members subscribe to their topics,
    /// and the member still owns them. The list gets capacity for `more`.
    fn kept(
        &self,
        target: &TargetAssignment,
        member: MemberIndex,
        more: usize,
    ) -> Vec<TopicPartition> {
        let had = target.of(member);
        let mut kept = Vec::with_capacity(had.len() + more);
        if had.len() == self.loads[member as usize] {
            kept.extend_from_slice(had);
            return kept;
        }
        let is_kept = |at: &TopicPartition| {
            self.places.get(at.topic as usize).is_some_and(|place| *place != usize::MAX)
                && at.partition < target.topic_at(at.topic).count
                && target.owner(*at) == Some(member)
        };
        kept.extend(had.iter().copied().filter(is_kept));
        kept
    }

    /// Builds the new partitions of the next member.
    fn conclude(
        &mut self,
        target: &TargetAssignment,
        place: usize,
        mut trimmed: usize,
        mut wanting: usize,
    ) -> usize {
        let member = self.members[place];
        let kept = self.trimmed.get_mut(trimmed).filter(|entry| entry.0 == place);
        let kept = kept.map(|entry| mem::take(&mut entry.1));
        trimmed += usize::from(kept.is_some());
        let wants = self.wanting.get(wanting).filter(|entry| entry.0 == place).map(|entry| entry.1);
        wanting += usize::from(wants.is_some());
        self.pass = Pass::Outcome { next: place + 1, trimmed, wanting };

        let end = self.free.len().min(self.taken + wants.unwrap_or(0));
        let takes = mem::replace(&mut self.taken, end)..end;
        let Some(found) = target.member(member).filter(|found| found.since <= self.joins) else {
            return 1;
        };
        let had = found.target.as_ref().map(Vec::len);
        if kept.is_none() && takes.is_empty() && had == Some(self.loads[member as usize]) {
            return 1;
        }
        let mut partitions = kept.unwrap_or_else(|| self.kept(target, member, takes.len()));
        partitions.extend_from_slice(&self.free[takes]);
        // The list consists mostly of two sorted runs, which the stable sort merges.
        partitions.sort();
        let spent = partitions.len();
        self.changes.push(Change { member, partitions });
        CHANGE_COST + spent
    }
}
