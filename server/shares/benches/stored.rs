//! The time to write and read 100,000 states of share partitions in the form of a snapshot.

#![allow(clippy::unwrap_used)]

use muster_codec::{Uuid, Wall};
use muster_shares::state::{Initialize, StatesWalk, Topics, Write};
use muster_shares::{SharePartitionKey, StateBatch, States};

struct Everything;

impl Topics for Everything {
    fn has(&self, _: Uuid, _: i32) -> bool {
        true
    }
}

fn main() {
    let mut states = States::new(500);
    let batches = [0, 10].map(|first| StateBatch {
        first,
        last: first + 4,
        delivery_count: 1,
        delivery_state: 2,
    });
    for number in 0..100_000 {
        let key = SharePartitionKey::new(format!("group-{}", number % 100), Uuid([1; 16]), number);
        let request = Initialize { state_epoch: 1, start_offset: 0 };
        let record = states.initialize(&key, request, &Everything, Wall(0)).unwrap().unwrap();
        states.replay(&record);
        let write = Write {
            leader_epoch: 0,
            state_epoch: 1,
            start_offset: -1,
            delivery_complete_count: 10,
            batches: &batches,
        };
        let record = states.change(&key, &write, Wall(0)).unwrap();
        states.replay(&record);
    }
    let began = std::time::Instant::now();
    let (mut walk, mut out, mut slices) = (StatesWalk::default(), Vec::new(), 0);
    while !walk.is_complete() {
        states.write_chunk(&mut walk, 0, 64 << 10, &mut out);
        slices += 1;
    }
    let (written, began) = (began.elapsed(), std::time::Instant::now());
    let mut found = States::new(500);
    found.read_chunks(&out).unwrap();
    println!(
        "{} bytes in {slices} slices: written in {written:?}, read in {:?}",
        out.len(),
        began.elapsed()
    );
    assert!(found.iter().eq(states.iter()));
}
