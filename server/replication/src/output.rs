//! The consequences of a call, for the caller.

use crate::{Base, Entry, Group, Index, Members, NodeId, PeerMessage, ReplicaId, Round, Term};
use std::ops::RangeInclusive;

/// The consequences of calls. The caller carries out all of them, and then empties the output.
///
/// Messages may leave at once; those that have to wait for a flush come out of
/// `Replicas::persisted`.
#[derive(Debug, Default)]
pub struct Output {
    /// Records for the open block, in this order.
    pub log: Vec<(Group, Record)>,
    pub send: Vec<(NodeId, PeerMessage)>,
    /// The new commit index of a group. Followers apply the entries up to it.
    pub committed: Vec<(Group, Index)>,
    /// The new members of a group, and the index of the entry that changed them.
    pub members: Vec<(Group, Index, Members)>,
    /// Rounds that a quorum confirmed. Earlier rounds of the group have ended before.
    pub confirmed: Vec<(Group, Round)>,
    /// Rounds that will not be confirmed.
    pub failed: Vec<(Group, Round)>,
    /// Changed roles. A replica that is no longer the leader takes its open entry (records that
    /// were not proposed yet) out of the block, and loads the group again up to the commit index.
    pub roles: Vec<(Group, Role)>,
    /// Entries that followers need, and that are not in memory. The caller reads them for
    /// `Replicas::fetched`.
    pub fetch: Vec<(Group, RangeInclusive<Index>)>,
    /// Replicas that need a snapshot. The caller calls `Replicas::offer` once a replica has it.
    pub restore: Vec<(Group, ReplicaId)>,
    /// Groups whose replica on this node left the group, or was removed. The replica was dropped.
    pub gone: Vec<Group>,
}

/// A record of a group in the log of the shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A new replica: all older records of the group are void, and the log begins at index 0.
    Born(ReplicaId),
    /// A snapshot: all older entries of the group are void, and the log begins at the base. Once
    /// the record is durable, the machines of the group load the snapshot.
    Installed(Base),
    /// The term, and the vote in it.
    Vote(Term, Option<ReplicaId>),
    /// The replica has lost a part of its log. It stays quarantined after a restart, as it could
    /// vote for a candidate that lacks what it has lost.
    Quarantined,
    /// An entry makes void all entries of its group that stand before it in the log and have the
    /// same or a higher index. A durable block is never rewritten.
    Entry(Entry),
}

/// The role of a replica in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Leader {
        term: Term,
        /// Whether an entry of its term is committed. From then on, the leader knows all committed
        /// entries.
        ready: bool,
    },
    Follower {
        leader: Option<ReplicaId>,
    },
    Candidate,
    /// The replica has lost a part of its log, and does nothing until another takes its place.
    Quarantined,
}

impl Role {
    /// The term in which the replica leads.
    pub fn leads(self) -> Option<Term> {
        match self {
            Self::Leader { term, .. } => Some(term),
            Self::Follower { .. } | Self::Candidate | Self::Quarantined => None,
        }
    }
}
