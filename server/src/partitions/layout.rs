//! Where a partition is, relative to the data directory: `topics/<topic id>-<partition>/`.
//!
//! The directory has the topic's id, not its name: a topic that is made anew never sees the files
//! of the one before, even if the server ended before they were removed. What is in the directory
//! is for [`PartitionLog`](muster_storage::PartitionLog).

use super::partition_set::PartitionId;
use muster_codec::Uuid;
use std::path::PathBuf;

pub(crate) const TOPICS: &str = "topics";

pub(crate) fn directory(id: PartitionId) -> PathBuf {
    PathBuf::from(TOPICS).join(format!("{}-{}", id.topic, id.index))
}

/// The partition of a directory; None if the name is not one of ours.
pub(crate) fn parse_directory(name: &str) -> Option<PartitionId> {
    let (topic, index) = name.rsplit_once('-')?;
    Some(PartitionId { topic: Uuid::parse(topic)?, index: index.parse().ok()? })
}
