//! The shard that owns a group, a transactional id or a slot. The owner is computed from names and
//! numbers alone, so every shard computes the same owner at every startup. A user topic's record
//! says in which slot each of its partitions is: see [`leader`](crate::cluster::leader).
//!
//! A slot has the number of a partition of `__consumer_offsets`. Slot s is led by shard s modulo
//! the number of shards. Partition p of `__transaction_state` or `__share_group_state` is led with
//! slot p modulo the number of slots. A group's slot follows from its name. So a data directory
//! written with N shards opens with M shards: the shard logs are rewritten, and the logs of user
//! topics stay.
//!
//! A topic's record names the slot of each partition, so that the leader does not depend on a
//! formula. A partition that a request assigns to node n gets slot n. Topics that earlier versions
//! created have no slots in their records: the leader of such a partition follows from the topic's
//! id and the partition's number. If there are more shards than slots, some shards have no slot:
//! they lead no new partitions and coordinate no groups. So by default there are at most
//! `offsets.topic.num.partitions` shards.
//!
//! In Kafka a hash decides which partition of `__share_group_state` has the records of a share
//! partition. Here the records are in the partition that has the number of the slot, so that they
//! move with the slot. For clients that expect a certain number of partitions,
//! `__share_group_state` may have more partitions than there are slots. The additional ones are
//! empty, so their number may change.

use muster_codec::Uuid;
use muster_storage::LogSlot;

/// The shard that decides changes of the cluster: its log has the cluster's records.
pub const CONTROLLER: u32 = 0;

/// Two configs, whose values determine the partitions of groups and of transactional ids. Both
/// `config` and `data_dir` read them. They are defined here, so that neither module depends on the
/// other.
pub const OFFSETS_PARTITIONS: &str = "offsets.topic.num.partitions";
pub const TRANSACTIONS_PARTITIONS: &str = "transaction.state.log.num.partitions";

/// A slot: a partition of `__consumer_offsets`, the groups whose offsets it has, and the partitions
/// of user topics that are placed with it. A shard leads whole slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// A partition of `__transaction_state`. All of its transactional ids have the same coordinator.
/// The leader of a slot leads it, too: see [`Placement::slot_of_transactions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionsPartition(pub u32);

/// The number of shards, of slots, and of partitions of the other internal topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    pub shards: u32,
    /// `offsets.topic.num.partitions`: the number of slots.
    pub offsets_partitions: u32,
    /// `transaction.state.log.num.partitions`
    pub transactions_partitions: u32,
    /// `share.coordinator.state.topic.num.partitions`, but at least the number of slots. A slot
    /// uses the partition that has the slot's number. Partitions with greater numbers stay empty.
    pub share_state_partitions: u32,
    /// The node of this shard among those of its cluster.
    pub node: NodePlace,
}

/// The place of a node in the list of the nodes of its cluster, which is sorted by their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePlace {
    pub place: u32,
    /// The number of nodes: 1 without a cluster.
    pub nodes: u32,
}

impl NodePlace {
    /// A server that is no node of a cluster.
    pub const ALONE: Self = Self { place: 0, nodes: 1 };
}

impl Placement {
    /// A placement in which each internal topic has this number of partitions.
    pub const fn of_equal(shards: u32, partitions: u32) -> Self {
        Self {
            shards,
            offsets_partitions: partitions,
            transactions_partitions: partitions,
            share_state_partitions: partitions,
            node: NodePlace::ALONE,
        }
    }

    /// The slot of a group, as Kafka computes it: `Utils.abs(groupId.hashCode()) % partitions`.
    pub fn group_slot(self, group_id: &str) -> Slot {
        Slot(kafka_partition_of(group_id, self.offsets_partitions))
    }

    /// The partition of a transactional id, which Kafka computes alike.
    pub fn transactions_partition(self, transactional_id: &str) -> TransactionsPartition {
        TransactionsPartition(kafka_partition_of(transactional_id, self.transactions_partitions))
    }

    /// The slot whose leader also leads this partition of an internal topic.
    pub fn slot_of_index(self, index: u32) -> Slot {
        Slot(index % self.offsets_partitions)
    }

    /// The slot whose leader also leads this partition of `__transaction_state`.
    pub fn slot_of_transactions(self, partition: TransactionsPartition) -> Slot {
        self.slot_of_index(partition.0)
    }

    /// The shard that leads a slot.
    pub fn shard_of(self, slot: Slot) -> u32 {
        slot.0 % self.shards
    }

