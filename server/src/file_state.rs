//! Detects by metadata whether a file has changed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Inode, length and modification time of a file; None if the metadata cannot be read.
pub(crate) type FileState = Option<(u64, u64, i64, i64)>;

pub(crate) fn state(path: &Path) -> FileState {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}
