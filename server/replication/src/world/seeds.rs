//! Random worlds.

use super::defects::Defect;
use super::machine::EXACT;
use super::moves::Moves;
use super::{World, groups};
use crate::{Group, NodeId};
use std::collections::BTreeMap;

/// The first seed, if the environment names one. A failure prints its seed as this variable.
pub(crate) const SEED: &str = "MUSTER_REPLICATION_SEED";

/// The number of seeds, unless the environment says otherwise.
const SEEDS: u64 = 6;

/// The simulated time of a seed, in milliseconds, before its faults end.
const TIME: u64 = 10_000;

/// A number in the environment.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |it| it.parse().unwrap())
}

/// Whether the environment names a seed. Only this seed is run, unless a number of seeds is named,
/// too. The tests expect certain events of several seeds together, but not of one alone.
pub(crate) fn is_replay() -> bool {
    std::env::var_os(SEED).is_some()
}

/// A random world with its clients. Has the time at which each process is started again, and the
/// time at which each cut link is mended.
struct Faults {
    world: World,
    moves: Option<Moves>,
    payload: u64,
    up_at: BTreeMap<NodeId, u64>,
    healed_at: BTreeMap<(NodeId, NodeId), u64>,
}

impl Faults {
    fn new(seed: u64, defect: Option<Defect>, moves: bool) -> Self {
        let mut world = World::of(seed, if moves { 4 } else { 3 }, defect);
        for machine in world.machines.values_mut() {
            machine.rate = world.random.u64(EXACT * 95 / 100..=EXACT * 105 / 100);
        }
        let moves = moves.then(Moves::default);
        let (up_at, healed_at) = (BTreeMap::new(), BTreeMap::new());
        Self { world, moves, payload: 0, up_at, healed_at }
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.world.random.u64(..number) == 0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.world.now + self.world.random.u64(..limit)
    }

    fn any_node(&mut self) -> NodeId {
        let nodes = self.world.nodes();
        nodes[self.world.random.usize(..nodes.len())]
    }

    fn any_group(&mut self) -> Group {
        let groups: Vec<Group> = groups().collect();
        groups[self.world.random.usize(..groups.len())]
    }

    fn step(&mut self) {
        self.world.step();
        self.load();
        if self.one_in(400) {
            let node = self.any_node();
            let limit = if self.one_in(8) { 3_000 } else { 200 };
            let until = self.below(limit);
            self.world.machines.get_mut(&node).unwrap().hangs = until;
        }
        if self.one_in(1_200) {
            let (node, kept) = (self.any_node(), self.one_in(2));
            if self.world.node(node).is_some() {
                self.world.crash(node, kept);
                let at = self.below(1_500) + 10;
                self.up_at.insert(node, at);
            }
        }
        if self.one_in(2_000) {
            let node = self.any_node();
            let range = if self.one_in(3) { 0..3_000 } else { 800..1_100 };
            let pause = self.world.random.u64(range);
            self.world.pause(node, pause);
        }
        if self.one_in(1_000) {
            let node = self.any_node();
            self.world.lose_harmless_block(node);
        }
        self.break_links();
        self.hand_over();
        self.heal();
        self.drive(true);
    }

    fn drive(&mut self, begins: bool) {
        if let Some(moves) = self.moves.as_mut().filter(|_| self.world.now.is_multiple_of(10)) {
            moves.drive(&mut self.world, begins);
        }
    }

    /// Ends the faults, and waits until the moves have ended and all replicas are in step.
    fn settle(&mut self) {
        self.world.end_faults();
        for _ in 0..10_000 {
            if self.moves.as_ref().is_none_or(Moves::is_idle) {
                break;
            }
            self.world.step();
            self.drive(false);
        }
        if let Some(moves) = self.moves.as_ref().filter(|it| !it.is_idle()) {
            let left = moves.describe(&self.world);
            self.world.judge.fault(format!("left over: {left}"));
        }
        self.world.settle();
    }

    /// Records, reads, and snapshots of the nodes.
    fn load(&mut self) {
        for _ in 0..2 {
            let (node, group) = (self.any_node(), self.any_group());
            if self.one_in(4) {
                self.payload += 1;
                self.world.propose(node, group, &self.payload.to_le_bytes());
            }
        }
        let (node, group) = (self.any_node(), self.any_group());
        if self.one_in(30) {
            self.world.read(node, group);
        }
        let may_begin = self.one_in(60);
        self.world.with(node, |it, judge| it.snapshot(group, may_begin, judge));
    }

