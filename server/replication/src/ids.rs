//! The numbers of groups, nodes, replicas, terms and entries. Each is a type of its own, so that
//! the compiler refuses one in place of another.

use std::fmt;
use std::num::NonZeroU64;

/// A raft group. Group 0 has the image of the cluster, and group s + 1 is slot s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub u16);

impl Group {
    /// The group that has the image of the cluster.
    pub const IMAGE: Self = Self(0);
}

/// A process of muster on one machine: Kafka's `node.id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// The number of a term, in which a group has at most one leader. The first leader of a group has
/// term 2, as the formation of the cluster counts as term 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Term(pub u32);

impl Term {
    /// No term reaches this number: raft adds 1 to terms without a check.
    pub const LIMIT: Self = Self(1 << 31);
}

/// The number of an entry in the log of its group. The first entry has number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Index(pub u64);

impl Index {
    /// No index reaches this number: raft adds to indexes without a check.
    pub const LIMIT: Self = Self(1 << 48);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The part of a group on one node. The number is its id in raft.
///
/// It contains the node, and a generation. Group 0 assigns a new generation, never used before,
/// each time it places a slot on a node. So late acknowledgements of an older replica do not count
/// for a newer replica on the same node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(NonZeroU64);

impl ReplicaId {
    /// The number of bits of the node id. They are the lowest bits of a replica's number.
    const NODE_BITS: u32 = 16;

    /// # Panics
    ///
    /// If the generation is 0, or does not fit into 48 bits.
    pub const fn new(generation: u64, node: NodeId) -> Self {
        assert!(
            generation >> (u64::BITS - Self::NODE_BITS) == 0,
            "the generation has over 48 bits"
        );
        match Self::from_raw(generation << Self::NODE_BITS | node.0 as u64) {
            Some(id) => id,
            None => panic!("the first generation is 1"),
        }
    }

    /// The replica whose number in raft, on a wire or on a disk is `raw`. None if its generation
    /// would be 0.
    pub const fn from_raw(raw: u64) -> Option<Self> {
        match NonZeroU64::new(raw) {
            Some(id) if raw >> Self::NODE_BITS != 0 => Some(Self(id)),
            Some(_) | None => None,
        }
    }

    pub const fn raw(self) -> u64 {
        self.0.get()
    }

    pub const fn node(self) -> NodeId {
        NodeId(self.raw() as u16)
    }

    pub const fn generation(self) -> u64 {
        self.raw() >> Self::NODE_BITS
    }
}

/// Node 3 in generation 7 is `3#7`.
impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.node().0, self.generation())
    }
}

/// The number of a block in the log of the shard. A process numbers its blocks from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockNumber(pub u64);

impl BlockNumber {
    /// All blocks that recovery found.
    pub const RECOVERED: Self = Self(0);
}

/// The number of a process of a node. Each later process of the node has another number. A new
/// process may have lost what an earlier one acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_id_has_generation_and_node() {
        for (generation, node) in [(1, 0), (1, 3), (7, u16::MAX), ((1 << 48) - 1, u16::MAX)] {
            let id = ReplicaId::new(generation, NodeId(node));
            assert_eq!((id.generation(), id.node()), (generation, NodeId(node)));
            assert_eq!(ReplicaId::from_raw(id.raw()), Some(id));
        }
        assert_eq!(format!("{:?}", ReplicaId::new(7, NodeId(3))), "3#7");
    }

    #[test]
    fn a_number_without_a_generation_is_no_replica() {
        for raw in [0, 1, u64::from(u16::MAX)] {
            assert_eq!(ReplicaId::from_raw(raw), None);
        }
    }

    #[test]
    #[should_panic = "over 48 bits"]
    fn a_generation_has_48_bits() {
        let _ = ReplicaId::new(1 << 48, NodeId(1));
    }
}
