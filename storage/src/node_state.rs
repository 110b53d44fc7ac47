//! The node's own records in a replicated log: facts about its groups that the node has to know at
//! startup, and that no other node knows. They are in partition -2, and visible once they are
//! durable.
//!
//! A vote is sent to other nodes only after the block with its record is durable. If an entry
//! changes the members of a group, the record of the members follows in the next block or a later
//! one. A snapshot that includes the change gets its name only after both blocks are durable.

use crate::shard_log::{EntryId, Kept, Recovered};
use crate::slot_entry::{CHANGE_BYTES, EntryKind, GROUP_MAX, INDEX_LIMIT, Marker, TERM_LIMIT};
use muster_codec::record_batch::{Batch, WriteRecord};
use muster_codec::wire::{DecodeError, Reader, Result};
use std::collections::BTreeMap;

const VOTE: i16 = 0;
const MEMBERS: i16 = 1;
const FORMATION: i16 = 2;

/// The version of all values.
const VERSION: i16 = 0;

/// The most nodes of a formation.
pub const FORMATION_MAX: usize = 16;

/// A record of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeRecord {
    /// The replica of a group, with its term and vote.
    Vote { group: u16, vote: Vote },
    /// The members of a group since the entry with this index, and the replica whose log has this
    /// entry. If `members` is None, the record is deleted: the log now begins after a later change
    /// of members.
    Members { group: u16, index: u64, members: Option<Marker> },
    /// The formation of the cluster.
    Formation(Formation),
}

/// A replica's term and vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vote {
    pub replica: u64,
    pub state: ReplicaState,
    pub term: u32,
    /// The replica that got the vote in this term.
    pub vote: Option<u64>,
}

/// Whether a replica takes part in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaState {
    Running,
    /// The replica has lost a part of its log, and waits until another replica takes its place.
    Quarantined,
    /// The replica is no member any more.
    Gone,
}

/// The nodes that form a cluster, and their directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formation {
    /// Whether all nodes have acknowledged it.
    pub is_complete: bool,
    pub cluster: [u8; 16],
    /// Node ids, and the ids of their directories.
    pub nodes: Vec<(u16, [u8; 16])>,
}

impl ReplicaState {
    fn number(self) -> u8 {
        match self {
            Self::Running => 0,
            Self::Quarantined => 1,
            Self::Gone => 2,
        }
    }

    fn of_number(number: u8) -> Option<Self> {
        [Self::Running, Self::Quarantined, Self::Gone].into_iter().find(|it| it.number() == number)
    }
}

impl WriteRecord for NodeRecord {
    fn write_key(&self, out: &mut Vec<u8>) {
        match self {
            Self::Vote { group, .. } => {
                out.extend(VOTE.to_be_bytes());
                out.extend(group.to_be_bytes());
            }
            Self::Members { group, index, .. } => {
                out.extend(MEMBERS.to_be_bytes());
                out.extend(group.to_be_bytes());
                out.extend(index.to_be_bytes());
            }
            Self::Formation(_) => out.extend(FORMATION.to_be_bytes()),
        }
    }

    fn write_value(&self, out: &mut Vec<u8>) -> bool {
        if let Self::Members { members: None, .. } = self {
            return false;
        }
        out.extend(VERSION.to_be_bytes());
        match self {
            Self::Vote { vote: Vote { replica, state, term, vote }, .. } => {
                out.extend(replica.to_be_bytes());
                out.push(state.number());
                out.extend(term.to_be_bytes());
                out.extend(vote.unwrap_or(0).to_be_bytes());
            }
            Self::Members { members, .. } => members.iter().for_each(|it| it.write(out)),
            Self::Formation(Formation { is_complete, cluster, nodes }) => {
                assert!(nodes.len() <= FORMATION_MAX, "too many nodes");
                out.push(u8::from(*is_complete));
                out.extend(cluster);
                out.push(nodes.len() as u8);
                for (node, directory) in nodes {
                    out.extend(node.to_be_bytes());
                    out.extend(directory);
                }
            }
        }
        true
    }
}

