//! `uniform` for members with different subscriptions (`UniformHeterogeneousAssignmentBuilder` of
//! Kafka). First it assigns the free partitions of each topic to the topic's least loaded
//! subscribers. Then, topic by topic, it moves partitions from the most to the least loaded
//! subscribers. It ends when no move helps, or after [`ROUNDS_MAX`] rounds over all topics.
//!
//! A member is identified by its place: its index in the order in which members are visited. The
//! place decides between members with equal loads.

use super::audience::Audiences;
use super::computation::CHANGE_COST;
use super::levels::{Levels, Loads, extremes};
use super::{Change, MemberIndex, NO_MEMBER, TargetAssignment, TopicIndex, TopicPartition};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;
use muster_codec::Uuid;

/// The maximum number of rounds in which all topics are balanced, as in Kafka.
const ROUNDS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Heterogeneous {
    members: Vec<MemberIndex>,
    joins: u64,
    /// The place of each member, by its index.
    places: Vec<u32>,
    audiences: Audiences,
    /// The topics in the order in which they are assigned and balanced.
    topics: Vec<Topic>,
    loads: Loads,
    /// The number of partitions that each member had and may keep, by the member's place.
    loads_before: Loads,
    /// Whether the partitions of each member change, by the member's place.
    is_changed: Vec<bool>,
    /// For each list of subscribers (audience), the value of `moves` when its members were last
    /// balanced. While `moves` is the same, they still are.
    even_at: Vec<Option<usize>>,
    moves: usize,
    /// The audience for which `marked` was last filled.
    audience: Option<usize>,
    /// For each member, by its place, the last list of subscribers (audience) in which it was
    /// found.
    marked: Vec<usize>,
    levels: Levels,
    holdings: Holdings,
    pass: Pass,
    outcome: Vec<Vec<TopicPartition>>,
    changes: Vec<Change>,
}

#[derive(Debug)]
struct Topic {
    index: TopicIndex,
    id: Uuid,
    audience: usize,
    subscribers: usize,
    /// The owner of each partition, as a member's place, or [`NO_MEMBER`].
    owners: Vec<u32>,
    free: Vec<u32>,
}

/// The current pass. The number is the index in `topics` of the topic that is next. In `Conclude`
/// it is the place of the member that is next.
#[derive(Debug, Clone, Copy)]
enum Pass {
    Scan(usize),
    Assign(usize),
    /// `last_moved` is the topic of the last moves, or the first topic if nothing was moved yet.
    /// The pass ends when this topic is reached again without further moves, or after
    /// [`ROUNDS_MAX`] rounds.
    Balance {
        round: usize,
        next: usize,
        last_moved: Option<usize>,
    },
    Mark,
    Gather(usize),
    Conclude(usize),
}

/// The partitions of one topic, grouped by owner.
#[derive(Debug, Default)]
struct Holdings {
    partitions: Vec<u32>,
    /// For each member, by its place, the range of `partitions` that has the partitions it owns and
    /// has not given up.
    ranges: Vec<(u32, u32)>,
}

impl Heterogeneous {
    pub(super) fn new(joining: Option<MemberIndex>, target: &mut TargetAssignment) -> Self {
        target.begin();
        let members = target.by_visit(joining);
        let mut places = alloc::vec![NO_MEMBER; target.members_end()];
        for (place, member) in members.iter().enumerate() {
            places[*member as usize] = place as u32;
        }
        let audiences = Audiences::new(&members, target);
        let mut topics: Vec<_> = audiences
            .topics()
            .iter()
            .map(|(index, audience)| Topic::new(*index, *audience, &audiences, target))
            .collect();
        topics.sort_by(Topic::order);
        Self {
            joins: target.joins(),
            places,
            topics,
            loads: alloc::vec![0; members.len()],
            loads_before: Loads::new(),
            is_changed: alloc::vec![false; members.len()],
            even_at: alloc::vec![None; audiences.len()],
            moves: 0,
            audience: None,
            marked: alloc::vec![usize::MAX; members.len()],
            levels: Levels::default(),
            holdings: Holdings::new(members.len()),
            pass: Pass::Scan(0),
            outcome: Vec::new(),
            changes: Vec::new(),
            members,
            audiences,
        }
    }

