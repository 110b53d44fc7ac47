//! Three nodes with toy machines, on disks in memory. Messages arrive in the step in which they
//! are sent.

use super::toys::{DIRECTORY, Tally, Toys, record, small_log};
use crate::Runtime;
use crate::replicas::{Incomplete, Led, ReplicatedLoad, Replication, ReplicationConfig, form};
use muster_replication::{Body, Group, Lie, NodeId, PeerMessage, Session};
use muster_storage::layout::Format;
use muster_storage::shard_log::recovery::segment_files;
use muster_storage::{FileDone, FileOp, FileToken, LogConfig, LogSlot, Recovered, ShardLog};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use test_disk::Disk;

/// Each node prefers to lead two of them.
pub(super) const SLOTS: u16 = 6;
const NOW: i64 = 1_000;
pub(super) const UNCOMMITTED_BYTES_MAX: usize = 2_000;
const IDS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

/// The partition of the toys in which the stories write, and its slot.
pub(super) const PARTITION: u32 = 4;
pub(super) const SLOT: LogSlot = LogSlot::at(PARTITION % SLOTS as u32);

fn groups() -> Vec<Group> {
    (0..=SLOTS).map(Group).collect()
}

fn log_config() -> LogConfig {
    LogConfig { format: Format::Replicated, token_tag: 7, slots: SLOTS.into(), ..small_log() }
}

/// The disk with all blocks of a log.
fn written(mut log: ShardLog) -> Disk {
    let mut disk = Disk::default();
    loop {
        let mut ops = Vec::new();
        log.poll(NOW, &mut ops);
        if ops.is_empty() {
            return disk;
        }
        disk.perform_all(ops).into_iter().for_each(|done| log.done(done));
    }
}

/// Reads the log of a node.
fn read(disk: &Disk, toys: Toys) -> (Recovered, ReplicatedLoad<Toys>) {
    let mut load = ReplicatedLoad::new(toys, SLOTS.into());
    let mut recovery = load.recovery();
    let files = disk.dir(Path::new(DIRECTORY));
    for (sequence, name) in segment_files(files.keys().cloned()) {
        let replayed = recovery.items(sequence, files[&name], |it| load.replay(it).unwrap());
        replayed.unwrap();
    }
    (recovery.finish(), load)
}

pub(super) struct Node {
    id: NodeId,
    pub(super) runtime: Runtime,
    pub(super) toys: Toys,
    pub(super) disk: Disk,
    /// The operations that a slow disk has not carried out.
    held: Option<Vec<FileOp>>,
    /// The reads of entries that have not ended.
    held_reads: Option<Vec<FileOp>>,
    /// Whether reads of entries fail, and how many there were.
    pub(super) fails_reads: bool,
    pub(super) reads: usize,
    pub(super) sent: Vec<(NodeId, PeerMessage)>,
    /// The clients that wait, each with the position that its answer waits for.
    pub(super) waiting: Vec<(u64, usize)>,
    pub(super) answered: Vec<usize>,
    pub(super) refused: Vec<usize>,
    pub(super) led: Vec<Led>,
    /// The term and the vote that recovery found for each group.
    pub(super) votes: BTreeMap<u16, (u32, Option<u64>)>,
    /// The length of records that the next process does not know.
    pub(super) unknown: Option<usize>,
}

impl Node {
    /// The disk of a node in a new cluster.
    fn formed(id: NodeId) -> Disk {
        let mut log = ShardLog::new(log_config(), Recovered::default());
        form(&mut log, id, &IDS, &groups());
        written(log)
    }

    /// The reason why a log is refused whose formation wrote only these groups.
    pub(super) fn refusal(formed: &[Group]) -> Incomplete {
        let mut log = ShardLog::new(log_config(), Recovered::default());
        form(&mut log, IDS[0], &IDS, formed);
        let (mut found, load) = read(&written(log), Toys::new());
        load.finish(&mut found, &groups()).map(|_| ()).unwrap_err()
    }

    /// A process with this disk. Its version does not know records of this length.
    fn start(id: NodeId, mut disk: Disk, unknown: Option<usize>) -> Self {
        disk.crash();
        disk.close_all();
        let (mut found, load) = read(&disk, Toys::not_knowing(unknown));
        let (toys, replicas) = load.finish(&mut found, &groups()).unwrap();
        let votes = replicas.all.iter().map(|it| (it.log.group, (it.log.term, it.log.vote)));
        let votes = votes.collect();
        let mut log = ShardLog::new(log_config(), found);
        let config = ReplicationConfig {
            slots: SLOTS,
            cache_bytes: 500,
            uncommitted_bytes_max: UNCOMMITTED_BYTES_MAX,
            token: FileToken(9 << 56),
        };
        let replication = Replication::new(config, replicas, &mut log).unwrap();
        let partitions = (1..=super::toys::PARTITIONS)
            .map(|index| muster_storage::LogPartition { topic: 0, index });
        let runtime = Runtime::new(log, partitions.collect()).in_cluster(replication);
        Self {
            id,
            runtime,
            toys,
            disk,
            held: None,
            held_reads: None,
            fails_reads: false,
            reads: 0,
            sent: Vec::new(),
            waiting: Vec::new(),
            answered: Vec::new(),
            refused: Vec::new(),
            led: Vec::new(),
            votes,
            unknown,
        }
    }