impl NodeRecord {
    /// Reads a record. A value of None is a tombstone.
    ///
    /// # Errors
    /// The bytes are not a record of this version.
    pub fn read(key: &[u8], value: Option<&[u8]>) -> Result<Self> {
        let invalid = |what| Err(DecodeError::InvalidBatch(what));
        let mut reader = Reader::new(key);
        let kind = reader.i16()?;
        let mut group = || {
            let group = reader.array().map(u16::from_be_bytes)?;
            let unknown = DecodeError::InvalidBatch("a record of the node with an unknown group");
            (group <= GROUP_MAX).then_some(group).ok_or(unknown)
        };
        let record = match kind {
            VOTE => Self::Vote { group: group()?, vote: Vote::read(value)? },
            MEMBERS => {
                let group = group()?;
                let index = reader.array().map(u64::from_be_bytes)?;
                if index >= INDEX_LIMIT {
                    return invalid("members since an impossible index");
                }
                let members = value.map(|value| Marker::read(of_version(value)?)).transpose()?;
                Self::Members { group, index, members }
            }
            FORMATION => Self::Formation(Formation::read(value)?),
            _ => return invalid("a record of the node of an unknown type"),
        };
        if reader.remaining() > 0 {
            return invalid("bytes after the key of a record of the node");
        }
        Ok(record)
    }
}

fn of_version(value: &[u8]) -> Result<&[u8]> {
    let mut reader = Reader::new(value);
    let unknown = DecodeError::InvalidBatch("a record of the node of an unknown version");
    (reader.i16()? == VERSION).then_some(reader.rest()).ok_or(unknown)
}

const MISSING: DecodeError = DecodeError::InvalidBatch("a record of the node without a value");

impl Vote {
    fn read(value: Option<&[u8]>) -> Result<Self> {
        let mut reader = Reader::new(of_version(value.ok_or(MISSING)?)?);
        let replica = reader.array().map(u64::from_be_bytes)?;
        let state = ReplicaState::of_number(reader.u8()?);
        let term = reader.array().map(u32::from_be_bytes)?;
        let vote = Some(reader.array().map(u64::from_be_bytes)?).filter(|vote| *vote != 0);
        let invalid = DecodeError::InvalidBatch("an impossible vote");
        let is_valid = replica != 0 && term < TERM_LIMIT && reader.remaining() == 0;
        let state = state.filter(|_| is_valid).ok_or(invalid)?;
        Ok(Self { replica, state, term, vote })
    }
}

impl Formation {
    fn read(value: Option<&[u8]>) -> Result<Self> {
        let invalid = |what| Err(DecodeError::InvalidBatch(what));
        let mut reader = Reader::new(of_version(value.ok_or(MISSING)?)?);
        let is_complete = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return invalid("an unknown state of a formation"),
        };
        let cluster = reader.array()?;
        let count = reader.u8()?;
        if usize::from(count) > FORMATION_MAX {
            return invalid("a formation of too many nodes");
        }
        let mut node = || Ok((reader.array().map(u16::from_be_bytes)?, reader.array()?));
        let nodes = (0..count).map(|_| node()).collect::<Result<_>>()?;
        if reader.remaining() > 0 {
            return invalid("bytes after a formation");
        }
        Ok(Self { is_complete, cluster, nodes })
    }
}

/// The state that the node's records make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeState {
    votes: BTreeMap<u16, Vote>,
    members: BTreeMap<(u16, u64), Marker>,
    formation: Option<Formation>,
}

/// A group's log as recovery found it. The node's replica of the group starts with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaLog {
    pub group: u16,
    pub replica: u64,
    pub is_quarantined: bool,
    /// The last entry before the beginning of the log. `members` are the members at this entry.
    pub base: EntryId,
    pub members: Marker,
    pub term: u32,
    pub vote: Option<u64>,
    pub commit: u64,
    /// The entries after the base.
    pub tail: Vec<TailEntry>,
}

/// An entry after the base, without its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailEntry {
    pub id: EntryId,
    pub kind: EntryKind,
    pub length: u32,
    /// The body, if the entry changes the members.
    pub change: Option<[u8; CHANGE_BYTES]>,
}

impl NodeState {
    pub fn formation(&self) -> Option<&Formation> {
        self.formation.as_ref()
    }

    /// The last term and vote of a group's replica.
    pub fn vote(&self, group: u16) -> Option<Vote> {
        self.votes.get(&group).copied()
    }

