//! The owner of each group and partition: a pure function of names and numbers, so that every shard
//! and every start computes the same. A partition may be assigned elsewhere: see
//! [`leader`](crate::cluster::leader).

use muster_codec::Uuid;
use muster_storage::LogPartition;

/// The shard that decides changes of the cluster: its log has the topics and configs.
pub const CONTROLLER: u32 = 0;

/// The number of shards and of offsets partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    pub shards: u32,
    /// `offsets.topic.num.partitions`
    pub offsets_partitions: u32,
}

impl Placement {
    /// The partition of `__consumer_offsets` that a group belongs to, as Kafka computes it:
    /// `Utils.abs(groupId.hashCode()) % partitions`.
    pub fn group_partition(self, group_id: &str) -> u32 {
        let hash = java_hash(group_id);
        let positive = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
        positive % self.offsets_partitions
    }

    /// The shard that leads a partition of `__consumer_offsets`.
    pub fn offsets_shard(self, partition: u32) -> u32 {
        partition % self.shards
    }

    /// The shard in whose log a partition is.
    pub fn log_shard(self, partition: LogPartition) -> u32 {
        match partition {
            LogPartition::Cluster => CONTROLLER,
            LogPartition::ConsumerOffsets(index) => self.offsets_shard(index),
        }
    }

    /// The shard that coordinates a group.
    pub fn group_shard(self, group_id: &str) -> u32 {
        self.offsets_shard(self.group_partition(group_id))
    }

    /// The shard that leads a partition without an assignment. Topics start at different shards, so
    /// that topics with one partition spread.
    pub fn partition_shard(self, topic_id: Uuid, partition: i32) -> u32 {
        let start = topic_id.0.iter().fold(0u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
        start.wrapping_add(partition as u32) % self.shards
    }
}

/// `String.hashCode` of Java, over UTF-16 code units.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("group-1"), 293_427_299);
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!(java_hash("ünïcode"), -609_351_766);
    }

    #[test]
    fn the_smallest_hash_belongs_to_partition_zero() {
        let placement = Placement { shards: 2, offsets_partitions: 50 };
        assert_eq!(placement.group_partition("polygenelubricants"), 0);
    }

    #[test]
    fn partitions_of_a_topic_spread_over_all_shards() {
        let placement = Placement { shards: 3, offsets_partitions: 50 };
        let shards: Vec<u32> =
            (0..3).map(|p| placement.partition_shard(Uuid([7; 16]), p)).collect();
        assert_eq!(shards.iter().sum::<u32>(), 3);
    }
}
