//! Short stories of groups and their assignments. The expected results are Kafka's.
#![allow(clippy::unwrap_used)]

use muster_codec::Uuid;
use muster_coordinator::assignors::{
    Assignor, Change, Computation, SubscriptionType, TargetAssignment, TopicIndex, TopicPartition,
};

/// A group whose members and topics have names.
#[derive(Default)]
struct Group {
    target: TargetAssignment,
    members: Vec<&'static str>,
}

impl Group {
    fn topic(&mut self, number: u8, partitions: u32) -> TopicIndex {
        let topic = self.target.topic(Uuid([number; 16]));
        self.target.set_partitions(topic, partitions);
        topic
    }

    fn join(&mut self, id: &'static str, topics: &[TopicIndex]) {
        let member = self.members.len() as u32;
        self.members.push(id);
        self.target.join(member, id, None);
        self.target.subscribe(member, topics);
    }

    fn leave(&mut self, id: &str) {
        let member = self.members.iter().position(|other| *other == id).unwrap();
        self.target.leave(member as u32);
    }

    /// Computes an assignment. Returns a line for each member that changed.
    fn assign(&mut self, assignor: Assignor, kind: SubscriptionType) -> Vec<String> {
        let mut changes =
            Computation::new(assignor, kind, None, &mut self.target).finish(&self.target);
        changes.sort_by_key(|change| self.members[change.member as usize]);
        for Change { member, partitions } in &changes {
            self.target.set(*member, partitions.clone());
        }
        let line = |change: &Change| {
            let at = |at: &TopicPartition| {
                format!(" {}-{}", self.target.topic_id(at.topic).0[0], at.partition)
            };
            let partitions: String = change.partitions.iter().map(at).collect();
            format!("{}:{partitions}", self.members[change.member as usize])
        };
        changes.iter().map(line).collect()
    }

    fn uniform(&mut self) -> Vec<String> {
        self.assign(Assignor::Uniform, SubscriptionType::Homogeneous)
    }

    fn uniform_mixed(&mut self) -> Vec<String> {
        self.assign(Assignor::Uniform, SubscriptionType::Heterogeneous)
    }

    fn range(&mut self) -> Vec<String> {
        self.assign(Assignor::Range, SubscriptionType::Heterogeneous)
    }
}

#[test]
fn range_puts_the_same_partitions_of_two_topics_together() {
    let mut group = Group::default();
    let topics = [group.topic(1, 3), group.topic(2, 3)];
    group.join("b", &topics);
    group.join("a", &topics);
    assert_eq!(group.range(), ["a: 1-0 1-1 2-0 2-1", "b: 1-2 2-2"]);
    assert!(group.range().is_empty());
}

#[test]
fn range_assigns_a_topic_to_its_subscribers() {
    let mut group = Group::default();
    let (one, two) = (group.topic(1, 3), group.topic(2, 2));
    group.join("a", &[one]);
    group.join("b", &[one, two]);
    group.join("c", &[two]);
    assert_eq!(group.range(), ["a: 1-0 1-1", "b: 1-2 2-0", "c: 2-1"]);
}

#[test]
fn range_puts_static_members_first() {
    let mut group = Group::default();
    let topic = group.topic(1, 2);
    group.join("a", &[topic]);
    group.members.push("z");
    group.target.join(1, "z", Some("instance"));
    group.target.subscribe(1, &[topic]);
    group.topic(1, 1);
    assert_eq!(group.range(), ["a:", "z: 1-0"]);
}

#[test]
fn uniform_is_balanced_and_moves_as_little_as_possible() {
    let mut group = Group::default();
    let topic = group.topic(1, 5);
    group.join("a", &[topic]);
    assert_eq!(group.uniform(), ["a: 1-0 1-1 1-2 1-3 1-4"]);
    group.join("b", &[topic]);
    assert_eq!(group.uniform(), ["a: 1-0 1-1 1-2", "b: 1-3 1-4"]);
    group.join("c", &[topic]);
    assert_eq!(group.uniform(), ["a: 1-0 1-1", "c: 1-2"]);
    group.leave("a");
    assert_eq!(group.uniform(), ["c: 1-0 1-1 1-2"]);
}

