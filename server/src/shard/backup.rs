//! The files of a shard for a backup.

use super::Shard;
use crate::backup::{Extents, FileExtent};
use crate::partitions::layout;
use crate::placement::CONTROLLER;
use muster_storage::{LogExtent, SegmentExtent};
use std::path::{Path, PathBuf};

/// The files of a shard for a backup. Paths are relative to the data directory.
pub(crate) struct Taken {
    /// Directories whose files are all copied.
    pub(crate) directories: Vec<PathBuf>,
    /// Further files.
    pub(crate) files: Vec<PathBuf>,
    /// Set on the controller only: recovery points of shards from this number on are copied, too.
    /// They remain from a time when the server had more shards.
    pub(crate) former_points_from: Option<u32>,
    pub(crate) extents: Extents,
}

impl Shard {
    /// Prepares for a backup that began before the shard was loaded. The backup may contain hard
    /// links to files of the log, so these files must not be written again.
    pub(crate) fn give_names(&mut self) {
        // The backup knows the files already.
        let _: LogExtent = self.runtime.log_mut().begin_backup();
    }

    /// Returns the files with their present lengths (extents). From now on the shard only appends
    /// to these files: bytes within an extent are not written again.
    pub(crate) fn begin_backup(&mut self) -> Taken {
        let LogExtent { directory, segments } = self.runtime.log_mut().begin_backup();
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
        let is_controller = self.broker.number() == CONTROLLER;
        let former_points_from = is_controller.then_some(self.broker.common().placement.shards);
        let extents = Extents { logs, files };
        Taken { directories, files: vec![points], former_points_from, extents }
    }
}

/// Paths below the data directory are ASCII.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
