//! Random orders of hellos, writes, restarts and emptied disks.

use super::*;
use muster_peers::{Hello, check};
use std::collections::BTreeSet;

/// A small source of numbers that repeats from its seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// The most answers that are on their way.
const ANSWERS_MAX: usize = 6;

struct Machine {
    disk: Disk,
    /// None while the process does not run, or when the node is formed.
    forming: Option<Forming>,
    is_running: bool,
    starts: u64,
}

struct World {
    machines: BTreeMap<NodeId, Machine>,
    numbers: Numbers,
    /// Whether all processes choose the same id, as with CLUSTER_ID.
    has_fixed_id: bool,
    directories: u8,
    ids: u32,
    /// Answers on their way: to a process of a node, by its number, from another node.
    answers: Vec<([NodeId; 2], u64, Hello)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let machine = |id: NodeId| {
            let disk = Disk::empty(id.0 as u8);
            (id, Machine { disk, forming: None, is_running: false, starts: 0 })
        };
        let mut world = Self {
            machines: IDS.into_iter().map(machine).collect(),
            numbers: Numbers(seed),
            has_fixed_id: seed % 2 == 1,
            directories: 3,
            ids: 0,
            answers: Vec::new(),
        };
        IDS.into_iter().for_each(|it| world.start(it));
        world
    }

    fn machine(&mut self, id: NodeId) -> &mut Machine {
        self.machines.get_mut(&id).unwrap()
    }

    fn start(&mut self, id: NodeId) {
        self.ids += 1;
        let proposed = if self.has_fixed_id { "X".to_owned() } else { format!("X{}", self.ids) };
        let machine = self.machine(id);
        machine.starts += 1;
        let session = u64::from(id.0) << 32 | machine.starts;
        let forming = machine.disk.start(id, session, &proposed);
        machine.forming = (!machine.disk.is_formed).then_some(forming);
        machine.is_running = true;
    }

    fn stop(&mut self, id: NodeId) {
        let machine = self.machine(id);
        (machine.forming, machine.is_running) = (None, false);
    }

    fn empty(&mut self, id: NodeId) {
        self.stop(id);
        self.directories += 1;
        self.machine(id).disk = Disk::empty(self.directories);
    }

    /// The answer of a node. A formed one answers by its shards.
    fn answer_of(&self, id: NodeId, hello: &Hello) -> Option<Hello> {
        let machine = &self.machines[&id];
        match &machine.forming {
            _ if !machine.is_running => None,
            Some(forming) => Some(forming.answer_to(hello).0),
            None => {
                let own = machine.disk.own(id, machine.starts);
                let directory = own.directories.get(&hello.from.node).copied();
                let checked = check(&own.identity(0), hello, None, directory);
                let refusal = checked.err().map_or(0, |it| it.number());
                let to = (hello.from.node, hello.from.shard);
                Some(Hello { from: own.identity(0), to, refusal })
            }
        }
    }

    /// A node says hello to another one. The answer is on its way then.
    fn dial(&mut self, [id, other]: [NodeId; 2]) {
        let Machine { forming: Some(forming), starts, .. } = &self.machines[&id] else { return };
        let (hello, starts) = (forming.hello_to(other), *starts);
        match self.answer_of(other, &hello) {
            Some(answer) => {
                self.answers.push(([id, other], starts, answer));
                // Some never arrive.
                if self.answers.len() > ANSWERS_MAX {
                    self.answers.remove(0);
                }
            }
            None => self.machine(id).forming.as_mut().unwrap().unheard(other, "refused"),
        }
    }

    fn deliver(&mut self, at: usize) {
        let ([id, other], starts, answer) = self.answers.swap_remove(at);
        let machine = self.machine(id);
        if let Some(forming) = machine.forming.as_mut().filter(|_| machine.starts == starts) {
            let _ = forming.answered(other, answer);
        }
    }

    /// Performs what is due at a node. It may crash before the write, after it, or not at all.
    fn perform(&mut self, id: NodeId, may_crash: bool) {
        let crash = if may_crash { self.numbers.below(6) } else { 5 };
        let machine = self.machine(id);
        let Some(due) = machine.forming.as_ref().and_then(Forming::due) else { return };
        match Some(due).filter(|_| crash > 0) {
            None => {}
            Some(Action::Record { cluster_id, nodes }) => {
                machine.disk.formation = Some((cluster_id.clone(), nodes.clone()));
                machine.forming.as_mut().unwrap().recorded(cluster_id, nodes);
            }
            Some(Action::Complete) => {
                machine.disk.is_formed = true;
                machine.forming = None;
                self.check();
            }
        }
        if crash < 2 {
            self.stop(id);
        }
    }

    fn step(&mut self, may_empty: bool) {
        let id = IDS[self.numbers.below(3)];
        let other = IDS[self.numbers.below(3)];
        match self.numbers.below(120) {
            0 => self.stop(id),
            1 if may_empty => self.empty(id),
            2..12 if !self.machine(id).is_running => self.start(id),
            12..40 => self.perform(id, true),
            40..80 if !self.answers.is_empty() => {
                let at = self.numbers.below(self.answers.len());
                self.deliver(at);
            }
            _ if id != other => self.dial([id, other]),
            _ => {}
        }
    }

    /// Faults have ended: all nodes run, and hear each other.
    fn calm(&mut self) {
        self.answers.clear();
        for _ in 0..6 {
            for id in IDS {
                if !self.machine(id).is_running {
                    self.start(id);
                }
                for other in IDS.into_iter().filter(|it| *it != id) {
                    self.dial([id, other]);
                    while !self.answers.is_empty() {
                        self.deliver(0);
                    }
                }
                self.perform(id, false);
            }
        }
    }

    /// All formed nodes have the same cluster.
    fn check(&self) {
        let formed = self.machines.values().filter(|it| it.disk.is_formed);
        let clusters: BTreeSet<_> = formed.map(|it| it.disk.formation.as_ref().unwrap()).collect();
        assert!(clusters.len() <= 1, "{clusters:?}");
    }

    fn formed(&self) -> usize {
        self.machines.values().filter(|it| it.disk.is_formed).count()
    }
}

