//! The internal topics, which the server itself writes. They always exist, and their records are in
//! the shards' own logs. Everything that differs between these topics is in a table with a row for
//! each. So the log, the placement and the image of the cluster need not name any topic.
//!
//! A log knows topics only by their numbers and by the rules that it is given ([`TopicRules`]).
//! A rule says which older records compaction removes in favor of a newer record, and whether
//! operations linger (wait for others before they are written). The log refuses records of a topic
//! without a rule. The parts of a shard match on [`InternalTopic`] where they replay, check and
//! report records.

use crate::config::Config;
use crate::placement::{CONTROLLER, Placement, Slot, TransactionsPartition};
use muster_codec::Uuid;
use muster_codec::records::{
    OFFSETS_TOPIC, SHARE_SNAPSHOT_TYPE, SHARE_UPDATE_TYPE, TRANSACTIONS_TOPIC,
};
use muster_storage::{KeyRule, LogPartition, LogSlot, TopicRule, TopicRules, UNPARTITIONED};

/// An internal topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InternalTopic {
    /// The records of the cluster, such as topics, configs and ACLs.
    Cluster,
    /// Groups and their offsets.
    ConsumerOffsets,
    /// Transactional ids.
    TransactionState,
    /// The states of share partitions: the number of a state's slot is that of its partition here.
    ShareState,
}

/// The row of an internal topic.
#[derive(Debug)]
pub struct TopicRow {
    pub topic: InternalTopic,
    /// The topic's rule in a log. The rule's number is on the disk, so it never changes.
    pub rule: TopicRule,
    /// The names of the sections of a partition in a snapshot, for error messages. The number of a
    /// section in the file is its place here.
    pub sections: &'static [&'static str],
    pub name: &'static str,
    /// The topic's id, the same on every server.
    pub id: Uuid,
    pub partitions: fn(Placement) -> u32,
    pub led: Led,
    /// Whether clients see the topic, and may read it.
    pub is_seen: bool,
    /// The configs that Kafka sets for the topic.
    pub overrides: fn(&Config) -> Vec<(&'static str, String)>,
}

/// The sections of a partition of `__consumer_offsets` in a snapshot.
pub const GROUPS_SECTION: u8 = 0;
pub const PRODUCERS_SECTION: u8 = 1;

/// Which shard leads the partitions of a topic, and has them in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Led {
    ByController,
    /// The shard that leads a slot. The number of this slot is the partition's number modulo the
    /// number of slots.
    WithSlots,
}

