//! A group in muster and the same group in Kafka, whose assignments can be compared.
//! `KafkaAssignors.java` is Kafka's side.

#[path = "java.rs"]
mod java;

use java::Java;
use muster_codec::Uuid;
use muster_coordinator::assignors::{
    Assignor, Change, Computation, MemberIndex, SLICE, SubscriptionType, TargetAssignment,
    TopicIndex,
};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

/// The partitions of each member by topic id, ascending. Members are named by member id.
pub(crate) type Targets = BTreeMap<String, BTreeMap<[u8; 16], Vec<u32>>>;

/// The result of one computation.
pub(crate) struct Outcome {
    /// The median time of the assignor alone.
    pub(crate) time: Duration,
    /// The median over all repetitions of their longest slice (bounded part of work). Only muster
    /// works in slices.
    pub(crate) slice: Duration,
    /// The members whose target changed, with their new partitions.
    pub(crate) changes: Targets,
}

/// A process that runs Kafka's assignors.
pub(crate) struct Kafka(Java);

impl Kafka {
    /// Starts the process. `jars` is the folder with Kafka's jars.
    pub(crate) fn start(jars: &Path) -> Self {
        Self(Java::start(jars, "KafkaAssignors.java"))
    }

    fn send(&mut self, line: &str) {
        self.0.send(line);
    }

    fn outcome(&mut self) -> Outcome {
        let mut time = Duration::ZERO;
        let mut changes = Targets::new();
        loop {
            let line = self.0.read();
            let mut fields = line.split_ascii_whitespace();
            match fields.next().unwrap() {
                "time" => time = Duration::from_nanos(fields.next().unwrap().parse().unwrap()),
                "change" => {
                    let member = fields.next().unwrap().to_owned();
                    changes.insert(member, fields.map(topic_partitions).collect());
                }
                _ => return Outcome { time, slice: time, changes },
            }
        }
    }
}

fn topic_partitions(field: &str) -> ([u8; 16], Vec<u32>) {
    let (topic, partitions) = field.split_once(':').unwrap();
    let id = u128::from_str_radix(topic, 16).unwrap().to_be_bytes();
    (id, partitions.split(',').map(|number| number.parse().unwrap()).collect())
}

/// A group that both muster and Kafka have.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) target: TargetAssignment,
    members: HashMap<String, usize>,
    /// The member ids by index. A member that left keeps its id until its index is reused.
    ids: Vec<String>,
    free: Vec<usize>,
    /// The id and the number of partitions of each topic, by number.
    topics: Vec<(Uuid, u32)>,
    pub(crate) kafka: Option<Kafka>,
}

impl Group {
    pub(crate) fn with_kafka(mut kafka: Kafka) -> Self {
        kafka.send("reset");
        Self { kafka: Some(kafka), ..Self::default() }
    }

    /// Creates or extends a topic.
    pub(crate) fn topic(&mut self, number: usize, partitions: u32) {
        let id = u128::from(mixed(number as u64)) << 64 | u128::from(mixed(!number as u64));
        self.topics.resize(self.topics.len().max(number + 1), (Uuid(id.to_be_bytes()), 0));
        self.topics[number].1 = partitions;
        self.topic_index(number);
        self.send(|| format!("topic {id:032x} topic-{number} {partitions}"));
    }

    pub(crate) fn join(&mut self, id: &str, instance_id: Option<&str>, topics: &[usize]) {
        let member = self.free.pop().unwrap_or(self.ids.len());
        self.ids.resize(self.ids.len().max(member + 1), String::new());
        self.ids[member] = id.to_owned();
        self.members.insert(id.to_owned(), member);
        self.target.join(member as MemberIndex, id, instance_id);
        self.subscribe_ours(member, topics);
        let topics = self.topic_list(topics);
        self.send(|| format!("join {id} {} {topics}", instance_id.unwrap_or("-")));
    }

    pub(crate) fn subscribe(&mut self, id: &str, topics: &[usize]) {
        let member = self.member(id);
        self.subscribe_ours(member, topics);
        let topics = self.topic_list(topics);
        self.send(|| format!("subscribe {id} {topics}"));
    }

