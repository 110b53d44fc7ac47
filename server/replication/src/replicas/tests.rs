//! Three nodes whose messages arrive at once and in order. `world` has faults, too.

use super::*;
use crate::{Body, Content, EntryHead, Kind, Members, Record, Term};

const SLOTS: u16 = 50;

/// Groups 0 to 50.
const GROUPS: u16 = SLOTS + 1;

const SESSION: Session = Session(1);

struct Trio {
    nodes: Vec<(NodeId, Replicas)>,
    /// The nodes that neither send nor receive.
    down: BTreeSet<NodeId>,
}

fn replica(node: NodeId) -> ReplicaId {
    ReplicaId::new(1, node)
}

fn nodes() -> impl Iterator<Item = NodeId> {
    (1..=3).map(NodeId)
}

/// A group as the formation of a cluster leaves it.
fn formed(group: u16, node: NodeId) -> RecoveredGroup {
    let members = Members::of_voters(nodes().map(replica).collect());
    RecoveredGroup {
        group: Group(group),
        replica: replica(node),
        base: Base { index: Index(1), term: Term(1), members },
        term: Term(1),
        vote: None,
        commit: Index(1),
        tail: vec![],
        is_quarantined: false,
        known: vec![],
    }
}

fn config() -> Config {
    Config { slots: SLOTS, cache_bytes: 1 << 20 }
}

impl Trio {
    fn new() -> Self {
        let of = |node| {
            let recovered = (0..GROUPS).map(|it| formed(it, node)).collect();
            let mut out = Output::default();
            let mut replicas = Replicas::new(config(), recovered, &mut out).ok().unwrap();
            replicas.persisted(BlockNumber::RECOVERED, &mut out);
            (node, replicas)
        };
        let mut trio = Self { nodes: nodes().map(of).collect(), down: BTreeSet::new() };
        for (node, replicas) in &mut trio.nodes {
            nodes().filter(|it| it != node).for_each(|it| replicas.connected(it, SESSION));
        }
        trio
    }

    fn of(&mut self, node: NodeId) -> &mut Replicas {
        &mut self.nodes.iter_mut().find(|(it, _)| *it == node).unwrap().1
    }

    fn leader(&self, group: Group) -> Option<NodeId> {
        let up = self.nodes.iter().filter(|(node, _)| !self.down.contains(node));
        let leads = |it: &Replicas| it.role(group).is_some_and(|it| it.leads().is_some());
        up.filter(|(_, it)| leads(it)).map(|(node, _)| *node).next()
    }

    /// A tick at each node, and all that follows from it.
    fn tick(&mut self) {
        for node in nodes() {
            self.call(node, |replicas, out| replicas.tick(1, out));
        }
    }

    /// A call of a node, and all that follows from it. Each block is durable at once.
    fn call<T>(
        &mut self,
        node: NodeId,
        call: impl FnOnce(&mut Replicas, &mut Output) -> T,
    ) -> Option<T> {
        if self.down.contains(&node) {
            return None;
        }
        let mut out = Output::default();
        let result = call(self.of(node), &mut out);
        self.follow(node, out);
        Some(result)
    }

    fn follow(&mut self, node: NodeId, mut out: Output) {
        let block = self.of(node).open;
        self.of(node).sealed(block);
        self.of(node).persisted(block, &mut out);
        for (group, index) in std::mem::take(&mut out.committed) {
            self.of(node).applied(group, index, &mut out);
        }
        for (to, message) in std::mem::take(&mut out.send) {
            if !self.down.contains(&to) {
                let mut out = Output::default();
                self.of(to).step((node, SESSION), true, message, &mut out).unwrap();
                self.follow(to, out);
            }
        }
    }

    /// The ticks until each group has a leader.
    fn ticks_to_leaders(&mut self) -> u32 {
        for tick in 1..200 {
            self.tick();
            if (0..GROUPS).all(|it| self.leader(Group(it)).is_some()) {
                return tick;
            }
        }
        panic!("no leader");
    }
}

fn preferred(group: u16) -> NodeId {
    match group {
        0 => NodeId(1),
        _ => NodeId(1 + (group - 1) / 17),
    }
}

