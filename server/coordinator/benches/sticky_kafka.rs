//! Compares muster's `sticky`, an assignor of tasks, with Kafka's own in the same run. The groups
//! are those of Kafka's benchmark (`StreamsStickyAssignorBenchmark`) and one of 10,000 members.
//! Prints a table of times. Checks that muster and Kafka place all tasks alike.
//!
//! ```text
//! MUSTER_KAFKA_JARS=DIR cargo bench -p muster-coordinator --bench sticky_kafka > table.md
//! ```
//!
//! `DIR` is described in `assignors_kafka.rs`. The times are medians of the assignor alone.
#![allow(clippy::unwrap_used)]

#[path = "kafka/java.rs"]
mod java;

use java::Java;
use muster_coordinator::assignors::order::VisitOrder;
use muster_coordinator::assignors::sticky::{Placed, Sticky, StickyMember, TaskNumber, TasksOf};
use std::time::{Duration, Instant};

const REPEATS: usize = 15;
const WARM_UPS: usize = 20;

/// The numbers of members, subtopologies, partitions of each subtopology, standbys, and members of
/// each process.
type Size = [u32; 5];

fn main() {
    let Some(jars) = std::env::var_os("MUSTER_KAFKA_JARS") else {
        println!("MUSTER_KAFKA_JARS is not set: see the head of sticky_kafka.rs");
        return;
    };
    let mut kafka = Java::start(jars.as_ref(), "KafkaSticky.java");
    for _ in 0..WARM_UPS {
        Group::new([1_000, 10, 100, 1, 50], &mut kafka).assign(&mut kafka);
    }
    println!(
        "| members | subtopologies | partitions of each | standbys | members of a process | event \
         | muster, us | Kafka, us | times faster |\n|---:|---:|---:|---:|---:|---|---:|---:|---:|"
    );
    for size in grid() {
        let mut group = Group::new(size, &mut kafka);
        let full = group.assign(&mut kafka);
        print(size, "full", full);
        group.join(&mut kafka);
        let incremental = group.assign(&mut kafka);
        print(size, "one joins", incremental);
    }
}

fn grid() -> Vec<Size> {
    let mut sizes = Vec::new();
    for members in [100, 1_000] {
        for [subtopologies, partitions] in [[10, 10], [10, 100], [100, 10], [100, 100]] {
            for (standbys, of_process) in [(0, 1), (0, 50), (1, 1), (1, 50)] {
                sizes.push([members, subtopologies, partitions, standbys, of_process]);
            }
        }
    }
    sizes.extend([[10_000, 10, 1_000, 0, 4], [10_000, 10, 1_000, 1, 4]]);
    sizes
}

fn print(size: Size, event: &str, [ours, kafkas]: [Duration; 2]) {
    let [ours, kafkas] = [ours, kafkas].map(|time| time.as_secs_f64() * 1e6);
    let [members, subtopologies, partitions, standbys, of_process] = size;
    println!(
        "| {members} | {subtopologies} | {partitions} | {standbys} | {of_process} | {event} \
         | {ours:.0} | {kafkas:.0} | {:.1} |",
        kafkas / ours
    );
}

/// A group that both muster and Kafka have. All its subtopologies are stateful.
struct Group {
    size: Size,
    /// The id of each member, and the id of its process.
    names: Vec<(String, String)>,
    order: VisitOrder,
    targets: Vec<Placed>,
}

impl Group {
    fn new(size: Size, kafka: &mut Java) -> Self {
        let words = size.map(|number| number.to_string());
        kafka.send(&format!("group {}", words.join(" ")));
        let mut group =
            Self { size, names: Vec::new(), order: VisitOrder::default(), targets: Vec::new() };
        for member in 0..size[0] {
            group.add(format!("process-{}", member / size[4]));
        }
        group
    }

    fn join(&mut self, kafka: &mut Java) {
        kafka.send("join");
        self.add("alone".to_owned());
    }

    fn add(&mut self, process: String) {
        let number = self.names.len();
        let member_id = format!("member-{number}");
        self.order.insert(number as u32, hash_code(&member_id), number as u64);
        self.names.push((member_id, process));
        self.targets.push(Placed::default());
    }

    /// Assigns all tasks with muster and with Kafka. Returns the two times. The placements must be
    /// equal, and the group adopts them.
    fn assign(&mut self, kafka: &mut Java) -> [Duration; 2] {
        let order = self.order.members(None);
        let members = order.iter().map(|number| {
            let (member_id, process) = &self.names[*number as usize];
            let had = &self.targets[*number as usize];
            StickyMember {
                id: member_id,
                hash: hash_code(member_id),
                process,
                process_hash: hash_code(process),
                active: had.active.clone(),
                standby: had.standby.clone(),
                offsets: Vec::new(),
            }
        });
        let members: Vec<_> = members.collect();
        let [_, subtopologies, partitions, standbys, _] = self.size;
        let tasks = vec![TasksOf { partitions, is_stateful: true }; subtopologies as usize];
        let mut times = Vec::new();
        let mut placed = Vec::new();
        for _ in 0..REPEATS {
            let start = Instant::now();
            let mut sticky = Sticky::new(&members, &tasks, standbys as usize);
            placed = sticky.step(usize::MAX).unwrap();
            times.push(start.elapsed());
        }
        times.sort_unstable();
        for (number, placed) in order.iter().zip(placed) {
            self.targets[*number as usize] = placed;
        }
        let (theirs, targets) = assigned(kafka, self.names.len(), partitions);
        assert!(self.targets == targets, "{:?}: another placement than Kafka's", self.size);
        [times[REPEATS / 2], theirs]
    }
}

/// The median time of Kafka's assignor, and the target of each member.
fn assigned(kafka: &mut Java, members: usize, partitions: u32) -> (Duration, Vec<Placed>) {
    kafka.send(&format!("assign {REPEATS}"));
    let mut time = Duration::ZERO;
    let mut targets = vec![Placed::default(); members];
    loop {
        let line = kafka.read();
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        match *fields {
            ["time", nanos] => time = Duration::from_nanos(nanos.parse().unwrap()),
            ["member", number, active, standby] => {
                let [active, standby] = [active, standby].map(|it| tasks(it, partitions));
                targets[number.parse::<usize>().unwrap()] = Placed { active, standby };
            }
            _ => return (time, targets),
        }
    }
}

/// The tasks in a list that Kafka printed, in ascending order.
fn tasks(list: &str, partitions: u32) -> Vec<TaskNumber> {
    let task = |task: &str| {
        let (subtopology, partition) = task.split_once('_').unwrap();
        subtopology.parse::<u32>().unwrap() * partitions + partition.parse::<u32>().unwrap()
    };
    let mut tasks: Vec<_> = list.split(',').filter(|it| *it != "-").map(task).collect();
    tasks.sort_unstable();
    tasks
}

/// Java's `String.hashCode` of an ASCII text.
fn hash_code(text: &str) -> u32 {
    text.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)))
}