/// The rows, in the order of [`InternalTopic`].
const ROWS: &[TopicRow; 4] = &[
    TopicRow {
        topic: InternalTopic::Cluster,
        rule: TopicRule { number: UNPARTITIONED, lingers: false, keys: KeyRule::SameKey },
        sections: &["the cluster's records"],
        name: "cluster",
        // `Uuid.METADATA_TOPIC_ID` of Kafka.
        id: Uuid(1u128.to_be_bytes()),
        partitions: |_| 1,
        led: Led::ByController,
        is_seen: false,
        overrides: |_| Vec::new(),
    },
    TopicRow {
        topic: InternalTopic::ConsumerOffsets,
        // No other topic's records linger, because `group.coordinator.append.linger.ms` is a config
        // of the group coordinator.
        rule: TopicRule { number: 0, lingers: true, keys: KeyRule::SameKey },
        sections: &["groups", "transactions with offsets"],
        name: OFFSETS_TOPIC,
        id: Uuid(*b"consumer-offsets"),
        partitions: |placement| placement.offsets_partitions,
        led: Led::WithSlots,
        is_seen: true,
        // `GroupCoordinatorService.groupMetadataTopicConfigs`
        overrides: |config| {
            vec![
                ("cleanup.policy", "compact".to_owned()),
                ("compression.type", "producer".to_owned()),
                ("segment.bytes", config.offsets_topic_segment_bytes.to_string()),
            ]
        },
    },
    TopicRow {
        topic: InternalTopic::TransactionState,
        rule: TopicRule { number: 1, lingers: false, keys: KeyRule::SameKey },
        sections: &["transactional ids"],
        name: TRANSACTIONS_TOPIC,
        id: Uuid(*b"transactionstate"),
        partitions: |placement| placement.transactions_partitions,
        led: Led::WithSlots,
        is_seen: true,
        // `TransactionCoordinator.transactionStateTopicConfigs`
        overrides: |config| {
            vec![
                ("cleanup.policy", "compact".to_owned()),
                ("compression.type", "uncompressed".to_owned()),
                ("min.insync.replicas", config.transaction_state_log_min_isr.to_string()),
                ("segment.bytes", config.transaction_state_log_segment_bytes.to_string()),
                ("unclean.leader.election.enable", "false".to_owned()),
            ]
        },
    },
    TopicRow {
        topic: InternalTopic::ShareState,
        rule: TopicRule {
            number: 2,
            lingers: false,
            keys: KeyRule::SnapshotsAndUpdates {
                snapshot: SHARE_SNAPSHOT_TYPE.to_be_bytes(),
                update: SHARE_UPDATE_TYPE.to_be_bytes(),
            },
        },
        sections: &["share states"],
        name: "__share_group_state",
        id: Uuid(*b"share-groupstate"),
        partitions: |placement| placement.share_state_partitions,
        led: Led::WithSlots,
        is_seen: true,
        // `ShareCoordinatorService.shareGroupStateTopicConfigs`
        overrides: |config| {
            vec![
                ("cleanup.policy", "delete".to_owned()),
                ("compression.type", "producer".to_owned()),
                ("min.insync.replicas", config.share_coordinator_state_topic_min_isr.to_string()),
                ("retention.ms", "-1".to_owned()),
                ("segment.bytes", config.share_coordinator_state_topic_segment_bytes.to_string()),
            ]
        },
    },
];

/// The rules of all rows, for the logs.
pub const RULES: TopicRules = TopicRules::new(&RULE_OF_ROWS);

const RULE_OF_ROWS: [TopicRule; ROWS.len()] = {
    let mut rules = [ROWS[0].rule; ROWS.len()];
    let mut at = 0;
    while at < ROWS.len() {
        assert!(ROWS[at].topic as usize == at, "the order of the rows is that of the topics");
        rules[at] = ROWS[at].rule;
        at += 1;
    }
    rules
};

/// The partition of the cluster's records.
pub const CLUSTER: LogPartition = InternalTopic::Cluster.log_partition(0);

impl InternalTopic {
    /// The number of internal topics.
    pub const COUNT: usize = ROWS.len();

    /// The topics that clients see.
    pub fn seen() -> impl Iterator<Item = &'static TopicRow> {
        ROWS.iter().filter(|row| row.is_seen)
    }

    /// The topic with an id, if clients see it.
    pub fn of_id(id: Uuid) -> Option<Self> {
        Self::seen().find(|row| row.id == id).map(|row| row.topic)
    }

    /// The topic with a name, if clients see it.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::seen().find(|row| row.name == name).map(|row| row.topic)
    }

    /// The topic of a partition of a log.
    ///
    /// # Panics
    /// The partition belongs to no internal topic. A log with [`RULES`] has no such partition.
    pub fn of(partition: LogPartition) -> Self {
        let found = Self::of_number(partition.topic);
        found.unwrap_or_else(|| unreachable!("a log has no topic {}", partition.topic))
    }

    /// The topic with a number in logs and snapshots.
    pub fn of_number(number: u8) -> Option<Self> {
        ROWS.iter().find(|row| row.rule.number == number).map(|row| row.topic)
    }

    /// The number of the topic in logs and snapshots.
    pub const fn number(self) -> u8 {
        self.row().rule.number
    }

    pub const fn row(self) -> &'static TopicRow {
        &ROWS[self as usize]
    }

    pub const fn name(self) -> &'static str {
        self.row().name
    }

    pub const fn id(self) -> Uuid {
        self.row().id
    }

    /// A partition of this topic in a log.
    pub const fn log_partition(self, index: u32) -> LogPartition {
        LogPartition { topic: self.number(), index }
    }
}

