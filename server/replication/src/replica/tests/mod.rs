//! Scripts for one replica. The other replicas of its group are in the script: it says which
//! messages they send.

mod elections;
mod flushes;
mod leader;
mod peers;

use super::*;
use crate::entry::Kind;
use crate::heard::Heard;
use crate::{Change, Content, Entry, Tick};
use bytes::Bytes;

pub(crate) const GROUP: Group = Group(1);

/// The replica under test is that of node 1.
pub(crate) const ME: u16 = 1;

/// Term and last entry of a replica at the start of a script.
pub(crate) const TERM: Term = Term(2);
pub(crate) const LAST: Index = Index(12);

/// One replica of a group of three, and its log.
pub(crate) struct Bench {
    pub(crate) replica: Replica,
    /// The open block. All blocks before it are sealed.
    open: BlockNumber,
    pub(crate) out: Output,
    gone: BTreeSet<NodeId>,
    pub(crate) heard: Heard,
}

pub(crate) fn replica(node: u16) -> ReplicaId {
    ReplicaId::new(1, NodeId(node))
}

pub(crate) fn voters(nodes: &[u16]) -> Members {
    Members::of_voters(nodes.iter().map(|it| replica(*it)).collect())
}

pub(crate) fn base(index: u64, term: u32, nodes: &[u16]) -> Base {
    Base { index: Index(index), term: Term(term), members: voters(nodes) }
}

pub(crate) fn entry(index: u64, term: u32) -> Entry {
    let content = Content::Records(Bytes::from_static(b"records"));
    Entry { index: Index(index), term: Term(term), content }
}

pub(crate) fn append(previous: (u64, u32), commit: u64, entries: &[Entry]) -> Body {
    let previous = (Index(previous.0), Term(previous.1));
    Body::Append { previous, commit: Index(commit), entries: entries.to_vec() }
}

/// A group as recovery finds it: entries 2 to 12, all committed and applied.
fn recovered() -> RecoveredGroup {
    let kind = Kind::Records { bytes: 7 };
    let head = |index| EntryHead { index: Index(index), term: TERM, kind };
    RecoveredGroup {
        group: GROUP,
        replica: replica(ME),
        base: base(1, 1, &[1, 2, 3]),
        term: TERM,
        vote: None,
        commit: LAST,
        tail: (2..=LAST.0).map(head).collect(),
        is_quarantined: false,
        known: vec![],
    }
}

impl Replica {
    pub(crate) fn head(&self, index: Index) -> Option<EntryHead> {
        self.raft.store().head(index)
    }

    pub(crate) fn raft(&self) -> &raft::Raft<Log> {
        &self.raft.raft
    }

    /// Steps a message without the validation.
    pub(crate) fn step_bare(&mut self, message: raft::eraftpb::Message, turn: &mut Turn<'_>) {
        // raft refuses some kinds by itself.
        let _ = self.raft.step(message);
        self.take_readies(turn);
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::of(recovered())
    }

    /// The blocks that recovery found are durable.
    fn of(group: RecoveredGroup) -> Self {
        let mut bench = Self::unsynced(group);
        bench.durable(BlockNumber::RECOVERED);
        bench
    }

    /// The last block that recovery found may be in the page cache alone.
    pub(crate) fn unsynced(group: RecoveredGroup) -> Self {
        let mut out = Output::default();
        let open = BlockNumber(1);
        let mut turn = Turn { open, heard: &Heard::default(), out: &mut out };
        let replica = Replica::recovered(50, group, &mut turn).unwrap();
        Self { replica, open, out, gone: BTreeSet::new(), heard: Heard::default() }
    }

    /// A replica that has no entry.
    pub(crate) fn born() -> Self {
        let mut out = Output::default();
        let open = BlockNumber(1);
        let placed = [replica(1), replica(2), replica(3)];
        let mut turn = Turn { open, heard: &Heard::default(), out: &mut out };
        let replica = Replica::born(50, GROUP, replica(ME), &placed, &mut turn);
        Self { replica, open, out, gone: BTreeSet::new(), heard: Heard::default() }
    }

