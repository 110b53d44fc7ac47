//! Runs a cluster of three nodes in memory, for callgrind to count what the leader or a follower
//! executes. `server/replication/costs` runs it and has the table. Node 1 leads all 51 groups.

#![forbid(unsafe_code)]

use bytes::Bytes;
use muster_replication::{
    Base, BlockNumber, Config, Group, Index, Members, NodeId, Output, PeerMessage, RecoveredGroup,
    ReplicaId, Replicas, Session, Term,
};

/// The groups of the cluster's image and of slots 0 to 49. These are the first third of 150 slots,
/// whose preferred leader is node 1.
const GROUPS: u16 = 51;
const SLOTS: u16 = 150;

const SESSION: Session = Session(1);
const LEADER: NodeId = NodeId(1);
const FOLLOWER: NodeId = NodeId(2);

/// The records of an entry. They have about as many bytes as an OffsetCommit of one partition.
const RECORDS: &[u8] = &[7; 100];

/// How many blocks, ticks or rounds are counted, and how many are run before the counted ones.
const COUNTED: u64 = 200;
const BEFORE: u64 = 100;

/// A measurement: the node whose calls are counted, and the work that the cluster does meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    name: &'static str,
    node: NodeId,
    work: Work,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Blocks in which each group has one entry. The field is the number of groups.
    Blocks(u16),
    /// Ticks of idle groups, with the heartbeats.
    Ticks,
    /// Rounds that confirm reads of one group.
    Rounds,
}

const KINDS: [Kind; 8] = [
    Kind { name: "entry-leader-51", node: LEADER, work: Work::Blocks(GROUPS) },
    Kind { name: "entry-follower-51", node: FOLLOWER, work: Work::Blocks(GROUPS) },
    Kind { name: "entry-leader-1", node: LEADER, work: Work::Blocks(1) },
    Kind { name: "entry-follower-1", node: FOLLOWER, work: Work::Blocks(1) },
    Kind { name: "tick-leader", node: LEADER, work: Work::Ticks },
    Kind { name: "tick-follower", node: FOLLOWER, work: Work::Ticks },
    Kind { name: "round-leader", node: LEADER, work: Work::Rounds },
    Kind { name: "round-follower", node: FOLLOWER, work: Work::Rounds },
];

fn main() {
    let Some(name) = std::env::args().nth(1) else {
        KINDS.iter().for_each(|it| println!("{}", it.name));
        return;
    };
    let kind = KINDS.iter().find(|it| it.name == name).expect("a kind of this program");
    let mut cluster = Cluster::new();
    cluster.elect();
    for number in 0..BEFORE + COUNTED {
        cluster.counted = (number >= BEFORE).then_some(kind.node);
        match kind.work {
            Work::Blocks(groups) => cluster.block(groups),
            Work::Ticks => cluster.tick(),
            Work::Rounds => cluster.round(),
        }
    }
    let of_each = match kind.work {
        Work::Blocks(groups) => u64::from(groups),
        Work::Ticks => u64::from(GROUPS),
        Work::Rounds => 1,
    };
    println!("{}", COUNTED * of_each);
}

/// callgrind counts the instructions of this function, with everything that it calls.
#[inline(never)]
fn counted(node: &mut Node, call: Call, out: &mut Output) {
    node.call(call, out);
}

/// A call of a node.
enum Call {
    Tick,
    Step(Vec<(NodeId, PeerMessage)>),
    Propose(u16),
    Confirm,
    /// Makes the open block durable, if it is not empty, and applies the committed entries.
    Flush,
}

struct Node {
    id: NodeId,
    replicas: Replicas,
    block: BlockNumber,
    is_block_empty: bool,
    /// The commit indexes that are not applied.
    committed: Vec<(Group, Index)>,
}