    pub(crate) fn leave(&mut self, id: &str) {
        let member = self.members.remove(id).unwrap();
        self.free.push(member);
        self.target.leave(member as MemberIndex);
        self.send(|| format!("leave {id}"));
    }

    /// Computes the same assignment `repeats` times with muster and with Kafka. The group adopts
    /// muster's result.
    pub(crate) fn assign(
        &mut self,
        assignor: Assignor,
        kind: SubscriptionType,
        joining: Option<&str>,
        repeats: usize,
    ) -> (Outcome, Option<Outcome>) {
        let index = joining.map(|id| self.member(id) as MemberIndex);
        let (mut times, mut slices) = (Vec::new(), Vec::new());
        let mut changes = Vec::new();
        for _ in 0..repeats {
            let start = Instant::now();
            let work = Computation::new(assignor, kind, index, &mut self.target);
            changes = work.finish(&self.target);
            times.push(start.elapsed());
            slices.push(self.longest_slice(assignor, kind, index));
        }
        times.sort_unstable();
        slices.sort_unstable();
        for Change { member, partitions } in &changes {
            self.target.set(*member, partitions.clone());
        }
        let changes = changes.iter().map(|change| self.named(change)).collect();
        let (time, slice) = (times[repeats / 2], slices[repeats / 2]);
        let ours = Outcome { time, slice, changes };
        (ours, self.assign_theirs(assignor, kind, joining, repeats))
    }

    fn longest_slice(
        &mut self,
        assignor: Assignor,
        kind: SubscriptionType,
        joining: Option<MemberIndex>,
    ) -> Duration {
        let mut start = Instant::now();
        let mut longest = Duration::ZERO;
        let mut work = Computation::new(assignor, kind, joining, &mut self.target);
        loop {
            let changes = work.step(&self.target, SLICE);
            longest = longest.max(start.elapsed());
            if changes.is_some() {
                return longest;
            }
            start = Instant::now();
        }
    }

    fn assign_theirs(
        &mut self,
        assignor: Assignor,
        kind: SubscriptionType,
        joining: Option<&str>,
        repeats: usize,
    ) -> Option<Outcome> {
        let kafka = self.kafka.as_mut()?;
        let kind = match kind {
            SubscriptionType::Homogeneous => "homogeneous",
            SubscriptionType::Heterogeneous => "heterogeneous",
        };
        let (assignor, joining) = (assignor.name(), joining.unwrap_or("-"));
        kafka.send(&format!("assign {assignor} {kind} {joining} {repeats}"));
        Some(kafka.outcome())
    }

    fn named(&self, change: &Change) -> (String, BTreeMap<[u8; 16], Vec<u32>>) {
        let mut topics: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for at in &change.partitions {
            topics.entry(self.target.topic_id(at.topic).0).or_default().push(at.partition);
        }
        (self.ids[change.member as usize].clone(), topics)
    }

    fn member(&self, id: &str) -> usize {
        self.members[id]
    }

    fn subscribe_ours(&mut self, member: usize, topics: &[usize]) {
        let topics: Vec<_> = topics.iter().map(|number| self.topic_index(*number)).collect();
        self.target.subscribe(member as MemberIndex, &topics);
    }

    fn topic_index(&mut self, number: usize) -> TopicIndex {
        let (id, partitions) = self.topics[number];
        let topic = self.target.topic(id);
        self.target.set_name(topic, &format!("topic-{number}"));
        self.target.set_partitions(topic, partitions);
        topic
    }

    fn topic_list(&self, topics: &[usize]) -> String {
        if topics.is_empty() || self.kafka.is_none() {
            return "-".to_owned();
        }
        let hex =
            |number: &usize| format!("{:032x}", u128::from_be_bytes(self.topics[*number].0.0));
        topics.iter().map(hex).collect::<Vec<_>>().join(",")
    }

    fn send(&mut self, line: impl FnOnce() -> String) {
        if let Some(kafka) = &mut self.kafka {
            kafka.send(&line());
        }
    }
}

/// The output function of splitmix64.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
