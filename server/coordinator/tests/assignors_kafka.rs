//! Compares the changes that muster's assignors and Kafka's make to random groups.
//!
//! In one case the results may differ. When a member gives up some partitions of a topic with more
//! than 16 partitions, Kafka takes them in the order of a hash set, which depends on all earlier
//! changes of the set. muster does not imitate this order. In this case, both assignors must move
//! the same number of partitions, and the members must have equal loads.
//!
//! It needs Kafka's jars, so it runs only on request:
//!
//! ```text
//! mvn dependency:copy-dependencies (of org.apache.kafka:kafka-group-coordinator:4.3.0, to DIR)
//! MUSTER_KAFKA_JARS=DIR cargo test -p muster-coordinator --test assignors_kafka -- \
//!     --ignored --nocapture
//! ```
//!
//! `MUSTER_KAFKA_SEED` (default 1) is the first seed and `MUSTER_KAFKA_GROUPS` (default 200) the
//! number of seeds. A JDK of 17 or later is needed.
#![allow(clippy::unwrap_used)]

#[path = "../benches/kafka/driver.rs"]
#[allow(dead_code, reason = "the benchmark uses the rest")]
mod driver;

use driver::{Group, Kafka, Targets, mixed};
use muster_coordinator::assignors::{Assignor, SubscriptionType};

#[test]
#[ignore = "needs Kafka's jars and a JDK; set MUSTER_KAFKA_JARS and run with --ignored"]
fn assignments_equal_those_of_kafka() {
    let jars = std::env::var_os("MUSTER_KAFKA_JARS").expect("set MUSTER_KAFKA_JARS");
    let number = |name: &str, default| std::env::var(name).map_or(default, |n| n.parse().unwrap());
    let first: u64 = number("MUSTER_KAFKA_SEED", 1);
    let groups: u64 = number("MUSTER_KAFKA_GROUPS", 200);
    let mut kafka = Kafka::start(jars.as_ref());
    let (mut computations, mut changes, mut argued) = (0, 0, 0);
    for seed in first..first + groups {
        let mut history = History::new(seed, kafka);
        for step in 0..40 {
            history.step();
            let before = history.targets.clone();
            let (ours, theirs) = history.assign();
            computations += 1;
            changes += ours.len();
            if ours != theirs && history.partitions.iter().any(|count| *count > 16) {
                argued += 1;
                assert_eq!(sizes(&ours), sizes(&theirs), "seed {seed}, step {step}");
                let (ours, theirs) = (moved(&before, &ours), moved(&before, &theirs));
                assert_eq!(ours, theirs, "seed {seed}, step {step}");
                break;
            }
            assert_eq!(ours, theirs, "seed {seed}, step {step}");
        }
        kafka = history.group.kafka.take().unwrap();
    }
    println!("{groups} groups, {computations} computations, {changes} changed targets");
    println!("all equal except {argued}, which are as good");
}

/// The loads of the changed members, ascending.
fn sizes(changes: &Targets) -> Vec<usize> {
    let mut sizes: Vec<_> =
        changes.values().map(|topics| topics.values().map(Vec::len).sum()).collect();
    sizes.sort_unstable();
    sizes
}

/// The number of partitions that move between members.
fn moved(before: &Targets, changes: &Targets) -> usize {
    let mut moved = 0;
    for (member, topics) in changes {
        for (topic, partitions) in topics {
            let had = before.get(member).and_then(|topics| topics.get(topic));
            let is_new = |it: &&u32| !had.is_some_and(|had| had.contains(*it));
            moved += partitions.iter().filter(is_new).count();
        }
    }
    moved
}

/// A random group.
struct History {
    group: Group,
    random: u64,
    /// The members' ids, and the topics to which they subscribe.
    members: Vec<(String, Vec<usize>)>,
    partitions: Vec<u32>,
    joined: u64,
    assignor: Assignor,
    /// Whether most members subscribe to the same topics.
    is_alike: bool,
    joining: Option<String>,
    targets: Targets,
}

impl History {
    fn new(seed: u64, kafka: Kafka) -> Self {
        let mut this = Self {
            group: Group::with_kafka(kafka),
            random: mixed(seed),
            members: Vec::new(),
            partitions: Vec::new(),
            joined: 0,
            assignor: if seed.is_multiple_of(4) { Assignor::Range } else { Assignor::Uniform },
            is_alike: seed.is_multiple_of(2),
            joining: None,
            targets: Targets::new(),
        };
        let most = [4, 14, 60][this.below(3)];
        for number in 0..1 + this.below(5) {
            let partitions = this.below(most) as u32;
            this.partitions.push(partitions);
            this.group.topic(number, partitions);
        }
        this
    }

    fn step(&mut self) {
        self.joining = None;
        match self.below(10) {
            0..=4 => self.join(),
            5..=6 if self.members.len() > 1 => {
                let at = self.below(self.members.len());
                let (id, _) = self.members.remove(at);
                self.group.leave(&id);
                self.targets.remove(&id);
            }
            7 if !self.members.is_empty() => {
                let at = self.below(self.members.len());
                let topics = self.topics();
                self.members[at].1.clone_from(&topics);
                self.group.subscribe(&self.members[at].0, &topics);
            }
            8 => {
                let number = self.below(self.partitions.len());
                self.partitions[number] += self.below(4) as u32;
                self.group.topic(number, self.partitions[number]);
            }
            _ => {}
        }
    }

    fn join(&mut self) {
        self.joined += 1;
        let id = format!("member-{:x}", mixed(self.random ^ self.joined));
        let instance = (self.below(5) == 0).then(|| format!("instance-{}", self.joined));
        let topics = self.topics();
        self.group.join(&id, instance.as_deref(), &topics);
        self.members.push((id.clone(), topics));
        self.joining = Some(id);
    }

    /// The changes that muster and Kafka make.
    fn assign(&mut self) -> (Targets, Targets) {
        let alike = self.members.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let kind =
            if alike { SubscriptionType::Homogeneous } else { SubscriptionType::Heterogeneous };
        let joining = self.joining.as_deref();
        let (ours, theirs) = self.group.assign(self.assignor, kind, joining, 1);
        self.targets.extend(ours.changes.clone());
        (ours.changes, theirs.unwrap().changes)
    }

    fn topics(&mut self) -> Vec<usize> {
        let all = 0..self.partitions.len();
        if self.is_alike && self.below(20) > 0 {
            return all.collect();
        }
        all.filter(|_| self.below(3) > 0).collect()
    }

    fn below(&mut self, end: usize) -> usize {
        self.random = mixed(self.random);
        (self.random % end as u64) as usize
    }
}