impl Node {
    fn call(&mut self, call: Call, out: &mut Output) {
        match call {
            Call::Tick => self.replicas.tick(1, out),
            Call::Step(messages) => {
                for (from, message) in messages {
                    let stepped = self.replicas.step((from, SESSION), true, message, out);
                    stepped.expect("an honest message");
                }
            }
            Call::Propose(groups) => {
                for group in (0..groups).map(Group) {
                    self.replicas.propose(group, Bytes::from_static(RECORDS), out);
                }
            }
            Call::Confirm => {
                self.replicas.confirm(Group(0), out).expect("it leads");
            }
            Call::Flush => {
                if !self.is_block_empty {
                    self.replicas.sealed(self.block);
                    self.replicas.persisted(self.block, out);
                    self.block = BlockNumber(self.block.0 + 1);
                    self.is_block_empty = true;
                    self.committed.append(&mut out.committed);
                }
                for (group, index) in std::mem::take(&mut self.committed) {
                    self.replicas.applied(group, index, out);
                }
            }
        }
    }
}

struct Cluster {
    nodes: Vec<Node>,
    /// The messages that were not delivered: sender, receiver, message.
    sent: Vec<(NodeId, NodeId, PeerMessage)>,
    /// The node whose calls are counted.
    counted: Option<NodeId>,
}

fn replica(node: NodeId) -> ReplicaId {
    ReplicaId::new(1, node)
}

fn nodes() -> impl Iterator<Item = NodeId> {
    (1..=3).map(NodeId)
}

impl Cluster {
    fn new() -> Self {
        let formed = |group, node| RecoveredGroup {
            group: Group(group),
            replica: replica(node),
            base: Base {
                index: Index(1),
                term: Term(1),
                members: Members::of_voters(nodes().map(replica).collect()),
            },
            term: Term(1),
            vote: None,
            commit: Index(1),
            tail: vec![],
            is_quarantined: false,
            known: vec![],
        };
        let of = |id| {
            let config = Config { slots: SLOTS, cache_bytes: 1 << 20 };
            let recovered = (0..GROUPS).map(|it| formed(it, id)).collect();
            let mut out = Output::default();
            let replicas = Replicas::new(config, recovered, &mut out);
            let mut replicas = replicas.unwrap_or_else(|it| panic!("{it:?}"));
            replicas.persisted(BlockNumber::RECOVERED, &mut out);
            nodes().filter(|it| *it != id).for_each(|it| replicas.connected(it, SESSION));
            Node { id, replicas, block: BlockNumber(1), is_block_empty: true, committed: vec![] }
        };
        Self { nodes: nodes().map(of).collect(), sent: Vec::new(), counted: None }
    }

    fn call(&mut self, node: NodeId, call: Call) {
        let is_counted = self.counted == Some(node);
        let node = self.nodes.iter_mut().find(|it| it.id == node).expect("one of three");
        let mut out = Output::default();
        if is_counted {
            counted(node, call, &mut out);
        } else {
            node.call(call, &mut out);
        }
        node.is_block_empty &= out.log.is_empty();
        node.committed.append(&mut out.committed);
        self.sent.extend(out.send.into_iter().map(|(to, message)| (node.id, to, message)));
    }

    /// Delivers all messages, and then those that follow from them.
    fn deliver(&mut self) {
        while !self.sent.is_empty() {
            let sent = std::mem::take(&mut self.sent);
            for node in nodes() {
                let to_it = sent.iter().filter(|it| it.1 == node);
                let messages: Vec<_> = to_it.map(|it| (it.0, it.2.clone())).collect();
                if !messages.is_empty() {
                    self.call(node, Call::Step(messages));
                    self.call(node, Call::Flush);
                }
            }
        }
    }

    fn elect(&mut self) {
        while !(0..GROUPS).all(|it| self.nodes[0].replicas.is_open(Group(it))) {
            self.tick();
        }
        for _ in 0..3 {
            self.block(GROUPS);
        }
    }

    fn tick(&mut self) {
        nodes().for_each(|it| self.call(it, Call::Tick));
        self.deliver();
    }

    fn block(&mut self, groups: u16) {
        self.call(LEADER, Call::Propose(groups));
        self.call(LEADER, Call::Flush);
        self.deliver();
    }

    fn round(&mut self) {
        self.call(LEADER, Call::Confirm);
        self.deliver();
    }
}