impl Slot {
    /// The number under which the shard's log counts positions of this slot, for answers that wait.
    pub fn log_slot(self) -> LogSlot {
        LogSlot::at(self.0)
    }

    /// The partition of the shard's log with the slot's records.
    pub fn log_partition(self) -> LogPartition {
        InternalTopic::ConsumerOffsets.log_partition(self.0)
    }

    /// The partition of the shard's log with the share state of topic partitions in this slot.
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
    /// The shard whose log contains a partition.
    pub fn log_shard(self, partition: LogPartition) -> u32 {
        match InternalTopic::of(partition).row().led {
            Led::ByController => CONTROLLER,
            Led::WithSlots => self.shard_of(self.slot_of_index(partition.index)),
        }
    }

    /// Whether the partition's topic has a partition with this index.
    pub fn has(self, partition: LogPartition) -> bool {
        partition.index < (InternalTopic::of(partition).row().partitions)(self)
    }

    /// The partitions of internal topics that a shard leads with its slots. Their records are in
    /// the shard's log.
    pub fn log_partitions_of(self, shard: u32) -> impl Iterator<Item = LogPartition> {
        let with_slots = ROWS.iter().filter(|row| row.led == Led::WithSlots);
        with_slots.flat_map(move |row| {
            let led = self.led_with_slots(shard, (row.partitions)(self));
            led.map(move |index| row.topic.log_partition(index))
        })
    }
}

/// A partition of a log in words, as Kafka names it.
pub fn name_of(partition: LogPartition) -> String {
    let row = InternalTopic::of(partition).row();
    match row.led {
        Led::ByController => row.name.to_owned(),
        Led::WithSlots => format!("{}-{}", row.name, partition.index),
    }
}

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
            let clusters = (placement.has(CLUSTER), placement.log_shard(CLUSTER));
            assert_eq!(clusters, (true, CONTROLLER));
        }
    }

    #[test]
    fn the_description_of_the_format_has_each_topic_and_section() {
        let format = include_str!("../../storage/FORMAT.md");
        for TopicRow { rule, name, sections, .. } in ROWS {
            let number = rule.number;
            let name = if number == UNPARTITIONED { "the cluster's records" } else { name };
            let topic = format.lines().any(|line| {
                let row = line.strip_prefix(&format!("| {number} | "));
                row.is_some_and(|row| row.trim_start_matches('`').starts_with(name))
            });
            assert!(topic, "{name} in the table of topics");
            let is_first = |line: &&str| {
                let row = line.strip_prefix(&format!("| {number}, "));
                row.is_some_and(|row| row.trim_start_matches('`').starts_with(name))
            };
            let rows = format.lines().skip_while(|line| !is_first(line));
            for (section, row) in rows.take(sections.len()).enumerate() {
                assert!(row.contains(&format!("| {section} | ")), "{name}: {row}");
            }
            assert!(format.lines().any(|line| is_first(&line)), "{name} in the table of sections");
        }
    }

    #[test]
    fn partitions_of_logs_have_the_names_of_kafka_and_clients_see_three_topics() {
        let names = [(255, 0), (0, 3), (1, 3), (2, 3)]
            .map(|(topic, index)| name_of(LogPartition { topic, index }));
        let kafkas = ["__consumer_offsets", "__transaction_state", "__share_group_state"];
        assert_eq!(names[0], "cluster");
        assert_eq!(names[1..], kafkas.map(|name| format!("{name}-3")));
        assert_eq!(InternalTopic::seen().map(|row| row.name).collect::<Vec<_>>(), kafkas);
        assert_eq!(InternalTopic::of_id(InternalTopic::Cluster.id()), None);
        assert_eq!(InternalTopic::of_name("cluster"), None);
    }
}
