//! Replicas of three nodes on the log of `muster-storage`: this is how the two fit together. The
//! adapter of a program is `server/runtime/src/replicas/`: neither crate may know the other.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use muster_codec::record_batch::Batch;
use muster_replication::{
    Base, BlockNumber, Change, Config, Content, Entry, EntryHead, Group, Index, Kind, Members,
    NodeId, Output, PeerMessage, Record, RecoveredGroup, ReplicaId, Replicas, Role, Session, Term,
};
use muster_storage::layout::Format;
use muster_storage::node_state::{
    NodeRecord, NodeState, ReplicaLog, ReplicaState, TailEntry, Vote,
};
use muster_storage::shard_log::recovery::segment_files;
use muster_storage::{
    EntryId, EntryKind, FileDone, FileToken, KeyRule, LogConfig, LogPartition, LogSlot, Marker,
    NewEntry, Recovered, RecoveredItem, Recovery, ShardLog, TopicRule, TopicRules, UNPARTITIONED,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use test_disk::Disk;

const SLOTS: u16 = 3;
const NODES: RangeInclusive<u16> = 1..=3;

const TOPICS: TopicRules = {
    const fn rule(number: u8) -> TopicRule {
        TopicRule { number, lingers: false, keys: KeyRule::SameKey }
    }
    TopicRules::new(&[rule(UNPARTITIONED), rule(0)])
};

fn config() -> LogConfig {
    LogConfig {
        format: Format::Replicated,
        token_tag: 7,
        slots: SLOTS.into(),
        topics: TOPICS,
        ..LogConfig::default()
    }
}

fn groups() -> impl Iterator<Item = Group> {
    (0..=SLOTS).map(Group)
}

/// The partition in which a group has records.
fn partition(group: Group) -> LogPartition {
    match group {
        Group::IMAGE => LogPartition { topic: UNPARTITIONED, index: 0 },
        Group(number) => LogPartition { topic: 0, index: u32::from(number) - 1 },
    }
}

fn marker(replica: ReplicaId, members: &Members) -> Marker {
    let raw = |ids: &[ReplicaId]| ids.iter().map(|it| it.raw()).collect();
    Marker {
        replica: replica.raw(),
        voters: raw(&members.voters),
        outgoing: raw(&members.outgoing),
        learners: raw(&members.learners),
    }
}

fn members(marker: &Marker) -> Members {
    let ids = |raw: &[u64]| raw.iter().map(|it| ReplicaId::from_raw(*it).unwrap()).collect();
    Members {
        voters: ids(&marker.voters),
        outgoing: ids(&marker.outgoing),
        learners: ids(&marker.learners),
    }
}

fn recovered(log: &ReplicaLog) -> RecoveredGroup {
    let head = |it: &TailEntry| {
        let kind = match (it.kind, it.change) {
            (EntryKind::Records, _) => Kind::Records { bytes: it.length },
            (EntryKind::Members, Some(change)) => Kind::Change(Change::decode(&change).unwrap()),
            _ => Kind::Empty,
        };
        EntryHead { index: Index(it.id.index), term: Term(it.id.term), kind }
    };
    let EntryId { index, term } = log.base;
    RecoveredGroup {
        group: Group(log.group),
        replica: ReplicaId::from_raw(log.replica).unwrap(),
        base: Base { index: Index(index), term: Term(term), members: members(&log.members) },
        term: Term(log.term),
        vote: log.vote.and_then(ReplicaId::from_raw),
        commit: Index(log.commit),
        tail: log.tail.iter().map(head).collect(),
        is_quarantined: log.is_quarantined,
        known: vec![],
    }
}

struct Node {
    log: ShardLog,
    disk: Disk,
    replicas: Replicas,
    ids: BTreeMap<Group, ReplicaId>,
    roles: BTreeMap<Group, Role>,
    terms: BTreeMap<Group, u32>,
    committed: BTreeMap<Group, Index>,
    sent: Vec<(NodeId, PeerMessage)>,
    persisted: Option<BlockNumber>,
}

impl Node {
    /// The log as the formation of a cluster leaves it.
    fn formed(node: NodeId) -> Disk {
        let ids: Vec<ReplicaId> = NODES.map(|it| ReplicaId::new(1, NodeId(it))).collect();
        let members = Members::of_voters(ids);
        let marker = marker(ReplicaId::new(1, node), &members);
        let (mut log, mut disk) = (ShardLog::new(config(), Recovered::default()), Disk::default());
        for group in groups() {
            let base = EntryId { index: 1, term: 1 };
            log.write_marker(group.0, base, &marker, &[]).unwrap();
            let since =
                NodeRecord::Members { group: group.0, index: 1, members: Some(marker.clone()) };
            let replica = marker.replica;
            let vote = Vote { replica, state: ReplicaState::Running, term: 1, vote: None };
            let vote = NodeRecord::Vote { group: group.0, vote };
            log.append(LogPartition::NODE, 0, [since, vote]).unwrap();
        }
        log.seal_block().unwrap();
        settle(&mut log, &mut disk);
        disk
    }

    /// A process with this disk.
    fn start(mut disk: Disk) -> Self {
        disk.crash();
        let (found, state, _) = recover(&disk);
        let logs = state.replicas(&found).unwrap();
        let ids = logs.iter().map(|it| (Group(it.group), ReplicaId::from_raw(it.replica).unwrap()));
        let ids = ids.collect();
        let groups = logs.iter().map(recovered).collect();
        disk.close_all();
        let mut out = Output::default();
        let replicas = Replicas::new(Config { slots: SLOTS, cache_bytes: 500 }, groups, &mut out);
        let mut node = Self {
            log: ShardLog::new(config(), found),
            disk,
            replicas: replicas.unwrap_or_else(|it| panic!("{it:?}")),
            ids,
            roles: BTreeMap::new(),
            terms: BTreeMap::new(),
            committed: BTreeMap::new(),
            sent: Vec::new(),
            persisted: None,
        };
        node.follow(out);
        node
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Replicas, &mut Output) -> T) -> T {
        let mut out = Output::default();
        let result = call(&mut self.replicas, &mut out);
        self.follow(out);
        result
    }

    fn follow(&mut self, out: Output) {
        // Roles come before records: if a leader is deposed, the same call may bring entries of the
        // next leader, and its own have to be discarded before these are written.
        for (group, role) in out.roles {
            let before = self.roles.insert(group, role);
            if let Some(term) = role.leads() {
                self.terms.insert(group, term.0);
            } else if before.is_some_and(|it| it.leads().is_some()) {
                self.log.discard(group.0);
            }
        }
        for (group, record) in out.log {
            self.write(group, record);
        }
        for (group, index, members) in out.members {
            self.write_members(group, index, &members);
        }
        for (group, index) in out.committed {
            self.log.commit(group.0, index.0);
            self.committed.insert(group, index);
            self.call(|replicas, out| replicas.applied(group, index, out));
        }
        self.sent.extend(out.send);
        for (group, range) in out.fetch {
            self.fetch(group, range);
        }
        assert!(out.restore.is_empty() && out.gone.is_empty());
    }

    fn write(&mut self, group: Group, record: Record) {
        let replica = self.ids[&group];
        match record {
            Record::Entry(entry) => {
                let (index, term) = (entry.index.0, entry.term.0);
                let new = |kind| NewEntry { group: group.0, kind, index, term, stamp: 0 };
                let written = match &entry.content {
                    Content::Records(bytes) => self.log.write_entry(new(EntryKind::Records), bytes),
                    Content::Empty => self.log.write_entry(new(EntryKind::Empty), &[]),
                    Content::Change(change) => {
                        self.log.write_entry(new(EntryKind::Members), &change.encode())
                    }
                };
                written.unwrap();
            }
            Record::Vote(term, vote) => self.write_vote(group, replica, term, vote),
            Record::Installed(_) | Record::Born(_) | Record::Quarantined => {
                panic!("{record:?} has no place in this story")
            }
        }
    }

    fn write_vote(&mut self, group: Group, by: ReplicaId, term: Term, vote: Option<ReplicaId>) {
        let vote = Vote {
            replica: by.raw(),
            state: ReplicaState::Running,
            term: term.0,
            vote: vote.map(ReplicaId::raw),
        };
        let record = NodeRecord::Vote { group: group.0, vote };
        self.log.append(LogPartition::NODE, 0, [record]).unwrap();
    }

    fn write_members(&mut self, group: Group, index: Index, members: &Members) {
        let members = Some(marker(self.ids[&group], members));
        let record = NodeRecord::Members { group: group.0, index: index.0, members };
        self.log.append(LogPartition::NODE, 0, [record]).unwrap();
    }

    fn fetch(&mut self, group: Group, range: RangeInclusive<Index>) {
        let (first, last) = range.into_inner();
        let (mut ops, token) = (Vec::new(), FileToken(1));
        let plan = self.log.fetch_plan(group.0, first.0..=last.0, 1 << 20, token, &mut ops);
        let mut entries = Vec::new();
        if let Some(plan) = plan {
            let done = self.disk.perform_all(ops);
            let [FileDone::Read { data, .. }] = &done[..] else { panic!("{done:?}") };
            for it in plan.extract(data).unwrap() {
                let content = match it.head.kind {
                    EntryKind::Records => Content::Records(Bytes::from(it.body)),
                    EntryKind::Members => Content::Change(Change::decode(&it.body).unwrap()),
                    EntryKind::Empty | EntryKind::Void => Content::Empty,
                };
                let (index, term) = (Index(it.head.index), Term(it.head.term));
                entries.push(Entry { index, term, content });
            }
            self.log.end_fetch(&plan);
        }
        self.call(|replicas, out| replicas.fetched(group, first, entries, out));
    }

    /// Appends a record, if the node leads the group.
    fn append(&mut self, group: Group, value: &[u8]) -> bool {
        let is_open = self.replicas.is_open(group);
        if is_open {
            let position =
                self.log.append(partition(group), 0, [(&b"key"[..], Some(value))]).unwrap();
            let next = self.replicas.next_index(group).unwrap();
            assert_eq!(
                position, next.0,
                "the log and raft agree on the index that answers wait for"
            );
        }
        is_open
    }

    /// Ends the open block, if one is due: its entries are proposed. It is written by the next
    /// flush.
    fn seal(&mut self) {
        if !self.log.block_is_due(0) {
            return;
        }
        let terms = self.terms.clone();
        for ended in self.log.end_entries(|group| terms[&Group(group)]) {
            let (group, records) = (Group(ended.group), Bytes::from(ended.bytes));
            self.call(|replicas, out| replicas.propose(group, records, out));
        }
        if let Some(number) = self.log.seal_block() {
            self.replicas.sealed(BlockNumber(number));
        }
    }

    fn flush(&mut self) {
        settle(&mut self.log, &mut self.disk);
        let flushed = self.log.is_recovered().then(|| BlockNumber(self.log.flushed_block()));
        if let Some(block) = flushed.filter(|_| flushed > self.persisted) {
            self.persisted = flushed;
            self.call(|replicas, out| replicas.persisted(block, out));
        }
    }
}

