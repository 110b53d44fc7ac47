//! The partitions of a shard's log. The log has one order for all records; each partition has
//! offsets of its own.

use crate::topic_rules::TopicRules;
use muster_codec::wire::{DecodeError, Result};

/// A partition of a topic in a shard's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPartition {
    /// The number of the topic: see [`TopicRule`](crate::TopicRule).
    pub topic: u8,
    /// The number of the partition, below [`PARTITIONS_MAX`]. In the topic [`UNPARTITIONED`] it is
    /// 0, or 1 for [`LogPartition::NODE`].
    pub index: u32,
}

/// The most partitions of a topic.
pub const PARTITIONS_MAX: usize = 10_000;

/// The number of the topic that has only one partition. In a block, the bytes of this partition are
/// those of the int32 -1. In a replicated log the topic also has the partition
/// [`LogPartition::NODE`], with -2.
pub const UNPARTITIONED: u8 = 255;

/// In a block, a partition is four bytes: the topic's number, and then this many bits for the
/// partition's index.
const INDEX_BITS: u32 = 24;

/// The index that a block has for the only partition of [`UNPARTITIONED`]; in memory it is 0.
const UNPARTITIONED_INDEX: u32 = (1 << INDEX_BITS) - 1;

const _: () = assert!(PARTITIONS_MAX <= 1 << INDEX_BITS);

impl LogPartition {
    /// The node's own partition in a replicated log. Its records are not replicated.
    pub const NODE: Self = Self { topic: UNPARTITIONED, index: 1 };

    /// Whether the index is in range. The topic is not checked.
    pub fn is_valid(self) -> bool {
        let partitions = if self.topic == UNPARTITIONED { 2 } else { PARTITIONS_MAX };
        (self.index as usize) < partitions
    }

    /// The four bytes before a batch in a block.
    pub(crate) fn to_bytes(self) -> [u8; 4] {
        debug_assert!(self.is_valid(), "{self:?} is out of range");
        let is_unpartitioned = self.topic == UNPARTITIONED;
        let index = if is_unpartitioned { UNPARTITIONED_INDEX - self.index } else { self.index };
        (u32::from(self.topic) << INDEX_BITS | index).to_be_bytes()
    }

    /// Reads a partition that [`LogPartition::to_bytes`] wrote. [`Self::NODE`] is not allowed here.
    ///
    /// # Errors
    /// The topic is not one of `topics`, or the partition is out of range.
    pub(crate) fn from_bytes(bytes: [u8; 4], topics: TopicRules) -> Result<Self> {
        let number = u32::from_be_bytes(bytes);
        let (topic, index) = ((number >> INDEX_BITS) as u8, number & ((1 << INDEX_BITS) - 1));
        if topics.get(topic).is_none() {
            return Err(DecodeError::InvalidBatch("a partition of an unknown internal topic"));
        }
        let is_unpartitioned = topic == UNPARTITIONED;
        let index = if is_unpartitioned { UNPARTITIONED_INDEX - index } else { index };
        let partition = Self { topic, index };
        let out_of_range = DecodeError::InvalidBatch("a partition that is out of range");
        let is_valid = partition.is_valid() && partition != Self::NODE;
        is_valid.then_some(partition).ok_or(out_of_range)
    }

    /// Reads what [`LogPartition::to_bytes`] wrote for [`Self::NODE`].
    ///
    /// # Errors
    /// The bytes name another partition.
    pub(crate) fn of_node(bytes: [u8; 4]) -> Result<Self> {
        let is_of_node = bytes == Self::NODE.to_bytes();
        let other = DecodeError::InvalidBatch("another partition in an entry of the node");
        is_of_node.then_some(Self::NODE).ok_or(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic_rules::{KeyRule, TopicRule};

    const fn rule(number: u8) -> TopicRule {
        TopicRule { number, lingers: false, keys: KeyRule::SameKey }
    }

    const TOPICS: TopicRules = TopicRules::new(&[rule(UNPARTITIONED), rule(0), rule(1), rule(2)]);

    #[test]
    fn partitions_of_the_first_format_keep_their_bytes() {
        for (topic, index, bytes) in [
            (UNPARTITIONED, 0, [0xff; 4]),
            (0, 0, [0; 4]),
            (0, 9_999, [0, 0, 0x27, 0x0f]),
            (1, 0, [1, 0, 0, 0]),
            (1, 9_999, [1, 0, 0x27, 0x0f]),
            (2, 0, [2, 0, 0, 0]),
            (2, 9_999, [2, 0, 0x27, 0x0f]),
        ] {
            let partition = LogPartition { topic, index };
            assert_eq!(partition.to_bytes(), bytes);
            assert_eq!(LogPartition::from_bytes(bytes, TOPICS), Ok(partition));
        }
    }

    #[test]
    fn the_partition_of_the_node_is_only_read_where_it_may_stand() {
        let bytes = LogPartition::NODE.to_bytes();
        assert_eq!(bytes, (-2i32).to_be_bytes());
        assert_eq!(LogPartition::of_node(bytes), Ok(LogPartition::NODE));
        assert!(LogPartition::of_node([0xff; 4]).is_err());
        assert!(LogPartition::from_bytes(bytes, TOPICS).is_err());
    }

    #[test]
    fn topics_without_a_rule_and_indexes_out_of_range_are_refused() {
        for bytes in [
            [0, 0, 0x27, 0x10],
            [0, 0xff, 0xff, 0xff],
            [1, 0, 0x27, 0x10],
            [2, 0, 0x27, 0x10],
            [3, 0, 0, 0],
            [0xfe, 0xff, 0xff, 0xff],
            [0xff, 0xff, 0xff, 0xfe],
            [0xff, 0, 0, 0],
        ] {
            assert!(LogPartition::from_bytes(bytes, TOPICS).is_err(), "{bytes:?}");
        }
        assert!(LogPartition::from_bytes([0; 4], TopicRules::default()).is_err());
    }
}