#[test]
fn each_group_gets_its_preferred_leader() {
    let mut trio = Trio::new();
    assert_eq!(trio.ticks_to_leaders(), ELECTION_TICKS);
    for group in 0..GROUPS {
        assert_eq!(trio.leader(Group(group)), Some(preferred(group)), "group {group}");
    }
}

/// The voter that is second in rank stands for election three ticks later than the first would.
#[test]
fn the_next_in_rank_leads_if_a_node_is_silent() {
    let mut trio = Trio::new();
    trio.ticks_to_leaders();
    (0..4).for_each(|_| trio.tick());
    trio.down.insert(NodeId(1));
    let ticks = trio.ticks_to_leaders();
    assert!((20..=23).contains(&ticks), "{ticks} ticks");
    for group in 1..=17 {
        assert_eq!(trio.leader(Group(group)), Some(NodeId(2)), "group {group}");
    }
}

/// The node's port refuses connections. One survivor notices this a tick later than the other.
#[test]
fn no_wait_if_the_process_is_known_to_be_gone() {
    let mut trio = Trio::new();
    trio.ticks_to_leaders();
    (0..4).for_each(|_| trio.tick());
    trio.down.insert(NodeId(1));
    trio.call(NodeId(2), |it, out| it.lost(NodeId(1), true, out));
    trio.tick();
    assert_eq!(trio.leader(Group(1)), None, "node 3 still expects the leader");
    trio.call(NodeId(3), |it, out| it.lost(NodeId(1), true, out));
    assert!(trio.ticks_to_leaders() <= 2);
    assert_eq!(trio.leader(Group(1)), Some(NodeId(2)));
}

#[test]
fn messages_of_an_older_process_are_dropped() {
    let mut trio = Trio::new();
    trio.ticks_to_leaders();
    let vote = |term| PeerMessage {
        group: Group(1),
        from: replica(NodeId(3)),
        to: replica(NodeId(2)),
        term: Term(term),
        echo: Tick::NONE,
        body: Body::Vote {
            pre: false,
            transfer: true,
            last: (Index(9), Term(2)),
            commit: (Index(1), Term(1)),
        },
    };
    let of_term = |trio: &mut Trio, session| {
        let mut out = Output::default();
        trio.of(NodeId(2)).step((NodeId(3), session), true, vote(9), &mut out).map(|()| out.log)
    };
    trio.of(NodeId(2)).connected(NodeId(3), Session(2));
    assert_eq!(of_term(&mut trio, SESSION), Ok(vec![]));
    let granted = vec![(Group(1), Record::Vote(Term(9), Some(replica(NodeId(3)))))];
    assert_eq!(of_term(&mut trio, Session(2)), Ok(granted));
    // A node speaks for its own replicas only.
    let mut out = Output::default();
    let other = trio.of(NodeId(2)).step((NodeId(1), SESSION), true, vote(10), &mut out);
    assert_eq!(other, Err(Lie::Peer("a message of another node")));
}

#[test]
fn a_new_replica_does_not_replace_a_voter() {
    let mut trio = Trio::new();
    let new = ReplicaId::new(2, NodeId(3));
    let replicas = trio.of(NodeId(3));
    let mut out = Output::default();
    let refused = replicas.create(Group(1), new, &[], &mut out);
    assert_eq!(refused, Err(StillVoter(replica(NodeId(3)))));
    replicas.remove(Group(1), &mut out);
    assert_eq!(replicas.role(Group(1)), None);
    assert_eq!(replicas.create(Group(1), new, &[], &mut out), Ok(()));
    assert_eq!(out.log, [(Group(1), Record::Born(new))]);
    // The placement may be reported again. A replica is born once.
    assert_eq!(replicas.create(Group(1), new, &[], &mut out), Ok(()));
    assert_eq!(out.log.len(), 1);
}