    /// A follower of node 2 that has all entries.
    pub(crate) fn follower() -> Self {
        let mut bench = Self::new();
        bench.hear(2, TERM, Body::Heartbeat { commit: LAST, round: None });
        bench.out = Output::default();
        bench
    }

    /// A leader of term 3 whose first entry is committed and applied at all three.
    pub(crate) fn leader() -> Self {
        let mut bench = Self::new();
        bench.win();
        bench.flush();
        let first = LAST.next();
        for node in [2, 3] {
            bench.hear(node, Term(3), Body::Appended { last: first });
        }
        bench.call(|replica, turn| replica.applied(first, turn));
        assert_eq!(bench.replica.role(), Role::Leader { term: Term(3), ready: true });
        bench.out = Output::default();
        bench
    }

    /// The election timeout passes, and node 3 votes for this replica.
    fn win(&mut self) {
        self.tick(20);
        self.hear(3, Term(3), granted(true));
        assert_eq!(self.replica.role(), Role::Candidate);
        self.flush();
        self.hear(3, Term(3), granted(false));
        assert_eq!(self.replica.role(), Role::Leader { term: Term(3), ready: false });
    }

    pub(crate) fn call<T>(&mut self, call: impl FnOnce(&mut Replica, &mut Turn<'_>) -> T) -> T {
        let turn = &mut Turn { open: self.open, heard: &self.heard, out: &mut self.out };
        call(&mut self.replica, turn)
    }

    /// A message from the replica of another node.
    pub(crate) fn hear(&mut self, from: u16, term: Term, body: Body) {
        self.step(message(from, term, body)).unwrap();
    }

    pub(crate) fn step(&mut self, message: PeerMessage) -> Result<(), Lie> {
        self.call(|replica, turn| replica.step(message, true, turn))
    }

    pub(crate) fn tick(&mut self, ticks: u32) {
        for _ in 0..ticks {
            let turn = &mut Turn { open: self.open, heard: &self.heard, out: &mut self.out };
            self.replica.tick(&self.gone, turn);
        }
    }

    pub(crate) fn propose(&mut self) -> Index {
        self.call(|replica, turn| replica.propose(Bytes::from_static(b"records"), turn))
    }

    pub(crate) fn seal(&mut self) -> BlockNumber {
        let sealed = self.open;
        self.open = BlockNumber(self.open.0 + 1);
        sealed
    }

    pub(crate) fn durable(&mut self, block: BlockNumber) {
        self.call(|replica, turn| replica.persisted(block, turn));
    }

    /// Seals the open block, which is then durable.
    pub(crate) fn flush(&mut self) {
        let block = self.seal();
        self.durable(block);
    }

    /// The bodies that were sent to a node since the last call.
    pub(crate) fn sent_to(&mut self, node: u16) -> Vec<Body> {
        let (sent, rest) =
            std::mem::take(&mut self.out.send).into_iter().partition(|it| it.0 == NodeId(node));
        self.out.send = rest;
        let sent: Vec<(NodeId, PeerMessage)> = sent;
        sent.into_iter().map(|it| it.1.body).collect()
    }
}

pub(crate) fn message(from: u16, term: Term, body: Body) -> PeerMessage {
    let (from, to) = (replica(from), replica(ME));
    PeerMessage { group: GROUP, from, to, term, echo: Tick::NONE, body }
}

pub(crate) fn granted(pre: bool) -> Body {
    Body::Voted { pre, granted: true, commit: (Index(0), Term(0)) }
}

pub(crate) fn vote(pre: bool, last: (u64, u32)) -> Body {
    let last = (Index(last.0), Term(last.1));
    Body::Vote { pre, transfer: false, last, commit: last.min((LAST, TERM)) }
}