    /// A client asks this node to add to the sum. Returns false if the node does not lead.
    pub(super) fn add(&mut self, client: usize, len: usize) -> bool {
        if !self.runtime.leads(SLOT) {
            return false;
        }
        let operation = [record(len)];
        let tallies = &mut self.toys.tallies;
        let at = self.runtime.append(tallies, PARTITION, NOW, [&operation[..]]).unwrap();
        self.waiting.push((at, client));
        true
    }

    /// A client whose request has this many operations.
    pub(super) fn add_many(&mut self, client: usize, len: usize, count: usize) {
        let operation = [record(len)];
        let operations = std::iter::repeat_n(&operation[..], count);
        let tallies = &mut self.toys.tallies;
        let at = self.runtime.append(tallies, PARTITION, NOW, operations).unwrap();
        self.waiting.push((at, client));
    }

    /// Adds to the sum of another partition, without a client. The log refuses it if the node does
    /// not lead.
    pub(super) fn add_to(&mut self, index: u32, len: usize) -> bool {
        let operation = [record(len)];
        let tallies = &mut self.toys.tallies;
        self.runtime.append(tallies, index, NOW, [&operation[..]]).is_ok()
    }

    pub(super) fn sum_of(&self, index: u32) -> i64 {
        self.toys.tallies.of(index).sum
    }

    pub(super) fn sum(&self) -> i64 {
        self.tally().sum
    }

    fn tally(&self) -> &Tally {
        self.toys.tallies.of(PARTITION)
    }

    /// Holds the operations of the disk from now on, or carries out those that were held.
    pub(super) fn hold_disk(&mut self, holds: bool) {
        if holds {
            self.held.get_or_insert_default();
        } else {
            self.held.take().into_iter().flatten().for_each(|op| self.perform(op));
        }
    }

    /// Holds the reads of entries from now on, or carries out those that were held.
    pub(super) fn hold_reads(&mut self, holds: bool) {
        if holds {
            self.held_reads.get_or_insert_default();
        } else {
            self.held_reads.take().into_iter().flatten().for_each(|op| self.perform(op));
        }
    }

    fn perform(&mut self, op: FileOp) {
        if let FileOp::Read { token, .. } = op
            && self.runtime.reads_entries(token)
            && let Some(held) = &mut self.held_reads
        {
            return held.push(op);
        }
        let Some(mut done) = self.disk.perform(op) else { return };
        if self.runtime.reads_entries(done.token()) {
            self.reads += 1;
            if self.fails_reads {
                let reason = "a damaged sector".to_owned();
                done = FileDone::ReadFailed { token: done.token(), reason };
            }
        }
        if let Err(done) = self.runtime.entries_read(done) {
            self.runtime.done(done);
        }
        self.follow();
    }

    /// Does what a shard does after each event.
    pub(super) fn follow(&mut self) {
        if self.runtime.take_deposed().contains(&SLOT) {
            self.refused.extend(self.waiting.drain(..).map(|(_, client)| client));
        }
        self.led.extend(self.runtime.settle(&mut self.toys).unwrap());
        let visible = self.runtime.flushed(SLOT);
        if self.runtime.moved_slots().any(|(slot, _)| slot == SLOT) {
            let is_visible = |(at, _): &mut (u64, usize)| *at <= visible;
            self.answered.extend(self.waiting.extract_if(.., is_visible).map(|(_, it)| it));
        }
        self.runtime.moved_taken();
        self.sent.extend(self.runtime.take_sends());
    }

    /// The end of a turn.
    pub(super) fn turn(&mut self) {
        let mut is_busy = true;
        while is_busy {
            let mut ops = Vec::new();
            assert_eq!(self.runtime.poll(NOW, &mut ops), None);
            is_busy = !ops.is_empty() && self.held.is_none();
            self.follow();
            for op in ops {
                match &mut self.held {
                    Some(held) => held.push(op),
                    None => self.perform(op),
                }
            }
        }
    }
}

pub(super) struct Nodes {
    pub(super) all: BTreeMap<NodeId, Node>,
    /// The nodes that hear nothing, and are not heard.
    pub(super) cut: BTreeSet<NodeId>,
    /// The number of each node's process.
    sessions: BTreeMap<NodeId, Session>,
    /// All messages that were delivered.
    pub(super) delivered: Vec<PeerMessage>,
}

impl Nodes {
    pub(super) fn new() -> Self {
        let all = IDS.map(|id| (id, Node::start(id, Node::formed(id), None))).into_iter().collect();
        let sessions = IDS.map(|id| (id, Session(1))).into_iter().collect();
        let mut nodes = Self { all, cut: BTreeSet::new(), sessions, delivered: Vec::new() };
        nodes.connect();
        nodes.pass(30);
        nodes
    }