/// A read that waits for a round of a replica that is removed must not wait for ever.
#[test]
fn the_rounds_of_a_removed_replica_have_failed() {
    let mut trio = Trio::new();
    trio.ticks_to_leaders();
    let leader = trio.of(NodeId(1));
    let mut out = Output::default();
    let rounds = [(); 2].map(|()| leader.confirm(Group(1), &mut out).unwrap());
    leader.confirm(Group(2), &mut out).unwrap();
    leader.remove(Group(1), &mut out);
    assert_eq!(out.roles, [(Group(1), Role::Follower { leader: None })]);
    assert_eq!(out.failed, rounds.map(|it| (Group(1), it)));
    assert_eq!(out.gone, [Group(1)]);
    assert_eq!(leader.role(Group(1)), None);
    // It is gone already.
    let mut out = Output::default();
    leader.remove(Group(1), &mut out);
    assert!(out.gone.is_empty());
}

#[test]
fn the_ticks_of_an_older_process_are_not_echoed() {
    let mut trio = Trio::new();
    let replicas = trio.of(NodeId(1));
    let shard = (0, 1);
    let newest = |replicas: &Replicas, node| replicas.heard.newest(NodeId(node), Group(1), SLOTS);
    replicas.heard((NodeId(2), SESSION), shard, Tick(9));
    replicas.heard((NodeId(2), SESSION), shard, Tick(8));
    assert_eq!(newest(replicas, 2), Tick(9));
    replicas.heard((NodeId(2), Session(2)), shard, Tick(10));
    replicas.heard((NodeId(4), SESSION), shard, Tick(10));
    assert_eq!(newest(replicas, 2), Tick(9));
    replicas.connected(NodeId(2), SESSION);
    assert_eq!(newest(replicas, 2), Tick(9));
    replicas.connected(NodeId(2), Session(2));
    assert_eq!((newest(replicas, 2), newest(replicas, 4)), (Tick::NONE, Tick::NONE));
}

/// The shards of a node are not loaded at the same time, so their clocks may differ.
#[test]
fn a_message_echoes_the_shard_that_has_its_group() {
    let mut trio = Trio::new();
    let leader = trio.of(NodeId(1));
    leader.heard((NodeId(2), SESSION), (0, 2), Tick(90));
    leader.heard((NodeId(2), SESSION), (1, 2), Tick(70));
    leader.heard((NodeId(3), SESSION), (0, 1), Tick(5));
    let mut out = Output::default();
    leader.tick(60, &mut out);
    let mut found = BTreeSet::new();
    for (node, message) in out.send {
        let slot = message.group.0.checked_sub(1);
        let expected = match (node, slot.map(|it| it % 2)) {
            (NodeId(3), _) => 5,
            (_, Some(1)) => 70,
            _ => 90,
        };
        assert_eq!(message.echo, Tick(expected), "{message:?}");
        found.insert(expected);
    }
    assert_eq!(found, [5, 70, 90].into());
}

/// A replica in quarantine acknowledges nothing and does not vote, so nothing depends on it.
#[test]
fn a_new_replica_replaces_a_voter_in_quarantine() {
    let mut trio = Trio::new();
    let (group, new) = (Group(1), ReplicaId::new(2, NodeId(3)));
    let (from, to) = (replica(NodeId(1)), replica(NodeId(3)));
    let body = Body::Heartbeat { commit: Index(9), round: None };
    let message = PeerMessage { group, from, to, term: Term(2), echo: Tick::NONE, body };
    let replicas = trio.of(NodeId(3));
    let mut out = Output::default();
    let stepped = replicas.step((NodeId(1), SESSION), true, message, &mut out);
    assert!(matches!(stepped, Err(Lie::Quarantined(_))));
    assert_eq!(replicas.role(group), Some(Role::Quarantined));
    let mut out = Output::default();
    assert_eq!(replicas.create(group, new, &[from], &mut out), Ok(()));
    assert_eq!(out.log, [(group, Record::Born(new))]);
    assert_eq!(replicas.role(group), Some(Role::Follower { leader: None }));
}

