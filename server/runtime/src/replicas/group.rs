//! One group at this node.

use super::rounds::Rounds;
use super::waiting::Waiting;
use bytes::Bytes;
use muster_replication::{Index, NodeId, RecoveredGroup, ReplicaId, Role, Term};
use muster_storage::{EntryKind, LogSlot};
use std::collections::VecDeque;

/// Whether a node answers requests for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// It leads the slot, and its machines have all committed records.
    Here,
    /// It was elected, and will serve the slot soon unless it is deposed.
    Soon,
    /// It does not lead the slot.
    Elsewhere,
}

/// The leader of a slot that a node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leading {
    pub slot: LogSlot,
    /// None if the node knows no leader of the term.
    pub leader: Option<NodeId>,
    pub term: u32,
}

/// The records that the machines of a group have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The committed records up to `applied`. The following ones are replayed as they are
    /// committed.
    Following,
    /// All records of the log: the node leads, and applies records when the log accepts them.
    Leading,
    /// Records that may never be committed. The caller does not know yet that the node is deposed.
    Deposed,
    /// The same, but the caller knows, and the machines may be reset.
    Undoing,
    /// The records up to `applied`, of those up to `until` that are read from the log.
    Reloading { until: Index },
    /// None: they cannot apply a committed record.
    Halted,
}

/// A group at this node. All numbers are indexes of its raft log.
#[derive(Debug)]
pub(super) struct OfGroup {
    pub(super) replica: ReplicaId,
    pub(super) role: Role,
    /// The newest term, and the vote in it. All records of the replica's state have them.
    pub(super) vote: (Term, Option<ReplicaId>),
    pub(super) stage: Stage,
    pub(super) committed: Index,
    /// The last entry that the machines have. A leader's machines have more, which is not counted.
    pub(super) applied: Index,
    /// The commit index when the node was deposed: entries up to it are read from the log.
    pub(super) undo_to: Index,
    /// The entries with records that no follower's machines may apply yet. In every role: those of
    /// a leader that is deposed may be committed by the next leader.
    pub(super) waiting: Waiting,
    /// Entries that were read from the log for the machines, in order.
    pub(super) reloaded: VecDeque<(Index, EntryKind, Vec<u8>)>,
    /// Whether a read for the machines is wanted or under way.
    pub(super) is_reading: bool,
    pub(super) rounds: Rounds,
    /// Whether the replica has left the group. The group is dropped with what its machines have.
    pub(super) is_gone: bool,
}

impl OfGroup {
    pub(super) fn new(found: &RecoveredGroup, uncommitted: Vec<(Index, Bytes)>) -> Self {
        let commit = found.commit;
        Self {
            replica: found.replica,
            role: Role::Follower { leader: None },
            vote: (found.term, found.vote),
            stage: Stage::Following,
            committed: commit,
            applied: commit,
            undo_to: commit,
            waiting: Waiting::new(uncommitted),
            reloaded: VecDeque::new(),
            is_reading: false,
            rounds: Rounds::new(),
            is_gone: false,
        }
    }

    /// The term in which the node leads.
    pub(super) fn term(&self) -> Option<u32> {
        self.role.leads().map(|term| term.0)
    }

    pub(super) fn serving(&self) -> Serving {
        match (self.role.leads(), self.stage) {
            (Some(_), Stage::Leading) => Serving::Here,
            (Some(_), _) => Serving::Soon,
            (None, _) => Serving::Elsewhere,
        }
    }

    /// The bytes of records that a leader has accepted and that wait for their commit.
    pub(super) fn uncommitted_bytes(&self) -> usize {
        if self.stage == Stage::Leading { self.waiting.bytes() } else { 0 }
    }

    pub(super) fn leader(&self) -> Option<NodeId> {
        match self.role {
            Role::Leader { .. } => Some(self.replica.node()),
            Role::Follower { leader } => leader.map(ReplicaId::node),
            Role::Candidate | Role::Quarantined => None,
        }
    }

    /// The role has changed. Returns whether the node has led in a term that has ended.
    pub(super) fn set_role(&mut self, role: Role) -> bool {
        let before = self.role.leads();
        self.role = role;
        let is_over = before.is_some() && before != role.leads();
        if is_over && self.stage == Stage::Leading {
            (self.stage, self.undo_to) = (Stage::Deposed, self.committed);
        }
        is_over
    }

    /// An entry was added to the log. Those from its index on are void.
    pub(super) fn added(&mut self, index: Index, records: Option<Bytes>) {
        self.waiting.put(index, records);
    }

    /// Entries up to this one are committed. While the machines are loaded again, records of about
    /// `bytes_max` wait in memory: if there are more, they are read from the log, too.
    pub(super) fn commit(&mut self, index: Index, bytes_max: usize) {
        self.committed = index;
        let is_too_much = self.waiting.bytes() >= bytes_max;
        match &mut self.stage {
            Stage::Leading => self.applied = index,
            Stage::Reloading { until } if is_too_much => *until = index,
            _ => return,
        }
        while self.waiting.pop(index).is_some() {}
    }

    /// The machines cannot apply a committed record. They have none until the process ends.
    pub(super) fn halt(&mut self) {
        self.stage = Stage::Halted;
        self.waiting = Waiting::default();
        self.reloaded.clear();
    }

    /// The replica has left the group. If it has led, its caller does not know yet that it does so
    /// no longer.
    pub(super) fn leave(&mut self) {
        (self.role, self.is_gone) = (Role::Follower { leader: None }, true);
        if self.stage != Stage::Deposed {
            self.stage = Stage::Undoing;
        }
    }

    /// The last entry that an answer of this node may rely on. While the caller does not know that
    /// the node was deposed, its answers wait for entries that another leader may have replaced.
    pub(super) fn answered(&self) -> Index {
        if self.stage == Stage::Deposed { self.undo_to } else { self.committed }
    }

    /// The next committed entry with records that the machines do not have.
    pub(super) fn next_committed(&mut self) -> Option<(Index, Bytes)> {
        self.waiting.pop(self.committed)
    }
}
