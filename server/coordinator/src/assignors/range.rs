//! `range`: each member gets consecutive partitions of each of its topics (Kafka's
//! `RangeAssignor`). Members are in the order of their names, so topics with equal partition counts
//! and the same members are co-partitioned. Current assignments do not matter, but a static member
//! keeps its place in the order.

use super::computation::CHANGE_COST;
use super::{Change, MemberIndex, TargetAssignment, TopicIndex, TopicPartition};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

#[derive(Debug)]
pub(super) struct Range {
    members: Vec<MemberIndex>,
    /// The index in `members` of the next member.
    next: usize,
    shares: Vec<Share>,
    /// For each subscription: all its topics, and those that may still have unassigned partitions.
    open: Vec<(Arc<[TopicIndex]>, Vec<TopicIndex>)>,
    joins: u64,
    changes: Vec<Change>,
}

/// The unassigned part of a topic.
#[derive(Debug, Clone, Default)]
struct Share {
    next: u32,
    count: u32,
    members: u32,
}

impl Range {
    pub(super) fn new(target: &mut TargetAssignment) -> Self {
        target.begin();
        let mut shares = alloc::vec![Share::default(); target.topics_end()];
        let mut open = Vec::with_capacity(target.subscriptions().len());
        for subscription in target.subscriptions() {
            for topic in subscription.topics.iter() {
                let share = &mut shares[*topic as usize];
                share.count = target.topic_at(*topic).count;
                share.members += subscription.members;
            }
            open.push((subscription.topics.clone(), subscription.topics.to_vec()));
        }
        let members = target.by_name().collect();
        Self { members, next: 0, shares, open, joins: target.joins(), changes: Vec::new() }
    }

    pub(super) fn step(&mut self, target: &TargetAssignment, budget: usize) -> Option<Vec<Change>> {
        let mut spent = 0;
        while spent < budget {
            let Some(member) = self.members.get(self.next).copied() else {
                return Some(mem::take(&mut self.changes));
            };
            self.next += 1;
            spent += 1 + self.visit(member, target);
        }
        None
    }

    /// Assigns to a member its share of each of its topics. Returns the number of topics and
    /// partitions visited.
    fn visit(&mut self, member: MemberIndex, target: &TargetAssignment) -> usize {
        let Some(found) = target.member(member).filter(|found| found.since <= self.joins) else {
            return 0;
        };
        let topics = &target.subscriptions()[found.subscription].topics;
        let is_known = |known: &&mut (Arc<_>, _)| Arc::ptr_eq(&known.0, topics);
        let mut partitions = Vec::new();
        let mut spent = 0;
        // If the member's subscription did not exist when the computation started, the member gets
        // nothing until the next computation.
        if let Some((_, open)) = self.open.get_mut(found.subscription).filter(is_known) {
            spent += open.len();
            open.retain(|topic| self.shares[*topic as usize].give_next(*topic, &mut partitions));
            spent += partitions.len();
        }
        if target.differs(member, &partitions) {
            spent += CHANGE_COST;
            self.changes.push(Change { member, partitions });
        }
        spent
    }
}

impl Share {
    /// Assigns to the next member its share of the topic. If the shares cannot be equal, the first
    /// members get one partition more. Returns whether unassigned partitions are left.
    fn give_next(&mut self, topic: TopicIndex, partitions: &mut Vec<TopicPartition>) -> bool {
        let left = self.count - self.next;
        let share = left.div_ceil(self.members.max(1));
        self.members = self.members.saturating_sub(1);
        let range = self.next..self.next + share;
        self.next = range.end;
        partitions.extend(range.map(|partition| TopicPartition { topic, partition }));
        self.next < self.count
    }
}
