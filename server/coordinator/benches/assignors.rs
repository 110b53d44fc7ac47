//! Times of muster's assignors, on the grid of Kafka's own benchmark. `assignors_kafka` also
//! measures Kafka's.
#![allow(clippy::unwrap_used)]

#[path = "kafka/driver.rs"]
#[allow(dead_code, reason = "the other side is Kafka's")]
mod driver;
#[path = "kafka/scenario.rs"]
mod scenario;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use muster_coordinator::assignors::Computation;
use scenario::{KINDS, SIZES, Scenario};

fn assignors(criterion: &mut Criterion) {
    for kind in KINDS {
        let mut group = criterion.benchmark_group(kind.name);
        group.sample_size(10);
        for size in SIZES {
            let mut scenario = Scenario::new(size, kind, None);
            for event in ["full", "one joins", "many leave", "partitions added"] {
                match event {
                    "one joins" => scenario.one_joins(),
                    "many leave" => drop(scenario.many_leave()),
                    "partitions added" => scenario.partitions_are_added(),
                    _ => {}
                }
                let name = format!("{} members, {} partitions", size.members, size.partitions);
                group.bench_function(BenchmarkId::new(event, name), |bencher| {
                    let target = &mut scenario.group.target;
                    let (assignor, of) = (kind.assignor, kind.subscriptions);
                    bencher.iter(|| Computation::new(assignor, of, None, target).finish(target));
                });
                scenario.assign(1);
            }
        }
    }
}

criterion_group!(benches, assignors);
criterion_main!(benches);
