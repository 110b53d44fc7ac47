//! How far the files of a shard are written at the moment of a backup.

use serde::{Deserialize, Serialize};

/// The files of which a backup takes a part. Paths are relative to the data directory. Of other
/// files it takes all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extents {
    /// The directories of shards' logs: other segments in them belong to no log.
    pub(crate) logs: Vec<String>,
    pub(crate) files: Vec<FileExtent>,
}

/// A file of which the first bytes are taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileExtent {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// The length of the file: zeros follow the bytes.
    pub(crate) length: u64,
}

impl Extents {
    /// Adds those of another shard.
    pub(crate) fn add(&mut self, other: Self) {
        self.logs.extend(other.logs);
        self.files.extend(other.files);
    }
}
