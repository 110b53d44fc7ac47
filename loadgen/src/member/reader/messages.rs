//! The requests of a reader.

use std::time::Duration;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, ListOffsetsRequest, TopicName};

use crate::member::core::millis;
use crate::plan::{Isolation, Partition};
use crate::topics::{Topic, Topics};

/// The first version of Fetch, and of ListOffsets, with an isolation level.
pub(super) const FETCH_LEAST: i16 = 4;
pub(super) const LIST_OFFSETS_LEAST: i16 = 2;
/// From this version on Fetch names topics by their ids.
const BY_ID: i16 = 13;
/// `fetch.max.wait.ms`.
const WAIT: Duration = Duration::from_millis(500);
/// `max.partition.fetch.bytes`, and a limit for all partitions well below that of frames.
const PARTITION_BYTES: i32 = 1 << 20;
const BYTES: i32 = 16 << 20;
const READ_COMMITTED: i8 = 1;
const CLIENT: BrokerId = BrokerId(-1);
const LATEST: i64 = -1;

/// Asks where the first open transactions of these partitions begin, or else for their ends.
pub(super) fn list_offsets(partitions: &[Partition], topics: &Topics) -> ListOffsetsRequest {
    let of_partition = |one: &Partition| {
        ListOffsetsPartition::default()
            .with_partition_index(one.number as i32)
            .with_current_leader_epoch(-1)
            .with_timestamp(LATEST)
    };
    let of_topic = |(topic, some): (&Topic, &[Partition])| {
        ListOffsetsTopic::default()
            .with_name(TopicName(topic.name.clone()))
            .with_partitions(some.iter().map(of_partition).collect())
    };
    ListOffsetsRequest::default()
        .with_replica_id(CLIENT)
        .with_isolation_level(READ_COMMITTED)
        .with_topics(topics.of(partitions).map(of_topic).collect())
}

/// The version to fetch these partitions in.
pub(super) fn fetch_version(version: i16, partitions: &[Partition], topics: &Topics) -> i16 {
    if topics.have_ids(partitions) { version } else { version.min(BY_ID - 1) }
}

/// Fetches these partitions from these offsets on, and waits for a record if there is none.
pub(super) fn fetch(
    partitions: &[Partition],
    positions: &[i64],
    isolation: Isolation,
    version: i16,
    topics: &Topics,
) -> FetchRequest {
    let mut positions = positions.iter();
    let of_topic = |(topic, some): (&Topic, &[Partition])| {
        let each = some.iter().zip(positions.by_ref());
        let fetched = each.map(|(one, position)| {
            FetchPartition::default()
                .with_partition(one.number as i32)
                .with_current_leader_epoch(-1)
                .with_fetch_offset(*position)
                .with_partition_max_bytes(PARTITION_BYTES)
        });
        let of_topic = FetchTopic::default().with_partitions(fetched.collect());
        match version {
            BY_ID.. => of_topic.with_topic_id(topic.id),
            _ => of_topic.with_topic(TopicName(topic.name.clone())),
        }
    };
    FetchRequest::default()
        .with_max_wait_ms(millis(WAIT))
        .with_min_bytes(1)
        .with_max_bytes(BYTES)
        .with_isolation_level(match isolation {
            Isolation::ReadCommitted => READ_COMMITTED,
            Isolation::ReadUncommitted => 0,
        })
        .with_topics(topics.of(partitions).map(of_topic).collect())
}