    /// The shard whose log has a slot. The slot without partitions is the controller's.
    pub fn log_slot_shard(self, slot: LogSlot) -> u32 {
        slot.place().map_or(CONTROLLER, |place| self.shard_of(Slot(place)))
    }

    /// The slots that a shard leads, in order.
    pub fn slots_of(self, shard: u32) -> impl ExactSizeIterator<Item = Slot> {
        let count = self.offsets_partitions.saturating_sub(shard).div_ceil(self.shards);
        (0..count).map(move |place| Slot(shard + place * self.shards))
    }

    /// The shard that leads a partition of `__transaction_state`.
    pub fn transactions_shard(self, partition: TransactionsPartition) -> u32 {
        self.shard_of(self.slot_of_transactions(partition))
    }

    /// The partitions of an internal topic that a shard leads because it leads their slots, in
    /// order. This is the inverse of [`Placement::slot_of_index`].
    pub(crate) fn led_with_slots(self, shard: u32, partitions: u32) -> impl Iterator<Item = u32> {
        let firsts = (0..partitions).step_by(self.offsets_partitions as usize);
        let of = move |first| self.slots_of(shard).map(move |Slot(slot)| first + slot);
        firsts.flat_map(of).filter(move |index| *index < partitions)
    }

    /// The shard that coordinates a group.
    pub fn group_shard(self, group_id: &str) -> u32 {
        self.shard_of(self.group_slot(group_id))
    }

    /// The shard that coordinates a transactional id.
    pub fn id_shard(self, transactional_id: &str) -> u32 {
        self.transactions_shard(self.transactions_partition(transactional_id))
    }

    /// The slot of a new partition of a topic. The first partitions of different topics are in
    /// different slots, so that topics with a single partition are spread over the shards.
    /// Consecutive partitions of a topic are led by consecutive shards.
    ///
    /// In a cluster, consecutive partitions are on consecutive nodes.
    ///
    /// If there are more shards than slots, some shards have no slot. These shards lead no new
    /// partition, because the share state of a partition is in a slot that its leader leads.
    pub fn partition_slot(self, topic_id: Uuid, partition: i32) -> Slot {
        // The slots left over after this multiple are not used: they would break the sequence of
        // shards.
        let slots = match self.offsets_partitions / self.shards {
            0 => self.offsets_partitions,
            of_shard => of_shard * self.shards,
        };
        let place = place_in_sequence(topic_id, partition);
        let nodes = self.offsets_partitions.div_ceil(self.slots_of_each_node());
        if nodes == 1 {
            return Slot(place % slots);
        }
        let first = place % nodes * self.slots_of_each_node();
        let count = self.slots_of_each_node().min(self.offsets_partitions - first);
        Slot(first + place / nodes % count)
    }

    /// The place of the node that has the records of those partitions of user topics that are in a
    /// slot. In a cluster it is the node that leads the slot if no node is missing (`ranks::order`
    /// of `muster-replication`). These records have one copy.
    pub fn host(self, slot: Slot) -> u32 {
        slot.0 / self.slots_of_each_node()
    }

    fn slots_of_each_node(self) -> u32 {
        self.offsets_partitions.div_ceil(self.node.nodes)
    }

    /// The shard that leads a partition without a slot.
    pub fn partition_shard(self, topic_id: Uuid, partition: i32) -> u32 {
        place_in_sequence(topic_id, partition) % self.shards
    }
}

