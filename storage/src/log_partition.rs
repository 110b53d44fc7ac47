//! The partitions of a shard's log. The log has one order for all records; each partition has
//! offsets of its own.

use muster_codec::wire::{DecodeError, Result};
use std::fmt;

/// A partition of a shard's log: the partition of the cluster's records, or a partition of an
/// internal topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogPartition {
    /// The records of the cluster, such as topics, configs and ACLs, in the log of shard 0.
    Cluster,
    /// A partition of `__consumer_offsets`, below [`PARTITIONS_MAX`].
    ConsumerOffsets(u32),
    /// A partition of `__transaction_state`, below [`PARTITIONS_MAX`].
    TransactionState(u32),
    /// A partition of `__share_group_state`, below [`PARTITIONS_MAX`].
    ShareState(u32),
}

/// Partitions of an internal topic.
pub const PARTITIONS_MAX: usize = 10_000;

/// The number of the cluster's partition in a block.
pub const CLUSTER_PARTITION: i32 = -1;

/// The bits of a partition's index in a block; the byte above them is the internal topic's number.
const INDEX_BITS: u32 = 24;

/// The number of `__consumer_offsets` in a block.
const CONSUMER_OFFSETS: u32 = 0;

/// The number of `__transaction_state` in a block.
const TRANSACTION_STATE: u32 = 1;

/// The number of `__share_group_state` in a block.
const SHARE_STATE: u32 = 2;

const _: () = assert!(PARTITIONS_MAX <= 1 << INDEX_BITS);

impl LogPartition {
    /// Whether a log can have this partition.
    pub fn is_valid(self) -> bool {
        match self {
            Self::Cluster => true,
            Self::ConsumerOffsets(index)
            | Self::TransactionState(index)
            | Self::ShareState(index) => (index as usize) < PARTITIONS_MAX,
        }
    }

    /// The number of its topic.
    pub(crate) fn topic(self) -> u8 {
        self.to_bytes()[0]
    }

    /// The four bytes before a batch in a block.
    pub(crate) fn to_bytes(self) -> [u8; 4] {
        debug_assert!(self.is_valid(), "{self} is out of range");
        let (topic, index) = match self {
            Self::Cluster => return CLUSTER_PARTITION.to_be_bytes(),
            Self::ConsumerOffsets(index) => (CONSUMER_OFFSETS, index),
            Self::TransactionState(index) => (TRANSACTION_STATE, index),
            Self::ShareState(index) => (SHARE_STATE, index),
        };
        (topic << INDEX_BITS | index).to_be_bytes()
    }

    /// Reads what [`LogPartition::to_bytes`] wrote.
    ///
    /// # Errors
    /// A partition of no internal topic that this version knows, or one that is out of range.
    pub(crate) fn from_bytes(bytes: [u8; 4]) -> Result<Self> {
        let number = u32::from_be_bytes(bytes);
        if number == CLUSTER_PARTITION as u32 {
            return Ok(Self::Cluster);
        }
        let (topic, index) = (number >> INDEX_BITS, number & ((1 << INDEX_BITS) - 1));
        let partition = match topic {
            CONSUMER_OFFSETS => Self::ConsumerOffsets(index),
            TRANSACTION_STATE => Self::TransactionState(index),
            SHARE_STATE => Self::ShareState(index),
            _ => return Err(DecodeError::InvalidBatch("a partition of an unknown internal topic")),
        };
        let out_of_range = DecodeError::InvalidBatch("a partition that is out of range");
        partition.is_valid().then_some(partition).ok_or(out_of_range)
    }
}

/// As Kafka names it.
impl fmt::Display for LogPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::ConsumerOffsets(index) => write!(f, "__consumer_offsets-{index}"),
            Self::TransactionState(index) => write!(f, "__transaction_state-{index}"),
            Self::ShareState(index) => write!(f, "__share_group_state-{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_the_first_format_keep_their_bytes() {
        for (partition, bytes) in [
            (LogPartition::Cluster, [0xff; 4]),
            (LogPartition::ConsumerOffsets(0), [0; 4]),
            (LogPartition::ConsumerOffsets(9_999), [0, 0, 0x27, 0x0f]),
            (LogPartition::TransactionState(0), [1, 0, 0, 0]),
            (LogPartition::TransactionState(9_999), [1, 0, 0x27, 0x0f]),
            (LogPartition::ShareState(0), [2, 0, 0, 0]),
            (LogPartition::ShareState(9_999), [2, 0, 0x27, 0x0f]),
        ] {
            assert_eq!(partition.to_bytes(), bytes);
            assert_eq!(LogPartition::from_bytes(bytes), Ok(partition));
        }
    }

    #[test]
    fn other_internal_topics_and_indexes_out_of_range_are_refused() {
        for bytes in [
            [0, 0, 0x27, 0x10],
            [0, 0xff, 0xff, 0xff],
            [1, 0, 0x27, 0x10],
            [2, 0, 0x27, 0x10],
            [3, 0, 0, 0],
        ] {
            assert!(LogPartition::from_bytes(bytes).is_err(), "{bytes:?}");
        }
    }
}