    /// Applies a record.
    pub fn apply(&mut self, record: NodeRecord) {
        match record {
            NodeRecord::Vote { group, vote } => {
                self.votes.insert(group, vote);
            }
            NodeRecord::Members { group, index, members: Some(members) } => {
                self.members.insert((group, index), members);
            }
            NodeRecord::Members { group, index, members: None } => {
                self.members.remove(&(group, index));
            }
            NodeRecord::Formation(formation) => self.formation = Some(formation),
        }
    }

    /// Applies a batch of the node's partition.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn replay(&mut self, batch: &Batch<'_>) -> Result<()> {
        for record in batch.records()? {
            let record = record?;
            self.apply(NodeRecord::read(record.key.unwrap_or_default(), record.value)?);
        }
        Ok(())
    }

    /// The members of the group at the entry `index`, according to the log of this replica.
    pub fn members_at(&self, group: u16, replica: u64, index: u64) -> Option<&Marker> {
        let earlier = self.members.range((group, 0)..=(group, index)).rev();
        earlier.map(|(_, members)| members).find(|members| members.replica == replica)
    }

    /// The tombstones for those records of a group's members that a later record replaces at or
    /// before the entry `base`.
    pub fn outdated(&self, group: u16, base: u64) -> Vec<NodeRecord> {
        let earlier: Vec<u64> =
            self.members.range((group, 0)..=(group, base)).map(|((_, index), _)| *index).collect();
        let outdated = earlier.iter().rev().skip(1).rev();
        outdated.map(|index| NodeRecord::Members { group, index: *index, members: None }).collect()
    }

    /// The state of a group's last replica on this node.
    fn state(&self, group: u16, found: &Recovered) -> ReplicaState {
        let vote = self.vote(group).filter(|vote| found.replica(group) <= Some(vote.replica));
        vote.map_or(ReplicaState::Running, |it| it.state)
    }

    fn is_gone(&self, group: u16, found: &Recovered) -> bool {
        self.state(group, found) == ReplicaState::Gone
    }

    /// The groups whose replica is gone. The log may have entries of them.
    pub fn left(&self, found: &Recovered) -> Vec<u16> {
        self.votes.keys().copied().filter(|group| self.is_gone(*group, found)).collect()
    }

    /// The groups whose replica is gone, and of which the log has entries. They are void
    /// ([`ShardLog::end_group`](crate::shard_log::ShardLog::end_group)).
    pub fn gone(&self, found: &Recovered) -> Vec<u16> {
        self.left(found).into_iter().filter(|group| found.has_group(*group)).collect()
    }

    /// The logs of the node's replicas.
    ///
    /// # Errors
    /// The log has lost records: the members of a group are not known, or some of its entries are
    /// missing. The error is this group.
    pub fn replicas(&self, found: &Recovered) -> std::result::Result<Vec<ReplicaLog>, u16> {
        // Compaction may have taken a part of what is left of a replica that is gone. A quarantined
        // one must not keep the other groups from their start.
        let is_running = |group: &u16| self.state(*group, found) == ReplicaState::Running;
        if let Some(group) = found.incomplete_groups().find(is_running) {
            return Err(group);
        }
        let mut replicas = Vec::new();
        for (group, log) in found.groups().filter(|(group, _)| *group <= GROUP_MAX) {
            let vote = self.vote(group);
            // The id of a replica begins with its generation, which ascends with each placement of
            // the group on this node. So the highest id is that of the current replica.
            let replica = log.replica().max(vote.map(|it| it.replica)).ok_or(group)?;
            let vote = vote.filter(|it| it.replica == replica);
            let state = self.state(group, found);
            if state == ReplicaState::Gone {
                continue;
            }
            let is_quarantined = state == ReplicaState::Quarantined;
            let base = log.base();
            let members = self.members_at(group, replica, base.index).cloned();
            let born = Marker { replica, ..Marker::default() };
            let members =
                members.or((base.index == 0 || is_quarantined).then_some(born)).ok_or(group)?;
            let tail = |(index, kept): (u64, &Kept)| TailEntry {
                id: EntryId { index, term: kept.term },
                kind: kept.kind,
                length: kept.length,
                change: log.change(index).copied(),
            };
            replicas.push(ReplicaLog {
                group,
                replica,
                is_quarantined,
                base,
                members,
                term: vote.map_or(0, |it| it.term),
                vote: vote.and_then(|it| it.vote),
                commit: log.commit(),
                tail: log.kept().map(tail).collect(),
            });
        }
        Ok(replicas)
    }
}

#[cfg(test)]
mod tests;