#[test]
fn after_any_crashes_one_cluster_is_formed() {
    for seed in 0..3_000 {
        let mut world = World::new(seed);
        let steps = world.numbers.below(600);
        (0..steps).for_each(|_| world.step(false));
        world.calm();
        assert_eq!(world.formed(), 3, "seed {seed}");
    }
}

#[test]
fn with_emptied_disks_never_two_clusters_are_formed() {
    let (mut formed, mut halves) = (0, 0);
    for seed in 0..3_000 {
        let mut world = World::new(seed);
        let steps = world.numbers.below(600);
        (0..steps).for_each(|_| world.step(true));
        world.calm();
        match world.formed() {
            3 => formed += 1,
            0 => {}
            _ => halves += 1,
        }
    }
    assert!(formed > 150 && halves > 150, "{formed} clusters, {halves} that lack a node");
}

#[test]
fn each_node_may_restart_in_each_turn_in_each_order() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders.map(|it| it.map(|at: usize| IDS[at])) {
        for (node, crash) in IDS.into_iter().flat_map(|it| (0..8).map(move |crash| (it, crash))) {
            let mut world = World::new(0);
            for turn in 0..8 {
                for id in order {
                    if id == node && turn == crash {
                        world.stop(id);
                        world.start(id);
                    }
                    for other in order.into_iter().filter(|it| *it != id) {
                        world.dial([id, other]);
                        while !world.answers.is_empty() {
                            world.deliver(0);
                        }
                    }
                    world.perform(id, false);
                }
            }
            assert_eq!(world.formed(), 3, "{order:?} {node:?} {crash}");
        }
    }
}
