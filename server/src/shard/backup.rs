//! What a backup takes of a shard.

use super::Shard;
use crate::backup::{Extents, FileExtent};
use crate::partitions::layout;
use muster_storage::{LogExtent, SegmentExtent};
use std::path::{Path, PathBuf};

/// The files of a shard that a backup takes. Paths are relative to the data directory.
pub(crate) struct Taken {
    /// Directories of which all files are taken.
    pub(crate) directories: Vec<PathBuf>,
    /// Further files.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) extents: Extents,
}

impl Shard {
    /// The files as they are now. From now on they are not written again, other than behind their
    /// extents.
    pub(crate) fn begin_backup(&mut self) -> Taken {
        let LogExtent { directory, segments } = self.groups.begin_backup();
        let of_log = |SegmentExtent { name, bytes, file_bytes }| FileExtent {
            path: text(&directory.join(name)),
            bytes,
            length: file_bytes,
        };
        let mut files: Vec<FileExtent> = segments.into_iter().map(of_log).collect();
        let growing = self.partitions.growing_files();
        files.extend(growing.map(|(path, bytes)| FileExtent {
            path: text(&path),
            bytes,
            length: bytes,
        }));
        let logs = vec![text(&directory)];
        let mut directories = vec![directory];
        directories.extend(self.partitions.directories());
        let [points, _] = layout::recovery_points(self.broker.number());
        Taken { directories, files: vec![points], extents: Extents { logs, files } }
    }
}

/// Paths below the data directory are ASCII.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
