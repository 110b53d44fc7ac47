//! A node's machine: its process, disk and clock, and what happens to them.

use super::disk::{Block, Written};
use super::judge::Judge;
use super::node::{Files, Left, Node};
use super::toy::Toy;
use super::{TICK, World, groups, replica};
use crate::{Base, BlockNumber, Index, Members, NodeId, Record, Session, Term, Tick};

/// The time in milliseconds that the sync of recovered blocks takes.
const SYNC: u64 = 3;

/// The rate of an exact clock.
pub(crate) const EXACT: u64 = 1_000;

pub(crate) struct Machine {
    pub(crate) node: Option<Node>,
    /// The log. While the process runs, `node` has it, and this is empty. The same is true of
    /// `files`, the received snapshots.
    pub(crate) disk: Vec<Block>,
    /// The block that was being written when the process was killed. It is in the page cache alone.
    cached: Option<Block>,
    files: Files,
    starts: u64,
    /// The time until which the disk hangs, and the time at which the block in flight is durable.
    pub(crate) hangs: u64,
    pub(super) flush_at: u64,
    /// The time until which the process stands still.
    pub(crate) paused: u64,
    /// The clock is exact if its rate is [`EXACT`].
    pub(crate) rate: u64,
    /// The time since the last tick, by this clock.
    elapsed: u64,
    pub(super) tick: Tick,
    /// The ticks that the process has not handled.
    pub(super) owed: u32,
}

impl Machine {
    /// A node after the formation of its cluster: each group begins with entry 1.
    pub(super) fn formed(node: NodeId, judge: &mut Judge) -> Self {
        let members = Members::of_voters((1..=3).map(|it| replica(1, it)).collect());
        let base = Base { index: Index(1), term: Term(1), members };
        let write = |record| Written::Record(record, Index(1));
        let formed = groups().filter(|_| node.0 <= 3);
        let records = formed.flat_map(|group| {
            judge.formed(group, &base.members);
            let born = write(Record::Born(replica(1, node.0)));
            let installed = Written::Installed(base.clone(), Toy::empty(base.index));
            let term = write(Record::Vote(Term(1), None));
            [born, installed, term].map(|it| (group, it))
        });
        let block = Block { number: BlockNumber(0), records: records.collect() };
        super::disk::take(judge.disks.entry(node).or_default(), &block.records);
        Self {
            node: None,
            disk: vec![block],
            cached: None,
            files: Files::new(),
            starts: 0,
            hangs: 0,
            flush_at: 0,
            paused: 0,
            rate: EXACT,
            // Nodes do not tick at the same time.
            elapsed: u64::from(node.0) * 17 * EXACT % (TICK * EXACT),
            tick: Tick(1),
            owed: 0,
        }
    }

    /// A millisecond passes.
    pub(super) fn pass(&mut self) {
        self.elapsed += self.rate;
        if self.elapsed >= TICK * EXACT {
            self.elapsed -= TICK * EXACT;
            self.tick.0 += 1;
            self.owed += 1;
        }
    }
}

impl World {
    /// The process ends. The block in flight is in the page cache, or lost together with what the
    /// process before has left there.
    pub(crate) fn crash(&mut self, node: NodeId, flight_is_kept: bool) {
        let machine = self.machines.get_mut(&node).unwrap();
        let Some(mut it) = machine.node.take() else { return };
        machine.cached = it.flight.take().filter(|_| flight_is_kept);
        (machine.disk, machine.files) = (it.durable, it.files);
        machine.paused = 0;
        let refused = self.random.bool();
        for other in self.others(node) {
            self.lose_frames(node, other);
            self.lose_frames(other, node);
            self.notify(other, |it, judge| {
                it.call(judge, |replicas, out| replicas.lost(node, refused, out));
            });
        }
    }

    /// A new process of the node, which recovers from the disk.
    pub(crate) fn start(&mut self, node: NodeId) {
        let machine = self.machines.get_mut(&node).unwrap();
        machine.starts += 1;
        machine.owed = 0;
        let is_kept = self.defect.is_some_and(|it| it.keeps_sessions());
        let session = Session(if is_kept { 1 } else { machine.starts });
        let files = std::mem::take(&mut machine.files);
        let disk: Left = (std::mem::take(&mut machine.disk), machine.cached.take(), files);
        machine.flush_at = self.now + SYNC;
        let views = super::disk::recover(&disk.0);
        assert_eq!(self.judge.disks[&node], views, "recovery finds what became durable");
        let placed = &self.placed;
        let started = Node::start(node, session, disk, placed, self.defect, &mut self.judge);
        self.machine(node).node = Some(started);
        self.machine(node).tick = Tick(1);
        for other in self.others(node) {
            let there = self.node(other).map(|it| it.session);
            if let Some(there) = there {
                self.notify(other, |it, _| it.replicas.connected(node, session));
                self.notify(node, |it, _| it.replicas.connected(other, there));
            }
        }
        self.collect(node);
    }

    /// The process stands still for this number of milliseconds. It gets all input afterwards.
    pub(crate) fn pause(&mut self, node: NodeId, milliseconds: u64) {
        let until = self.now + milliseconds;
        self.machine(node).paused = until;
    }

    /// The node's disk loses its last blocks, and a new process recovers from what is left.
    pub(crate) fn lose_blocks(&mut self, node: NodeId, blocks: usize) {
        self.crash_and_lose(node, true, blocks);
    }

    fn crash_and_lose(&mut self, node: NodeId, flight_is_kept: bool, blocks: usize) {
        self.crash(node, flight_is_kept);
        let machine = self.machine(node);
        let disk = &mut machine.disk;
        disk.extend(machine.cached.take().filter(|it| !it.records.is_empty()));
        disk.truncate(disk.len() - blocks);
        let views = super::disk::recover(disk);
        self.judge.disks.insert(node, views);
        self.start(node);
    }

    /// Loses the node's last block, but only if that is harmless: if the block has only entries,
    /// and those of them that are committed are on a quorum of disks even without this block.
    pub(crate) fn lose_harmless_block(&mut self, node: NodeId) {
        let Some(block) = self.node(node).and_then(|it| it.durable.last()) else { return };
        let records = block.records.clone();
        let kept = self.judge.disks.remove(&node).unwrap();
        let is_safe = records.iter().all(|(group, it)| match it {
            Written::Record(Record::Entry(entry), _) => {
                entry.index > self.judge.top(*group) || self.judge.is_on_a_quorum(*group, entry)
            }
            Written::Record(..) | Written::Installed(..) | Written::Row(..) => false,
        });
        self.judge.disks.insert(node, kept);
        if is_safe {
            self.crash_and_lose(node, false, 1);
            self.lost_blocks += 1;
        }
    }
}
