//! Random histories with crashes at writes. They must find some injected faults.

use super::*;
use crate::injected::{Injected, inject};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) const GROUPS: [u16; 3] = [0, 1, 2];
const STEPS: usize = 60;

/// The number of seeds in a run. Each injected fault must be found with at least one of them.
const SEEDS: u64 = 60;

/// A small generator of numbers (splitmix64), so that a run depends on its seed alone.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    pub(super) fn value(&mut self) -> Vec<u8> {
        let length = 1 + self.below(300) as usize;
        (0..length).map(|_| self.below(256) as u8).collect()
    }

    /// A partition of a group.
    pub(super) fn partition(&mut self, group: u16) -> LogPartition {
        match group {
            0 => IMAGE,
            _ => {
                let slot = u32::from(group) - 1;
                [partition(0, slot), partition(1, slot), partition(1, slot + SLOTS)]
                    [self.below(3) as usize]
            }
        }
    }
}

pub(super) struct Story {
    pub(super) node: Node,
    pub(super) random: Random,
    pub(super) term: u32,
}

impl Story {
    fn new(seed: u64) -> Self {
        Self::of(Node::new(), seed)
    }

    pub(super) fn of(node: Node, seed: u64) -> Self {
        Self { node, random: Random(seed), term: 1 }
    }

    pub(super) fn step(&mut self) {
        let group = GROUPS[self.random.below(3) as usize];
        match self.random.below(12) {
            0..4 => {
                let (partition, value) = (self.random.partition(group), self.random.value());
                self.node.append(partition, &value);
            }
            4..6 => self.node.propose(self.term),
            6 => self.overwrite(group),
            7 => self.commit(group),
            8..10 => {
                self.node.propose(self.term);
                self.node.seal();
            }
            10 => {
                self.node.settle();
                self.node.check_reads();
                self.node.check_fetches();
            }
            _ => self.crash(),
        }
        self.node.check();
    }

    /// Writes entries as a follower. A leader of a later term made them; they replace uncommitted
    /// ones.
    pub(super) fn overwrite(&mut self, group: u16) {
        self.node.log.discard(group);
        self.node.open.remove(&group);
        let last = self.node.log.last_entry(group).index;
        let first = self.node.commits.get(&group).copied().unwrap_or(0) + 1;
        let from = first + self.random.below(last + 2 - first);
        self.term += 1;
        for index in from..=from + self.random.below(3) {
            let records: Vec<_> = (0..self.random.below(3))
                .map(|_| (self.random.partition(group), self.random.value()))
                .collect();
            let records: Vec<_> = records.iter().map(|(at, value)| (*at, &value[..])).collect();
            self.node.follow(group, index, self.term, &records);
        }
    }

    pub(super) fn commit(&mut self, group: u16) {
        let last = self.node.log.last_entry(group).index;
        let commit = self.node.commits.get(&group).copied().unwrap_or(0);
        let index = commit + self.random.below(last + 1 - commit);
        self.node.commit(group, index);
    }

    /// Ends the process at one of the next writes. The block in flight is lost, torn or kept.
    fn crash(&mut self) {
        let mut flushed = self.node.log.flushed_block();
        let mut ops = Vec::new();
        self.node.log.poll(2_000, &mut ops);
        for op in ops {
            if !is_block(&op) {
                self.node.disk.perform(op);
                continue;
            }
            let FileOp::Write { data, .. } = &op else { unreachable!("a write") };
            let (blocks, kept) = (data.len() as u64 / 512, self.random.below(3));
            let whole = match kept {
                0 => 0,
                1 => self.random.below(blocks),
                _ => blocks,
            };
            self.node.disk.tear(&op, 512, |block| (block as u64) < whole);
            flushed += u64::from(whole == blocks);
        }
        self.node.restart(flushed);
        self.term += 1;
    }
}

fn run(seed: u64) {
    let mut story = Story::new(seed);
    for _ in 0..STEPS {
        story.step();
    }
    story.node.propose(story.term);
    story.node.seal();
    story.node.settle();
    for group in GROUPS {
        story.node.commit(group, story.node.log.last_entry(group).index);
    }
    story.node.check_reads();
}

#[test]
fn random_histories_keep_what_is_committed() {
    run_seeds(SEEDS, run);
}

/// The first seed that finds a fault.
pub(super) fn found_by(fault: Injected, run: fn(u64)) -> Option<u64> {
    inject(Some(fault));
    let is_found = |seed: &u64| catch_unwind(AssertUnwindSafe(|| run(*seed))).is_err();
    let found = (0..SEEDS).find(is_found);
    inject(None);
    found
}

/// Runs this number of seeds, or the number in `MUSTER_REPLICATED_LOG_SEEDS`.
pub(super) fn run_seeds(seeds: u64, run: fn(u64)) {
    let wanted = std::env::var("MUSTER_REPLICATED_LOG_SEEDS").ok();
    let seeds = wanted.map_or(seeds, |wanted| wanted.parse().unwrap());
    for seed in 0..seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn each_fault_is_found() {
    for fault in [Injected::VoidReplayed, Injected::OffsetsNotSetBack] {
        let found = found_by(fault, run);
        assert!(found.is_some(), "{fault:?} is not found");
        println!("{fault:?}: seed {found:?}");
    }
}
