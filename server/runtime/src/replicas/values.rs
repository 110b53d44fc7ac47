//! The same values as the log's and as raft's. Neither crate knows the other.

use bytes::Bytes;
use muster_replication::{
    Base, Body, Change, Content, Entry, EntryHead, Group, Index, Kind, Lie, Members, PeerMessage,
    RecoveredGroup, ReplicaId, Term,
};
use muster_storage::node_state::{NodeState, ReplicaLog, TailEntry};
use muster_storage::slot_entry::{CHANGE_BYTES, SLOT_ENTRY_BYTES};
use muster_storage::{
    EntryId, EntryKind, FetchedEntry, LogPartition, Marker, OfferedEntry, Recovered, ShardLog,
};
use std::collections::BTreeSet;

/// The replicas that recovery found.
#[derive(Debug)]
pub struct RecoveredReplicas {
    pub(super) all: Vec<RecoveredReplica>,
    /// The groups whose replicas are gone. The log still has entries of them.
    pub(super) gone: Vec<u16>,
    /// All groups whose replicas are gone.
    left: Vec<u16>,
    /// The groups whose machines cannot apply a committed record.
    pub(super) halted: Vec<u16>,
    /// The partitions of the machines.
    pub(super) partitions: BTreeSet<LogPartition>,
}

#[derive(Debug)]
pub(super) struct RecoveredReplica {
    pub(super) log: ReplicaLog,
    /// The entries with records that are not known to be committed.
    pub(super) uncommitted: Vec<(Index, Bytes)>,
}

impl RecoveredReplicas {
    /// Takes the replicas out of what recovery found. `node` has replayed the node's own records.
    ///
    /// # Errors
    /// The group whose entries or members are not all there: the log has lost records.
    pub fn of(node: &NodeState, found: &mut Recovered) -> Result<Self, u16> {
        let (logs, gone, left) = (node.replicas(found)?, node.gone(found), node.left(found));
        let with_rest = |log: ReplicaLog| {
            let uncommitted = found.take_uncommitted(log.group);
            let uncommitted = uncommitted.map(|(index, body)| (Index(index), Bytes::from(body)));
            RecoveredReplica { uncommitted: uncommitted.collect(), log }
        };
        let all = logs.into_iter().map(with_rest).collect();
        Ok(Self { all, gone, left, halted: Vec::new(), partitions: BTreeSet::new() })
    }

    /// Whether this node has, or had, a replica of the group.
    pub(super) fn has(&self, Group(group): Group) -> bool {
        self.left.contains(&group) || self.all.iter().any(|it| it.log.group == group)
    }
}

pub(super) fn marker(replica: ReplicaId, members: &Members) -> Marker {
    let raw = |ids: &[ReplicaId]| ids.iter().map(|it| it.raw()).collect();
    Marker {
        replica: replica.raw(),
        voters: raw(&members.voters),
        outgoing: raw(&members.outgoing),
        learners: raw(&members.learners),
    }
}

fn members(marker: &Marker) -> Option<Members> {
    let ids =
        |raw: &[u64]| raw.iter().map(|it| ReplicaId::from_raw(*it)).collect::<Option<Vec<_>>>();
    Some(Members {
        voters: ids(&marker.voters)?,
        outgoing: ids(&marker.outgoing)?,
        learners: ids(&marker.learners)?,
    })
}

/// None if a number is impossible.
pub(super) fn recovered_group(log: &ReplicaLog) -> Option<RecoveredGroup> {
    let head = |it: &TailEntry| {
        let kind = match it.kind {
            EntryKind::Records => Kind::Records { bytes: it.length },
            EntryKind::Members => Kind::Change(Change::decode(&it.change?)?),
            EntryKind::Empty | EntryKind::Void => Kind::Empty,
        };
        Some(EntryHead { index: Index(it.id.index), term: Term(it.id.term), kind })
    };
    let EntryId { index, term } = log.base;
    Some(RecoveredGroup {
        group: Group(log.group),
        replica: ReplicaId::from_raw(log.replica)?,
        base: Base { index: Index(index), term: Term(term), members: members(&log.members)? },
        term: Term(log.term),
        vote: log.vote.and_then(ReplicaId::from_raw),
        commit: Index(log.commit),
        tail: log.tail.iter().map(head).collect::<Option<_>>()?,
        is_quarantined: log.is_quarantined,
        known: Vec::new(),
    })
}

/// Entries that were read from the log, up to the first one that is not an entry of raft.
pub(super) fn entries(found: Vec<FetchedEntry>) -> Vec<Entry> {
    let entry = |FetchedEntry { head, body }: FetchedEntry| {
        let content = match head.kind {
            EntryKind::Records => Content::Records(Bytes::from(body)),
            EntryKind::Members => Content::Change(Change::decode(&body)?),
            EntryKind::Empty => Content::Empty,
            EntryKind::Void => return None,
        };
        Some(Entry { index: Index(head.index), term: Term(head.term), content })
    };
    found.into_iter().map_while(entry).collect()
}

/// The number of entries, from the first one on, for which the next block has room.
pub(super) fn fitting(entries: &[Entry], log: &ShardLog) -> usize {
    let len = |entry: &Entry| match &entry.content {
        Content::Records(records) => records.len(),
        Content::Empty => 0,
        Content::Change(_) => CHANGE_BYTES,
    };
    let ends = entries.iter().scan(0, |end, entry| {
        *end += SLOT_ENTRY_BYTES + len(entry);
        Some(*end)
    });
    ends.take_while(|end| log.has_room(*end)).count()
}

/// Checks what raft does not look at: the records in a message. Also refuses snapshots, and records
/// of partitions that this node does not have: its config differs from the leader's.
///
/// # Errors
/// The records are not those of an honest leader. Or the message is one that no node of this
/// version sends.
pub(super) fn check(
    message: &PeerMessage,
    log: &ShardLog,
    partitions: &BTreeSet<LogPartition>,
) -> Result<(), Lie> {
    if let Body::Install { .. } = &message.body {
        // The machines could not load it.
        return Err(Lie::Peer("a snapshot, which no node of this version sends"));
    }
    let Body::Append { previous: (Index(index), Term(term)), entries, .. } = &message.body else {
        return Ok(());
    };
    let offered = entries.iter().map(offered);
    if offered.clone().any(|it| it.records.len() > log.entry_bytes_max()) {
        return Err(Lie::Peer("an entry longer than any that a node writes"));
    }
    let previous = EntryId { index: *index, term: *term };
    let checked = log.check_offered(message.group.0, previous, offered);
    checked.map_err(|_| Lie::Peer("an entry with records that its leader cannot have"))?;
    let has_all = |offered: OfferedEntry<'_>| {
        let mut batches = offered.batches(message.group.0, log.topics());
        batches.all(|it| it.is_ok_and(|(partition, _)| partitions.contains(&partition)))
    };
    if !entries.iter().map(self::offered).all(has_all) {
        return Err(Lie::Peer("records of a partition that this node does not have"));
    }
    Ok(())
}

fn offered(entry: &Entry) -> OfferedEntry<'_> {
    let (kind, records) = match &entry.content {
        Content::Records(records) => (EntryKind::Records, &records[..]),
        Content::Empty => (EntryKind::Empty, &[][..]),
        Content::Change(_) => (EntryKind::Members, &[][..]),
    };
    OfferedEntry { id: EntryId { index: entry.index.0, term: entry.term.0 }, kind, records }
}
