//! Names of files, relative to the data directory.
//!
//! ```text
//! topics/<topic id>-<partition>/<base offset>.log   record batches, as they are sent
//! topics/<topic id>-<partition>/log-start-offset    raised by DeleteRecords; decimal, a line
//! ```
//!
//! The directory has the topic's id, not its name: a topic that is made anew never sees the files of
//! the one before, even if the server ended before they were removed.

use super::partition_set::PartitionId;
use muster_codec::Uuid;
use std::path::PathBuf;

pub(super) const TOPICS: &str = "topics";
pub(super) const LOG_START: &str = "log-start-offset";
const SEGMENT_SUFFIX: &str = ".log";

pub(super) fn directory(id: PartitionId) -> PathBuf {
    PathBuf::from(TOPICS).join(format!("{}-{}", id.topic, id.index))
}

pub(super) fn segment(id: PartitionId, base_offset: i64) -> PathBuf {
    directory(id).join(segment_name(base_offset))
}

/// Twenty digits hold any offset, and put the names in the order of offsets.
pub(super) fn segment_name(base_offset: i64) -> String {
    format!("{base_offset:020}{SEGMENT_SUFFIX}")
}

pub(super) fn log_start(id: PartitionId) -> PathBuf {
    directory(id).join(LOG_START)
}

/// The partition of a directory; None if the name is not one of ours.
pub(super) fn parse_directory(name: &str) -> Option<PartitionId> {
    let (topic, index) = name.rsplit_once('-')?;
    Some(PartitionId { topic: Uuid::parse(topic)?, index: index.parse().ok()? })
}

/// The base offset of a segment; None if the name is not one of a segment.
pub(super) fn parse_segment(name: &str) -> Option<i64> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX).filter(|digits| digits.len() == 20)?;
    digits.parse().ok().filter(|offset| *offset >= 0)
}