#[test]
fn uniform_drops_a_deleted_topic_and_assigns_new_partitions() {
    let mut group = Group::default();
    let (one, two) = (group.topic(1, 2), group.topic(2, 2));
    group.join("a", &[one, two]);
    group.join("b", &[one, two]);
    assert_eq!(group.uniform(), ["a: 1-0 1-1", "b: 2-0 2-1"]);
    group.topic(2, 0);
    group.topic(1, 4);
    assert_eq!(group.uniform(), ["b: 1-2 1-3"]);
}

#[test]
fn a_member_without_partitions_gets_an_empty_target_once() {
    let mut group = Group::default();
    let topic = group.topic(1, 1);
    group.join("a", &[topic]);
    group.join("b", &[topic]);
    assert_eq!(group.uniform().len(), 2);
    assert!(group.uniform().is_empty());
    group.join("c", &[]);
    assert_eq!(group.uniform_mixed(), ["c:"]);
}

#[test]
fn uniform_balances_members_with_different_topics() {
    let mut group = Group::default();
    let (one, two) = (group.topic(1, 6), group.topic(2, 2));
    group.join("a", &[one]);
    group.join("b", &[one, two]);
    group.uniform_mixed();
    assert_eq!(group.target.of(0).len(), 4);
    assert_eq!(group.target.of(1).len(), 4);
    group.join("c", &[two]);
    let before: Vec<_> = group.target.of(0).to_vec();
    group.uniform_mixed();
    assert_eq!(group.target.of(2).len(), 2);
    assert!(before.starts_with(group.target.of(0)));
}

#[test]
fn uniform_keeps_assignments_of_members_with_different_topics() {
    let mut group = Group::default();
    let topics: Vec<_> = (1..=4).map(|number| group.topic(number, 3)).collect();
    group.join("a", &[topics[0], topics[2], topics[3]]);
    group.uniform();
    group.join("b", &topics[..3]);
    assert_eq!(group.uniform_mixed(), ["a: 3-0 3-1 3-2 4-0 4-1 4-2", "b: 1-0 1-1 1-2 2-0 2-1 2-2"]);
}

#[test]
fn a_static_member_that_returns_keeps_its_partitions() {
    let mut group = Group::default();
    let topic = group.topic(1, 2);
    group.join("a", &[topic]);
    group.join("b", &[topic]);
    group.uniform();
    let had = group.target.of(0).to_vec();
    group.target.join(0, "a2", Some("instance"));
    assert!(group.uniform().is_empty());
    assert_eq!(group.target.of(0), had);
}

#[test]
fn a_member_that_leaves_during_a_computation_is_not_in_its_result() {
    let mut group = Group::default();
    let topic = group.topic(1, 4);
    group.join("a", &[topic]);
    group.join("b", &[topic]);
    let kind = SubscriptionType::Homogeneous;
    let mut work = Computation::new(Assignor::Uniform, kind, None, &mut group.target);
    assert_eq!(work.step(&group.target, 1), None);
    group.leave("a");
    group.target.join(0, "c", None);
    group.target.subscribe(0, &[topic]);
    let changes = work.finish(&group.target);
    assert_eq!(changes.iter().map(|change| change.member).collect::<Vec<_>>(), [1]);
}

#[test]
fn an_unused_topic_is_forgotten() {
    let mut group = Group::default();
    let one = group.topic(1, 2);
    group.join("a", &[one]);
    group.uniform();
    let two = group.topic(2, 1);
    group.target.subscribe(0, &[two]);
    group.uniform();
    assert_eq!(group.target.find_topic(Uuid([1; 16])), None);
    assert_eq!(group.target.of(0), [TopicPartition { topic: two, partition: 0 }]);
}