    pub(super) fn step(&mut self, target: &TargetAssignment, budget: usize) -> Option<Vec<Change>> {
        let mut left = budget;
        while left > 0 {
            let spent = match self.pass {
                Pass::Scan(next) => self.scan(target, next),
                Pass::Assign(next) => self.assign(next),
                Pass::Balance { round, next, last_moved } => self.balance(round, next, last_moved),
                Pass::Mark => self.mark(target),
                Pass::Gather(next) => self.gather(next),
                Pass::Conclude(next) if next == self.members.len() => {
                    return Some(mem::take(&mut self.changes));
                }
                Pass::Conclude(next) => self.conclude(target, next),
            };
            left = left.saturating_sub(spent);
        }
        None
    }

    /// Reads the owners of a topic's partitions. A partition is free if no subscriber of the topic
    /// owns it.
    fn scan(&mut self, target: &TargetAssignment, next: usize) -> usize {
        let Some(topic) = self.topics.get_mut(next) else {
            self.loads_before.clone_from(&self.loads);
            self.pass = Pass::Assign(0);
            return 1;
        };
        self.pass = Pass::Scan(next + 1);
        let subscribers = self.audiences.list(topic.audience);
        if self.audience.replace(topic.audience) != Some(topic.audience) {
            for place in subscribers {
                self.marked[*place as usize] = topic.audience;
            }
        }
        let owners = &target.topic_at(topic.index).owners;
        for (partition, slot) in topic.owners.iter_mut().enumerate() {
            let owner = self.places.get(owners.get(partition as u32) as usize);
            let place = owner.copied().unwrap_or(NO_MEMBER);
            if self.marked.get(place as usize) == Some(&topic.audience) {
                *slot = place;
                self.loads[place as usize] += 1;
            } else {
                topic.free.push(partition as u32);
            }
        }
        1 + subscribers.len() + topic.owners.len()
    }

    /// Assigns the free partitions of a topic to its least loaded subscribers.
    fn assign(&mut self, next: usize) -> usize {
        let Some(topic) = self.topics.get_mut(next) else {
            self.pass = Pass::Balance { round: 0, next: 0, last_moved: None };
            return 1;
        };
        self.pass = Pass::Assign(next + 1);
        if topic.free.is_empty() {
            return 1;
        }
        self.levels.start(self.audiences.list(topic.audience), &self.loads);
        for partition in &topic.free {
            let taker = self.levels.next_least(&self.loads);
            topic.owners[*partition as usize] = taker;
            self.loads[taker as usize] += 1;
            self.is_changed[taker as usize] = true;
        }
        1 + topic.subscribers + topic.free.len()
    }

    /// Balances a topic, and sets the pass of the next step. The pass `Balance` ends after
    /// [`ROUNDS_MAX`] rounds, or when all topics were visited since the last move.
    fn balance(&mut self, round: usize, next: usize, last_moved: Option<usize>) -> usize {
        if round == ROUNDS_MAX || self.topics.is_empty() || last_moved == Some(next) {
            self.pass = Pass::Mark;
            return 1;
        }
        let Some(topic) = self.topics.get(next) else {
            self.pass = Pass::Balance { round: round + 1, next: 0, last_moved };
            return 1;
        };
        let (moved, spent) = if topic.subscribers < 2 { (0, 1) } else { self.balance_topic(next) };
        let is_mark = moved > 0 || last_moved.is_none();
        let last_moved = if is_mark { Some(next) } else { last_moved };
        self.pass = Pass::Balance { round, next: next + 1, last_moved };
        spent
    }

    /// Moves partitions of a topic from the most to the least loaded subscribers. Returns the
    /// number of moves, and the cost in visits.
    fn balance_topic(&mut self, number: usize) -> (usize, usize) {
        let topic = &mut self.topics[number];
        if self.even_at[topic.audience] == Some(self.moves) {
            return (0, 1);
        }
        let subscribers = self.audiences.list(topic.audience);
        let (least, most) = extremes(subscribers, &self.loads);
        if most - least <= 1 {
            self.even_at[topic.audience] = Some(self.moves);
            return (0, 1 + subscribers.len());
        }
        self.levels.start(subscribers, &self.loads);
        self.holdings.group(subscribers, &topic.owners);
        let moves_before = self.moves;
        while !self.levels.are_even() {
            let Some((giver, partition)) =
                next_given(&mut self.levels, &mut self.holdings, &self.loads)
            else {
                break;
            };
            let taker = self.levels.next_least(&self.loads);
            if self.levels.are_even() {
                break;
            }
            topic.owners[partition as usize] = taker;
            self.loads[giver as usize] -= 1;
            self.loads[taker as usize] += 1;
            self.is_changed[giver as usize] = true;
            self.is_changed[taker as usize] = true;
            self.moves += 1;
        }
        (self.moves - moves_before, 2 * subscribers.len() + topic.owners.len())
    }

