//! A world of three nodes: their disks, links and clocks are simulated, and they fail in every way
//! that real ones do. The crate is called through its interface alone.
//!
//! `node` performs the outputs of the crate, and has a toy machine for each group. `disk` is the
//! log of a node, and what recovery finds in it. `links` has the messages on their way. `judge`
//! decides from the disks what is committed. `moves` replaces replicas. `scripts` has single
//! stories, and `seeds` random ones. The world passes in steps of a millisecond.

mod disk;
mod judge;
mod links;
mod moves;
mod node;
mod scripts;
mod seeds;

use crate::{
    Base, BlockNumber, Group, Index, Lie, Members, NodeId, Record, ReplicaId, Round, Session, Term,
};
use disk::{Block, Written};
use judge::Judge;
use links::{Link, OnTheWay};
use moves::Placements;
use node::{Node, SLOTS};
use std::collections::BTreeMap;

pub(crate) const TICK: u64 = 50;

/// An election timeout in milliseconds.
pub(crate) const E: u64 = 20 * TICK;

/// The time that the snapshot of a group needs to its receiver.
const RESTORE: u64 = 20;

/// A defect that a seed has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Blocks are reported as durable before they are: injected faults 1 and 2.
    EarlyFlush,
    /// Votes are not written: injected fault 3.
    LostVotes,
    /// Terms are not written: injected fault 4.
    LostTerms,
    /// A deposed leader keeps what it has applied: injected fault 7.
    NoUndo,
    /// A new process has the session of the older one: injected fault 16.
    KeptSession,
}

/// A node, or its disk while it is down.
pub(crate) struct Machine {
    pub(crate) node: Option<Node>,
    pub(crate) disk: Vec<Block>,
    starts: u64,
    /// The time until which the disk hangs, and at which the block in flight is durable.
    pub(crate) hangs: u64,
    flush_at: u64,
    ticks: u64,
    heard: BTreeMap<NodeId, u64>,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: fastrand::Rng,
    pub(crate) machines: BTreeMap<NodeId, Machine>,
    links: BTreeMap<(NodeId, NodeId), Link>,
    pub(crate) judge: Judge,
    pub(crate) placed: Placements,
    defect: Option<Defect>,
    restores: Vec<(u64, NodeId, Group, ReplicaId)>,
    /// The reads in progress: whether the reader had the last committed entry when it evaluated.
    reads: BTreeMap<(NodeId, Session, Group, Round), bool>,
    pub(crate) confirmed: u64,
    pub(crate) lies: Vec<Lie>,
}

pub(crate) fn replica(generation: u64, node: u16) -> ReplicaId {
    ReplicaId::new(generation, NodeId(node))
}

pub(crate) fn groups() -> impl Iterator<Item = Group> {
    (0..=SLOTS).map(Group)
}

