//! The number of bytes that had been written to each file at the moment of a backup.

use serde::{Deserialize, Serialize};

/// The files of which a backup copies only the first bytes; it copies other files whole. Paths are
/// relative to the data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extents {
    /// The directories of the shards' logs. A segment in them that is not in `files` belongs to no
    /// log.
    pub(crate) logs: Vec<String>,
    pub(crate) files: Vec<FileExtent>,
}

/// A file of which only the first `bytes` are copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileExtent {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// The length of the copy. It has zeros after its first `bytes` bytes.
    pub(crate) length: u64,
}

impl Extents {
    /// Adds the extents of another shard.
    pub(crate) fn add(&mut self, other: Self) {
        self.logs.extend(other.logs);
        self.files.extend(other.files);
    }
}
