//! Compares muster's assignors with Kafka's own, on the same groups in the same run. Prints a table
//! of times, balance and moved partitions.
//!
//! ```text
//! MUSTER_KAFKA_JARS=DIR cargo bench -p muster-coordinator --bench assignors_kafka > table.md
//! ```
//!
//! `DIR` is the folder with the jars of kafka-group-coordinator 4.3.0 and its dependencies (`mvn
//! dependency:copy-dependencies`). A JDK of 17 or later is needed. The times are medians. Kafka's
//! are those of the assignor alone: they do not include that Kafka's coordinator copies the members
//! into maps before, and compares the assignments after. muster's times include finding the
//! changes.
#![allow(clippy::unwrap_used)]

#[path = "kafka/driver.rs"]
#[allow(dead_code, reason = "the random test uses the rest")]
mod driver;
#[path = "kafka/scenario.rs"]
mod scenario;

use driver::{Kafka, Targets};
use scenario::{KINDS, Kind, SIZES, Scenario, Size};
use std::time::Duration;

const HEAD: &str = "\
| members | partitions | event | muster, us | its longest slice, us | Kafka, us | times faster \
| moved: muster, Kafka | spread: muster, Kafka | placement |
|---:|---:|---|---:|---:|---:|---:|---:|---:|---|";

const REPEATS: usize = 15;
const WARM_UP_REPEATS: usize = 100;

fn main() {
    let Some(jars) = std::env::var_os("MUSTER_KAFKA_JARS") else {
        println!("MUSTER_KAFKA_JARS is not set: see the head of assignors_kafka.rs");
        return;
    };
    let mut kafka = Kafka::start(jars.as_ref());
    for kind in KINDS {
        let size = Size { members: 1_000, topics: 100, partitions: 10_000 };
        let mut warm_up = Scenario::new(size, kind, Some(kafka));
        for _ in 0..3 {
            warm_up.assign(WARM_UP_REPEATS);
            warm_up.partitions_are_added();
        }
        kafka = warm_up.group.kafka.take().unwrap();
    }
    for kind in KINDS {
        println!("\n## {}\n", kind.name);
        println!("{HEAD}");
        for size in SIZES {
            kafka = run(size, kind, kafka);
        }
    }
}

fn run(size: Size, kind: Kind, kafka: Kafka) -> Kafka {
    let mut scenario = Scenario::new(size, kind, Some(kafka));
    let mut sides = [Side::default(), Side::default()];
    for event in ["full", "one joins", "a tenth leaves", "a tenth more partitions"] {
        match event {
            "one joins" => scenario.one_joins(),
            "a tenth leaves" => {
                for id in scenario.many_leave() {
                    sides.iter_mut().for_each(|side| drop(side.targets.remove(&id)));
                }
            }
            "a tenth more partitions" => scenario.partitions_are_added(),
            _ => {}
        }
        let (ours, theirs) = scenario.assign(REPEATS);
        let theirs = theirs.unwrap();
        let (our_time, their_time) = (micros(ours.time), micros(theirs.time));
        let slice = micros(ours.slice);
        sides[0].take(ours.changes);
        sides[1].take(theirs.changes);
        let [ours, theirs] = &sides;
        println!(
            "| {} | {} | {event} | {our_time:.1} | {slice:.1} | {their_time:.1} | {:.1} \
             | {}, {} | {}, {} | {} |",
            size.members,
            size.partitions,
            their_time / our_time,
            ours.moved,
            theirs.moved,
            ours.spread(),
            theirs.spread(),
            if ours.targets == theirs.targets { "the same" } else { "differs" },
        );
    }
    scenario.group.kafka.take().unwrap()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The results of muster or of Kafka.
#[derive(Default)]
struct Side {
    targets: Targets,
    /// The number of partitions that the last computation took from members that remained.
    moved: usize,
}

impl Side {
    fn take(&mut self, changes: Targets) {
        self.moved = 0;
        for (member, topics) in changes {
            if let Some(had) = self.targets.get(&member) {
                self.moved +=
                    had.iter().map(|(topic, had)| lost(had, topics.get(topic))).sum::<usize>();
            }
            self.targets.insert(member, topics);
        }
    }

    /// The balance: how many more partitions the member with the most has than that with the
    /// fewest.
    fn spread(&self) -> usize {
        let sizes =
            self.targets.values().map(|topics| topics.values().map(Vec::len).sum::<usize>());
        let (most, least) = (sizes.clone().max(), sizes.min());
        most.unwrap_or(0) - least.unwrap_or(0)
    }
}

fn lost(had: &[u32], has: Option<&Vec<u32>>) -> usize {
    had.iter().filter(|it| has.is_none_or(|has| has.binary_search(it).is_err())).count()
}