impl World {
    /// Three nodes after the formation of their cluster.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_defect(seed, None)
    }

    pub(crate) fn with_defect(seed: u64, defect: Option<Defect>) -> Self {
        Self::of(seed, 3, defect)
    }

    /// A cluster of three nodes. Any further nodes have no replica.
    pub(crate) fn of(seed: u64, nodes: u16, defect: Option<Defect>) -> Self {
        let mut world = Self {
            now: 0,
            random: fastrand::Rng::with_seed(seed),
            machines: BTreeMap::new(),
            links: BTreeMap::new(),
            judge: Judge::default(),
            placed: Placements::formed(),
            defect,
            restores: Vec::new(),
            reads: BTreeMap::new(),
            confirmed: 0,
            lies: Vec::new(),
        };
        for node in (1..=nodes).map(NodeId) {
            world.machines.insert(node, Machine::formed(node, &mut world.judge));
            for other in (1..=nodes).map(NodeId).filter(|it| *it != node) {
                world.links.insert((node, other), Link::default());
            }
        }
        (1..=nodes).for_each(|it| world.start(NodeId(it)));
        world
    }

    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.machines.keys().copied().collect()
    }

    pub(crate) fn node(&self, node: NodeId) -> Option<&Node> {
        self.machines[&node].node.as_ref()
    }

    fn machine(&mut self, node: NodeId) -> &mut Machine {
        self.machines.get_mut(&node).unwrap()
    }

    /// A call of a node that is up. What it sends goes to its links.
    pub(crate) fn with<T>(
        &mut self,
        node: NodeId,
        call: impl FnOnce(&mut Node, &mut Judge) -> T,
    ) -> Option<T> {
        let it = self.machines.get_mut(&node)?.node.as_mut()?;
        let result = call(it, &mut self.judge);
        self.collect(node);
        Some(result)
    }

    fn collect(&mut self, from: NodeId) {
        let machine = self.machines.get_mut(&from).unwrap();
        let node = machine.node.as_mut().unwrap();
        for (to, message) in std::mem::take(&mut node.sent) {
            let link = self.links.get_mut(&(from, to)).unwrap();
            if !link.cut {
                let last = link.queue.back().map_or(0, |it| it.at);
                let at = last.max(self.now + self.random.u64(..3));
                let echo = machine.heard.get(&to).copied().unwrap_or(0);
                link.queue.push_back(OnTheWay { at, ticks: machine.ticks, echo, message });
            }
        }
        for (group, to) in std::mem::take(&mut node.restores) {
            self.restores.push((self.now + RESTORE, from, group, to));
        }
        for (group, round) in std::mem::take(&mut node.confirmed) {
            let had_all = self.reads.remove(&(from, node.session, group, round));
            self.confirmed += 1;
            if !had_all.expect("a round is confirmed once") {
                self.judge.faults.push(format!("{from:?} {group:?}: a stale read"));
            }
        }
    }

    /// A read: it is answered if the replica led when the round began, and later.
    pub(crate) fn read(&mut self, node: NodeId, group: Group) {
        let begun = self.with(node, |it, judge| {
            let round = it.call(judge, |replicas, out| replicas.confirm(group, out))?;
            let (log, top) = (&it.log[&group], judge.top(group));
            let had_all = log.base.index >= top
                || log.term_of(top).is_some_and(|it| judge.committed_term(group, top) == Some(it));
            Some((it.session, round, had_all))
        });
        if let Some((session, round, had_all)) = begun.flatten() {
            self.reads.insert((node, session, group, round), had_all);
        }
    }

    pub(crate) fn leader(&self, group: Group) -> Option<NodeId> {
        let leading = |node: &Node| Some((node.groups.get(&group)?.role.leads()?, node.id));
        let nodes = self.machines.values().filter_map(|it| it.node.as_ref());
        nodes.filter_map(leading).max().map(|(_, node)| node)
    }

    /// Records for the group at this node, if it accepts some.
    pub(crate) fn propose(&mut self, node: NodeId, group: Group, records: &[u8]) {
        self.with(node, |it, _| {
            if it.is_open(group) {
                it.groups.get_mut(&group).unwrap().open.extend(records);
            }
        });
    }

    pub(crate) fn others(&self, node: NodeId) -> Vec<NodeId> {
        self.nodes().into_iter().filter(|it| *it != node).collect()
    }

    /// The process ends. The block in flight is durable or lost.
    pub(crate) fn crash(&mut self, node: NodeId, flight_is_kept: bool) {
        let machine = self.machines.get_mut(&node).unwrap();
        let Some(mut it) = machine.node.take() else { return };
        if let Some(block) = it.flight.take().filter(|_| flight_is_kept) {
            disk::take(self.judge.disks.entry(node).or_default(), &block.records);
            it.durable.push(block);
        }
        machine.disk = it.durable;
        let refused = self.random.bool();
        for other in self.others(node) {
            self.links.get_mut(&(node, other)).unwrap().queue.clear();
            self.links.get_mut(&(other, node)).unwrap().queue.clear();
            self.with(other, |it, judge| {
                it.call(judge, |replicas, out| replicas.lost(node, refused, out));
            });
        }
    }

    /// A new process of the node, which recovers from the disk.
    pub(crate) fn start(&mut self, node: NodeId) {
        let machine = self.machines.get_mut(&node).unwrap();
        machine.starts += 1;
        machine.heard.clear();
        let is_kept = self.defect == Some(Defect::KeptSession);
        let session = Session(if is_kept { 1 } else { machine.starts });
        let disk = std::mem::take(&mut machine.disk);
        let views = disk::recover(&disk);
        assert_eq!(self.judge.disks[&node], views, "recovery finds what became durable");
        let placed = &self.placed;
        let started = Node::start(node, session, disk, placed, self.defect, &mut self.judge);
        self.machine(node).node = Some(started);
        for other in self.others(node) {
            let there = self.node(other).map(|it| it.session);
            if let Some(there) = there {
                self.with(other, |it, _| it.replicas.connected(node, session));
                self.with(node, |it, _| it.replicas.connected(other, there));
            }
        }
        self.collect(node);
    }

    /// A millisecond passes.
    pub(crate) fn step(&mut self) {
        self.now += 1;
        let pairs: Vec<(NodeId, NodeId)> = self.links.keys().copied().collect();
        pairs.into_iter().for_each(|(from, to)| self.deliver(from, to));
        for node in self.nodes() {
            if self.now % TICK == u64::from(node.0) * 17 % TICK {
                self.machine(node).ticks += 1;
                self.with(node, |it, judge| it.call(judge, |it, out| it.tick(1, out)));
            }
            let machine = self.machine(node);
            let is_due = machine.flush_at.max(machine.hangs) <= self.now;
            if is_due {
                self.with(node, |it, judge| it.flushed(judge));
            }
            self.seal(node);
        }
        self.restore();
    }

    fn seal(&mut self, node: NodeId) {
        let sealed = self.with(node, |it, judge| {
            let sealed = it.seal(judge);
            if sealed {
                it.damage(judge);
            }
            sealed
        });
        if sealed == Some(true) {
            let at = self.now + self.random.u64(1..5);
            self.machine(node).flush_at = at;
        }
    }

    /// Snapshots that have arrived are offered: a row of the leader, whose state is the judge's.
    fn restore(&mut self) {
        let now = self.now;
        let (due, rest) =
            std::mem::take(&mut self.restores).into_iter().partition(|it| it.0 <= now);
        self.restores = rest;
        let due: Vec<(u64, NodeId, Group, ReplicaId)> = due;
        for (_, leader, group, to) in due {
            self.with(leader, |it, judge| {
                it.compact(group, judge);
                let Some(base) = it.log.get(&group).map(|it| it.base.clone()) else { return };
                it.call(judge, |replicas, out| replicas.offer(group, to, base, out));
            });
        }
    }

    pub(crate) fn run(&mut self, milliseconds: u64) {
        (0..milliseconds).for_each(|_| self.step());
    }

    /// All nodes are up and connected.
    pub(crate) fn end_faults(&mut self) {
        for node in self.nodes() {
            self.machine(node).hangs = 0;
            if self.node(node).is_none() {
                self.start(node);
            }
            self.isolate(node, false);
        }
    }

    /// Ends all faults, and waits until all replicas have all entries.
    pub(crate) fn settle(&mut self) {
        self.end_faults();
        for _ in 0..10 {
            self.run(1_000);
            if groups().all(|it| self.is_in_step(it)) {
                return;
            }
        }
        let states: Vec<String> = groups().map(|it| self.describe(it)).collect();
        self.judge.faults.push(format!("not in step: {}", states.join("; ")));
    }

    fn is_in_step(&self, group: Group) -> bool {
        let Some(leader) = self.leader(group) else { return false };
        let top = self.judge.top(group);
        let members = &self.node(leader).unwrap().groups[&group].members;
        members.voters.iter().all(|it| {
            let node = self.node(it.node()).unwrap();
            let has_all = node.groups.get(&group).is_some_and(|it| it.committed >= top);
            has_all && node.log[&group].replica == Some(*it)
        })
    }

    pub(crate) fn describe(&self, group: Group) -> String {
        let of = |node: NodeId| {
            let state = self.node(node).and_then(|it| it.groups.get(&group));
            state.map(|it| format!("{node:?} {:?} {:?} {:?}", it.role, it.committed, it.members))
        };
        let states: Vec<String> = self.nodes().into_iter().filter_map(of).collect();
        format!("{group:?} {:?}: {}", self.judge.top(group), states.join(", "))
    }
}

impl Machine {
    /// A node after the formation of its cluster: each group begins with entry 1.
    fn formed(node: NodeId, judge: &mut Judge) -> Self {
        let members = Members::of_voters((1..=3).map(|it| replica(1, it)).collect());
        let base = Base { index: Index(1), term: Term(1), members };
        let write = |record| Written::Record(record, Index(1));
        let formed = groups().filter(|_| node.0 <= 3);
        let records = formed.flat_map(|group| {
            let born = write(Record::Born(replica(1, node.0)));
            let installed = write(Record::Installed(base.clone()));
            let term = write(Record::Vote(Term(1), None));
            [born, installed, term].map(|it| (group, it))
        });
        let block = Block { number: BlockNumber(0), records: records.collect() };
        disk::take(judge.disks.entry(node).or_default(), &block.records);
        Self {
            node: None,
            disk: vec![block],
            starts: 0,
            hangs: 0,
            flush_at: 0,
            ticks: 0,
            heard: BTreeMap::new(),
        }
    }
}
