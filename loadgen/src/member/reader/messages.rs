//! The requests of a reader.

use std::time::Duration;

use muster_codec::messages::{
    FetchPartition, FetchRequest, FetchTopic, ListOffsetsPartition, ListOffsetsRequest,
    ListOffsetsTopic,
};

use crate::member::core::millis;
use crate::member::text::text;
use crate::plan::{Isolation, Partition};
use crate::topics::{Topic, Topics};

/// The first version of Fetch and of ListOffsets with an isolation level.
pub(in crate::member) const FETCH_LEAST: i16 = 4;
pub(in crate::member) const LIST_OFFSETS_LEAST: i16 = 2;
/// The first version in which Fetch contains topic ids instead of names.
const BY_ID: i16 = 13;
/// `fetch.max.wait.ms`.
const WAIT: Duration = Duration::from_millis(500);
/// The maximum size of an answer. `of_partition` is `max.partition.fetch.bytes`. `of_all` is well
/// below the maximum size of frames.
pub(in crate::member) const MOST: Most = Most { of_partition: 1 << 20, of_all: 16 << 20 };
const READ_COMMITTED: i8 = 1;
const CLIENT: i32 = -1;
const LATEST: i64 = -1;

/// The maximum size of an answer in bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::member) struct Most {
    pub(in crate::member) of_partition: i32,
    pub(in crate::member) of_all: i32,
}

/// Asks for the last stable offsets of these partitions.
pub(in crate::member) fn list_offsets(
    partitions: &[Partition],
    topics: &Topics,
) -> ListOffsetsRequest<'static> {
    let of_partition = |one: &Partition| ListOffsetsPartition {
        partition_index: one.number as i32,
        timestamp: LATEST,
        ..ListOffsetsPartition::default()
    };
    let of_topic = |(topic, some): (&Topic, &[Partition])| ListOffsetsTopic {
        name: text(&topic.name),
        partitions: some.iter().map(of_partition).collect(),
    };
    ListOffsetsRequest {
        replica_id: CLIENT,
        isolation_level: READ_COMMITTED,
        topics: topics.of(partitions).map(of_topic).collect(),
        ..ListOffsetsRequest::default()
    }
}

/// The version of Fetch for these partitions.
pub(in crate::member) fn fetch_version(
    version: i16,
    partitions: &[Partition],
    topics: &Topics,
) -> i16 {
    if topics.have_ids(partitions) { version } else { version.min(BY_ID - 1) }
}

/// Fetches these partitions from these offsets on. If there are no records, the broker waits for
/// one.
pub(in crate::member) fn fetch(
    partitions: &[Partition],
    positions: &[i64],
    isolation: Isolation,
    most: Most,
    version: i16,
    topics: &Topics,
) -> FetchRequest<'static> {
    let mut positions = positions.iter();
    let of_topic = |(topic, some): (&Topic, &[Partition])| {
        let each = some.iter().zip(positions.by_ref());
        let fetched = each.map(|(one, position)| FetchPartition {
            partition: one.number as i32,
            fetch_offset: *position,
            partition_max_bytes: most.of_partition,
            ..FetchPartition::default()
        });
        let of_topic = FetchTopic { partitions: fetched.collect(), ..FetchTopic::default() };
        match version {
            BY_ID.. => FetchTopic { topic_id: topic.id, ..of_topic },
            _ => FetchTopic { topic: text(&topic.name), ..of_topic },
        }
    };
    FetchRequest {
        max_wait_ms: millis(WAIT),
        min_bytes: 1,
        max_bytes: most.of_all,
        isolation_level: match isolation {
            Isolation::ReadCommitted => READ_COMMITTED,
            Isolation::ReadUncommitted => 0,
        },
        topics: topics.of(partitions).map(of_topic).collect(),
        ..FetchRequest::default()
    }
}
