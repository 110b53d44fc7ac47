//! Properties that each assignment must have, for random groups and histories.
#![allow(clippy::unwrap_used)]

use muster_codec::Uuid;
use muster_coordinator::assignors::{
    Assignor, Change, Computation, MemberIndex, SubscriptionType, TargetAssignment, TopicIndex,
    TopicPartition,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const TOPICS: usize = 4;
const MEMBERS: u32 = 12;

/// An event of a group. Topics and members are numbers. `budget` is the size of a computation's
/// slice.
#[derive(Debug, Clone)]
enum Event {
    Join { member: u32, is_static: bool, topics: [bool; TOPICS] },
    Leave { member: u32 },
    Grow { topic: usize, by: u32 },
    Delete { topic: usize },
    Assign { budget: usize },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let member = 0..MEMBERS;
    let event = prop_oneof![
        4 => (member.clone(), any::<bool>(), any::<[bool; TOPICS]>())
            .prop_map(|(member, is_static, topics)| Event::Join { member, is_static, topics }),
        2 => member.prop_map(|member| Event::Leave { member }),
        2 => (0..TOPICS, 1..9_u32).prop_map(|(topic, by)| Event::Grow { topic, by }),
        1 => (0..TOPICS).prop_map(|topic| Event::Delete { topic }),
        4 => (1..60_usize).prop_map(|budget| Event::Assign { budget }),
    ];
    proptest::collection::vec(event, 1..60)
}

/// A group. The fields besides `target` say which assignment is correct.
struct Group {
    target: TargetAssignment,
    assignor: Assignor,
    /// Whether all members subscribe to the same topics.
    is_alike: bool,
    partitions: [u32; TOPICS],
    members: BTreeMap<MemberIndex, BTreeSet<usize>>,
}

impl Group {
    fn new(assignor: Assignor, is_alike: bool) -> Self {
        let (target, members) = (TargetAssignment::default(), BTreeMap::new());
        Self { target, assignor, is_alike, partitions: [5; TOPICS], members }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Join { member, is_static, topics } => {
                let instance = format!("instance-{member}");
                let instance_id = is_static.then_some(instance.as_str());
                self.target.join(member, &format!("member-{member}"), instance_id);
                let wanted = (0..TOPICS).filter(|topic| self.is_alike || topics[*topic]);
                let wanted: BTreeSet<_> = wanted.collect();
                let indexes: Vec<_> = wanted.iter().map(|topic| self.topic(*topic)).collect();
                self.target.subscribe(member, &indexes);
                self.members.insert(member, wanted);
            }
            Event::Leave { member } => {
                self.target.leave(member);
                self.members.remove(&member);
            }
            Event::Grow { topic, by } => self.set_partitions(topic, self.partitions[topic] + by),
            Event::Delete { topic } => self.set_partitions(topic, 0),
            Event::Assign { budget } => self.assign_and_check(budget),
        }
    }

    fn set_partitions(&mut self, topic: usize, count: u32) {
        self.partitions[topic] = count;
        self.topic(topic);
    }

    fn topic(&mut self, number: usize) -> TopicIndex {
        let topic = self.target.topic(Uuid([number as u8 + 1; 16]));
        self.target.set_partitions(topic, self.partitions[number]);
        topic
    }

    fn assign_and_check(&mut self, budget: usize) {
        let before = self.targets();
        let whole = self.begin().finish(&self.target);
        assert_eq!(self.in_slices(budget), whole, "slices do not change the result");
        for Change { member, partitions } in &whole {
            assert_ne!(before.get(member), Some(partitions), "a change changes something");
            self.target.set(*member, partitions.clone());
        }
        self.check_valid();
        if self.assignor == Assignor::Uniform {
            self.check_balanced();
            if self.is_alike {
                self.check_sticky(&before);
            }
        }
        assert_eq!(self.begin().finish(&self.target), [], "a second computation changes nothing");
    }

    fn begin(&mut self) -> Computation {
        let kind = if self.is_alike {
            SubscriptionType::Homogeneous
        } else {
            SubscriptionType::Heterogeneous
        };
        Computation::new(self.assignor, kind, None, &mut self.target)
    }

    fn in_slices(&mut self, budget: usize) -> Vec<Change> {
        let mut work = self.begin();
        loop {
            if let Some(changes) = work.step(&self.target, budget) {
                return changes;
            }
        }
    }

    /// The targets of the members that have one.
    fn targets(&self) -> BTreeMap<MemberIndex, Vec<TopicPartition>> {
        let mut targets = BTreeMap::new();
        for member in self.members.keys() {
            if !self.target.of(*member).is_empty() {
                targets.insert(*member, self.target.of(*member).to_vec());
            }
        }
        targets
    }

    /// Each partition of a topic with subscribers must have one owner, which subscribes to the
    /// topic.
    fn check_valid(&self) {
        let mut owned = BTreeSet::new();
        for (member, topics) in &self.members {
            for at in self.target.of(*member) {
                let number = usize::from(self.target.topic_id(at.topic).0[0]) - 1;
                assert!(topics.contains(&number), "{member} does not subscribe to {number}");
                assert!(at.partition < self.partitions[number], "there is no {at:?}");
                assert!(owned.insert((number, at.partition)), "{at:?} has two owners");
                assert_eq!(self.target.owner(*at), Some(*member));
            }
        }
        let subscribed: BTreeSet<_> = self.members.values().flatten().copied().collect();
        let all: usize = subscribed.iter().map(|number| self.partitions[*number] as usize).sum();
        assert_eq!(owned.len(), all, "all partitions are owned");
    }

    /// Checks that no move of one partition to another member would bring the members' loads
    /// closer.
    fn check_balanced(&self) {
        let load = |member: &MemberIndex| self.target.of(*member).len();
        for (giver, taker) in
            self.members.keys().flat_map(|a| self.members.keys().map(move |b| (a, b)))
        {
            let movable = self.target.of(*giver).iter().any(|at| {
                let number = usize::from(self.target.topic_id(at.topic).0[0]) - 1;
                self.members[taker].contains(&number)
            });
            assert!(!movable || load(giver) <= load(taker) + 1, "{giver} could give to {taker}");
        }
    }

    /// Checks that the fewest partitions move: a member gives up only those that exceed its quota.
    fn check_sticky(&self, before: &BTreeMap<MemberIndex, Vec<TopicPartition>>) {
        let all: usize = self.members.keys().map(|member| self.target.of(*member).len()).sum();
        let share = all / self.members.len().max(1);
        let mut extras = all % self.members.len().max(1);
        let mut moved = 0;
        let mut needed = 0;
        for (member, had) in before {
            let exists = |at: &&TopicPartition| {
                let number = usize::from(self.target.topic_id(at.topic).0[0]) - 1;
                at.partition < self.partitions[number]
            };
            let had: Vec<_> = had.iter().filter(exists).collect();
            moved += had.iter().filter(|at| self.target.owner(***at) != Some(*member)).count();
            let keeps_extra = had.len() > share && extras > 0;
            extras -= usize::from(keeps_extra);
            needed += had.len().saturating_sub(share + usize::from(keeps_extra));
        }
        assert_eq!(moved, needed, "the number of moves is minimal");
    }
}

fn check(assignor: Assignor, is_alike: bool, events: &[Event]) {
    let mut group = Group::new(assignor, is_alike);
    for event in events {
        group.apply(event);
    }
    group.assign_and_check(7);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn uniform_with_the_same_topics_is_valid_balanced_and_sticky(events in events()) {
        check(Assignor::Uniform, true, &events);
    }

    #[test]
    fn uniform_with_different_topics_is_valid_and_balanced(events in events()) {
        check(Assignor::Uniform, false, &events);
    }

    #[test]
    fn range_is_valid(events in events(), is_alike: bool) {
        check(Assignor::Range, is_alike, &events);
    }
}
