//! A world of three nodes: their disks, links and clocks are simulated, and they fail in every way
//! that real ones do. The crate is called through its interface alone.
//!
//! `node` performs the outputs of the crate. `state` is a group at a node, with its `toy` machine
//! and its clients. `disk` is the log of a node, and what recovery finds in it. `machine` has the
//! process and the clock of a node, and `links` the messages on their way. `judge` decides from the
//! disks what is committed. `moves` replaces replicas. `scripts` has single stories, and `seeds`
//! random ones, which have to find the `defects`. The world passes in steps of a millisecond.

mod defects;
mod disk;
mod judge;
mod links;
mod machine;
mod moves;
mod node;
mod scripts;
pub(crate) mod seeds;
mod state;
mod toy;

use crate::{Group, Lie, NodeId, ReplicaId, Role, Round, Session, Term};
use defects::Defect;
use judge::Judge;
use links::{Link, OnTheWay};
use machine::Machine;
use moves::Placements;
use node::{Node, SLOTS};
use std::collections::BTreeMap;

pub(crate) const TICK: u64 = 50;

/// An election timeout in milliseconds.
pub(crate) const E: u64 = 20 * TICK;

/// The time in milliseconds until the snapshot of a group has reached its receiver.
const RESTORE: u64 = 20;

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: fastrand::Rng,
    pub(crate) machines: BTreeMap<NodeId, Machine>,
    links: BTreeMap<(NodeId, NodeId), Link>,
    pub(crate) judge: Judge,
    pub(crate) placed: Placements,
    defect: Option<Defect>,
    restores: Vec<Restore>,
    /// The reads in progress, and whether the reader had the last committed entry when it
    /// evaluated the read.
    reads: BTreeMap<(NodeId, Session, Group, Round), bool>,
    pub(crate) confirmed: u64,
    /// The number of blocks that disks have lost.
    pub(crate) lost_blocks: u64,
    pub(crate) lies: Vec<Lie>,
    /// The number of messages whose receiver did not know the sending replica.
    pub(crate) strangers: u64,
}

/// A snapshot on its way from a leader to a replica.
struct Restore {
    due: u64,
    leader: (NodeId, Session),
    group: Group,
    to: ReplicaId,
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
            lost_blocks: 0,
            lies: Vec::new(),
            strangers: 0,
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

    /// Whether the node has a process that does not stand still.
    pub(crate) fn is_running(&self, node: NodeId) -> bool {
        let machine = &self.machines[&node];
        machine.node.is_some() && machine.paused <= self.now
    }

    /// Calls a node that runs. The messages that it sends go to its links.
    pub(crate) fn with<T>(
        &mut self,
        node: NodeId,
        call: impl FnOnce(&mut Node, &mut Judge) -> T,
    ) -> Option<T> {
        if self.is_running(node) { self.notify(node, call) } else { None }
    }