fn settle(log: &mut ShardLog, disk: &mut Disk) {
    loop {
        let mut ops = Vec::new();
        log.poll(0, &mut ops);
        if ops.is_empty() {
            return;
        }
        for done in disk.perform_all(ops) {
            log.done(done);
        }
    }
}

/// The values of a partition, as they were replayed.
type Values = BTreeMap<LogPartition, Vec<Vec<u8>>>;

fn recover(disk: &Disk) -> (Recovered, NodeState, Values) {
    let mut recovery = Recovery::new(TOPICS).replicated(SLOTS.into());
    let (mut state, mut values) = (NodeState::default(), Values::new());
    let files = disk.dir(&config().dir);
    for (sequence, name) in segment_files(files.keys().cloned()) {
        let replay = |item: RecoveredItem<'_>| {
            let RecoveredItem::Batch { found, .. } = item else { return };
            match found.partition {
                LogPartition::NODE => state.replay(&found.batch).unwrap(),
                partition => values.entry(partition).or_default().extend(values_of(&found.batch)),
            }
        };
        recovery.items(sequence, files[&name], replay).unwrap();
    }
    (recovery.finish(), state, values)
}

fn values_of(batch: &Batch<'_>) -> Vec<Vec<u8>> {
    batch.records().unwrap().map(|record| record.unwrap().value.unwrap().to_vec()).collect()
}

