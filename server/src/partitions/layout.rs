//! Paths relative to the data directory: `topics/<topic id>-<partition>/` for a partition, and
//! `recovery-points/shard-<i>` for the recovery points of a shard's partitions.
//!
//! A directory has the topic's id in its name. So if a topic is deleted and created again, the new
//! topic never sees the old files, even if the server ended before it had removed them.
//! [`PartitionLog`](muster_storage::PartitionLog) names the files in a directory, except those with
//! bytes that recovery cut off (`load.rs`).

use super::partition_id::PartitionId;
use muster_codec::Uuid;
use std::path::PathBuf;

pub const TOPICS: &str = "topics";
pub const RECOVERY_POINTS: &str = "recovery-points";

pub fn directory(id: PartitionId) -> PathBuf {
    PathBuf::from(TOPICS).join(id.named(&id.topic.to_string()))
}

/// The partition of a directory; None for any other name.
pub fn parse_directory(name: &str) -> Option<PartitionId> {
    let (topic, index) = name.rsplit_once('-')?;
    Some(PartitionId { topic: Uuid::parse(topic)?, index: index.parse().ok()? })
}

/// The file with the recovery points of a shard's partitions, and its name while it is written.
pub fn recovery_points(shard: u32) -> [PathBuf; 2] {
    let directory = PathBuf::from(RECOVERY_POINTS);
    [format!("shard-{shard}"), format!("shard-{shard}.new")].map(|name| directory.join(name))
}

/// Whether a file of this name contains recovery points, perhaps of a shard that no longer exists.
pub fn is_recovery_points(name: &str) -> bool {
    shard_of_points(name).is_some()
}

/// The shard whose recovery points are in a file of this name; None for any other name.
pub fn shard_of_points(name: &str) -> Option<u32> {
    let number = name.strip_prefix("shard-")?.parse().ok()?;
    (name == format!("shard-{number}")).then_some(number)
}
