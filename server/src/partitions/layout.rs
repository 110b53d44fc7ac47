//! Where a partition is, relative to the data directory: `topics/<topic id>-<partition>/`; and where
//! it stands what is on stable storage of all partitions of a shard: `recovery-points/shard-<i>`.
//!
//! The directory has the topic's id, not its name: a topic that is made anew never sees the files
//! of the one before, even if the server ended before they were removed. What is in the directory
//! is for [`PartitionLog`](muster_storage::PartitionLog).

use super::partition_set::PartitionId;
use muster_codec::Uuid;
use std::path::PathBuf;

pub(crate) const TOPICS: &str = "topics";
pub(crate) const RECOVERY_POINTS: &str = "recovery-points";

pub(crate) fn directory(id: PartitionId) -> PathBuf {
    PathBuf::from(TOPICS).join(format!("{}-{}", id.topic, id.index))
}

/// The partition of a directory; None if the name is not one of ours.
pub(crate) fn parse_directory(name: &str) -> Option<PartitionId> {
    let (topic, index) = name.rsplit_once('-')?;
    Some(PartitionId { topic: Uuid::parse(topic)?, index: index.parse().ok()? })
}

/// The file with the recovery points of a shard's partitions, and the one that is written aside.
pub(crate) fn recovery_points(shard: u32) -> [PathBuf; 2] {
    let directory = PathBuf::from(RECOVERY_POINTS);
    [format!("shard-{shard}"), format!("shard-{shard}.new")].map(|name| directory.join(name))
}

/// Whether a name is that of a file with recovery points, which need not be of a shard that there
/// still is.
pub(crate) fn is_recovery_points(name: &str) -> bool {
    let number = name.strip_prefix("shard-").and_then(|number| number.parse::<u32>().ok());
    number.is_some_and(|number| name == format!("shard-{number}"))
}