/// The place of a partition in a sequence of numbers. The start of the sequence depends on the
/// topic.
fn place_in_sequence(topic_id: Uuid, partition: i32) -> u32 {
    let start = topic_id.0.iter().fold(0u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
    start.wrapping_add(partition as u32)
}

/// The partition of an internal topic that Kafka assigns to a name. The name is that of a group, a
/// transactional id or a share partition.
pub fn kafka_partition_of(name: &str, partitions: u32) -> u32 {
    positive_hash(name) % partitions
}

/// `Utils.abs(name.hashCode())` of Kafka.
fn positive_hash(name: &str) -> u32 {
    let hash = java_hash(name);
    if hash == i32::MIN { 0 } else { hash.unsigned_abs() }
}

/// `String.hashCode` of Java, over UTF-16 code units.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn hashes_are_those_of_java() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("group-1"), 293_427_299);
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!(java_hash("ünïcode"), -609_351_766);
    }

    #[test]
    fn the_smallest_hash_belongs_to_slot_zero() {
        assert_eq!(Placement::of_equal(2, 50).group_slot("polygenelubricants"), Slot(0));
    }

    #[test]
    fn each_slot_has_one_leader() {
        for (shards, offsets_partitions) in [(1, 50), (3, 50), (50, 50), (64, 50), (2, 1)] {
            let placement = Placement::of_equal(shards, offsets_partitions);
            let led_by = |shard| placement.slots_of(shard).map(|slot| slot.0).collect();
            let led = led(shards, led_by, |slot| placement.shard_of(Slot(slot)));
            assert!(led.into_iter().eq(0..offsets_partitions), "{placement:?}");
        }
    }

    #[test]
    fn each_partition_of_transactions_is_led_with_a_slot() {
        for (shards, slots, transactions) in
            [(1, 50, 50), (3, 50, 120), (2, 6, 50), (3, 50, 7), (4, 2, 9), (2, 1, 5), (1, 3, 1)]
        {
            let placement = Placement {
                transactions_partitions: transactions,
                ..Placement::of_equal(shards, slots)
            };
            let led_by = |shard| placement.led_with_slots(shard, transactions).collect();
            let shard_of = |index| placement.transactions_shard(TransactionsPartition(index));
            assert!(led(shards, led_by, shard_of).into_iter().eq(0..transactions), "{placement:?}");
        }
    }

    /// The numbers of all slots or partitions that the shards lead, sorted. Checks those of each
    /// shard: their numbers must ascend, and `shard_of` must return this shard.
    fn led(
        shards: u32,
        led_by: impl Fn(u32) -> Vec<u32>,
        shard_of: impl Fn(u32) -> u32,
    ) -> Vec<u32> {
        let mut all = Vec::new();
        for shard in 0..shards {
            let led = led_by(shard);
            assert!(led.is_sorted() && led.iter().all(|it| shard_of(*it) == shard), "{led:?}");
            all.extend(led);
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn ids_are_in_the_partition_of_their_own_number() {
        let placement = Placement { transactions_partitions: 7, ..Placement::of_equal(2, 50) };
        assert_eq!(placement.group_slot("group-1"), Slot(49));
        assert_eq!(
            placement.transactions_partition("group-1"),
            TransactionsPartition(293_427_299 % 7)
        );
    }

    #[test]
    fn a_new_partition_is_led_by_the_shard_of_the_formula() {
        for (shards, offsets_partitions) in [(1, 1), (1, 50), (3, 50), (8, 50), (50, 50)] {
            let placement = Placement::of_equal(shards, offsets_partitions);
            for (topic, partition) in [(1, 0), (2, 9), (7, 100), (250, 19_999)] {
                let id = Uuid([topic; 16]);
                let slot = placement.partition_slot(id, partition);
                assert!(slot.0 < offsets_partitions);
                let by_formula = placement.partition_shard(id, partition);
                assert_eq!(placement.shard_of(slot), by_formula);
            }
        }
    }

    #[test]
    fn every_slot_has_new_partitions_if_there_are_more_shards() {
        let many = Placement::of_equal(64, 50);
        let slots: BTreeSet<_> = (0..50).map(|it| many.partition_slot(Uuid([7; 16]), it)).collect();
        assert_eq!(slots, (0..50).map(Slot).collect());
    }

    #[test]
    fn in_a_cluster_consecutive_partitions_are_on_consecutive_nodes() {
        for (slots, nodes) in [(50, 3), (50, 5), (7, 3), (2, 3), (1, 3)] {
            let node = NodePlace { place: 0, nodes };
            let placement = Placement { node, ..Placement::of_equal(2, slots) };
            let hosts: Vec<_> = (0..20)
                .map(|partition| placement.partition_slot(Uuid([1; 16]), partition))
                .map(|slot| placement.host(slot))
                .collect();
            let used = nodes.min(slots);
            let first = hosts[0];
            let expected: Vec<_> = (0..20).map(|it| (first + it) % used).collect();
            assert_eq!(hosts, expected, "{slots} slots on {nodes} nodes");
        }
    }

    #[test]
    fn partitions_of_a_topic_spread_over_all_shards() {
        let placement = Placement::of_equal(3, 50);
        let shards: Vec<u32> =
            (0..3).map(|p| placement.partition_shard(Uuid([7; 16]), p)).collect();
        assert_eq!(shards.iter().sum::<u32>(), 3);
    }
}
