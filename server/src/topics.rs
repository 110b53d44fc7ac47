//! The topics that the server itself writes. They always exist, and their records are in the
//! shards' own logs: see [`Placement::log_shard`](crate::placement::Placement::log_shard).

use crate::config::Config;
use crate::placement::{CONTROLLER, Placement, Slot, TransactionsPartition};
use muster_codec::Uuid;
use muster_codec::records::{
    OFFSETS_TOPIC, SHARE_SNAPSHOT_TYPE, SHARE_STATE_TOPIC, SHARE_UPDATE_TYPE, TRANSACTIONS_TOPIC,
};
use muster_storage::{KeyRule, LogPartition, TopicRule, TopicRules, UNPARTITIONED};

/// The partition of the cluster's records.
pub const CLUSTER: LogPartition = InternalTopic::Cluster.log_partition(0);

/// A topic of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InternalTopic {
    /// The records of the cluster, such as topics, configs and ACLs: one partition, in the log of
    /// shard 0. Clients do not see it.
    Cluster,
    ConsumerOffsets,
    TransactionState,
    ShareState,
}

impl InternalTopic {
    pub const ALL: [Self; 4] =
        [Self::Cluster, Self::ConsumerOffsets, Self::TransactionState, Self::ShareState];

    /// The topics that clients see, and may read.
    pub const SEEN: [Self; 3] = [Self::ConsumerOffsets, Self::TransactionState, Self::ShareState];

    /// The topic with an id, if clients see it.
    pub fn of_id(id: Uuid) -> Option<Self> {
        Self::SEEN.into_iter().find(|topic| topic.id() == id)
    }

    /// The topic with a name, if clients see it.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::SEEN.into_iter().find(|topic| topic.name() == name)
    }

    /// The topic of a partition of a log.
    ///
    /// # Panics
    /// If it is none of these. A log with [`RULES`] has no such partition.
    pub fn of(partition: LogPartition) -> Self {
        let found = Self::ALL.into_iter().find(|topic| topic.number() == partition.topic);
        found.unwrap_or_else(|| unreachable!("a log has no topic {}", partition.topic))
    }

    /// A partition of this topic in a log.
    pub const fn log_partition(self, index: u32) -> LogPartition {
        LogPartition { topic: self.number(), index }
    }

    /// Its number in a log.
    const fn number(self) -> u8 {
        match self {
            Self::Cluster => UNPARTITIONED,
            Self::ConsumerOffsets => 0,
            Self::TransactionState => 1,
            Self::ShareState => 2,
        }
    }

    /// The same on every server; of the cluster's records the id that Kafka gives them.
    pub const fn id(self) -> Uuid {
        match self {
            Self::Cluster => Uuid(1u128.to_be_bytes()),
            Self::ConsumerOffsets => Uuid(*b"consumer-offsets"),
            Self::TransactionState => Uuid(*b"transactionstate"),
            Self::ShareState => Uuid(*b"share-groupstate"),
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::ConsumerOffsets => OFFSETS_TOPIC,
            Self::TransactionState => TRANSACTIONS_TOPIC,
            Self::ShareState => SHARE_STATE_TOPIC,
        }
    }

    pub(crate) fn partitions(self, config: &Config) -> i32 {
        match self {
            Self::Cluster => 1,
            Self::ConsumerOffsets => config.offsets_topic_num_partitions,
            Self::TransactionState => config.transaction_state_log_num_partitions,
            Self::ShareState => config.share_state_partitions(),
        }
    }

    /// The configs that Kafka sets for it (`GroupCoordinatorService.groupMetadataTopicConfigs`,
    /// `TransactionCoordinator.transactionStateTopicConfigs`,
    /// `ShareCoordinatorService.shareGroupStateTopicConfigs`).
    pub(crate) fn overrides(self, config: &Config) -> Vec<(&'static str, String)> {
        match self {
            Self::Cluster => Vec::new(),
            Self::ConsumerOffsets => vec![
                ("cleanup.policy", "compact".to_owned()),
                ("compression.type", "producer".to_owned()),
                ("segment.bytes", config.offsets_topic_segment_bytes.to_string()),
            ],
            Self::TransactionState => vec![
                ("cleanup.policy", "compact".to_owned()),
                ("compression.type", "uncompressed".to_owned()),
                ("min.insync.replicas", config.transaction_state_log_min_isr.to_string()),
                ("segment.bytes", config.transaction_state_log_segment_bytes.to_string()),
                ("unclean.leader.election.enable", "false".to_owned()),
            ],
            Self::ShareState => vec![
                ("cleanup.policy", "delete".to_owned()),
                ("compression.type", "producer".to_owned()),
                ("min.insync.replicas", config.share_coordinator_state_topic_min_isr.to_string()),
                ("retention.ms", "-1".to_owned()),
                ("segment.bytes", config.share_coordinator_state_topic_segment_bytes.to_string()),
            ],
        }
    }
}

