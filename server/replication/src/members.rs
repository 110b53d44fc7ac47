//! The replicas of a group, and the changes of them.

use crate::{Index, ReplicaId, Term};

/// The configuration of a group.
///
/// While a replica replaces another, the configuration is *joint*: a decision needs a majority of
/// the voters, and a majority of the outgoing voters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members {
    pub voters: Vec<ReplicaId>,
    /// The voters before the change, while the configuration is joint.
    pub outgoing: Vec<ReplicaId>,
    /// The replicas that receive entries and do not vote.
    pub learners: Vec<ReplicaId>,
}

impl Members {
    /// A configuration of voters only.
    pub fn of_voters(voters: Vec<ReplicaId>) -> Self {
        Self { voters, ..Self::default() }
    }

    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// All replicas of the configuration. In a joint one, some occur twice.
    pub fn all(&self) -> impl Iterator<Item = ReplicaId> {
        self.voters.iter().chain(&self.outgoing).chain(&self.learners).copied()
    }

    pub fn contains(&self, replica: ReplicaId) -> bool {
        self.all().any(|it| it == replica)
    }

    /// Whether the change is possible in this configuration: for example, only a learner can be
    /// removed. A joint configuration ends before the next change. A group without voters gets its
    /// members from a snapshot.
    pub fn fits(&self, change: Change) -> bool {
        let fits_ids = match change {
            Change::AddLearner(id) => !self.contains(id),
            Change::RemoveLearner(id) => self.learners.contains(&id),
            Change::Replace { old, new } => {
                self.voters.contains(&old) && self.learners.contains(&new)
            }
            Change::Leave => true,
        };
        let ends = change == Change::Leave;
        !self.voters.is_empty() && self.is_joint() == ends && fits_ids
    }

    /// Whether the replica has a vote.
    pub fn is_voter(&self, replica: ReplicaId) -> bool {
        self.voters.contains(&replica) || self.outgoing.contains(&replica)
    }
}

/// The place at which the log of a replica begins: the entries up to it are merged into the state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Base {
    pub index: Index,
    pub term: Term,
    pub members: Members,
}

/// A change of members. One change is in progress at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    AddLearner(ReplicaId),
    RemoveLearner(ReplicaId),
    /// The learner becomes a voter in place of the old voter. The configuration is joint
    /// afterwards, until [`Change::Leave`].
    Replace {
        old: ReplicaId,
        new: ReplicaId,
    },
    /// The end of a joint configuration: the outgoing voters are no longer members.
    Leave,
}

impl Change {
    /// The length of an encoded change: a byte for its kind, and two ids, of which unused ones
    /// are 0.
    pub const ENCODED: usize = 17;

    pub fn encode(self) -> [u8; Self::ENCODED] {
        let (kind, first, second) = match self {
            Self::AddLearner(id) => (0, id.raw(), 0),
            Self::RemoveLearner(id) => (1, id.raw(), 0),
            Self::Replace { old, new } => (2, old.raw(), new.raw()),
            Self::Leave => (3, 0, 0),
        };
        let mut bytes = [0; Self::ENCODED];
        bytes[0] = kind;
        bytes[1..9].copy_from_slice(&first.to_le_bytes());
        bytes[9..].copy_from_slice(&second.to_le_bytes());
        bytes
    }

    /// The change with this encoding. None if no change is encoded like this.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[kind], ids) = bytes.split_first_chunk::<1>()?;
        let (first, second) = ids.split_first_chunk::<8>()?;
        let first = ReplicaId::from_raw(u64::from_le_bytes(*first));
        let second = ReplicaId::from_raw(u64::from_le_bytes(second.try_into().ok()?));
        let change = match (kind, first, second) {
            (0, Some(id), None) => Self::AddLearner(id),
            (1, Some(id), None) => Self::RemoveLearner(id),
            (2, Some(old), Some(new)) => Self::Replace { old, new },
            (3, None, None) => Self::Leave,
            _ => return None,
        };
        (change.encode() == bytes).then_some(change)
    }

    /// The replicas that the change names.
    pub fn replicas(self) -> impl Iterator<Item = ReplicaId> {
        let (first, second) = match self {
            Self::AddLearner(id) | Self::RemoveLearner(id) => (Some(id), None),
            Self::Replace { old, new } => (Some(old), Some(new)),
            Self::Leave => (None, None),
        };
        first.into_iter().chain(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;

    #[test]
    fn a_change_is_decoded_from_its_own_encoding_only() {
        let (old, new) = (ReplicaId::new(1, NodeId(3)), ReplicaId::new(1 << 40, NodeId(0)));
        let changes = [
            Change::AddLearner(new),
            Change::RemoveLearner(old),
            Change::Replace { old, new },
            Change::Leave,
        ];
        for change in changes {
            let bytes = change.encode();
            assert_eq!(Change::decode(&bytes), Some(change));
            assert_eq!(Change::decode(&bytes[..16]), None);
            for at in 0..bytes.len() {
                let mut other = bytes;
                other[at] ^= 0x80;
                assert_ne!(Change::decode(&other), Some(change));
            }
        }
        // An unused id has to be 0, even if it is no valid id.
        let mut leave = Change::Leave.encode();
        leave[1] = 1;
        assert_eq!(Change::decode(&leave), None);
        assert_eq!(Change::decode(&[]), None);
    }
}
