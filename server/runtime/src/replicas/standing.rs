//! How far the replicas of a slot are, as its leader knows it.

use super::Replication;
use muster_replication::{Group, Members, NodeId, ReplicaId};
use muster_storage::LogSlot;

/// The replicas of a slot that this node leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub leader: NodeId,
    pub term: u32,
    /// The last committed entry.
    pub committed: u64,
    /// The replicas with a vote, this one included, in the order of their nodes.
    pub voters: Vec<Voter>,
    /// The replicas without a vote.
    pub learners: Vec<Voter>,
}

/// A replica of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Voter {
    pub node: NodeId,
    /// The last entry that is durable there, as the leader knows it.
    pub durable: u64,
    /// Whether it was heard within the last election timeout.
    pub is_heard: bool,
}

impl Replication {
    /// None if this node does not lead the slot.
    pub fn standing(&self, slot: LogSlot) -> Option<Standing> {
        let group = Group(slot.group());
        let (own, members) = self.replicas.members(group)?;
        let term = self.replicas.role(group)?.leads()?;
        let voter = |replica: ReplicaId| Voter {
            node: replica.node(),
            durable: self.replicas.acknowledged(group, replica).map_or(0, |it| it.0),
            is_heard: replica == own || self.replicas.hears(group, replica) == Some(true),
        };
        let all = |found: &mut dyn Iterator<Item = ReplicaId>| {
            let mut found: Vec<Voter> = found.map(voter).collect();
            found.sort_by_key(|it| it.node);
            found.dedup_by_key(|it| it.node);
            found
        };
        let Members { voters, outgoing, learners } = members;
        Some(Standing {
            leader: own.node(),
            term: term.0,
            committed: self.committed(slot),
            voters: all(&mut voters.iter().chain(outgoing).copied()),
            learners: all(&mut learners.iter().copied()),
        })
    }
}
