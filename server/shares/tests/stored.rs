//! A snapshot of states, together with the log after it, must produce the current states.

#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use muster_codec::records::ShareRecord;
use muster_codec::{Uuid, Wall};
use muster_shares::state::{Initialize, StatesWalk, Topics, Write};
use muster_shares::{SharePartitionKey, StateBatch, States};

const UPDATES_PER_SNAPSHOT: u32 = 5;
const KEYS: i32 = 12;

struct Everything;

impl Topics for Everything {
    fn has(&self, _: Uuid, _: i32) -> bool {
        true
    }
}

fn key(number: i32) -> SharePartitionKey {
    SharePartitionKey::new(["a", "b"][number as usize % 2], Uuid([1; 16]), number)
}

/// The states of a slot, and their log.
struct Slot {
    rng: Rng,
    states: States,
    log: Vec<ShareRecord<'static>>,
}

impl Slot {
    fn new(seed: u64) -> Self {
        let states = States::new(UPDATES_PER_SNAPSHOT);
        Self { rng: Rng::with_seed(seed), states, log: Vec::new() }
    }

    /// Makes a random change of one state: initializes it, writes it, reads it for a new leader, or
    /// deletes it. Or writes snapshots of several states.
    fn change(&mut self) {
        let Self { rng, states, log } = self;
        let (key, now) = (key(rng.i32(0..KEYS)), Wall(log.len() as i64));
        let records = match rng.u32(0..40) {
            0 => states.cold_snapshots(None, 5, 0, now).records,
            1..4 => states.delete(&key, &Everything).unwrap().into_iter().collect(),
            4..8 => {
                let (state_epoch, start_offset) = (rng.i32(3..6), rng.i64(-1..9));
                let request = Initialize { state_epoch, start_offset };
                let initialized = states.initialize(&key, request, &Everything, now);
                initialized.unwrap_or_default().into_iter().collect()
            }
            8..12 => {
                let read = states.read(&key, rng.i32(0..9), &Everything, now);
                read.map_or(Vec::new(), |(_, record)| record.into_iter().collect())
            }
            _ => {
                let first = rng.i64(0..40);
                let batch = StateBatch {
                    first,
                    last: first + rng.i64(0..5),
                    delivery_count: rng.i16(1..4),
                    delivery_state: rng.i8(0..3),
                };
                let write = Write {
                    leader_epoch: -1,
                    state_epoch: -1,
                    start_offset: *rng.choice(&[-1, -1, 3, 20]).unwrap(),
                    delivery_complete_count: rng.i32(0..9),
                    batches: &[batch],
                };
                states.change(&key, &write, now).into_iter().collect()
            }
        };
        records.iter().for_each(|record| states.replay(record));
        log.extend(records);
    }

    /// Writes a snapshot of the states while they change.
    fn write(&mut self, bytes: usize) -> Vec<u8> {
        let (mut walk, mut out) = (StatesWalk::default(), Vec::new());
        while !walk.is_complete() {
            self.states.write_chunk(&mut walk, self.log.len() as i64, bytes, &mut out);
            for _ in 0..self.rng.u32(0..6) {
                self.change();
            }
        }
        out
    }

    /// Checks that a snapshot, with the log from an offset on, produces the current states.
    fn check(&self, bytes: &[u8], from: usize) {
        let mut found = States::new(UPDATES_PER_SNAPSHOT);
        let ends = found.read_chunks(bytes).unwrap();
        for (offset, record) in self.log.iter().enumerate().skip(from) {
            if !ends.have(record, offset as i64) {
                found.replay(record);
            }
        }
        assert!(found.iter().eq(self.states.iter()), "{found:#?}\nbut {:#?}", self.states);
    }
}

#[test]
fn a_snapshot_and_the_log_from_any_offset_before_it_make_the_states() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut slot = Slot::new(seed);
        for _ in 0..slot.rng.u32(0..200) {
            slot.change();
        }
        let begun_at = slot.log.len();
        let bytes = slot.rng.usize(1..400);
        let stored = slot.write(bytes);
        for _ in 0..slot.rng.u32(0..20) {
            slot.change();
        }
        slot.check(&stored, slot.rng.clone().usize(0..=begun_at));
    }
}

#[test]
fn bytes_that_are_cut_or_changed_are_no_states_or_others() {
    let mut slot = Slot::new(1);
    while slot.states.iter().count() < 5 {
        slot.change();
    }
    let stored = slot.write(100);
    for len in 0..stored.len() {
        let mut found = States::new(UPDATES_PER_SNAPSHOT);
        let is_chunks = found.read_chunks(&stored[..len]).is_ok();
        assert!(!is_chunks || found.iter().count() < 5, "{len} bytes");
        let mut changed = stored.clone();
        changed[len] ^= 0x80;
        // Any result is accepted: the file's checksum would find the change. The call must not
        // panic.
        let _ = States::new(UPDATES_PER_SNAPSHOT).read_chunks(&changed);
    }
}