/// Records leave memory in their order, but not before they are durable.
#[test]
fn the_oldest_durable_records_leave_memory() {
    let mut cache = Cache::new(250);
    let entry = |index| {
        let content = Content::Records(Bytes::from(vec![0; 100]));
        (Group(1), Record::Entry(Entry { index: Index(index), term: Term(2), content }))
    };
    cache.add(BlockNumber(1), &[entry(1), entry(2)]);
    cache.add(BlockNumber(2), &[entry(3), entry(4)]);
    assert!(cache.pop(BlockNumber(0)).is_none());
    let popped = |cache: &mut Cache, durable| cache.pop(BlockNumber(durable)).map(|it| it.index.0);
    assert_eq!(popped(&mut cache, 1), Some(1));
    assert_eq!(popped(&mut cache, 1), Some(2));
    assert_eq!(popped(&mut cache, 1), None, "200 bytes are left");
    cache.add(BlockNumber(3), &[entry(5)]);
    assert_eq!(popped(&mut cache, 1), None, "not durable");
    assert_eq!(popped(&mut cache, 2), Some(3));
}

/// The node's older replica got the same entry in an earlier block, which becomes durable first.
#[test]
fn records_of_a_newer_replica_stay_until_they_are_durable() {
    let mut trio = Trio::new();
    let (group, new) = (Group(1), ReplicaId::new(2, NodeId(3)));
    let known = [replica(NodeId(1)), replica(NodeId(2)), new];
    let replicas = trio.of(NodeId(3));
    replicas.cache = Cache::new(0);
    let mut out = Output::default();
    let mut step = |replicas: &mut Replicas, to, body| {
        let message =
            PeerMessage { group, from: known[0], to, term: Term(2), echo: Tick::NONE, body };
        replicas.step((NodeId(1), SESSION), true, message, &mut out).unwrap();
    };
    let content = Content::Records(Bytes::from_static(b"records"));
    let entry = Entry { index: Index(2), term: Term(2), content };
    let append = Body::Append {
        previous: (Index(1), Term(1)),
        commit: Index(1),
        entries: vec![entry.clone()],
    };
    step(replicas, replica(NodeId(3)), append.clone());
    replicas.sealed(BlockNumber(1));
    replicas.remove(group, &mut Output::default());
    replicas.create(group, new, &known, &mut Output::default()).unwrap();
    let members = Members::of_voters(known.to_vec());
    let base = Base { index: Index(1), term: Term(1), members };
    step(replicas, new, Body::Install { base });
    step(replicas, new, append);
    let cached = |it: &Replicas| it.replicas[&group].raft().store().cached_block(entry.index);
    for (durable, expected) in [(1, Some(BlockNumber(2))), (2, None)] {
        if durable == 2 {
            replicas.sealed(BlockNumber(2));
        }
        replicas.persisted(BlockNumber(durable), &mut Output::default());
        assert_eq!(cached(replicas), expected);
    }
}

/// A proposal is committed. Once it has left memory, it is read in the background.
#[test]
fn a_leader_commits_and_forgets() {
    let mut trio = Trio::new();
    trio.ticks_to_leaders();
    let group = Group(1);
    let tiny = Config { cache_bytes: 0, ..config() };
    trio.of(NodeId(1)).cache = Cache::new(tiny.cache_bytes);
    let records = Bytes::from_static(b"records");
    let index = trio.call(NodeId(1), |it, out| it.propose(group, records.clone(), out)).unwrap();
    assert_eq!(index, Index(3), "after the base and the leader's first entry");
    let kind = Kind::Records { bytes: 7 };
    let head = EntryHead { index, term: Term(2), kind };
    assert_eq!(trio.of(NodeId(3)).replicas[&group].head(index), Some(head));
    // Node 3 has lost it.
    let mut out = Output::default();
    let leader = trio.of(NodeId(1));
    leader.connected(NodeId(3), Session(2));
    let from = (NodeId(3), Session(2));
    let message = |body| PeerMessage {
        group,
        from: replica(NodeId(3)),
        to: replica(NodeId(1)),
        term: Term(2),
        echo: Tick::NONE,
        body,
    };
    leader.step(from, true, message(Body::Heard { round: None }), &mut out).unwrap();
    let rejected = Body::Rejected { at: Index(3), hint: (Index(2), Term(2)) };
    leader.step(from, true, message(rejected), &mut out).unwrap();
    assert_eq!(out.fetch, [(group, Index(3)..=Index(3))]);
}
