//! AlterReplicaLogDirs (KIP-113). A shard has one directory, so no partition can move.

use super::View;
use crate::cluster::leader;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    AlterReplicaLogDir, AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse,
};
use std::collections::BTreeMap;

/// The answer for each partition. `data` is the data directory, written as in other answers to
/// clients.
pub fn alter_replica_log_dirs(
    view: &View<'_>,
    data: &str,
    request: &AlterReplicaLogDirsRequest<'_>,
) -> AlterReplicaLogDirsResponse<'static> {
    answer(request, |dir, topic, index| {
        if is_too_long(&topic.name, index) {
            return ErrorCode::InvalidTopicException;
        }
        if dir.path != data {
            return ErrorCode::LogDirNotFound;
        }
        let topic = view.image.topic(&topic.name);
        match topic.filter(|topic| (0..topic.partitions).contains(&index)) {
            None => ErrorCode::UnknownTopicOrPartition,
            Some(topic) if leader(topic, index, view.placement) != view.shard => {
                ErrorCode::NotLeaderOrFollower
            }
            Some(topic) if view.offline.has(topic, index) => ErrorCode::KafkaStorageError,
            Some(_) => ErrorCode::None,
        }
    })
}

/// Refuses the whole request: every partition gets the error, once for each time it is named.
pub fn refused(
    request: &AlterReplicaLogDirsRequest<'_>,
    error: ErrorCode,
) -> AlterReplicaLogDirsResponse<'static> {
    let of_topic = |topic: &AlterReplicaLogDirTopic<'_>| AlterReplicaLogDirTopicResult {
        topic_name: topic.name.clone().into_owned().into(),
        partitions: topic.partitions.iter().map(|index| result((*index, error))).collect(),
    };
    let results = request.dirs.iter().flat_map(|dir| &dir.topics).map(of_topic).collect();
    AlterReplicaLogDirsResponse { results, ..Default::default() }
}

/// Whether Kafka would refuse to copy the partition, because the name of the copy's directory would
/// exceed 255 characters. This name is `TOPIC-INDEX.`, followed by 32 digits and `-future`.
fn is_too_long(topic: &str, index: i32) -> bool {
    let name = format!("{topic}-{index}.");
    name.encode_utf16().count() + 32 + "-future".len() > 255
}

/// The answer with the outcome for each partition. If the request names a partition twice, with two
/// directories, the answer has it once, with the outcome for the later directory.
fn answer(
    request: &AlterReplicaLogDirsRequest<'_>,
    outcome: impl Fn(&AlterReplicaLogDir<'_>, &AlterReplicaLogDirTopic<'_>, i32) -> ErrorCode,
) -> AlterReplicaLogDirsResponse<'static> {
    let mut by_topic: BTreeMap<&str, BTreeMap<i32, ErrorCode>> = BTreeMap::new();
    for dir in &request.dirs {
        for topic in dir.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
            let outcomes =
                topic.partitions.iter().map(|index| (*index, outcome(dir, topic, *index)));
            by_topic.entry(&topic.name).or_default().extend(outcomes);
        }
    }
    let of_topic = |(name, outcomes): (&str, BTreeMap<i32, ErrorCode>)| {
        let (topic_name, partitions) = (name.to_owned().into(), outcomes.into_iter().map(result));
        AlterReplicaLogDirTopicResult { topic_name, partitions: partitions.collect() }
    };
    let results = by_topic.into_iter().map(of_topic).collect();
    AlterReplicaLogDirsResponse { results, ..Default::default() }
}

fn result((partition_index, error): (i32, ErrorCode)) -> AlterReplicaLogDirPartitionResult {
    AlterReplicaLogDirPartitionResult { partition_index, error_code: error.code() }
}