impl Slot {
    /// The partition of the shard's log with the slot's records.
    pub fn log_partition(self) -> LogPartition {
        InternalTopic::ConsumerOffsets.log_partition(self.0)
    }

    /// The partition of the shard's log with the state of share partitions of topic partitions that
    /// have this slot.
    pub fn share_state(self) -> LogPartition {
        InternalTopic::ShareState.log_partition(self.0)
    }
}

impl TransactionsPartition {
    /// The partition of the shard's log with the records of its ids.
    pub fn log_partition(self) -> LogPartition {
        InternalTopic::TransactionState.log_partition(self.0)
    }
}

impl Placement {
    /// The shard in whose log a partition is.
    pub fn log_shard(self, partition: LogPartition) -> u32 {
        let index = partition.index;
        match InternalTopic::of(partition) {
            InternalTopic::Cluster => CONTROLLER,
            InternalTopic::ConsumerOffsets => self.shard_of(Slot(index)),
            InternalTopic::TransactionState => {
                self.transactions_shard(TransactionsPartition(index))
            }
            InternalTopic::ShareState => self.shard_of(Slot(index % self.offsets_partitions)),
        }
    }

    /// Whether there is a partition of this number.
    pub fn has(self, partition: LogPartition) -> bool {
        match InternalTopic::of(partition) {
            InternalTopic::Cluster => true,
            InternalTopic::ConsumerOffsets => partition.index < self.offsets_partitions,
            InternalTopic::TransactionState => partition.index < self.transactions_partitions,
            InternalTopic::ShareState => partition.index < self.share_state_partitions,
        }
    }

    /// The partitions of internal topics that a shard leads, which are in its log.
    pub fn log_partitions_of(self, shard: u32) -> impl Iterator<Item = LogPartition> {
        let of_slots = self.slots_of(shard).map(Slot::log_partition);
        let transactions = self.led_with_slots(shard, self.transactions_partitions);
        let share_state = self.led_with_slots(shard, self.share_state_partitions);
        of_slots
            .chain(transactions.map(|index| InternalTopic::TransactionState.log_partition(index)))
            .chain(share_state.map(|index| InternalTopic::ShareState.log_partition(index)))
    }
}

/// A partition of a log in words, as Kafka names it.
pub fn name_of(partition: LogPartition) -> String {
    match InternalTopic::of(partition) {
        InternalTopic::Cluster => InternalTopic::Cluster.name().to_owned(),
        topic => format!("{}-{}", topic.name(), partition.index),
    }
}

/// The rules for the log. Only records of groups linger: `group.coordinator.append.linger.ms` is a
/// config of the group coordinator.
pub const RULES: TopicRules = {
    const fn rule(topic: InternalTopic, lingers: bool, keys: KeyRule) -> TopicRule {
        TopicRule { number: topic.number(), lingers, keys }
    }
    TopicRules::new(&[
        rule(InternalTopic::Cluster, false, KeyRule::SameKey),
        rule(InternalTopic::ConsumerOffsets, true, KeyRule::SameKey),
        rule(InternalTopic::TransactionState, false, KeyRule::SameKey),
        rule(InternalTopic::ShareState, false, SHARE_STATE_KEYS),
    ])
};

/// The key of share state differs by its type alone between the snapshot of a share partition and
/// the updates of it.
const SHARE_STATE_KEYS: KeyRule = KeyRule::SnapshotsAndUpdates {
    snapshot: SHARE_SNAPSHOT_TYPE.to_be_bytes(),
    update: SHARE_UPDATE_TYPE.to_be_bytes(),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_is_in_the_log_of_one_shard() {
        for (shards, slots, others) in
            [(1, 50, 50), (3, 50, 120), (2, 6, 50), (3, 50, 7), (4, 2, 9), (2, 1, 5), (1, 3, 1)]
        {
            let placement = Placement {
                transactions_partitions: others,
                share_state_partitions: others.max(slots),
                ..Placement::of_equal(shards, slots)
            };
            let mut all = 0;
            for shard in 0..shards {
                for partition in placement.log_partitions_of(shard) {
                    assert!(placement.has(partition), "{partition:?}");
                    assert_eq!(placement.log_shard(partition), shard, "{partition:?}");
                    all += 1;
                }
            }
            assert_eq!(all, slots + others + others.max(slots));
        }
    }
}
