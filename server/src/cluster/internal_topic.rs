//! The topics that the server itself writes. They always exist, and their records are in the
//! shards' own logs: see [`Placement::log_shard`](crate::placement::Placement::log_shard).

use crate::config::Config;
use muster_codec::Uuid;
use muster_codec::records::{OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC};
use muster_storage::LogPartition;

/// A topic of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InternalTopic {
    ConsumerOffsets,
    TransactionState,
    ShareState,
}

impl InternalTopic {
    pub const ALL: [Self; 3] = [Self::ConsumerOffsets, Self::TransactionState, Self::ShareState];

    pub fn of_id(id: Uuid) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.id() == id)
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }

    /// The topic and partition whose records these are; None for the cluster's.
    pub fn of_log_partition(partition: LogPartition) -> Option<(Self, i32)> {
        match partition {
            LogPartition::Cluster => None,
            LogPartition::ConsumerOffsets(index) => Some((Self::ConsumerOffsets, index as i32)),
            LogPartition::TransactionState(index) => Some((Self::TransactionState, index as i32)),
            LogPartition::ShareState(index) => Some((Self::ShareState, index as i32)),
        }
    }

    /// The place of a partition's records.
    pub fn log_partition(self, index: i32) -> LogPartition {
        match self {
            Self::ConsumerOffsets => LogPartition::ConsumerOffsets(index as u32),
            Self::TransactionState => LogPartition::TransactionState(index as u32),
            Self::ShareState => LogPartition::ShareState(index as u32),
        }
    }

    /// The same on every server.
    pub const fn id(self) -> Uuid {
        match self {
            Self::ConsumerOffsets => Uuid(*b"consumer-offsets"),
            Self::TransactionState => Uuid(*b"transactionstate"),
            Self::ShareState => Uuid(*b"share-groupstate"),
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::ConsumerOffsets => OFFSETS_TOPIC,
            Self::TransactionState => TRANSACTIONS_TOPIC,
            Self::ShareState => SHARE_STATE_TOPIC,
        }
    }

    pub(super) fn partitions(self, config: &Config) -> i32 {
        match self {
            Self::ConsumerOffsets => config.offsets_topic_num_partitions,
            Self::TransactionState => config.transaction_state_log_num_partitions,
            Self::ShareState => config.share_state_partitions(),
        }
    }

    /// The configs that Kafka sets for it (`GroupCoordinatorService.groupMetadataTopicConfigs`,
    /// `TransactionCoordinator.transactionStateTopicConfigs`,
    /// `ShareCoordinatorService.shareGroupStateTopicConfigs`).
    pub(super) fn overrides(self, config: &Config) -> Vec<(&'static str, String)> {
        match self {
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