    /// Calls a node that is up. This is for events: a process that stands still is called, too,
    /// because it would get the event later.
    pub(crate) fn notify<T>(
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
                link.queue.push_back(OnTheWay { at, tick: machine.tick, message });
            }
        }
        for (group, to) in std::mem::take(&mut node.restores) {
            let leader = (from, node.session);
            self.restores.push(Restore { due: self.now + RESTORE, leader, group, to });
        }
        for (group, round) in std::mem::take(&mut node.confirmed) {
            let had_all = self.reads.remove(&(from, node.session, group, round));
            self.confirmed += 1;
            self.judge.answers_read(from, group, had_all.expect("a round is confirmed once"));
        }
    }

    /// Begins two reads of the same state. The first is answered when a round, begun now, shows
    /// that the replica still leads. The second is answered when the next entry is committed.
    pub(crate) fn read(&mut self, node: NodeId, group: Group) {
        if !self.is_running(node) {
            return;
        }
        let (defect, judge) = (self.defect, &mut self.judge);
        let it = self.machines.get_mut(&node).unwrap().node.as_mut().unwrap();
        let (Some(log), Some(state)) = (it.log.get(&group), it.groups.get_mut(&group)) else {
            return;
        };
        let top = judge.top(group);
        let had_all = log.base.index >= top
            || log.term_of(top).is_some_and(|it| judge.committed_term(group, top) == Some(it));
        state.read(log, had_all, defect);
        let round = it.call(judge, |replicas, out| replicas.confirm(group, out));
        if let Some(round) = round {
            self.reads.insert((node, it.session, group, round), had_all);
        }
        self.collect(node);
    }

    pub(crate) fn leader(&self, group: Group) -> Option<NodeId> {
        let leading = |node: &Node| Some((node.groups.get(&group)?.role.leads()?, node.id));
        let nodes = self.machines.values().filter_map(|it| it.node.as_ref());
        nodes.filter_map(leading).max().map(|(_, node)| node)
    }

    /// Adds records to the open entry of the group at this node, if the node accepts proposals.
    pub(crate) fn propose(&mut self, node: NodeId, group: Group, records: &[u8]) {
        self.with(node, |it, _| {
            if it.replicas.is_open(group) {
                let index = it.replicas.next_index(group).unwrap();
                it.groups.get_mut(&group).unwrap().accept(index, records);
            }
        });
    }

    pub(crate) fn others(&self, node: NodeId) -> Vec<NodeId> {
        self.nodes().into_iter().filter(|it| *it != node).collect()
    }

    /// A millisecond passes. A node reads all input before it ticks.
    pub(crate) fn step(&mut self) {
        self.now += 1;
        self.judge.now = self.now;
        self.machines.values_mut().for_each(Machine::pass);
        if self.defect == Some(Defect::TicksFirst) {
            self.nodes().into_iter().for_each(|it| self.tick(it));
        }
        let pairs: Vec<(NodeId, NodeId)> = self.links.keys().copied().collect();
        pairs.into_iter().for_each(|(from, to)| self.deliver(from, to));
        for node in self.nodes() {
            self.tick(node);
            let machine = self.machine(node);
            let is_due = machine.flush_at.max(machine.hangs) <= self.now;
            if is_due {
                self.with(node, |it, judge| it.flushed(judge));
            }
            self.seal(node);
            for (group, (_, role)) in self.roles(node) {
                if let Some(term) = role.leads().filter(|_| self.is_running(node)) {
                    self.judge.serves(group, term);
                }
            }
        }
        self.restore();
    }

    /// Handles the ticks that have passed. It is a fault if they depose a leader although answers
    /// of a quorum have arrived, or if a replica stands for election although a message of its
    /// leader has arrived.
    fn tick(&mut self, node: NodeId) {
        if !self.is_running(node) || self.machine(node).owed == 0 {
            return;
        }
        let ticks = std::mem::take(&mut self.machine(node).owed);
        let before = self.roles(node);
        self.with(node, |it, judge| it.call(judge, |it, out| it.tick(ticks, out)));
        let after = self.roles(node);
        for (group, (term, before)) in before {
            let Some((_, after)) = after.get(&group).copied() else { continue };
            if before.leads().is_some() && after.leads().is_none() {
                let answers = self.unread_answers(node, group, term);
                if answers + 1 > self.judge.members(group).voters.len() / 2 {
                    self.judge.fault(format!("{node:?} {group:?}: deposed with {answers} answers"));
                }
            }
            let stands = before != Role::Candidate && after == Role::Candidate;
            if stands && self.has_unread_leader(node, group, term) {
                self.judge.fault(format!("{node:?} {group:?}: stands though its leader was heard"));
            }
        }
    }

    /// The groups of a node, with their terms and roles.
    fn roles(&self, node: NodeId) -> BTreeMap<Group, (Term, Role)> {
        let Some(node) = self.node(node) else { return BTreeMap::new() };
        node.groups.iter().map(|(group, it)| (*group, (node.log[group].term, it.role))).collect()
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

    /// Offers the snapshots that have arrived. A receiver that is cut off gets none.
    fn restore(&mut self) {
        let (now, machines) = (self.now, &self.machines);
        let runs = |node: NodeId| machines[&node].paused <= now;
        let is_due = |it: &mut Restore| it.due <= now && runs(it.leader.0) && runs(it.to.node());
        let due: Vec<Restore> = self.restores.extract_if(.., is_due).collect();
        for Restore { leader: (leader, session), group, to, .. } in due {
            let is_same = self.node(leader).is_some_and(|it| it.session == session);
            let is_cut = self.links[&(leader, to.node())].cut;
            if !is_same || is_cut || self.node(to.node()).is_none() {
                continue;
            }
            let row = self.with(leader, |it, judge| it.row(group, judge)).flatten();
            let Some((base, toy)) = row else { continue };
            self.with(to.node(), |it, _| it.files.insert((group, to, base.index), toy));
            self.with(leader, |it, judge| {
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
            let machine = self.machine(node);
            (machine.hangs, machine.paused) = (0, 0);
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
        self.judge.fault(format!("not in step: {}", states.join("; ")));
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

    /// The newest term of each group, at any node.
    pub(crate) fn terms(&self) -> Vec<Term> {
        let nodes = || self.nodes().into_iter().filter_map(|it| self.node(it));
        let newest = |group| nodes().filter_map(|it| it.log.get(&group)).map(|it| it.term).max();
        groups().filter_map(newest).collect()
    }

    /// The first fault that was found.
    pub(crate) fn fault(&self) -> Option<String> {
        let lie = self.lies.first().map(|it| format!("an honest message was refused: {it:?}"));
        self.judge.faults.first().cloned().or(lie)
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