struct Cluster {
    nodes: BTreeMap<NodeId, Node>,
    /// The nodes that hear nothing, and are not heard.
    cut: BTreeSet<NodeId>,
    starts: u64,
}

impl Cluster {
    fn new() -> Self {
        let nodes = NODES.map(|it| (NodeId(it), Node::start(Node::formed(NodeId(it)))));
        let mut cluster = Self { nodes: nodes.collect(), cut: BTreeSet::new(), starts: 1 };
        cluster.connect();
        cluster
    }

    fn connect(&mut self) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for (id, node) in &mut self.nodes {
            let others = ids.iter().filter(|it| *it != id);
            others.for_each(|it| node.replicas.connected(*it, Session(self.starts)));
        }
    }

    fn leader(&self, group: Group) -> Option<NodeId> {
        let leads = |it: &Node| it.replicas.role(group).is_some_and(|it| it.leads().is_some());
        let heard = self.nodes.iter().filter(|(id, _)| !self.cut.contains(id));
        heard.filter(|(_, it)| leads(it)).map(|(id, _)| *id).next()
    }

    /// A turn of all nodes: a tick at each, and then four times a block, its flush and the delivery
    /// of all messages.
    fn turn(&mut self) {
        for node in self.nodes.values_mut() {
            node.call(|replicas, out| replicas.tick(1, out));
        }
        for _ in 0..4 {
            let mut queue = VecDeque::new();
            for (id, node) in &mut self.nodes {
                node.seal();
                node.flush();
                queue.extend(std::mem::take(&mut node.sent).into_iter().map(|it| (*id, it)));
            }
            for (from, (to, message)) in queue {
                if self.cut.contains(&from) || self.cut.contains(&to) {
                    continue;
                }
                let session = Session(self.starts);
                let node = self.nodes.get_mut(&to).unwrap();
                node.call(|replicas, out| replicas.step((from, session), true, message, out))
                    .unwrap();
            }
        }
    }

    fn turns(&mut self, count: usize) {
        (0..count).for_each(|_| self.turn());
    }

    /// All processes end, and start again.
    fn restart(&mut self) {
        self.starts += 1;
        for node in self.nodes.values_mut() {
            let disk = std::mem::take(&mut node.disk);
            *node = Node::start(disk);
        }
        self.connect();
    }

    /// Checks that the nodes have the same committed records, except that some nodes may lack the
    /// last ones.
    fn check(&self) -> Values {
        let values: Vec<Values> = self.nodes.values().map(|it| recover(&it.disk).2).collect();
        let mut longest = Values::new();
        for (partition, found) in values.iter().flatten() {
            let known = longest.entry(*partition).or_default();
            assert!(known.starts_with(found) || found.starts_with(known), "{partition:?}");
            if found.len() > known.len() {
                known.clone_from(found);
            }
        }
        longest
    }
}

