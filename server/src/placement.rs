//! The owner of each group and slot: a pure function of names and numbers, so that every shard and
//! every start computes the same. The slot of a partition is in its topic's record: see
//! [`leader`](crate::cluster::leader).

use muster_codec::Uuid;
use muster_storage::LogPartition;

/// The shard that decides changes of the cluster: its log has the topics and configs.
pub const CONTROLLER: u32 = 0;

/// A partition of `__consumer_offsets` with everything that falls on it: the groups whose offsets
/// it has, and partitions of user topics. The unit of placement: a shard leads whole slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// The partition of the shard's log with the slot's records.
    pub fn log_partition(self) -> LogPartition {
        LogPartition::ConsumerOffsets(self.0)
    }

    /// The partitions of the shard's log that belong to the slot.
    pub fn log_partitions(self) -> [LogPartition; 2] {
        [self.log_partition(), self.transactions_partition()]
    }

    /// The partition of the shard's log with the slot's transactional ids: `__transaction_state`
    /// has as many partitions as there are slots.
    pub fn transactions_partition(self) -> LogPartition {
        LogPartition::TransactionState(self.0)
    }
}

/// The number of shards and of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    pub shards: u32,
    /// `offsets.topic.num.partitions`: the number of slots.
    pub offsets_partitions: u32,
}

impl Placement {
    /// The slot of a group, as Kafka computes it: `Utils.abs(groupId.hashCode()) % partitions`.
    pub fn group_slot(self, group_id: &str) -> Slot {
        self.slot_by_hash(group_id)
    }

    /// The slot of a transactional id, which Kafka computes alike.
    pub fn transaction_slot(self, transactional_id: &str) -> Slot {
        self.slot_by_hash(transactional_id)
    }

    fn slot_by_hash(self, name: &str) -> Slot {
        let hash = java_hash(name);
        let positive = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
        Slot(positive % self.offsets_partitions)
    }

    /// The shard that leads a slot.
    pub fn shard_of(self, slot: Slot) -> u32 {
        slot.0 % self.shards
    }

    /// The slots that a shard leads, in order.
    pub fn slots_of(self, shard: u32) -> impl ExactSizeIterator<Item = Slot> {
        let count = self.offsets_partitions.saturating_sub(shard).div_ceil(self.shards);
        (0..count).map(move |place| Slot(shard + place * self.shards))
    }

    /// The place of a slot among those of its shard.
    pub fn place_of(self, slot: Slot) -> usize {
        (slot.0 / self.shards) as usize
    }

    /// The shard in whose log a partition is.
    pub fn log_shard(self, partition: LogPartition) -> u32 {
        match partition {
            LogPartition::Cluster => CONTROLLER,
            LogPartition::ConsumerOffsets(index) | LogPartition::TransactionState(index) => {
                self.shard_of(Slot(index))
            }
        }
    }

    /// The shard that coordinates a group.
    pub fn group_shard(self, group_id: &str) -> u32 {
        self.shard_of(self.group_slot(group_id))
    }

    /// The slot of a new partition of a topic. Topics start at different slots, so that topics with
    /// one partition spread; consecutive partitions are led by consecutive shards.
    ///
    /// None if there are more shards than slots: the shards without a slot would lead nothing.
    pub fn partition_slot(self, topic_id: Uuid, partition: i32) -> Option<Slot> {
        // The last slots, of which not every shard leads one, would break the sequence of shards.
        let slots = self.offsets_partitions / self.shards * self.shards;
        let slot = place_in_sequence(topic_id, partition).checked_rem(slots)?;
        Some(Slot(slot))
    }

    /// The shard that leads a partition without a slot.
    pub fn partition_shard(self, topic_id: Uuid, partition: i32) -> u32 {
        place_in_sequence(topic_id, partition) % self.shards
    }
}

/// The place of a partition in a sequence that starts elsewhere for each topic.
fn place_in_sequence(topic_id: Uuid, partition: i32) -> u32 {
    let start = topic_id.0.iter().fold(0u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
    start.wrapping_add(partition as u32)
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
    fn the_smallest_hash_belongs_to_slot_zero() {
        let placement = Placement { shards: 2, offsets_partitions: 50 };
        assert_eq!(placement.group_slot("polygenelubricants"), Slot(0));
    }

    #[test]
    fn each_slot_has_one_leader_and_a_place_there() {
        for (shards, offsets_partitions) in [(1, 50), (3, 50), (50, 50), (64, 50), (2, 1)] {
            let placement = Placement { shards, offsets_partitions };
            let mut led = Vec::new();
            for shard in 0..shards {
                for (place, slot) in placement.slots_of(shard).enumerate() {
                    assert_eq!(
                        (placement.shard_of(slot), placement.place_of(slot)),
                        (shard, place)
                    );
                    led.push(slot.0);
                }
            }
            led.sort_unstable();
            assert_eq!(led, (0..offsets_partitions).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_new_partition_is_led_by_the_shard_of_the_formula() {
        for (shards, offsets_partitions) in [(1, 1), (1, 50), (3, 50), (8, 50), (50, 50)] {
            let placement = Placement { shards, offsets_partitions };
            for (topic, partition) in [(1, 0), (2, 9), (7, 100), (250, 19_999)] {
                let id = Uuid([topic; 16]);
                let slot = placement.partition_slot(id, partition).unwrap();
                assert!(slot.0 < offsets_partitions);
                let by_formula = placement.partition_shard(id, partition);
                assert_eq!(placement.shard_of(slot), by_formula);
            }
        }
        let many = Placement { shards: 64, offsets_partitions: 50 };
        assert_eq!(many.partition_slot(Uuid([7; 16]), 0), None);
    }

    #[test]
    fn partitions_of_a_topic_spread_over_all_shards() {
        let placement = Placement { shards: 3, offsets_partitions: 50 };
        let shards: Vec<u32> =
            (0..3).map(|p| placement.partition_shard(Uuid([7; 16]), p)).collect();
        assert_eq!(shards.iter().sum::<u32>(), 3);
    }
}