    fn break_links(&mut self) {
        let (from, to) = (self.any_node(), self.any_node());
        if from != to && self.one_in(300) {
            self.world.reset(from, to);
        }
        if from != to && self.one_in(200) {
            self.world.drop_frame(from, to);
        }
        if from != to && self.one_in(600) {
            self.world.cut(from, to, true);
            let at = self.below(3_000);
            self.healed_at.insert((from, to), at);
        }
        if self.one_in(2_500) {
            self.world.isolate(from, true);
            let at = self.below(3_000) + 1_000;
            for other in self.world.others(from) {
                self.healed_at.insert((from, other), at);
                self.healed_at.insert((other, from), at);
            }
        }
    }

    fn hand_over(&mut self) {
        let (group, to) = (self.any_group(), self.any_node());
        let leader = self.world.leader(group);
        if let Some(leader) = leader.filter(|_| self.one_in(500)) {
            self.world.with(leader, |it, judge| {
                it.propose(group, judge);
                // A transfer is refused now and then: the replica may not be in step.
                let _ = it.call(judge, |replicas, out| replicas.transfer(group, to, out));
            });
        }
    }

    fn heal(&mut self) {
        let now = self.world.now;
        let is_due = |at: &mut u64| *at <= now;
        let up: Vec<_> = self.up_at.extract_if(.., |_, at| is_due(at)).collect();
        up.into_iter().for_each(|(node, _)| self.world.start(node));
        let healed: Vec<_> = self.healed_at.extract_if(.., |_, at| is_due(at)).collect();
        healed.into_iter().for_each(|((from, to), _)| self.world.cut(from, to, false));
    }
}

/// Runs a seed. The error is the first fault that was found, or the message of a panic.
pub(crate) fn run(
    seed: u64,
    defect: Option<Defect>,
    moves: bool,
) -> Result<(World, Moves), String> {
    let run = || {
        let mut faults = Faults::new(seed, defect, moves);
        for _ in 0..TIME {
            faults.step();
            if faults.world.fault().is_some() {
                return (faults.world, Moves::default());
            }
        }
        faults.settle();
        (faults.world, faults.moves.unwrap_or_default())
    };
    let (world, moves) = std::panic::catch_unwind(run).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!("a panic: {}", text.unwrap_or_default())
    })?;
    world.fault().map_or(Ok((world, moves)), Err)
}

/// Runs the seeds that the environment names, and sums up what happened in them.
fn run_seeds(moves: bool) -> Sums {
    let first = number(SEED, 0);
    let seeds = number("MUSTER_REPLICATION_SEEDS", if is_replay() { 1 } else { SEEDS });
    let mut sums = Sums::default();
    for seed in first..first + seeds {
        let (world, moves) =
            run(seed, None, moves).unwrap_or_else(|fault| panic!("{SEED}={seed}: {fault}"));
        sums.commits += groups().map(|it| world.judge.top(it).0).sum::<u64>();
        sums.early_commits += world.judge.early_commits;
        sums.answers += world.judge.answers;
        sums.confirmed += world.confirmed;
        sums.read_by_entry += world.judge.read_by_entry;
        sums.lost_blocks += world.lost_blocks;
        sums.longest_overlap = sums.longest_overlap.max(world.judge.longest_overlap);
        sums.strangers += world.strangers;
        sums.moves += moves.finished;
        sums.cancelled += moves.cancelled;
    }
    println!("{sums:?}");
    sums
}

#[derive(Debug, Default)]
struct Sums {
    commits: u64,
    /// The commits before the leader's own flush.
    early_commits: u64,
    answers: u64,
    /// The reads that a round has confirmed, and those that an entry has confirmed.
    confirmed: u64,
    read_by_entry: u64,
    lost_blocks: u64,
    /// The longest time for which a group had two leaders, in milliseconds.
    longest_overlap: u64,
    /// The messages whose receiver did not know the sending replica.
    strangers: u64,
    moves: u64,
    cancelled: u64,
}

#[test]
fn random_worlds_keep_what_is_committed() {
    let sums = run_seeds(false);
    let is_busy = sums.commits > 1_000 && sums.early_commits > 0 && sums.confirmed > 0;
    let is_busy = is_busy && sums.lost_blocks > 0 && sums.read_by_entry > 0;
    assert!(is_busy || is_replay(), "{sums:?}");
}

#[test]
fn random_worlds_move_replicas() {
    let sums = run_seeds(true);
    let is_busy = sums.commits > 1_000 && sums.moves > 0 && sums.cancelled > 0;
    assert!(is_busy || is_replay(), "{sums:?}");
}