    fn connect(&mut self) {
        for node in self.all.values_mut() {
            let others = self.sessions.iter().filter(|(id, _)| **id != node.id);
            others.for_each(|(id, session)| node.runtime.peer_connected(*id, *session));
        }
    }

    /// All processes end, and start again.
    pub(super) fn restart(&mut self) {
        IDS.into_iter().for_each(|id| self.start_again(id));
        self.connect();
        self.pass(30);
    }

    /// The process of a node ends, and starts again.
    pub(super) fn restart_one(&mut self, id: NodeId) {
        self.start_again(id);
        self.connect();
    }

    /// The shard of a node is loaded again in its process. The connections do not end.
    pub(super) fn reload(&mut self, id: NodeId) {
        let node = self.node(id);
        let peers = node.runtime.peer_sessions();
        *node = Node::start(id, std::mem::take(&mut node.disk), node.unknown);
        peers.into_iter().for_each(|(it, session)| node.runtime.peer_connected(it, session));
    }

    fn start_again(&mut self, id: NodeId) {
        self.sessions.get_mut(&id).unwrap().0 += 1;
        let node = self.node(id);
        *node = Node::start(id, std::mem::take(&mut node.disk), node.unknown);
    }

    /// The node that leads the slot among those that are heard.
    pub(super) fn leader(&self) -> NodeId {
        let heard = self.all.values().filter(|it| !self.cut.contains(&it.id));
        let mut leaders = heard.filter(|it| it.runtime.leads(SLOT)).map(|it| it.id);
        let leader = leaders.next().expect("a leader");
        assert_eq!(leaders.next(), None);
        leader
    }

    /// The leader of a partition's slot adds to its sum.
    pub(super) fn add_to(&mut self, index: u32, len: usize) {
        let added = self.all.values_mut().filter_map(|it| it.add_to(index, len).then_some(()));
        assert_eq!(added.count(), 1, "one node leads");
    }

    pub(super) fn ids(&self) -> [NodeId; 3] {
        IDS
    }

    pub(super) fn followers(&self) -> Vec<NodeId> {
        let leader = self.leader();
        IDS.into_iter().filter(|it| *it != leader).collect()
    }

    pub(super) fn node(&mut self, id: NodeId) -> &mut Node {
        self.all.get_mut(&id).unwrap()
    }

    /// A message arrives, out of its turn.
    pub(super) fn say(
        &mut self,
        from: NodeId,
        to: NodeId,
        message: PeerMessage,
    ) -> Result<(), Lie> {
        let session = self.sessions[&from];
        self.node(to).runtime.peer_said((from, session), true, message)
    }

    /// All that a node has sent to another one arrives, and nothing else happens.
    pub(super) fn hear(&mut self, from: NodeId, to: NodeId) {
        let node = self.node(from);
        node.sent.extend(node.runtime.take_sends());
        let sent: Vec<_> = node.sent.extract_if(.., |(it, _)| *it == to).collect();
        sent.into_iter().for_each(|(_, message)| self.say(from, to, message).unwrap());
    }

    /// The leader adds to the sum. Returns the message with this entry for a follower, before it
    /// arrives.
    pub(super) fn offered(&mut self, leader: NodeId, follower: NodeId) -> PeerMessage {
        let node = self.node(leader);
        assert!(node.add(2, 7));
        node.turn();
        let is_offer = |(to, it): &mut (NodeId, PeerMessage)| {
            let has_entries =
                matches!(&it.body, Body::Append { entries, .. } if !entries.is_empty());
            *to == follower && has_entries
        };
        let offer = node.sent.extract_if(.., is_offer).next();
        offer.expect("the entry is sent at once").1
    }

    /// Ticks pass, and all messages arrive.
    pub(super) fn pass(&mut self, ticks: usize) {
        self.pass_without(None, ticks);
    }

    /// Ticks pass everywhere except at this node.
    pub(super) fn pass_without(&mut self, stopped: Option<NodeId>, ticks: usize) {
        for _ in 0..ticks {
            let ticking = self.all.values_mut().filter(|it| Some(it.id) != stopped);
            ticking.for_each(|it| it.runtime.tick(1));
            self.deliver();
        }
    }

    /// Turns of all nodes, until no message is on its way.
    pub(super) fn deliver(&mut self) {
        loop {
            let mut sent = Vec::new();
            for node in self.all.values_mut() {
                node.follow();
                node.turn();
                sent.extend(node.sent.drain(..).map(|(to, message)| (node.id, to, message)));
            }
            sent.retain(|(from, to, _)| !self.cut.contains(from) && !self.cut.contains(to));
            if sent.is_empty() {
                return;
            }
            for (from, to, message) in sent {
                let session = self.sessions[&from];
                self.delivered.push(message.clone());
                let node = self.node(to);
                node.runtime.peer_said((from, session), true, message).unwrap();
                node.follow();
            }
        }
    }
}