/// Values of groups, in their order.
fn append_everywhere(cluster: &mut Cluster, values: RangeInclusive<u8>) {
    for value in values {
        for group in groups() {
            let leader = cluster.leader(group).unwrap();
            assert!(cluster.nodes.get_mut(&leader).unwrap().append(group, &[value]));
        }
        cluster.turn();
    }
    cluster.turns(8);
}

#[test]
fn three_nodes_agree_and_start_again() {
    let mut cluster = Cluster::new();
    cluster.turns(30);
    append_everywhere(&mut cluster, 1..=20);
    let expected: Vec<Vec<u8>> = (1..=20).map(|it| vec![it]).collect();
    for node in cluster.nodes.values() {
        for group in groups() {
            let slot =
                group.0.checked_sub(1).map_or(LogSlot::UNPARTITIONED, |it| LogSlot::at(it.into()));
            let progress = node.log.progress_of(slot);
            assert_eq!(progress.flushed(), progress.accepted(), "all is visible");
            assert_eq!(node.log.high_watermark(partition(group)), 20);
        }
    }
    cluster.restart();
    cluster.turns(30);
    append_everywhere(&mut cluster, 21..=25);
    let values = cluster.check();
    for group in groups() {
        let found = &values[&partition(group)];
        assert!(found.starts_with(&expected), "group {group:?}");
        assert!(found.len() >= 24, "the last may not be known to be committed");
    }
}

/// The leader has noticed that it is cut off.
#[test]
fn a_leader_that_is_cut_off_takes_back_what_the_others_do_not_have() {
    cut_off(60, false);
}

/// The leader learns of the next leader when that leader's entries replace its own.
#[test]
fn a_leader_that_is_overtaken_takes_back_what_the_others_do_not_have() {
    cut_off(25, true);
}

fn cut_off(turns: usize, still_leads: bool) {
    let mut cluster = Cluster::new();
    cluster.turns(30);
    append_everywhere(&mut cluster, 1..=3);
    let group = Group(1);
    let old = cluster.leader(group).unwrap();
    cluster.cut.insert(old);
    let node = cluster.nodes.get_mut(&old).unwrap();
    for value in [100, 101] {
        assert!(node.append(group, &[value]));
        node.seal();
        node.flush();
    }
    assert!(node.append(group, &[102]), "open, and never proposed");
    assert_eq!(node.log.log_end_offset(partition(group)), 6);
    cluster.turns(turns);
    let leads = cluster.nodes[&old].replicas.role(group).unwrap().leads();
    assert_eq!(leads.is_some(), still_leads);
    let leader = cluster.leader(group).unwrap();
    assert!(cluster.nodes.get_mut(&leader).unwrap().append(group, &[4]));
    cluster.turns(5);
    cluster.cut.clear();
    cluster.turns(60);
    let old = &cluster.nodes[&old];
    assert_eq!(old.log.log_end_offset(partition(group)), 4);
    assert_eq!(old.log.high_watermark(partition(group)), 4);
    cluster.restart();
    cluster.turns(30);
    append_everywhere(&mut cluster, 5..=8);
    let values = cluster.check();
    let found: Vec<u8> = values[&partition(group)].iter().map(|it| it[0]).collect();
    assert!([1, 2, 3, 4, 5, 6, 7, 8].starts_with(&found) && found.len() >= 7, "{found:?}");
}