    /// Marks further members as changed: members without a target, and members whose target
    /// contains partitions that they may not keep.
    fn mark(&mut self, target: &TargetAssignment) -> usize {
        for (place, member) in self.members.iter().enumerate() {
            let had = target.member(*member).and_then(|member| member.target.as_ref());
            let kept = self.loads_before[place] as usize;
            self.is_changed[place] |= had.is_none_or(|had| had.len() != kept);
        }
        self.outcome.resize_with(self.members.len(), Vec::new);
        self.topics.sort_unstable_by_key(|topic| topic.index);
        self.pass = Pass::Gather(0);
        self.members.len()
    }

    fn gather(&mut self, next: usize) -> usize {
        let Some(topic) = self.topics.get(next) else {
            self.pass = Pass::Conclude(0);
            return 1;
        };
        self.pass = Pass::Gather(next + 1);
        for (partition, owner) in topic.owners.iter().enumerate() {
            if self.is_changed[*owner as usize] {
                let at = TopicPartition { topic: topic.index, partition: partition as u32 };
                self.outcome[*owner as usize].push(at);
            }
        }
        1 + topic.owners.len()
    }

    fn conclude(&mut self, target: &TargetAssignment, place: usize) -> usize {
        self.pass = Pass::Conclude(place + 1);
        let member = self.members[place];
        let is_still = target.member(member).is_some_and(|found| found.since <= self.joins);
        let partitions = mem::take(&mut self.outcome[place]);
        if !self.is_changed[place] || !is_still || !target.differs(member, &partitions) {
            return 1;
        }
        self.changes.push(Change { member, partitions });
        CHANGE_COST
    }
}

/// The most loaded member that can give up a partition, and that partition.
fn next_given(levels: &mut Levels, holdings: &mut Holdings, loads: &Loads) -> Option<(u32, u32)> {
    loop {
        let giver = levels.next_most(loads)?;
        if let Some(partition) = holdings.pop(giver) {
            return Some((giver, partition));
        }
        levels.exclude_most();
    }
}

impl Topic {
    fn new(
        index: TopicIndex,
        audience: usize,
        audiences: &Audiences,
        target: &TargetAssignment,
    ) -> Self {
        Self {
            index,
            id: target.topic_id(index),
            audience,
            subscribers: audiences.list(audience).len(),
            owners: alloc::vec![NO_MEMBER; target.topic_at(index).count as usize],
            free: Vec::new(),
        }
    }

    /// Topics with more partitions per subscriber come first, then topics with fewer subscribers,
    /// then topics in Kafka's order of ids.
    fn order(&self, other: &Self) -> Ordering {
        let ratio = |topic: &Self| topic.owners.len() as f64 / topic.subscribers as f64;
        ratio(other)
            .total_cmp(&ratio(self))
            .then(self.subscribers.cmp(&other.subscribers))
            .then_with(|| signed_halves(self.id).cmp(&signed_halves(other.id)))
    }
}

/// Kafka's `Uuid.compareTo` compares two signed halves.
fn signed_halves(id: Uuid) -> (i64, i64) {
    let both = u128::from_be_bytes(id.0);
    ((both >> 64) as i64, both as i64)
}

impl Holdings {
    fn new(members: usize) -> Self {
        Self { partitions: Vec::new(), ranges: alloc::vec![(0, 0); members] }
    }

    /// Groups the partitions of a topic by owner. Each owner is a subscriber.
    fn group(&mut self, subscribers: &[u32], owners: &[u32]) {
        for place in subscribers {
            self.ranges[*place as usize] = (0, 0);
        }
        for owner in owners {
            self.ranges[*owner as usize].1 += 1;
        }
        let mut start = 0;
        for place in subscribers {
            let range = &mut self.ranges[*place as usize];
            let len = range.1;
            *range = (start, start);
            start += len;
        }
        self.partitions.resize(owners.len(), 0);
        for (partition, owner) in owners.iter().enumerate() {
            let range = &mut self.ranges[*owner as usize];
            self.partitions[range.1 as usize] = partition as u32;
            range.1 += 1;
        }
    }

    /// Removes and returns the last partition of a member.
    fn pop(&mut self, place: u32) -> Option<u32> {
        let range = &mut self.ranges[place as usize];
        if range.0 == range.1 {
            return None;
        }
        range.1 -= 1;
        Some(self.partitions[range.1 as usize])
    }
}
