//! `uniform` where all members subscribe to the same topics: nobody has more than one partition
//! more than another, and as few move as that allows (Kafka's
//! `UniformHomogeneousAssignmentBuilder`).
//!
//! Three passes: partitions (who has how many, what is free), members (who is due how many, who
//! gives up which), and members again (who takes what is free).

use super::computation::CHANGE_COST;
use super::java_sets::{split_in_record_order, topics_in_hash_order};
use super::{Change, MemberIndex, TargetAssignment, TopicIndex, TopicPartition};
use alloc::vec::Vec;
use core::mem;

#[derive(Debug)]
pub(super) struct Homogeneous {
    /// In the order of visits.
    members: Vec<MemberIndex>,
    joins: u64,
    /// In the order in which free partitions are given away.
    topics: Vec<TopicIndex>,
    /// The place of each topic in `topics`, by its index.
    places: Vec<usize>,
    /// How many partitions a member has that it may keep, by its index.
    loads: Vec<usize>,
    free: Vec<TopicPartition>,
    /// How many of `free` have been taken.
    taken: usize,
    total: usize,
    /// Who gave up partitions, and what it kept; ascending by place in `members`.
    trimmed: Vec<(usize, Vec<TopicPartition>)>,
    /// Who is to get how many; ascending by place in `members`.
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

    /// Counts the loads, and gathers what is free, for up to `limit` partitions of one topic.
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

    /// Says how many partitions the next member is due. If they do not come out even, those get one
    /// more who have it already, the first of them; else the last of all.
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

    /// A member keeps the first of its partitions in the order of Java's sets, and gives up the
    /// rest.
    fn trim(&mut self, target: &TargetAssignment, place: usize, quota: usize) {
        let mut kept = self.kept(target, self.members[place], 0);
        self.free.extend(split_in_record_order(&mut kept, quota, target));
        self.trimmed.push((place, kept));
    }

    /// What a member has and may keep: partitions that exist and that no record gave to another.
    /// There is room for `more`.
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

    /// The outcome for the next member.
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
        // Mostly two runs, which the stable sort only merges.
        partitions.sort();
        let spent = partitions.len();
        self.changes.push(Change { member, partitions });
        CHANGE_COST + spent
    }
}
