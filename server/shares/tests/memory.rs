//! The memory of share partitions.

#![allow(clippy::unwrap_used)]

use muster_codec::{Uuid, Wall};
use muster_shares::partition::{AcquireMode, Fetched, LogBatch, Wanted};
use muster_shares::state::{Initialize, Topics};
use muster_shares::{Settings, SharePartition, SharePartitionKey, States};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

struct OneTopic;

impl Topics for OneTopic {
    fn has(&self, _: Uuid, _: i32) -> bool {
        true
    }
}

const SETTINGS: Settings = Settings {
    record_lock_duration_ms: 30_000,
    delivery_count_limit: 5,
    partition_max_record_locks: 10_000,
    renew_acknowledge_enable: true,
    has_dead_letters: false,
};

#[test]
fn an_idle_share_partition_is_below_a_kibibyte_and_ten_thousand_records_below_64() {
    let count = 1_000;
    let before = MEMORY.current_usage();
    let mut states = States::new(500);
    let mut open = Vec::with_capacity(count);
    for number in 0..i32::try_from(count).unwrap() {
        let key = SharePartitionKey::new("orders-of-a-shop", Uuid([1; 16]), number);
        let request = Initialize { state_epoch: 1, start_offset: 0 };
        let record = states.initialize(&key, request, &OneTopic, Wall(0)).unwrap().unwrap();
        states.replay(&record);
        open.push(SharePartition::open(states.get(&key).unwrap(), 0).unwrap());
    }
    let idle = (MEMORY.current_usage() - before) / count;
    assert!(idle < 1_024, "an idle share partition has {idle} bytes");

    let batches: Vec<_> =
        (0..1_000).map(|it| LogBatch { base: it * 10, last: it * 10 + 9 }).collect();
    let before = MEMORY.current_usage();
    let fetched = Fetched { offset: 0, batches: &batches, aborted: &[] };
    let wanted = Wanted {
        member: "2d1f2ac0-8a3c-4e6b-9a59-5a9f7e1b7c11",
        mode: AcquireMode::BatchOptimized,
        max_records: 10_000,
        batch_size: 10,
    };
    let acquired = open[0].acquire(&wanted, &fetched, &SETTINGS, 0).len();
    assert_eq!((acquired, open[0].in_flight_count()), (1_000, 10_000));
    let in_flight = MEMORY.current_usage() - before;
    assert!(in_flight < 64 << 10, "10,000 records in batches of 10 have {in_flight} bytes");
}
